"""The options of a client."""

from __future__ import annotations

import pytest

from redstart.client import Client


@pytest.mark.parametrize("options", [{"protocol": "1999-01-01"}, {"log_level": "loud"}, {"stderr": "eat"}])
def test_options_that_do_not_exist_fail_at_once(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Client(["x"], **options)  # type: ignore[arg-type]
