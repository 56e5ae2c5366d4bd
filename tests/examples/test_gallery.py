"""The gallery: every example of the specifying documents, as a real process, over stdio and HTTP, in both eras."""

from __future__ import annotations

import asyncio
import io
import sys
import wave
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from redstart import Audio, Client, Image, ResourceLink, Text
from redstart.client import RequestError
from support import ROOT, free_port, serving

GALLERY = ROOT / "examples" / "gallery"
REDSTART = str(Path(sys.executable).with_name("redstart"))
ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 30

Use = Callable[..., Any]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder whose files the examples may touch."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("shared")
        patch.setenv("GALLERY_ROOT", str(folder))
        yield folder


@pytest.fixture(scope="module")
def urls(shared: Path) -> Iterator[Callable[[str], str]]:
    """Where an example listens; each is started once."""
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def url(name: str) -> str:
            if name not in found:
                port = free_port()
                command = [REDSTART, "run", str(GALLERY / name), "--http", "--port", str(port)]
                found[name] = stack.enter_context(serving(command, port))
            return found[name]

        yield url


@pytest.fixture(params=[(t, era) for t in ("stdio", "http") for era in ERAS], ids="-".join)
def use(request: pytest.FixtureRequest, urls: Callable[[str], str], shared: Path) -> Use:
    """Runs a script with a client of an example, by one transport and in one era."""
    transport, era = request.param

    def run(name: str, script: Callable[[Client], Awaitable[None]], **options: Any) -> None:
        file = str(GALLERY / name)
        # A file is run by itself, as an MCP client would; a folder needs the command.
        command = [sys.executable, file] if file.endswith(".py") else [REDSTART, "run", file]
        target: Any = urls(name) if transport == "http" else command
        env = {"GALLERY_ROOT": str(shared)} if transport == "stdio" else None

        async def main() -> None:
            async with asyncio.timeout(SECONDS), Client(target, protocol=era, env=env, **options) as c:
                assert c.protocol_version == era
                await script(c)

        asyncio.run(main())

    return run


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


# ---------------------------------------------------------------- providers


@pytest.mark.requirement("17", "18", "34", "35", "36", "37", "39", "50", "52", "53", "57", "T25")
def test_factorial(use: Use) -> None:
    async def script(c: Client) -> None:
        listed = {entry.name: entry for entry in await c.list_tools()}
        assert list(listed) == ["factorial", "spoken_factorial", "double_factorial"]
        assert listed["factorial"].description == "Computes the factorial of a non-negative integer."
        assert listed["factorial"].input_schema == {
            "type": "object",
            "properties": {"n": {"type": "integer", "description": "The integer."}},
            "required": ["n"],
            "additionalProperties": False,
        }
        assert (c.server_info.name, c.server_info.version) == ("factorials", "2.0.0")
        result = await c.call_tool("factorial", {"n": 5})
        assert (texts(result), result.data) == (["120"], 120)
        assert (await c.call_tool("factorial", {"n": 0})).data == 1
        assert texts(await c.call_tool("spoken_factorial", {"n": 5})) == ["The factorial is: 120"]
        assert texts(await c.call_tool("double_factorial", {"n": 7})) == ["105"]
        assert (await c.call_tool("factorial", {"n": -1})).is_error
        assert (await c.call_tool("factorial", {"n": True})).is_error
        assert (await c.call_tool("spoken_factorial", {})).is_error

    use("factorial.py", script)


@pytest.mark.requirement("23", "30", "58", "66", "72", "T14", "T40", "T41")
@pytest.mark.parametrize(
    ("answer", "text"),
    [({"name": "Ada"}, "Hello, Ada!"), ("decline", "No name provided."), ("cancel", "No name provided.")],
)
def test_ask_name(use: Use, answer: Any, text: str) -> None:
    asked: list[Any] = []

    def on_elicit(request: Any) -> Any:
        asked.append(request)
        return answer

    async def script(c: Client) -> None:
        (listed,) = await c.list_tools()
        assert listed.description == "Asks the user for their name and greets them."
        assert "elicitation" not in c.server_capabilities
        assert texts(await c.call_tool("ask_name")) == [text]

    use("ask_name.py", script, on_elicit=on_elicit)
    (request,) = asked
    assert request.message == "What is your name?"
    assert request.schema == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.requirement("59", "71", "T42")
def test_ask_name_of_a_client_that_cannot_be_asked(use: Use) -> None:
    async def script(c: Client) -> None:
        if c.protocol_version == ERAS[0]:
            result = await c.call_tool("ask_name")
            assert result.is_error
            assert "elicitation" in result.text
        else:
            with pytest.raises(RequestError, match="elicitation"):
                await c.call_tool("ask_name")

    use("ask_name.py", script)


@pytest.mark.requirement("19", "20", "28", "74", "75", "76", "77", "78", "79", "80", "81", "83")
def test_prompts(use: Use) -> None:
    async def said(c: Client, name: str, **arguments: str) -> list[tuple[str, str]]:
        messages = (await c.get_prompt(name, arguments)).messages
        return [(message.role, message.content.text) for message in messages]

    async def script(c: Client) -> None:
        assert await c.list_tools() == []
        listed = {entry.name: entry for entry in await c.list_prompts()}
        assert list(listed) == ["code_review", "summarize", "debate"]
        assert listed["code_review"].description == "Reviews code for potential issues"
        assert [(a.name, a.description, a.required) for a in listed["code_review"].arguments or ()] == [
            ("code", "The code to review", True),
            ("language", "The programming language", False),
        ]
        review = "Please review the following {}code for potential issues:\n\nx = 1"
        assert await said(c, "code_review", code="x = 1") == [("user", review.format(""))]
        assert await said(c, "code_review", code="x = 1", language="Python") == [("user", review.format("Python "))]
        assert await said(c, "debate", topic="tea") == [
            ("user", "Let us debate: tea"),
            ("assistant", "I would be happy to debate that topic. What is your position?"),
        ]
        summary = await c.get_prompt("summarize", {"text": "Long."})
        assert summary.description == "A summary of 5 characters"
        assert not (await c.get_prompt("debate", {"topic": "tea"})).description
        for wrong in (c.get_prompt("debate"), c.get_prompt("no_such_prompt")):
            with pytest.raises(RequestError) as caught:
                await wrong
            assert caught.value.code == -32602

    use("prompts.py", script)


@pytest.mark.requirement("21", "22", "29", "85", "86", "88", "89", "90", "92", "T52")
def test_resources(use: Use) -> None:
    async def script(c: Client) -> None:
        listed = [(r.uri, r.name, r.description, r.mime_type) for r in await c.list_resources()]
        assert listed[:3] == [
            ("app://my-app/config", "config", "Application configuration", "application/json"),
            ("app://my-app/readme", "readme", "Application readme", "text/plain"),
            ("app://my-app/logs", "logs", "Log entries", "text/plain"),
        ]
        (config,) = (await c.read_resource("app://my-app/config")).contents
        assert (config.uri, config.mime_type) == ("app://my-app/config", "application/json")
        assert config.text == '{"name": "my-app", "version": "1.0"}'
        (readme,) = (await c.read_resource("app://my-app/readme")).contents
        assert (readme.mime_type, readme.text) == ("text/plain", "Welcome to my application.")
        logs = (await c.read_resource("app://my-app/logs")).contents
        assert [(one.uri, one.text) for one in logs] == [
            ("app://my-app/logs", "Log entry 1"),
            ("app://my-app/logs", "Log entry 2"),
        ]
        (logo,) = (await c.read_resource("app://my-app/logo")).contents
        assert isinstance(logo.blob, bytes)
        assert logo.blob.startswith(b"\x89PNG")
        with pytest.raises(RequestError) as caught:
            await c.read_resource("app://my-app/nothing")
        assert caught.value.code == (-32002 if c.protocol_version == ERAS[0] else -32602)

    use("resources.py", script)


# ---------------------------------------------------------------- explicit tools


@pytest.mark.requirement("93", "94", "102", "107", "146")
def test_calculator(use: Use) -> None:
    async def script(c: Client) -> None:
        (listed,) = await c.list_tools()
        assert (listed.name, listed.description) == ("calculate", "Perform basic arithmetic")
        assert listed.input_schema["properties"] == {
            "expression": {"type": "string", "description": "Math expression to evaluate"}
        }
        assert listed.input_schema["required"] == ["expression"]
        result = await c.call_tool("calculate", {"expression": "2 * (3 + 4) ** 2"})
        assert msgspec.json.decode(result.text) == {"result": 98}
        for wrong in ("__import__('os').getcwd()", "1 / 0", "9**9**9", "2 +"):
            result = await c.call_tool("calculate", {"expression": wrong})
            assert result.is_error
            assert "failed with" not in result.text  # it was foreseen

    use("calculator.py", script)


@pytest.mark.requirement("97", "98", "99")
def test_schemas(use: Use) -> None:
    async def script(c: Client) -> None:
        listed = {entry.name: entry.input_schema for entry in await c.list_tools()}
        assert listed["filter_by_tags"]["properties"]["tags"] == {
            "type": "array",
            "items": {"type": "string"},
            "description": "List of tags to filter by",
            "minItems": 1,
        }
        limit = listed["advanced_filter"]["properties"]["options"]["properties"]["limit"]
        assert limit == {"type": "integer", "default": 10, "minimum": 1, "maximum": 100}
        good: list[tuple[str, dict[str, Any], str]] = [
            ("filter_by_tags", {"tags": ["red", "blue"]}, "Filtering by tags: red, blue"),
            ("sort_results", {"field": "date"}, "Sorting by date (asc)"),
            ("sort_results", {"field": "size", "order": "desc"}, "Sorting by size (desc)"),
            ("advanced_filter", {"query": "hats"}, "Query: hats (limit=10)"),
            ("advanced_filter", {"query": "hats", "options": {"limit": 3}}, "Query: hats (limit=3)"),
        ]
        for name, arguments, text in good:
            assert texts(await c.call_tool(name, arguments)) == [text]
        bad: list[tuple[str, dict[str, Any], str]] = [
            ("filter_by_tags", {"tags": []}, "tags"),
            ("filter_by_tags", {}, "tags"),
            ("sort_results", {"field": "colour"}, "field"),
            ("advanced_filter", {"query": "hats", "options": {"limit": 101}}, "limit"),
        ]
        for name, arguments, told in bad:
            result = await c.call_tool(name, arguments)
            assert result.is_error
            assert told in result.text

    use("schemas.py", script)


# ---------------------------------------------------------------- results


@pytest.mark.requirement("100", "101", "106", "T30")
def test_analyse_with_an_image(use: Use) -> None:
    async def script(c: Client) -> None:
        before, picture, after = (await c.call_tool("analyze_data", {"data": "3,1,2"})).content
        assert (before, after) == (Text("Analysis complete"), Text("See chart above for details"))
        assert isinstance(picture, Image)
        assert picture.mime_type == "image/png"
        assert picture.data.startswith(b"\x89PNG\r\n\x1a\n")
        assert (await c.call_tool("analyze_data", {"data": "a lot"})).is_error

    use("results.py", script)


@pytest.mark.requirement("105", "111", "115", "T36", "T37")
def test_files(use: Use, shared: Path) -> None:
    (shared / "note.txt").write_text("Remember the milk.")
    (shared.parent / "secret.txt").write_text("secret")

    async def script(c: Client) -> None:
        assert texts(await c.call_tool("safe_operation", {"path": "note.txt"})) == ["Remember the milk."]
        for path in ("nothing.txt", "../secret.txt", str(shared.parent / "secret.txt"), "."):
            result = await c.call_tool("safe_operation", {"path": path})
            assert (texts(result), result.is_error) == (["File not found"], True)
        listed = {entry["name"]: entry for entry in (await c.request("tools/list", {}))["tools"]}
        assert listed["delete_file"]["annotations"] == {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert "annotations" not in listed["safe_operation"]
        assert texts(await c.call_tool("delete_file", {"path": "../secret.txt"})) == ["Nothing to delete."]
        assert texts(await c.call_tool("delete_file", {"path": "note.txt"})) == ["Deleted note.txt."]
        assert texts(await c.call_tool("delete_file", {"path": "note.txt"})) == ["Nothing to delete."]

    use("results.py", script)
    assert not (shared / "note.txt").exists()
    assert (shared.parent / "secret.txt").exists()


@pytest.mark.requirement("112", "113", "114", "T27", "T28")
def test_stats(use: Use) -> None:
    async def script(c: Client) -> None:
        (listed,) = [entry for entry in await c.list_tools() if entry.name == "get_stats"]
        assert listed.output_schema == {"type": "object", "properties": {"count": {"type": "integer"}}}
        result = await c.call_tool("get_stats")
        assert (result.structured, texts(result)) == ({"count": 42}, ['{"count": 42}'])

    use("results.py", script)


@pytest.mark.requirement("116", "117", "118", "T62", "T64")
def test_long_job(use: Use) -> None:
    async def script(c: Client) -> None:
        heard: list[Any] = []
        result = await c.call_tool("long_job", on_progress=heard.append)
        assert texts(result) == ["done"]
        assert [(p.progress, p.total, p.message) for p in heard] == [(i, 10, f"step {i}") for i in range(1, 11)]
        assert texts(await c.call_tool("long_job")) == ["done"]  # without a token

    use("results.py", script)


@pytest.mark.requirement("120", "121", "T29")
def test_sound_and_links(use: Use) -> None:
    async def script(c: Client) -> None:
        words, sound, link = (await c.call_tool("render")).content
        assert words == Text("Analysis complete")
        assert isinstance(sound, Audio)
        assert sound.mime_type == "audio/wav"
        with wave.open(io.BytesIO(sound.data)) as file:
            assert file.getnframes() == 80
        assert isinstance(link, ResourceLink)
        assert (link.uri, link.name) == ("file:///results/overlay.png", "overlay.png")
        assert (link.mime_type, link.size) == ("image/png", 123_456)

    use("results.py", script)


@pytest.mark.requirement("109", "110", "T110")
def test_a_folder(use: Use) -> None:
    async def script(c: Client) -> None:
        assert c.server_info.name == "folder"
        assert [entry.name for entry in await c.list_tools()] == ["add", "half", "utc_time"]
        assert (await c.call_tool("add", {"a": 1, "b": 2.5})).data == 3.5
        assert texts(await c.call_tool("half", {"n": 5})) == ["2.5"]
        assert (await c.get_prompt("explain", {"topic": "rain"})).messages[0].content.text == "Explain rain to a child."
        assert (await c.read_resource("notes://today")).contents[0].text == "# today"

    use("folder", script)
