"""Resources and templates over bytes, for a client of each era."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from redstart import (
    Annotations,
    Cache,
    Context,
    EmbeddedResource,
    Icon,
    Image,
    NotAPath,
    ProtocolError,
    RegistrationError,
    Resource,
    ResourceContents,
    Server,
    SyncContext,
    Text,
    ToolError,
)
from support import ERAS, MODERN, NOVEMBER, ask, capabilities, exchange, refused

pytestmark = pytest.mark.parametrize("era", ERAS)
NOT_FOUND = {NOVEMBER: -32002, MODERN: -32602}


@dataclass
class Settings:
    debug: bool = False


def serving(result: Any, mime_type: str | None = None) -> Server:
    """A server with one resource, `app://it`, that holds `result`."""
    return Server("one", resources=Resource("app://it", handler=lambda: result, mime_type=mime_type))


def held(result: Any, era: str, mime_type: str | None = None) -> Any:
    return ask(serving(result, mime_type), era, "resources/read", uri="app://it")["contents"]


def notes() -> Server:
    server = Server("notes")

    @server.resource("notes://{name}", mime_type="text/markdown")
    def note(name: str) -> str:
        """One note."""
        return f"# {name}"

    @server.resource("config://app", mime_type="application/json", size=17, annotations={"priority": 0.5})
    def config() -> dict[str, bool]:
        """The configuration."""
        return {"debug": False}

    return server


# ---------------------------------------------------------------- listing


@pytest.mark.requirement("21", "85")
def test_resources_and_templates_have_lists_of_their_own(era: str) -> None:
    server = notes()
    assert ask(server, era, "resources/list")["resources"] == [
        {
            "uri": "config://app",
            "name": "config",
            "description": "The configuration.",
            "mimeType": "application/json",
            "size": 17,
            "annotations": {"priority": 0.5},
        }
    ]
    assert ask(server, era, "resources/templates/list")["resourceTemplates"] == [
        {"uriTemplate": "notes://{name}", "name": "note", "description": "One note.", "mimeType": "text/markdown"}
    ]


@pytest.mark.requirement("85")
def test_an_explicit_resource_says_all_there_is_to_say(era: str) -> None:
    resource = Resource(
        uri="app://logs",
        name="logs",
        handler=lambda: "",
        description="Log entries",
        title="The log",
        mime_type="text/plain",
        annotations=Annotations(audience=["user"], priority=1, last_modified="2026-01-01T00:00:00Z"),
        icons=[Icon("https://example.com/i.png")],
        meta={"example.com/a": None},
    )
    listed = ask(Server("s", resources=[resource]), era, "resources/list")["resources"]
    assert listed == [
        {
            "uri": "app://logs",
            "name": "logs",
            "title": "The log",
            "description": "Log entries",
            "mimeType": "text/plain",
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"audience": ["user"], "priority": 1, "lastModified": "2026-01-01T00:00:00Z"},
            "_meta": {"example.com/a": None},
        }
    ]


@pytest.mark.requirement("85")
def test_descriptors_of_providers_become_resources(era: str) -> None:
    made = Resource.from_descriptor(("app://logs", "logs", "Log entries", "text/plain"), lambda uri: f"log of {uri}")
    server = Server("s", resources=[made])
    assert ask(server, era, "resources/list")["resources"] == [
        {"uri": "app://logs", "name": "logs", "description": "Log entries", "mimeType": "text/plain"}
    ]
    assert ask(server, era, "resources/read", uri="app://logs")["contents"][0]["text"] == "log of app://logs"


@pytest.mark.requirement("29", "32", "T13", "T15", "T16")
def test_resources_are_advertised_once_there_are_some(era: str) -> None:
    server = Server("bare")
    assert "resources" not in capabilities(server, era)
    for method, key in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
        if era == MODERN:
            assert refused(server, era, method)["code"] == -32601
        else:
            assert ask(server, era, method) == {key: []}
    assert refused(server, era, "resources/read", uri="a://b")["code"] == -32601
    server.register(Resource("late://{x}", handler=lambda x: x))
    assert "resources" in capabilities(server, era)
    assert ask(server, era, "resources/list")["resources"] == []
    server.remove("late://{x}")
    assert "resources" not in capabilities(server, era)


@pytest.mark.requirement("21")
def test_removing_by_function_or_object(era: str) -> None:
    server = Server("s")

    @server.resource("a://b")
    def one() -> str:
        return "1"

    other = Resource("a://c", handler=lambda: "2")
    server.register(other)
    server.remove(one)
    assert [r["uri"] for r in ask(server, era, "resources/list")["resources"]] == ["a://c"]
    server.remove(other)
    assert len(server.resources) == 0
    with pytest.raises(KeyError):
        server.remove(other)


# ---------------------------------------------------------------- results


@pytest.mark.requirement("88", "89", "T52", "T53")
@pytest.mark.parametrize(
    ("result", "mime_type", "expected"),
    [
        ('say "hi"', None, {"mimeType": "text/plain", "text": 'say "hi"'}),
        ("# x", "text/markdown", {"mimeType": "text/markdown", "text": "# x"}),
        ("", None, {"mimeType": "text/plain", "text": ""}),
        (b"\x00\xff", None, {"mimeType": "application/octet-stream", "blob": "AP8="}),
        (bytearray(b"\x00\xff"), "image/x", {"mimeType": "image/x", "blob": "AP8="}),
        ((b"\x00\xff", "image/png"), "image/x", {"mimeType": "image/png", "blob": "AP8="}),
        ({"a": 1}, None, {"mimeType": "application/json", "text": '{"a":1}'}),
        ({"a": 1}, "application/vnd.x+json", {"mimeType": "application/vnd.x+json", "text": '{"a":1}'}),
        ([], None, {"mimeType": "application/json", "text": "[]"}),
        (["a", "b"], None, {"mimeType": "application/json", "text": '["a","b"]'}),
        ([("a", "b", "c")], None, {"mimeType": "application/json", "text": '[["a","b","c"]]'}),
        (7, None, {"mimeType": "application/json", "text": "7"}),
        (Settings(), None, {"mimeType": "application/json", "text": '{"debug":false}'}),
        (Image(b"\x00\xff", "image/png"), None, {"mimeType": "image/png", "blob": "AP8="}),
        (Text("t"), None, {"mimeType": "text/plain", "text": "t"}),
    ],
)
def test_whatever_is_returned_becomes_contents(era: str, result: Any, mime_type: Any, expected: Any) -> None:
    assert held(result, era, mime_type) == [{"uri": "app://it", **expected}]


@pytest.mark.requirement("22", "88", "90")
def test_several_contents_keep_their_order_and_may_repeat_a_uri(era: str) -> None:
    made = held(
        [
            ("app://b", "text/plain", "one"),
            ResourceContents("app://b", text="two"),
            ("app://c", None, b"\x00"),
            EmbeddedResource(ResourceContents("app://d", "text/x", text="four")),
            "five",
        ],
        era,
        "text/y",
    )
    assert made == [
        {"uri": "app://b", "mimeType": "text/plain", "text": "one"},
        {"uri": "app://b", "mimeType": "text/y", "text": "two"},
        {"uri": "app://c", "mimeType": "text/y", "blob": "AA=="},
        {"uri": "app://d", "mimeType": "text/x", "text": "four"},
        {"uri": "app://it", "mimeType": "text/y", "text": "five"},
    ]
    assert held(("app://z", "text/plain", "one"), era) == [{"uri": "app://z", "mimeType": "text/plain", "text": "one"}]


@pytest.mark.requirement("91", "T52")
@pytest.mark.parametrize(
    "result", [ResourceContents("a://b"), ResourceContents("a://b", text="x", blob=b"y"), float("inf"), object()]
)
def test_what_cannot_be_contents_is_an_error(era: str, result: Any) -> None:
    error = refused(serving(result), era, "resources/read", uri="app://it")
    assert error["code"] == -32603
    assert "app://it returned" in error["message"]


@pytest.mark.requirement("92")
def test_nothing_there_is_not_found_and_never_empty(era: str) -> None:
    error = refused(serving(None), era, "resources/read", uri="app://it")
    assert (error["code"], error["data"]) == (NOT_FOUND[era], {"uri": "app://it"})


# ---------------------------------------------------------------- failures


@pytest.mark.requirement("92")
def test_an_unknown_uri_is_not_found_by_the_code_of_the_revision(era: str) -> None:
    error = refused(notes(), era, "resources/read", uri="config://ap")
    assert error["code"] == NOT_FOUND[era]
    assert error["data"] == {"uri": "config://ap"}
    assert 'Did you mean "config://app"?' in error["message"]
    assert refused(notes(), era, "resources/read")["code"] == -32602


TEMPLATES = (
    "hats://{name}",
    "users://{id}",
    "users://{id}/posts{?page}",
    "files://docs/{+path}",
    "guide://{topic}/{page}",
    "shop://opening-hours{?day}",
)


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("hat://beret", "hats://{name}"),
        ("HATS://beret", "hats://{name}"),
        ("hats://beret/xl", None),
        ("user://7/posts", "users://{id}/posts{?page}"),
        ("users://7/post", "users://{id}/posts{?page}"),
        ("user://7", "users://{id}"),
        ("files://doc/a/b/c.md", "files://docs/{+path}"),
        ("guides://hats/1", "guide://{topic}/{page}"),
        ("shop://opening-hour", "shop://opening-hours{?day}"),
        ("shop://elephant", None),
        ("http://beret", None),
        ("guide://nothing/1", None),  # of the template itself: its handler has nothing there
        ("zebrax://1", None),  # who reads it may not see that template
        ("hats:/" + "/x" * 4_000, None),
        ("x" * 8_000 + "://a", None),
    ],
)
def test_the_template_that_was_meant_is_named(era: str, uri: str, meant: str | None) -> None:
    server = Server("many", auth=lambda token: None)
    for template in TEMPLATES:
        server.register(Resource(template, handler=lambda uri: None))
    server.register(Resource("zebra://{id}", handler=lambda uri: "x", visible=lambda user: user is not None))
    server.register(Resource("mine://{id}", handler=lambda uri: "x", scopes="admin"))
    said = refused(server, era, "resources/read", uri=uri)["message"]
    assert said == f"Resource not found: {uri[:200]}" + (f'. Did you mean "{meant}"?' if meant else "")


def test_what_cannot_be_sent_is_told_with_its_line(era: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("odd")
    server.resource("odd://one")(lambda: object())
    server.prompt(lambda: object(), name="odd")
    for method, params in (("resources/read", {"uri": "odd://one"}), ("prompts/get", {"name": "odd"})):
        caplog.clear()
        assert __file__ not in refused(server, era, method, **params)["message"]
        assert f"{__file__}:" in caplog.text, method


@pytest.mark.requirement("91", "T53")
def test_an_exception_is_told_by_its_type_and_an_id(era: str, caplog: pytest.LogCaptureFixture) -> None:
    def leak() -> str:
        raise KeyError("password 1234")

    def sorry() -> str:
        raise ToolError("The disk is full")

    server = Server("s", resources=[Resource("a://b", handler=leak), Resource("a://c", handler=sorry)])
    with caplog.at_level(logging.ERROR):
        error = refused(server, era, "resources/read", uri="a://b")
    assert error["code"] == -32603
    assert "KeyError" in error["message"]
    assert "1234" not in error["message"]
    assert error["message"].partition("error id ")[2][:8] in caplog.text
    assert refused(server, era, "resources/read", uri="a://c") == {"code": -32603, "message": "The disk is full"}


# ---------------------------------------------------------------- URIs and templates


@pytest.mark.requirement("86")
def test_uris_are_kept_byte_for_byte(era: str) -> None:
    uris = ["HTTP://Example.COM", "http://example.com", "http://example.com/", "app:x", "app://a/../b", "app://ä%2f"]
    server = Server("s", resources=[Resource(uri, handler=lambda uri: uri) for uri in uris])
    assert [r["uri"] for r in ask(server, era, "resources/list")["resources"]] == uris
    for uri in uris:
        assert ask(server, era, "resources/read", uri=uri)["contents"] == [
            {"uri": uri, "mimeType": "text/plain", "text": uri}
        ]


@pytest.mark.requirement("87")
def test_variables_reach_the_handler_in_its_types(era: str) -> None:
    server = Server("s")

    @server.resource("rows://{table}/{id}{?limit}")
    def row(table: str, id: int, limit: int = 10) -> dict[str, Any]:
        return {"table": table, "id": id, "limit": limit}

    def read(uri: str) -> Any:
        return ask(server, era, "resources/read", uri=uri)["contents"][0]

    assert read("rows://a%20b/5") == {
        "uri": "rows://a%20b/5",
        "mimeType": "application/json",
        "text": '{"table":"a b","id":5,"limit":10}',
    }
    assert read("rows://t/5?limit=3")["text"] == '{"table":"t","id":5,"limit":3}'
    error = refused(server, era, "resources/read", uri="rows://t/five")
    assert (error["code"], error["data"]) == (-32602, {"uri": "rows://t/five"})
    assert '"id"' in error["message"]


@pytest.mark.requirement("87", "T54")
def test_an_exact_uri_wins_and_then_the_first_template(era: str) -> None:
    server = Server("s")
    server.register(Resource("t://{id}", name="first", handler=lambda id: f"first {id}"))
    server.register(Resource("t://{+all}", name="second", handler=lambda all: f"second {all}"))
    server.register(Resource("t://x", name="exact", handler=lambda: "exact"))
    texts = {
        uri: ask(server, era, "resources/read", uri=uri)["contents"][0]["text"] for uri in ("t://x", "t://y", "t://y/z")
    }
    assert texts == {"t://x": "exact", "t://y": "first y", "t://y/z": "second y/z"}


@pytest.mark.requirement("87")
def test_a_template_whose_types_do_not_fit_leaves_the_uri_to_the_next(era: str) -> None:
    server = Server("s")

    @server.resource("u://{id}")
    def by_id(id: int) -> str:
        return f"number {id}"

    @server.resource("u://{name}")
    def by_name(name: str) -> str:
        return f"name {name}"

    def read(uri: str) -> Any:
        return ask(server, era, "resources/read", uri=uri)["contents"][0]["text"]

    assert (read("u://5"), read("u://ada")) == ("number 5", "name ada")


@pytest.mark.requirement("T54")
@pytest.mark.parametrize(
    ("template", "fits", "does_not"),
    [
        ("t://{id}", "t://a", "t://a/b"),
        ("t://{id}", "t://a.b", "t://.."),
        ("t://{id}", "t://%41", "t://a%2Fb"),
        ("t://{id}.txt", "t://a.txt", "t://aXtxt"),
        ("t://{id}/{id}", "t://a/a", "t://a/b"),
        ("t://x/{+id}", "t://x/a/b", "t://x/a/../../b"),
    ],
)
def test_what_a_template_matches(era: str, template: str, fits: str, does_not: str) -> None:
    server = Server("s", resources=[Resource(template, handler=lambda id: id)])
    assert "contents" in ask(server, era, "resources/read", uri=fits)
    assert refused(server, era, "resources/read", uri=does_not)["code"] == NOT_FOUND[era]


@pytest.mark.requirement("T54")
def test_a_template_without_a_handler_is_listed_but_unreadable(era: str) -> None:
    server = Server("s", resources=[Resource("far://{id}", name="far")])
    listed = ask(server, era, "resources/templates/list")["resourceTemplates"]
    assert listed == [{"uriTemplate": "far://{id}", "name": "far"}]
    assert refused(server, era, "resources/read", uri="far://1")["code"] == NOT_FOUND[era]
    server.register(Resource("far://{x}", handler=lambda x: x))
    assert ask(server, era, "resources/read", uri="far://1")["contents"][0]["text"] == "1"


@pytest.mark.requirement("87")
def test_an_unsafe_variable_is_taken_only_if_asked_for(era: str) -> None:
    safe = Server("s", resources=[Resource("t://{x}", handler=lambda x: x)])
    unsafe = Server("s", resources=[Resource("t://{x}", handler=lambda x: x, unsafe=["x"])])
    assert refused(safe, era, "resources/read", uri="t://a%5Cb")["code"] == NOT_FOUND[era]
    assert ask(unsafe, era, "resources/read", uri="t://a%5Cb")["contents"][0]["text"] == "a\\b"


ELSEWHERE = [
    "/etc/hostname",
    "%2Fetc%2Fhostname",
    "%2fetc",
    "//server/a",
    "C:/a",
    "C%3A%5Ca",
    "%5C%5Cs%5Ca",
    "a/../../b",
]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_a_path_to_elsewhere_never_reaches_a_handler(era: str, path: str) -> None:
    server, reached = Server("s"), []

    @server.resource("docs://{+path}")
    def doc(path: str) -> str:
        reached.append(path)
        return path

    class Provider:
        def resources(self) -> Any:
            return [("given://{+path}", "given")]

        def resource_read(self, uri: str, arguments: Any) -> Any:
            reached.append(uri)
            return "x"

    server.register(Provider())

    @server.tool
    async def peek(uri: str, ctx: Context[Any]) -> str:
        try:
            return str(await ctx.read_resource(uri))
        except ProtocolError as error:
            return error.message

    for uri in (f"docs://{path}", f"given://{path}"):
        error = refused(server, era, "resources/read", uri=uri)
        words = f"Resource not found: {uri}. path must be a relative path, without '..', a backslash or NUL"
        assert (error["code"], error["message"]) == (NOT_FOUND[era], words)
        said = ask(server, era, "tools/call", name="peek", arguments={"uri": uri})
        assert said["content"][0]["text"] == words
    assert reached == []
    assert ask(server, era, "resources/read", uri="docs://v1..v2/a")["contents"][0]["text"] == "v1..v2/a"


def test_a_variable_that_is_not_a_path_is_marked(era: str) -> None:
    server = Server("s")

    @server.resource("pages://{depth}/{+url}")
    def page(url: Annotated[str, NotAPath], depth: int) -> str:
        return url

    def read(uri: str) -> Any:
        return ask(server, era, "resources/read", uri=uri)["contents"][0]["text"]

    assert read("pages://1/https://a.example/b/../c") == "https://a.example/b/../c"
    assert read("pages://1//b") == "/b"

    @server.resource("more://{a}/{+url}")
    def more(url: Annotated[str, NotAPath] = "", a: str = "") -> str:
        return url

    assert refused(server, era, "resources/read", uri="more://../x")["code"] == NOT_FOUND[era]


# ---------------------------------------------------------------- caching


@pytest.mark.requirement("22")
def test_cache_hints_are_for_modern_clients_only(era: str) -> None:
    server = Server("s", cache=Cache(ttl=5, scope="public"))
    server.register(Resource("a://own", handler=lambda: "x", cache=Cache(ttl=1.5, scope="private")))
    server.register(Resource("a://default", handler=lambda: "x"))
    server.register(Resource("a://guarded", handler=lambda: "x", visible=lambda user: True))
    server.register(Resource("b://{x}", handler=lambda x: x))
    requests: list[tuple[str, dict[str, Any]]] = [
        ("resources/read", {"uri": "a://own"}),
        ("resources/read", {"uri": "a://default"}),
        ("resources/read", {"uri": "a://guarded"}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
    ]
    hints = [(a["result"].get("ttlMs"), a["result"].get("cacheScope")) for a in exchange(server, era, requests)]
    if era == MODERN:
        assert hints == [(1500, "private"), (5000, "public"), (5000, "private"), (5000, "private"), (5000, "public")]
    else:
        assert hints == [(None, None)] * 5


@pytest.mark.requirement("22")
def test_without_a_cache_nothing_may_be_kept(era: str) -> None:
    result = ask(notes(), era, "resources/read", uri="config://app")
    assert (result.get("ttlMs"), result.get("cacheScope")) == ((0, "private") if era == MODERN else (None, None))


# ---------------------------------------------------------------- handlers


@pytest.mark.requirement("87")
def test_handlers_may_be_sync_or_async_and_take_a_context_and_the_uri(era: str) -> None:
    server = Server("s")

    @server.resource("a://{x}")
    async def later(x: str, uri: str, ctx: Context[Any]) -> str:
        return f"{x} {uri} {ctx.protocol_version}"

    @server.resource("b://x")
    def now(ctx: SyncContext[Any]) -> str:
        return f"{ctx.request_id}"

    first, second = exchange(server, era, [("resources/read", {"uri": uri}) for uri in ("a://1", "b://x")])
    assert first["result"]["contents"][0]["text"] == f"1 a://1 {era}"
    assert second["result"]["contents"][0]["text"] == "2"


def test_a_resource_can_be_read_without_the_wire(era: str) -> None:
    server = notes()

    @server.tool
    async def peek(ctx: Context[Any]) -> str:
        [contents] = await ctx.read_resource("notes://a")
        return str(contents.text)

    assert ask(server, era, "tools/call", name="peek", arguments={})["content"][0]["text"] == "# a"


@pytest.mark.requirement("89")
def test_a_large_blob_survives(era: str) -> None:
    data = bytes(range(256)) * 4096
    assert base64.b64decode(held(data, era)[0]["blob"]) == data


# ---------------------------------------------------------------- registration


@pytest.mark.requirement("87")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Resource("t://{a}/{b}", handler=lambda a: a), "does not take b"),
        (lambda: Resource("t://{a}", handler=lambda a, b: a), "no variable for the parameter b"),
        (lambda: Resource("t://x", handler=lambda a: a), "no variable for the parameter a"),
        (lambda: Resource("t://{a", handler=lambda a: a), "not closed"),
        (lambda: Resource("t://{a}{b}", handler=lambda a, b: a), "literal between"),
        (lambda: Resource("no uri", handler=lambda: ""), "is not a URI"),
        (lambda: Resource("a://b", handler=lambda: "", annotations={"priority": 2}), "priority"),
        (lambda: Resource("a://b", handler=lambda: "", annotations={"audience": ["me"]}), "audience"),
        (lambda: Resource("a://b", handler=lambda: "", annotations={"audiense": []}), "audiense"),
        (lambda: Resource("a://b", handler=lambda: "", size=-1), "size"),
        (lambda: Resource("a://b", handler=lambda: (yield)), "generator"),
    ],
)
def test_what_cannot_be_served_fails_at_once_with_its_place(era: str, make: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        Server("s", resources=[make()])
    assert "test_resources.py:" in str(caught.value)


def test_a_resource_needs_a_uri_and_a_handler(era: str) -> None:
    server = Server("s")
    with pytest.raises(RegistrationError, match=r"@server\.resource\("):
        server.resource(lambda: "x")  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="no handler"):
        server.register(Resource("a://b"))
