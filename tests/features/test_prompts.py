"""Prompts over bytes, for a client of each era."""

from __future__ import annotations

import asyncio
import base64
import enum
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from redstart import (
    Audio,
    Context,
    EmbeddedResource,
    Icon,
    Image,
    Message,
    Prompt,
    PromptArgument,
    PromptResult,
    ProtocolError,
    RegistrationError,
    Resource,
    ResourceContents,
    Server,
    SyncContext,
    Text,
    ToolError,
)
from support import ERAS, MODERN, NOVEMBER, Peer, ask, capabilities, exchange, exchanged, refused, run

pytestmark = pytest.mark.parametrize("era", ERAS)


class Tone(enum.Enum):
    KIND = "kind"
    HARSH = "harsh"


def desk(**options: Any) -> Server:
    server = Server("desk", **options)

    @server.prompt(title="Code review")
    def review(code: str, language: str = "python") -> str:
        """Review some code.

        Args:
            code: What to review.
            language: What it is written in.
        """
        return f"Review this {language} code: {code}"

    return server


def serving(result: Any) -> Server:
    """A server with one prompt, `it`, that returns `result`."""
    return Server("one", prompts=Prompt("it", handler=lambda: result))


def got(result: Any, era: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = ask(serving(result), era, "prompts/get", name="it")["messages"]
    return messages


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": words}}


# ---------------------------------------------------------------- listing


@pytest.mark.requirement("19", "74", "75", "T46")
def test_an_entry_has_what_the_signature_and_the_docstring_say(era: str) -> None:
    listed = ask(desk(), era, "prompts/list")["prompts"]
    assert listed == [
        {
            "name": "review",
            "title": "Code review",
            "description": "Review some code.",
            "arguments": [
                {"name": "code", "description": "What to review.", "required": True},
                {"name": "language", "description": "What it is written in.", "required": False},
            ],
        }
    ]


@pytest.mark.requirement("75", "T46")
def test_a_prompt_without_arguments_lists_none(era: str) -> None:
    assert ask(serving("x"), era, "prompts/list")["prompts"] == [{"name": "it", "arguments": []}]


@pytest.mark.requirement("74")
def test_an_explicit_prompt_has_icons_and_meta(era: str) -> None:
    prompt = Prompt(
        "greet",
        handler=lambda args: f"Greet {args['who']}.",
        description="Greets",
        arguments=[PromptArgument("who", title="Who", description="Whom to greet", required=True)],
        icons=[Icon("https://example.com/i.png")],
        meta={"example.com/level": 3},
    )
    listed = ask(Server("s", prompts=[prompt]), era, "prompts/list")["prompts"][0]
    assert listed["icons"] == [{"src": "https://example.com/i.png"}]
    assert listed["_meta"] == {"example.com/level": 3}
    assert listed["arguments"] == [{"name": "who", "title": "Who", "description": "Whom to greet", "required": True}]


@pytest.mark.requirement("74", "75")
def test_descriptors_of_providers_become_prompts(era: str) -> None:
    prompt = Prompt.from_descriptor(
        ("debate", "Debates a topic", [("topic", "The topic", True), ("style", "How")]),
        lambda arguments: [("user", arguments["topic"]), ("assistant", "No.")],
    )
    server = Server("s", prompts=[prompt])
    assert ask(server, era, "prompts/list")["prompts"][0]["arguments"] == [
        {"name": "topic", "description": "The topic", "required": True},
        {"name": "style", "description": "How", "required": False},
    ]
    got = ask(server, era, "prompts/get", name="debate", arguments={"topic": "Tea"})["messages"]
    assert got == [text("user", "Tea"), text("assistant", "No.")]


@pytest.mark.requirement("19")
def test_pages_are_cut_and_a_removed_prompt_does_not_break_the_walk(era: str) -> None:
    server = Server("s", page_size=2, prompts=[Prompt(n, handler=lambda: "x") for n in "abcde"])
    first = ask(server, era, "prompts/list")
    server.remove("b")
    second = ask(server, era, "prompts/list", cursor=first["nextCursor"])
    third = ask(server, era, "prompts/list", cursor=second["nextCursor"])
    pages = [[p["name"] for p in page["prompts"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert "nextCursor" not in third
    for junk in ("", "junk", "!!", "bm90aGluZw=="):
        assert refused(server, era, "prompts/list", cursor=junk)["code"] == -32602


# ---------------------------------------------------------------- capabilities


@pytest.mark.requirement("28", "32", "T13", "T16")
def test_prompts_are_advertised_once_there_are_some(era: str) -> None:
    server = Server("bare")
    assert sorted(capabilities(server, era)) == ["logging", "tools"]
    if era == MODERN:
        assert refused(server, era, "prompts/list")["code"] == -32601
    else:
        assert ask(server, era, "prompts/list") == {"prompts": []}
    assert refused(server, era, "prompts/get", name="late")["code"] == -32601
    server.register(Prompt("late", handler=lambda: "now"))
    assert "prompts" in capabilities(server, era)
    assert ask(server, era, "prompts/get", name="late")["messages"] == [text("user", "now")]
    server.remove("late")
    assert "prompts" not in capabilities(server, era)


@pytest.mark.requirement("28", "30", "31", "T14")
def test_capabilities_can_be_declared(era: str) -> None:
    server = Server("s", capabilities=["prompts", "resources", "elicitation"])
    assert sorted(capabilities(server, era)) == ["logging", "prompts", "resources", "tools"]
    assert ask(server, era, "prompts/list")["prompts"] == []
    assert ask(server, era, "resources/list")["resources"] == []
    with pytest.raises(ValueError, match="tolls"):
        Server("s", capabilities=["tolls"])


# ---------------------------------------------------------------- arguments


@pytest.mark.requirement("20", "76", "T47")
def test_get_fills_in_and_defaults_apply(era: str) -> None:
    server = desk()
    messages = ask(server, era, "prompts/get", name="review", arguments={"code": "x = 1"})["messages"]
    assert messages == [text("user", "Review this python code: x = 1")]
    assert ask(serving("hi"), era, "prompts/get", name="it")["messages"] == [text("user", "hi")]


@pytest.mark.requirement("76")
def test_strings_become_what_the_annotations_say(era: str) -> None:
    server = Server("s")
    seen: list[Any] = []

    @server.prompt
    def typed(n: int, on: bool, tone: Tone, tags: list[str], top: int | None = None, word: str = "w") -> str:
        seen.append((n, on, tone, tags, top, word))
        return "ok"

    given = {"n": "5", "on": "true", "tone": "kind", "tags": '["a", "b"]', "top": "", "word": ""}
    ask(server, era, "prompts/get", name="typed", arguments=given)
    assert seen == [(5, True, Tone.KIND, ["a", "b"], None, "")]
    error = refused(server, era, "prompts/get", name="typed", arguments={**given, "n": "five"})
    assert error["code"] == -32602
    assert '"n"' in error["message"]
    assert len(seen) == 1


@pytest.mark.requirement("81")
def test_a_missing_required_argument_is_named(era: str) -> None:
    error = refused(desk(), era, "prompts/get", name="review", arguments={"language": "C"})
    assert error["code"] == -32602
    assert "code" in error["message"]
    explicit = Server("s", prompts=[Prompt("p", handler=lambda args: str(args), arguments=[("who", "", True)])])
    error = refused(explicit, era, "prompts/get", name="p")
    assert (error["code"], "who" in error["message"]) == (-32602, True)


@pytest.mark.requirement("76")
@pytest.mark.parametrize("value", [5, True, ["a"], {"a": 1}])
def test_arguments_that_are_no_strings_are_refused(era: str, value: Any) -> None:
    error = refused(desk(), era, "prompts/get", name="review", arguments={"code": value})
    assert error["code"] == -32602
    assert "strings" in error["message"]
    assert "code" in error["message"]


@pytest.mark.requirement("76")
def test_an_unknown_argument_is_refused(era: str) -> None:
    error = refused(desk(), era, "prompts/get", name="review", arguments={"code": "x", "langauge": "C"})
    assert error["code"] == -32602
    assert 'did you mean "language"' in error["message"]


@pytest.mark.requirement("25", "83")
def test_an_unknown_prompt_names_the_nearest(era: str) -> None:
    error = refused(desk(), era, "prompts/get", name="reviw")
    assert error["code"] == -32602
    assert 'Did you mean "review"?' in error["message"]
    assert refused(desk(), era, "prompts/get", arguments={})["code"] == -32602


# ---------------------------------------------------------------- results


@pytest.mark.requirement("79", "80", "T49")
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("hi", [text("user", "hi")]),
        (["a", "b"], [text("user", "a"), text("user", "b")]),
        (("assistant", "hm"), [text("assistant", "hm")]),
        (
            [("user", "q"), ("assistant", "a"), ("user", "r")],
            [text("user", "q"), text("assistant", "a"), text("user", "r")],
        ),
        (Message("assistant", "x"), [text("assistant", "x")]),
        ([Message("user", Text("x")), "y"], [text("user", "x"), text("user", "y")]),
        ([{"role": "assistant", "content": "d"}], [text("assistant", "d")]),
        ([{"role": "user", "content": {"type": "text", "text": "e"}}], [text("user", "e")]),
        ([{"role": "user", "content": ["e", Text("f")]}], [text("user", "e"), text("user", "f")]),
        ({"type": "text", "text": "g"}, [text("user", "g")]),
        ([], []),
    ],
)
def test_whatever_is_returned_becomes_messages(era: str, result: Any, expected: Any) -> None:
    assert got(result, era) == expected


@pytest.mark.requirement("T50")
def test_any_content_may_be_in_a_message(era: str) -> None:
    made = got(
        [
            Image(b"\x89PNG", "image/png"),
            ("assistant", Audio(b"RIFF", "audio/wav")),
            (b"\x89PNG", "image/png"),
            EmbeddedResource(ResourceContents("a://b", "text/plain", text="t")),
        ],
        era,
    )
    data = base64.b64encode(b"\x89PNG").decode()
    image = {"role": "user", "content": {"type": "image", "data": data, "mimeType": "image/png"}}
    assert made[0] == made[2] == image
    assert made[1]["role"] == "assistant"
    assert made[1]["content"]["mimeType"] == "audio/wav"
    assert made[3]["content"] == {
        "type": "resource",
        "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "t"},
    }


@pytest.mark.requirement("77", "78", "T48")
def test_a_description_is_sent_only_if_the_result_has_one(era: str) -> None:
    assert "description" not in ask(desk(), era, "prompts/get", name="review", arguments={"code": "x"})
    for result in (PromptResult("Now", [("user", "x")]), {"description": "Now", "messages": ["x"]}):
        answer = ask(serving(result), era, "prompts/get", name="it")
        assert answer["description"] == "Now"
        assert answer["messages"] == [text("user", "x")]
    assert "description" not in ask(serving(PromptResult(messages="x")), era, "prompts/get", name="it")


@pytest.mark.requirement("79")
@pytest.mark.parametrize("result", [("system", "x"), [Message("tool", "x")], [{"role": "developer", "content": "x"}]])  # type: ignore[arg-type]
def test_other_roles_are_refused(era: str, result: Any) -> None:
    error = refused(serving(result), era, "prompts/get", name="it")
    assert error["code"] == -32603
    assert 'a role is "user" or "assistant"' in error["message"]


@pytest.mark.requirement("82")
@pytest.mark.parametrize("result", [None, [None], ("user", None), {"role": "user"}, float("nan")])
def test_what_is_no_message_is_an_error_that_says_so(era: str, result: Any) -> None:
    error = refused(serving(result), era, "prompts/get", name="it")
    assert error["code"] == -32603
    assert "The prompt it returned" in error["message"]


# ---------------------------------------------------------------- text with places


@pytest.mark.requirement("T51")
@pytest.mark.parametrize(
    ("template", "given", "expected"),
    [
        ("Greet {who}.", {"who": "Ada"}, "Greet Ada."),
        ("Greet {who}{?how? {how}ly}.", {"who": "Ada"}, "Greet Ada."),
        ("Greet {who}{?how? {how}ly}.", {"who": "Ada", "how": ""}, "Greet Ada."),
        ("Greet {who}{?how? {how}ly}.", {"who": "Ada", "how": "kind"}, "Greet Ada kindly."),
        ("{who} {other} {} {{who}}", {"who": "x"}, "x {other} {} {x}"),
        ('{?how?{"a": {"b": 1}}}!', {"who": "x", "how": "y"}, '{"a": {"b": 1}}!'),
        ("{?how?{?who?both}}", {"who": "x", "how": "y"}, "both"),
        ("{?when?never}", {"who": "x"}, "{?when?never}"),
        ("{who}", {"who": "{how}", "how": "evil"}, "{how}"),
    ],
)
def test_text_is_filled_in_and_optional_blocks_go(era: str, template: str, given: Any, expected: str) -> None:
    server = Server("s", prompts=[Prompt("p", messages=template, arguments=[("who", "", True), ("how", "")])])
    assert ask(server, era, "prompts/get", name="p", arguments=given)["messages"] == [text("user", expected)]


@pytest.mark.requirement("T51", "81")
def test_messages_may_be_given_instead_of_a_handler(era: str) -> None:
    image = Image(b"\x89PNG", "image/png")
    prompt = Prompt("p", messages=[("user", "{a}"), ("assistant", image)], arguments=[("a", "", True)], title="T")
    server = Server("s", prompts=prompt)
    made = ask(server, era, "prompts/get", name="p", arguments={"a": "1"})["messages"]
    assert [m["role"] for m in made] == ["user", "assistant"]
    assert (made[0]["content"]["text"], made[1]["content"]["type"]) == ("1", "image")
    assert "a" in refused(server, era, "prompts/get", name="p")["message"]
    for bad in (Prompt("p"), Prompt("p", handler=lambda: "", messages="x"), Prompt("p", messages=[("system", "x")])):
        with pytest.raises(RegistrationError, match=r"the prompt p|test_prompts\.py"):
            Server("s", prompts=[bad])
    with pytest.raises(RegistrationError, match="not closed"):
        Server("s", prompts=[Prompt("p", messages="{?a?x", arguments=[("a", "")])])


def one_by_one() -> Iterator[str]:
    yield "Hello"


def test_a_generator_is_refused(era: str) -> None:
    for thing in (Prompt(handler=one_by_one), Resource("a:b", handler=one_by_one)):
        with pytest.raises(RegistrationError, match=r"test_prompts\.py:\d+: .* is a generator: return a list"):
            Server("s").register(thing)


# ---------------------------------------------------------------- failures


@pytest.mark.requirement("82")
def test_an_exception_is_told_by_its_type_and_an_id(era: str, caplog: pytest.LogCaptureFixture) -> None:
    def leak() -> str:
        raise ValueError("password 1234")

    with caplog.at_level(logging.ERROR):
        error = refused(Server("s", prompts=[leak]), era, "prompts/get", name="leak")
    assert error["code"] == -32603
    assert "ValueError" in error["message"]
    assert "1234" not in error["message"]
    id = error["message"].partition("error id ")[2][:8]
    assert len(id) == 8
    assert id in caplog.text
    told = refused(Server("s", prompts=[leak], expose_errors=True), era, "prompts/get", name="leak")
    assert told["message"] == "ValueError: password 1234"


@pytest.mark.requirement("82")
def test_what_was_meant_for_the_client_reaches_it(era: str) -> None:
    def sorry() -> str:
        raise ToolError("No such city")

    def own() -> str:
        raise ProtocolError(-32050, "Mine", {"a": 1})

    server = Server("s", prompts=[sorry, own])
    assert refused(server, era, "prompts/get", name="sorry") == {"code": -32603, "message": "No such city"}
    assert refused(server, era, "prompts/get", name="own") == {"code": -32050, "message": "Mine", "data": {"a": 1}}


@pytest.mark.requirement("76")
def test_a_client_that_lacks_what_a_prompt_needs_is_told(era: str) -> None:
    server = Server("s", prompts=[Prompt("p", handler=lambda: "x", needs=["elicitation"])])
    error = refused(server, era, "prompts/get", name="p")
    assert error["code"] == (-32021 if era == MODERN else -32603)
    assert "elicitation" in error["message"]


# ---------------------------------------------------------------- handlers


@pytest.mark.requirement("76")
def test_handlers_may_be_sync_or_async_and_take_a_context(era: str) -> None:
    server = Server("s")

    @server.prompt
    async def later(word: str, ctx: Context[Any]) -> str:
        await asyncio.sleep(0)
        return f"{word} {ctx.protocol_version}"

    @server.prompt
    def now(word: str, ctx: SyncContext[Any]) -> str:
        return f"{word} {ctx.request_id}"

    calls = [("prompts/get", {"name": name, "arguments": {"word": "w"}}) for name in ("later", "now")]
    first, second = exchange(server, era, calls)
    assert first["result"]["messages"] == [text("user", f"w {era}")]
    assert second["result"]["messages"] == [text("user", "w 2")]
    assert [len(p["arguments"]) for p in ask(server, era, "prompts/list")["prompts"]] == [1, 1]


def test_a_prompt_can_be_rendered_without_the_wire(era: str) -> None:
    server = desk()

    @server.tool
    async def render(ctx: Context[Any]) -> str:
        [message] = await ctx.get_prompt("review", {"code": "x"})
        assert isinstance(message.content, Text)
        return message.content.text

    answer = ask(server, era, "tools/call", name="render", arguments={})
    assert answer["content"][0]["text"] == "Review this python code: x"


# ---------------------------------------------------------------- visibility and tags


def for_admins(user: Any) -> bool:
    return bool(user["role"] == "admin")


def with_secret(**options: Any) -> Server:
    server = Server("s", **options)

    @server.prompt(visible=for_admins, tags={"secret"})
    def secret() -> str:
        return "s3"

    @server.prompt(tags={"open"})
    def public() -> str:
        return "p"

    @server.tool(visible=for_admins, tags={"secret"})
    def purge() -> str:
        return "purged"

    @server.resource("plain://x", tags={"secret"}, visible=for_admins)
    def plain() -> str:
        return "x"

    return server


@pytest.mark.requirement("74")
def test_who_may_not_see_a_thing_cannot_use_it_either(era: str) -> None:
    server = with_secret()
    admin, guest = {"role": "admin"}, {"role": "guest"}
    for user, names in (
        (admin, ["secret", "public"]),
        (guest, ["public"]),
        (None, ["public"]),
        (admin, ["secret", "public"]),
    ):
        page = ask(server, era, "prompts/list", user)
        assert [p["name"] for p in page["prompts"]] == names
        assert page.get("cacheScope") == ("private" if era == MODERN else None)
    assert ask(server, era, "prompts/get", admin, name="secret")["messages"] == [text("user", "s3")]
    error = refused(server, era, "prompts/get", guest, name="secre")
    assert (error["code"], "secret" in error["message"]) == (-32602, False)
    assert refused(server, era, "prompts/get", guest, name="secret")["code"] == -32602
    assert [t["name"] for t in ask(server, era, "tools/list", guest)["tools"]] == []
    assert refused(server, era, "tools/call", guest, name="purge")["code"] == -32602
    assert ask(server, era, "tools/call", admin, name="purge")["content"][0]["text"] == "purged"
    assert ask(server, era, "resources/list", guest)["resources"] == []
    assert refused(server, era, "resources/read", guest, uri="plain://x")["data"] == {"uri": "plain://x"}
    assert ask(server, era, "resources/read", admin, uri="plain://x")["contents"][0]["text"] == "x"


@pytest.mark.requirement("74")
def test_visible_may_look_at_the_context(era: str) -> None:
    server = Server("s")

    def by_era(ctx: SyncContext[Any]) -> bool:
        return ctx.protocol_version == NOVEMBER

    server.register(Prompt("old", handler=lambda: "x", visible=by_era))
    names = [p["name"] for p in ask(server, era, "prompts/list")["prompts"]]
    assert names == (["old"] if era == NOVEMBER else [])
    with pytest.raises(RegistrationError, match="visible"):
        server.register(Prompt("bad", handler=lambda: "x", visible=lambda a, b: True))  # type: ignore[arg-type,misc]


@pytest.mark.requirement("74")
def test_tags_choose_what_is_served(era: str) -> None:
    admin = {"role": "admin"}
    only_open = with_secret(include_tags={"open"})
    assert [p["name"] for p in ask(only_open, era, "prompts/list", admin)["prompts"]] == ["public"]
    assert ask(only_open, era, "tools/list", admin)["tools"] == []
    assert "resources" not in capabilities(only_open, era)
    not_secret = with_secret(exclude_tags=["secret"])
    assert [p["name"] for p in ask(not_secret, era, "prompts/list", admin)["prompts"]] == ["public"]
    assert refused(not_secret, era, "prompts/get", admin, name="secret")["code"] == -32602
    not_secret.remove("secret")  # it is known, though not served
    with pytest.raises(KeyError, match="secret"):
        not_secret.remove("secret")


# ---------------------------------------------------------------- registration


def test_the_list_is_the_same_bytes_until_something_changes(era: str) -> None:
    async def both() -> None:
        server = desk()
        first, again = await exchanged(server, era, [("prompts/list", {}), ("prompts/list", {})])
        server.register(Prompt("another", handler=lambda: "x"))
        (third,) = await exchanged(server, era, [("prompts/list", {})])
        assert first["result"] == again["result"]
        assert [p["name"] for p in third["result"]["prompts"]] == ["review", "another"]

    asyncio.run(both())


@pytest.mark.requirement("74")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Prompt(handler=lambda: "x"), "name="),
        (lambda: Prompt("p", handler=lambda a, b: "x", arguments=[("a", "", True)]), r"takes \(a, b\)"),
        (lambda: Prompt("p", handler=lambda a: "x", arguments=[("a", "", True), ("b", "", False)]), "does not take b"),
        (lambda: Prompt("p", handler=lambda a: "x", arguments=[("a", "", False)]), "need a default"),
        (lambda: Prompt("p", handler=_yields), "generator"),
        (lambda: Prompt("p", handler=_wrong_context), "ctx: SyncContext"),
    ],
)
def test_what_cannot_be_served_fails_at_once_with_its_place(era: str, make: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        Server("s", prompts=[make()])
    assert "test_prompts.py:" in str(caught.value)


def _yields() -> Any:
    yield "x"


def _wrong_context(ctx: Context[Any]) -> str:
    return "x"


def test_a_second_prompt_of_a_name_replaces_the_first(era: str, caplog: pytest.LogCaptureFixture) -> None:
    server = serving("one")
    server.register(Prompt("it", handler=lambda: "two"))
    assert "registered twice" in caplog.text
    assert ask(server, era, "prompts/get", name="it")["messages"] == [text("user", "two")]
    assert len(ask(server, era, "prompts/list")["prompts"]) == 1


def test_a_change_is_told_to_a_client_that_is_there(era: str) -> None:
    async def scenario() -> list[Any]:
        server = Server("s")
        peer = await Peer(server, era).open()
        if peer.modern:
            wanted = {"promptsListChanged": True, "resourcesListChanged": True}
            server.register(Prompt("first", handler=lambda: "x"))
            server.register(Resource("a://first", handler=lambda: "x"))
            peer.start("subscriptions/listen", {"notifications": wanted})
            assert (await peer.receive())["params"]["notifications"] == wanted
        server.register(Prompt("p", handler=lambda: "x"))
        server.register(Resource("a://b", handler=lambda: "x"))
        told = [(await peer.receive())["method"] for _ in range(2)]
        await peer.close()
        await server.runtime.stop()
        return told

    expected = ["notifications/prompts/list_changed", "notifications/resources/list_changed"]
    assert run(scenario()) == expected


@pytest.mark.requirement("78")
def test_a_description_before_the_messages(era: str) -> None:
    said = [("user", "Let us debate"), ("assistant", "Gladly")]

    class Debates:
        def prompts(self) -> list[Any]:
            return [("debate", "Debates a topic"), ("empty", "Nothing"), ("roles", "A role"), ("odd", "No role")]

        def prompt_get(self, name: str, arguments: dict[str, str]) -> Any:
            return {
                "debate": ("About cats", said),
                "empty": ("Nothing to say", []),
                "roles": ("assistant", "hello"),
                "odd": ("system", "hello"),
            }[name]

    server = Server.from_object(Debates())
    found = ask(server, era, "prompts/get", name="debate")
    assert found["description"] == "About cats"
    assert found["messages"] == [text(role, words) for role, words in said]
    nothing = ask(server, era, "prompts/get", name="empty")
    assert (nothing["description"], nothing["messages"]) == ("Nothing to say", [])
    assert ask(server, era, "prompts/get", name="roles")["messages"] == [text("assistant", "hello")]
    assert refused(server, era, "prompts/get", name="odd")["code"] == -32603


def test_null_for_an_argument_means_absent(era: str) -> None:
    server = Server("s")

    @server.prompt
    def review(code: str, language: str = "python") -> str:
        return f"{language}: {code}"

    found = ask(server, era, "prompts/get", name="review", arguments={"code": "x", "language": None})
    assert found["messages"] == [text("user", "python: x")]
    refusal = refused(server, era, "prompts/get", name="review", arguments={"code": None})
    assert refusal["code"] == -32602
    assert 'Missing required argument "code"' in refusal["message"]
