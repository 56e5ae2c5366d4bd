"""Every option is checked where it is given: file, line, what was expected, and the nearest thing that is valid."""

# ruff: noqa: E501 — a row of the table is a line

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import redstart
from redstart import (
    Cache,
    Choices,
    Client,
    Complete,
    Depends,
    Directory,
    File,
    Header,
    Icon,
    Parameter,
    Prompt,
    RegistrationError,
    Resource,
    Server,
    Tool,
    predicate,
)

Bad = dict[str, Any]


def handler() -> str:
    return ""


def made(kind: str, options: Bad) -> Any:
    """What is made with options: by a class, or by a decorator."""
    here = Path(__file__)
    server: Any = Server("s")
    make: dict[str, Callable[[], Any]] = {
        "Server": lambda: Server(**{"name": "s", **options}),
        "Server.from_object": lambda: Server.from_object(Path, **options),
        "Tool": lambda: Tool(**{"name": "work", "handler": handler, **options}),
        "Prompt": lambda: Prompt(**{"name": "work", "handler": handler, **options}),
        "Resource": lambda: Resource(**{"uri": "a://b", "name": "work", "handler": handler, **options}),
        "File": lambda: File(**{"uri": "a://b", "path": here, "name": "work", **options}),
        "Directory": lambda: Directory(**{"uri": "a://b/", "root": here.parent, "name": "work", **options}),
        "Cache": lambda: Cache(**options),
        "Parameter": lambda: Parameter(**{"name": "n", **options}),
        "Complete": lambda: Complete(**options),
        "Choices": lambda: Choices(*options["choices"]),
        "Depends": lambda: Depends(**options),
        "Header": lambda: Header(**options),
        "Client": lambda: Client(Server("s"), **options),
        "@tool": lambda: redstart.tool(**options)(handler),
        "@prompt": lambda: redstart.prompt(**options)(handler),
        "@resource": lambda: redstart.resource("a://b", **options)(handler),
        "@predicate": lambda: predicate(**options)(handler),
        "@server.tool": lambda: server.tool(**options)(handler),
        "@server.prompt": lambda: server.prompt(**options)(handler),
        "@server.resource": lambda: server.resource("a://b", **options)(handler),
        "@server.predicate": lambda: server.predicate(**options)(handler),
        "@server.completion": lambda: server.completion(**options)(lambda typed: []),
        "@server.notify": lambda: server.notify(**options),
        "@server.notify_changed": lambda: server.notify_changed(**options),
        "@server.declare": lambda: server.declare(**options),
        "@server.remove": lambda: server.remove(**options),
        "@server.add_middleware": lambda: server.add_middleware(**options),
    }
    return make[kind]()


@asynccontextmanager
async def lifespan(server: Any) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def bare_lifespan() -> AsyncIterator[None]:
    yield


@contextmanager
def sync_lifespan(server: Any) -> Iterator[None]:
    yield


async def no_lifespan(server: Any) -> None:
    pass


TEXT = "must be a text (str)"
SHARED: list[tuple[Bad, str]] = [
    ({"title": 5}, f"title of work {TEXT}, or None, not 5"),
    ({"title": "\ud800"}, "title of work has half a character in it (a lone surrogate)"),
    ({"description": b"x"}, f"description of work {TEXT}, or None, not b'x'"),
    ({"name": 5}, f"name {TEXT}, not 5"),
    ({"icons": ["https://a.example/i.png"]}, 'icons of work must be a list of Icon, or None, not \'https://a.example/i.png\'; '
     'write Icon("https://a.example/i.png")'),
    ({"icons": "https://a.example/i.png"}, "icons of work must be a list of Icon"),
    ({"icons": Icon("https://a.example/i.png")}, "icons of work must be a list of Icon"),
    ({"icons": [Icon("https://a.example/i.png", sizes="48x48")]}, "icons of work"),  # type: ignore[arg-type]
    ({"meta": "x"}, "meta of work must be a dict with text keys, or None, not 'x'"),
    ({"meta": {1: 2}}, "meta of work must be a dict with text keys"),
    ({"meta": {"a": object()}}, "meta of work must be JSON data"),
    ({"tags": "admin"}, "tags of work must be a list of texts, not 'admin'; write [\"admin\"]"),
    ({"tags": [1]}, "tags of work must be a list of texts, not [1]"),
    ({"tags": 5}, "tags of work must be a list of texts, not 5"),
    ({"needs": 5}, "needs of work must be a list of texts, not 5"),
    ({"needs": ["elicitaton"]}, 'Did you mean "elicitation"?'),
    ({"executor": "proces"}, 'executor of work must be one of inline, thread, process, or None, not \'proces\'. '
     'Did you mean "process"?'),
    ({"timeout": "5"}, "timeout of work must be a number of seconds above 0"),
    ({"timeout": -1}, "timeout of work must be a number of seconds above 0"),
    ({"visible": True}, "visible of work must be a function, or None, not True"),
    ({"handler": 5}, "handler of work must be a function, not 5"),
]  # fmt: skip
ROWS: list[tuple[str, Bad, str]] = [
    *(("Tool", options, words) for options, words in SHARED),
    *(("Prompt", options, words.replace("a function, not", "a function, or None, not")) for options, words in SHARED),
    *(("Resource", options, words.replace("a function, not", "a function, or None, not")) for options, words in SHARED),
    *(
        (kind, options, words.replace("of work", "of handler"))
        for kind in ("@tool", "@prompt", "@resource", "@server.tool", "@server.prompt", "@server.resource")
        for options, words in SHARED[:-1:4]
    ),
    ("Tool", {"annotations": {"readOnlyHint": "yes"}}, "annotations of work: readOnlyHint must be True or False, not 'yes'"),
    ("Tool", {"annotations": {"title": 5}}, "annotations of work: title must be a text (str)"),
    ("Tool", {"annotations": "x"}, "annotations of work must be a dict with text keys"),
    ("Tool", {"task": "banana"}, "task of work must be one of forbidden, optional, required, or True or False, not 'banana'"),
    ("Tool", {"task": "require"}, 'Did you mean "required"?'),
    ("Tool", {"parameters": "x"}, "parameters of work must be a list of Parameter"),
    ("Tool", {"parameters": ["x"]}, "parameters of work must be a list of Parameter"),
    ("Tool", {"input_schema": "x"}, "input_schema of work must be a dict with text keys"),
    ("Tool", {"output_schema": []}, "output_schema of work must be a dict with text keys"),
    ("Tool", {"concurrency": 0}, "concurrency of work must be a whole number of at least 1"),
    ("Tool", {"max_result_bytes": -1}, "max_result_bytes of work must be a whole number of at least 1"),
    ("Tool", {"outputs": "F"}, 'outputs of work must be a list of texts, or None, not \'F\'; write ["F"]'),
    ("Tool", {"solutions": "some"}, 'solutions of work must be "first", "all" or a number from 1'),
    ("Tool", {"solutions": 0}, 'solutions of work must be "first", "all" or a number from 1'),
    ("Tool", {"single_use": "no"}, "single_use of work must be True or False, not 'no'"),
    ("Tool", {"titel": "x"}, 'a tool has no option "titel". Did you mean "title"?'),
    ("@tool", {"titel": "x"}, 'a tool has no option "titel". Did you mean "title"?'),
    ("@server.tool", {"titel": "x"}, 'a tool has no option "titel". Did you mean "title"?'),
    ("@predicate", {"titel": "x"}, 'a predicate has no option "titel". Did you mean "title"?'),
    ("@server.predicate", {"mod": "x"}, 'a predicate has no option "mod". Did you mean "mode"?'),
    ("@predicate", {"mode": 5}, "mode must be a text (str)"),
    ("@predicate", {"outputs": "F"}, "outputs must be a list of texts"),
    ("@predicate", {"proofs": "on"}, 'proofs must be one of one, zero_or_one, one_or_more, zero_or_more, or None, not \'on\'. Did you mean "one"?'),
    ("Prompt", {"titel": "x"}, 'a prompt has no option "titel". Did you mean "title"?'),
    ("@server.prompt", {"args": []}, 'a prompt has no option "args"'),
    ("Prompt", {"arguments": "topic"}, "arguments of work must be a list of PromptArgument or (name, description, required)"),
    ("Prompt", {"arguments": ["topic"]}, "arguments of work must be a list of PromptArgument or (name, description, required)"),
    ("Prompt", {"arguments": [("topic", 5)]}, "arguments of work must be a list of PromptArgument or (name, description, required)"),
    ("Resource", {"mimetype": "x"}, 'a resource has no option "mimetype". Did you mean "mime_type"?'),
    ("@server.resource", {"mimetype": "x"}, 'a resource has no option "mimetype". Did you mean "mime_type"?'),
    ("Resource", {"mime_type": 5}, "mime_type of work must be a text (str)"),
    ("Resource", {"size": "3"}, "size of work must be a whole number of at least 0"),
    ("Resource", {"size": -1}, "size of work must be a whole number of at least 0"),
    ("Resource", {"cache": 60}, "cache of work must be a Cache, or None, not 60; write Cache(ttl=60)"),
    ("Resource", {"unsafe": "path"}, 'unsafe of work must be a list of texts, not \'path\'; write ["path"]'),
    ("Resource", {"annotations": {"priority": 5}}, "annotations of work: priority must be a number from 0 to 1, not 5"),
    ("Resource", {"annotations": {"audience": "user"}}, "annotations of work"),
    ("Resource", {"annotations": {"prority": 1}}, 'annotations of work: there is no "prority". Did you mean "priority"?'),
    ("Resource", {"annotations": 5}, "annotations of work must be"),
    ("File", {"max_size": "1"}, "max_size of work must be a whole number of at least 0"),
    ("File", {"maxsize": 1}, 'a File has no option "maxsize". Did you mean "max_size"?'),
    ("File", {"path": 5}, "path of work must be a path (str or Path), not 5"),
    ("Directory", {"root": 5}, "root of work must be a path (str or Path), not 5"),
    ("Directory", {"hiden": True}, 'a Directory has no option "hiden". Did you mean "hidden"?'),
    ("Directory", {"hidden": "no"}, "hidden of work must be True or False, not 'no'"),
    ("Directory", {"listing": 1}, "listing of work must be True or False, not 1"),
    ("Directory", {"uri": 5}, "uri must be a text (str), not 5"),
    ("Server", {"name": 5}, "Server: name must be a text (str), not 5"),
    ("Server", {"name": ""}, 'Server: name must not be empty; write Server("weather")'),
    ("Server", {"version": 2}, "Server: version must be a text (str), not 2"),
    ("Server", {"instructions": 3}, "Server: instructions must be a text (str), or None, not 3"),
    ("Server", {"title": 5}, "Server: title must be a text (str)"),
    ("Server", {"website_url": 5}, "Server: website_url must be a text (str)"),
    ("Server", {"icons": ["https://a.example/i.png"]}, "Server: icons must be a list of Icon"),
    ("Server", {"titel": "x"}, 'a Server has no option "titel". Did you mean "title"?'),
    ("Server", {"cache": 60}, "Server: cache must be a Cache, or None, not 60; write Cache(ttl=60)"),
    ("Server", {"on_duplicate": "raise"}, "Server: on_duplicate must be one of warn, error, replace, not 'raise'"),
    ("Server", {"on_duplicate": "eror"}, 'Did you mean "error"?'),
    ("Server", {"auth": "s3cret"}, "Server: auth must be a class of redstart.auth, as BearerTokens({…}), a function of the token that returns the user, or None, not a str"),
    ("Server", {"store": 5}, ") or a store, not int"),
    ("Server", {"store": "radis://u:secret@h"}, "no store is known for 'radis://***@h'"),
    ("Server", {"keys": "secret"}, "keys= is a list of keys"),
    ("Server", {"keys": 5}, "keys= is a list of keys"),
    ("Server", {"keys": [""]}, "a key of keys= is empty"),
    ("Server", {"include_tags": "admin"}, 'Server: include_tags must be a list of texts, or None, not \'admin\'; write ["admin"]'),
    ("Server", {"exclude_tags": "admin"}, "Server: exclude_tags must be a list of texts"),
    ("Server", {"capabilities": "tools"}, 'Server: capabilities must be a list of texts, not \'tools\'; write ["tools"]'),
    ("Server", {"capabilities": ["promts"]}, 'Did you mean "prompts"?'),
    ("Server", {"middleware": [5]}, "int is not a function: middleware is written `async def layer(call, next)`"),
    ("Server", {"middleware": handler}, "Server: middleware must be a list of functions"),
    ("Server", {"expose_errors": "yes"}, "Server: expose_errors must be True, False or a list of exception classes, not 'yes'"),
    ("Server", {"expose_errors": ["ValueError"]}, "Server: expose_errors must be True, False or a list of exception classes"),
    ("Server", {"expose_errors": ValueError}, "Server: expose_errors must be True, False or a list of exception classes"),
    ("Server", {"debug": "no"}, "Server: debug must be True or False, not 'no'"),
    ("Server", {"directory": 5}, "Server: directory must be a path (str or Path), or None, not 5"),
    ("Server", {"tools": 5}, "Server: tools must be a list, not 5"),
    ("Server", {"tools": "work"}, "Server: tools must be a list, not 'work'"),
    ("Server", {"prompts": 5}, "Server: prompts must be a list, not 5"),
    ("Server", {"prompts": [5]}, "5"),
    ("Server", {"resources": "a://b"}, "Server: resources must be a list, not 'a://b'"),
    ("Server", {"threads": 0}, "Server: threads must be a whole number of at least 1, not 0"),
    ("Server", {"page_size": -5}, "Server: page_size must be a whole number of at least 1, or None, not -5"),
    ("Server", {"timeout": -5}, "Server: timeout must be a number of seconds above 0, or None, not -5"),
    ("Server", {"lifespan": lifespan(None)}, "Server: lifespan has been called already; write lifespan=lifespan, without ()"),
    ("Server", {"lifespan": bare_lifespan}, "Server: lifespan must take one argument, the server; write async def bare_lifespan(server)"),
    ("Server", {"lifespan": sync_lifespan}, "Server: lifespan must be async; write @asynccontextmanager and async def sync_lifespan(server)"),
    ("Server", {"lifespan": no_lifespan}, "Server: lifespan must yield once; write @asynccontextmanager above async def no_lifespan(server), and a yield"),
    ("Server", {"lifespan": 5}, "Server: lifespan must be a function with @asynccontextmanager, or None, not 5"),
    ("Server.from_object", {"name": 5}, "name must be a text (str), not 5"),
    ("Server.from_object", {"include": 5}, "include must be a list of texts"),
    ("Server.from_object", {"exclude": [5]}, "exclude must be a list of texts"),
    ("Server.from_object", {"titel": "x"}, 'a Server has no option "titel". Did you mean "title"?'),
    ("Cache", {"ttl": -5}, "ttl of a Cache must be a number of seconds of at least 0, not -5"),
    ("Cache", {"ttl": "60"}, "ttl of a Cache must be a number of seconds of at least 0, not '60'"),
    ("Cache", {"ttl": float("inf")}, "ttl of a Cache must be a number of seconds of at least 0, not inf"),
    ("Cache", {"scope": "privat"}, 'scope of a Cache must be one of public, private, not \'privat\'. Did you mean "private"?'),
    ("Parameter", {"name": 5}, "name of a Parameter must be a text (str), not 5"),
    ("Parameter", {"description": 5}, "description of a Parameter must be a text (str), not 5"),
    ("Parameter", {"required": "yes"}, "required of a Parameter must be True or False, not 'yes'"),
    ("Complete", {"source": "python"}, "source of Complete must be a list of texts, an Enum or a function, not 'python'; write [\"python\"]"),
    ("Complete", {"source": 5}, "source of Complete must be a list of texts, an Enum or a function, not 5"),
    ("Choices", {"choices": ()}, "Choices needs a choice"),
    ("Choices", {"choices": (["a", "b"],)}, "a choice must be a text, (value, title) or a Choice, not ['a', 'b']"),
    ("Choices", {"choices": (("a", 5),)}, "a choice must be a text, (value, title) or a Choice, not ('a', 5)"),
    ("Depends", {"provide": 5}, "provide of Depends must be a function, not 5"),
    ("Header", {"name": 5}, "name of a Header must be a header name, not 5"),
    ("Header", {"name": "a b"}, "name of a Header must be a header name, not 'a b'"),
    ("@server.completion", {"ref": 5, "argument": "a"}, "ref must be a text (str), not 5"),
    ("@server.completion", {"ref": "nope"}, 'write @server.completion("nope", "argument"): the argument that it completes is missing'),
    ("@server.notify", {"uri": 5}, "uri must be a text (str), not 5"),
    ("@server.notify_changed", {"kind": "tool"}, 'kind must be one of tools, prompts, resources, not \'tool\'. Did you mean "tools"?'),
    ("@server.declare", {"capabilities": "tools"}, 'capabilities must be a list of texts, not \'tools\'; write ["tools"]'),
    ("@server.add_middleware", {"layer": 5}, "int is not a function: middleware is written `async def layer(call, next)`"),
    ("Client", {"protocol": "2025-11-24"}, "protocol must be one of auto, 2024-11-05"),
    ("Client", {"protocol": 5}, "protocol must be one of auto, 2024-11-05"),
    ("Client", {"log_level": "warn"}, 'log_level must be one of debug, info, notice, warning, error, critical, alert, emergency, or None, not \'warn\'. Did you mean "warning"?'),
    ("Client", {"timeout": -5}, "timeout must be a number of seconds above 0, or None, not -5"),
    ("Client", {"max_rounds": 0}, "max_rounds must be a whole number of at least 1, not 0"),
    ("Client", {"stderr": "captured"}, 'stderr must be one of inherit, capture, not \'captured\'. Did you mean "capture"?'),
    ("Client", {"on_elicit": 5}, "on_elicit must be a function, or None, not 5"),
    ("Client", {"on_progress": 5}, "on_progress must be a function, or None, not 5"),
    ("Client", {"headers": "x"}, "headers must be a dict with text keys, or None, not a str"),
    ("Client", {"env": []}, "env must be a dict with text keys, or None, not a list"),
    ("Client", {"capabilities": "x"}, "capabilities must be a dict with text keys, or None, not 'x'"),
    ("Client", {"client_info": "x"}, "client_info must be a dict with text keys, or None, not 'x'"),
    ("Client", {"on_elict": handler}, 'a Client has no option "on_elict". Did you mean "on_elicit"?'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "options", "words"), ROWS, ids=[f"{kind}-{'-'.join(options)}" for kind, options, _ in ROWS]
)
def test_a_wrong_option_is_refused_where_it_is_given(kind: str, options: Bad, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        made(kind, options)
    text = str(caught.value)
    assert words in text
    assert text.startswith(f"{__file__}:"), text  # the line of whoever gave it


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: redstart.Image(path="a.png"), "Image: it has no field 'path'; its fields: data, mime_type"),  # type: ignore[call-arg]
        (lambda: redstart.Audio(b"", mimetype="a/b"), "Audio: it has no field 'mimetype'"),  # type: ignore[call-arg]
        (lambda: redstart.Cache(tll=5), "Cache: it has no field 'tll'; its fields: ttl, scope"),  # type: ignore[call-arg]
        (lambda: redstart.Parameter("a", typ=int), "Parameter: it has no field 'typ'"),  # type: ignore[call-arg]
        (lambda: redstart.ResourceLink("a:b", "c", mimeType="x"), "its fields: uri, name, title"),  # type: ignore[call-arg]
        (lambda: redstart.Icon(), "Icon: Missing required argument 'src'; its fields: src"),  # type: ignore[call-arg]
        (lambda: redstart.Cache(1, "private", 3), "Cache: Extra positional arguments provided"),  # type: ignore[call-arg]
    ],
)
def test_a_class_says_which_fields_it_has(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert words in str(caught.value)


# ---------------------------------------------------------------- what is fine


def test_none_is_absent() -> None:
    """Whatever is not given can be given as None, but for numbers that a server cannot do without."""
    shared = dict.fromkeys(
        (
            "title",
            "description",
            "icons",
            "meta",
            "needs",
            "executor",
            "timeout",
            "visible",
            "scopes",
            "tags",
            "annotations",
        )
    )
    for thing in (
        Tool("work", handler=handler, **shared),  # type: ignore[arg-type]
        Resource("a://b", handler=handler, **shared),  # type: ignore[arg-type]
    ):
        assert (thing.title, thing.tags, thing.annotations) == (None, frozenset(), None)
    assert Server("s", keys=None, tools=None, capabilities=None).runtime.given_keys == []  # type: ignore[arg-type]


def test_what_is_given_once_can_be_read_twice() -> None:
    tool = Tool("work", handler=handler, tags=(tag for tag in "ab"), icons=iter([Icon("https://a.example/i.png")]))  # type: ignore[arg-type]
    assert tool.tags == {"a", "b"}
    assert tool.icons == [Icon("https://a.example/i.png")]


@pytest.mark.parametrize("decorate", ["tool", "prompt"])
def test_the_name_may_come_first(decorate: str) -> None:
    server = Server("s")
    registry = getattr(server, f"{decorate}s")
    getattr(server, decorate)("first")(handler)
    getattr(server, decorate)(name="second", title="Second")(handler)
    getattr(server, decorate)()(handler)
    getattr(server, decorate)(handler)
    getattr(server, decorate)(handler, name="given", title="Given")

    def own() -> str:
        return ""

    server.register(getattr(redstart, decorate)("third")(own))
    assert [thing.name for thing in registry] == ["first", "second", "handler", "given", "third"]


def test_a_lifespan_may_be_a_plain_generator_function() -> None:
    seen: list[str] = []

    async def lifespan(server: Any) -> AsyncIterator[str]:
        seen.append(f"opened {server.name}")
        yield "state"
        seen.append("closed")

    server = Server("s", lifespan=lifespan)  # type: ignore[arg-type]

    async def main() -> None:
        async with Client(server) as client:
            await client.list_tools()

    asyncio.run(main())
    assert seen == ["opened s", "closed"]


@pytest.mark.parametrize(
    ("thing", "names"),
    [
        (Server, ("name", "title", "on_duplicate", "lifespan")),
        (Server.from_object, ("thing", "include", "title", "auth")),
        (Server("s").tool, ("name", "title", "task")),
        (Server("s").prompt, ("name", "arguments")),
        (Server("s").resource, ("uri", "name", "mime_type", "cache")),
        (redstart.tool, ("name", "output_schema")),
        (redstart.predicate, ("mode", "proofs", "title")),
        (Tool, ("handler", "title", "executor")),
        (Prompt, ("messages", "arguments")),
        (Resource, ("uri", "size")),
        (File, ("path", "max_size", "title")),
        (Directory, ("root", "hidden", "listing")),
        (Client, ("target", "on_elicit", "timeout")),
    ],
)
def test_help_shows_every_option(thing: Any, names: tuple[str, ...]) -> None:
    parameters = inspect.signature(thing).parameters
    assert set(names) <= set(parameters)
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_a_path_says_what_it_is_relative_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RegistrationError) as caught:
        Directory("docs://", "docs")
    assert str(caught.value).startswith(f"{__file__}:")
    assert f'there is no directory {tmp_path}/docs: "docs" is relative to where the process' in str(caught.value)
    assert 'write Path(__file__).parent / "docs"' in str(caught.value)
    with pytest.raises(RegistrationError, match=r"there is no file /nowhere/a\.txt$"):
        File("docs://a", "/nowhere/a.txt")
