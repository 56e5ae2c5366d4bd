"""Asking, end to end: one body per behaviour, for every transport and revision, with our client and a foreign one."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from interop.asking_peers import CANCEL, DECLINE, MODERN, ROOTS, SAMPLE, SERVER, Peer, Peers, Way, accept
from support import free_port, serving

JUNE, NOVEMBER = "2025-06-18", "2025-11-25"
CLIENTS = [
    ("redstart", JUNE),
    ("redstart", NOVEMBER),
    ("redstart", MODERN),
    ("mcp", NOVEMBER),  # what its mode "legacy" agrees on
    ("mcp", MODERN),
]
WAYS = [Way(client, transport, revision) for transport in ("stdio", "http") for client, revision in CLIENTS]


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    port = free_port()
    with serving([sys.executable, SERVER, str(port)], port) as url:
        found = Peers(url)
        try:
            yield found
        finally:
            found.close()


@pytest.fixture(params=WAYS, ids=lambda way: f"{way.client}-{way.transport}-{way.revision}")
def way(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way


@pytest.fixture
def peer(peers: Peers, way: Way) -> Peer:
    return peers.get(way)


@pytest.fixture
def unable(peers: Peers, way: Way) -> Peer:
    """A client that can be asked nothing."""
    return peers.get(way._replace(able=False))


@pytest.fixture
def token() -> str:
    return secrets.token_hex(8)


def messages(peer: Peer) -> list[str]:
    return [params["message"] for method, params in peer.asked]


# ---------------------------------------------------------------- answers


@pytest.mark.requirement("66", "67", "72", "T40")
def test_accept_decline_cancel(peer: Peer) -> None:
    assert peer.tool("hello", accept(answer="Ada")).text == "Hello, Ada!"
    assert messages(peer) == ["What is your name?"]
    assert peer.tool("hello", DECLINE).text == "declined"
    assert peer.tool("hello", CANCEL).text == "cancelled"


@pytest.mark.requirement("68", "69")
def test_a_dataclass(peer: Peer) -> None:
    outcome = peer.tool("typed", accept(name="Ada", age=36, team="blue"), kind="person")
    assert outcome.text == "Person(name='Ada', age=36, team='blue')"
    schema = peer.asked[0][1]["requestedSchema"]
    assert schema["required"] == ["name", "age"]


@pytest.mark.requirement("68", "69", "T43")
def test_an_enum(peer: Peer) -> None:
    assert peer.tool("typed", accept(answer="green"), kind="color").text == "<Color.GREEN: 'green'>"


@pytest.mark.requirement("68")
def test_several_of_a_list(peer: Peer) -> None:
    # 2025-06-18 has no such form: it is a text with commas there
    chosen: Any = "red, blue" if peer.way.revision == JUNE else ["red", "blue"]
    assert peer.tool("typed", accept(answer=chosen), kind="colors").text == "['red', 'blue']"


@pytest.mark.requirement("69")
def test_a_bad_answer_is_asked_again(peer: Peer) -> None:
    outcome = peer.tool("typed", accept(name="Ada", age="old"), accept(name="Ada", age=36), kind="person")
    assert outcome.text == "Person(name='Ada', age=36, team='red')"
    first, again = messages(peer)
    assert again.startswith(f"{first}\n\n")


@pytest.mark.requirement("70")
def test_several_in_sequence(peer: Peer) -> None:
    replies = [accept(answer=word) for word in ("to", "be", "or", "not")]
    assert peer.tool("words", *replies).text == "to be or not"
    assert messages(peer) == [f"Word {number}?" for number in range(4)]


def test_a_refusal_ends_the_call_politely(peer: Peer) -> None:
    outcome = peer.tool("words", accept(answer="to"), DECLINE)
    assert (outcome.text, outcome.is_error) == ("The user declined to answer: Word 1?", False)


def test_confirm_and_choose(peer: Peer) -> None:
    assert peer.tool("decide", accept(answer=True), accept(answer="20")).text == "True 20"
    assert peer.tool("decide", DECLINE, accept(answer="10")).text == "False 10"


# ---------------------------------------------------------------- several at once


def test_ask_all_is_one_round(peer: Peer, token: str) -> None:
    def reply(method: str, params: dict[str, Any]) -> Any:
        return accept(answer="Ada" if params["message"] == "Name?" else 36)

    runs = 2 if peer.modern else 1
    assert peer.tool("together", reply, token=token).text == f"{{'name': 'Ada', 'age': 36}} in {runs}"
    assert sorted(messages(peer)) == ["Age?", "Name?"]


def by_method(method: str, params: dict[str, Any]) -> Any:
    return {"sampling/createMessage": SAMPLE, "roots/list": ROOTS}.get(method, accept(answer="Ada"))


def test_all_kinds_of_questions_in_one_round(peer: Peer, token: str) -> None:
    runs = 2 if peer.modern else 1
    assert peer.tool("mixed", by_method, token=token).text == f"Ada hi file:///home/ada in {runs}"
    assert len(peer.asked) == 3


# ---------------------------------------------------------------- other kinds


@pytest.mark.requirement("T44")
def test_a_page_to_visit(peer: Peer) -> None:
    outcome = peer.tool("visit", {"action": "accept"})
    if peer.way.revision == JUNE:
        assert outcome.is_error
        assert "cannot send a user to a web page" in outcome.text
        return
    assert outcome.text == "Accepted"
    ((_, params),) = peer.asked
    assert (params["mode"], params["url"]) == ("url", "https://example.com/in")
    assert peer.tool("visit", DECLINE).text == "Declined"


def test_sampling_and_roots(peer: Peer) -> None:
    assert peer.tool("borrow", by_method).text == "hi m ['file:///home/ada']"
    (method, params), (then, _) = peer.asked
    assert (method, then) == ("sampling/createMessage", "roots/list")
    assert (params["systemPrompt"], params["maxTokens"]) == ("Be brief", 50)


# ---------------------------------------------------------------- handlers


@pytest.mark.requirement("66")
@pytest.mark.parametrize("tool", ["order", "blocking"])
def test_a_step_happens_once(peer: Peer, tool: str, token: str) -> None:
    outcome = peer.tool(tool, accept(answer=True), accept(answer="Ada"), token=token)
    assert outcome.text == f"1 True 2 Ada runs {3 if peer.modern else 1} steps 2"


@pytest.mark.requirement("K6")
@pytest.mark.parametrize("tool", ["generator", "blocking_generator"])
def test_generators(peer: Peer, tool: str) -> None:
    assert peer.tool(tool, accept(answer="Ada")).text == "Hello, Ada!"


def test_prompts_and_resources(peer: Peer) -> None:
    assert peer.prompt("review", accept(answer="PEP 8")).text == "Use PEP 8"
    assert peer.resource("notes://a", accept(answer="the end")).text == "a: the end"


# ---------------------------------------------------------------- clients that cannot be asked


@pytest.mark.requirement("71", "T42")
def test_a_client_that_cannot_be_asked(unable: Peer) -> None:
    outcome = unable.tool("hello")
    if unable.modern:
        assert outcome.code == -32021
        assert outcome.data == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert outcome.is_error
        assert "the client does not support it (it did not declare elicitation" in outcome.text
        assert "What is your name?" in outcome.text


@pytest.mark.requirement("71")
def test_needs_are_checked_before_the_handler_runs(peer: Peer, unable: Peer, token: str) -> None:
    refused = unable.tool("needy", token=token)
    if unable.modern:
        assert refused.code == -32021
        assert refused.data == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert refused.is_error
        assert "elicitation" in refused.text
    assert unable.tool("count", token=token).text == "0"
    assert peer.tool("needy", accept(answer="Ada"), token=token).text == "Ada"
