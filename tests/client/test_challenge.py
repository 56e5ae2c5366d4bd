"""What a refusal asks for, also if whoever refuses means harm."""

from __future__ import annotations

import pytest

from redstart.client.challenge import Challenge, read_challenge


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], Challenge(401)),
        (['Bearer scope="a b", error = "invalid_token"'], Challenge(401, scope="a b", error="invalid_token")),
        (["DPoP algs=ES256", "Bearer Scope=a, scope=b"], Challenge(401, scope="a")),
        ([r'Bearer resource_metadata="https://a/\"x\\"'], Challenge(401, resource_metadata='https://a/"x\\')),
        (['Bearer xscope="a", my_error=b'], Challenge(401)),
        (['Bearer scope="a'], Challenge(401)),
    ],
)
def test_parameters(headers: list[str], found: Challenge) -> None:
    assert read_challenge(401, headers) == found


@pytest.mark.parametrize("part", ["a", "a=", 'a="', 'a="\\"', "a ", "= ", "\\", '"'])
def test_reading_takes_time_in_proportion(part: str) -> None:
    """A word of 20,000 letters took 36 seconds; so many in quadratic time would take longer than a test may."""
    assert read_challenge(401, [part * (90_000 // len(part))]) == read_challenge(401, [part])
