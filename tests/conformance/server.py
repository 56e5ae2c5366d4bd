"""The server that the official conformance suite is run against: `python tests/conformance/server.py PORT [STORE]`.

Public API only. The names and values are the suite's, which says in its messages what a scenario needs.
scripts/conformance.py starts this file on a free port and runs the suite.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import sys
from pathlib import Path
from typing import Annotated, Any

from redstart import (
    Accepted,
    Audio,
    Complete,
    Context,
    EmbeddedResource,
    Header,
    Image,
    Message,
    Prompt,
    ProtocolError,
    ResourceContents,
    Server,
    Text,
    Tool,
    ToolError,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SAMPLES = bytes(8)
WAV = (
    struct.pack("<4sI4s", b"RIFF", 36 + len(SAMPLES), b"WAVE")
    + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    + struct.pack("<4sI", b"data", len(SAMPLES))
    + SAMPLES
)

# Its keywords are the point: clients must see each of them exactly as it stands there.
SCHEMA = Path(__file__).with_name("schema-2020-12.json")

STORE = sys.argv[2] if len(sys.argv) > 2 else None
server = Server(
    "redstart-conformance", version="1.0.0", instructions="A fixture for the conformance suite.", store=STORE
)


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(ResourceContents(uri, mime_type, text=text))


def form(required: list[str] | None = None, **properties: dict[str, Any]) -> dict[str, Any]:
    """A form to elicit, as the raw schema that the suite wants to see."""
    return {"type": "object", "properties": properties, "required": required or []}


def field(answer: object, name: str) -> str:
    """One field of an accepted form; a refusal is shown by its own name."""
    return str(answer.data[name]) if isinstance(answer, Accepted) else type(answer).__name__


# ---- tools: content (the suite calls the first of the list without arguments) ------------------------------


@server.tool
def test_simple_text() -> str:
    """Return one text block."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> Image:
    """Return one image block."""
    return Image(PNG, mime_type="image/png")


@server.tool
def test_audio_content() -> Audio:
    """Return one audio block."""
    return Audio(WAV, mime_type="audio/wav")


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return one embedded resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@server.tool
def test_multiple_content_types() -> list[Text | Image | EmbeddedResource]:
    """Return a text, an image and a resource in one result."""
    data = '{"test":"data","value":123}'
    return [
        Text("Multiple content types test:"),
        Image(PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", data),
    ]


@server.tool
def test_error_handling() -> str:
    """Fail, with a message for the model."""
    raise ToolError("This tool intentionally returns an error for testing.")


# ---- tools: progress, log, streams -------------------------------------------------------------------------


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, total=100, message=f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages while working."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log to a client that did not ask for log messages."""
    await ctx.info("Nobody listens.")
    return "done"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the stream in the middle of the call; the client comes back for the result."""
    await ctx.close_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


# ---- tools: asking (one code for both eras) ----------------------------------------------------------------

NAME = form(["name"], name={"type": "string"})
CONFIRM = form(["ok"], ok={"type": "boolean"})


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Let the client's model answer a prompt."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    text = {"type": "string", "description": "User's response"}
    answer = await ctx.elicit(message, form(["username", "email"], username=text, email=text))
    return f"User response: {answer}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a default for each primitive type."""
    schema = form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return f"Elicitation completed: {await ctx.elicit('Please review the values', schema)}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with each of the five enum forms."""
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    plain = ["option1", "option2", "option3"]
    legacy = ["opt1", "opt2", "opt3"]
    schema = form(
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": legacy, "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return f"Elicitation completed: {await ctx.elicit('Please choose', schema)}"


@server.tool(needs=["sampling"])
async def test_missing_capability(ctx: Context) -> str:
    """Need a capability that the client may not have."""
    return (await ctx.sample("Say hello", max_tokens=10)).text


@server.tool(needs=["elicitation"])
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask on a response stream."""
    return f"Hello, {field(await ctx.elicit('What is your name?', NAME), 'name')}!"


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask one question."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {field(answer, 'name')}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return answer.text


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    roots = await ctx.roots(key="client_roots")
    return f"Roots: {', '.join(root.uri for root in roots)}"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Complete only after a valid state came back."""
    await ctx.elicit("Please confirm", CONFIRM, key="confirm")
    return "state-ok"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Never reached with a state that was tampered with."""
    await ctx.elicit("Please confirm", CONFIRM, key="confirm")
    return "confirmed"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client in one round."""
    answer, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", NAME, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text} {field(answer, 'name')}, {len(roots)} roots"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one question after the other."""
    name = field(await ctx.elicit("Step 1: What is your name?", NAME, key="step1"), "name")
    color_form = form(["color"], color={"type": "string"})
    color = await ctx.elicit(f"Step 2: {name}, what is your favorite color?", color_form, key="step2")
    return f"{name} likes {field(color, 'color')}."


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only in a way that the client has declared."""
    if ctx.can_elicit:
        return f"Hello, {field(await ctx.elicit('What is your name?', NAME), 'name')}!"
    return (await ctx.sample("Invent a name", max_tokens=10)).text


# ---- tools: lists that change, schemas, headers ------------------------------------------------------------


@server.tool
def test_trigger_tool_change() -> str:
    """Change the list of tools, for an instant."""
    passing = Tool("passing_tool", description="Gone again.", handler=test_simple_text)
    server.register(passing)
    server.remove(passing)
    return "done"


@server.tool
def test_trigger_prompt_change() -> str:
    """Change the list of prompts, for an instant."""
    passing = Prompt("passing_prompt", description="Gone again.", handler=test_simple_prompt)
    server.register(passing)
    server.remove(passing)
    return "done"


@server.tool
def mirrored_in_a_header(region: Annotated[str, Header("Region")] = "") -> str:
    """Take an argument that the client repeats in a header."""
    return f"region: {region}"


def describe(arguments: dict[str, Any]) -> str:
    return f"Called with {sorted(arguments)}"


server.register(
    Tool(
        name="json_schema_2020_12_tool",
        description="A tool whose schema uses JSON Schema 2020-12",
        handler=describe,
        input_schema=json.loads(SCHEMA.read_text()),
    )
)


# ---- resources ---------------------------------------------------------------------------------------------


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
def static_text() -> str:
    """A static text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A static image."""
    return PNG


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", name="template", mime_type="application/json")
def template(id: str) -> str:
    """Data for an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# ---- prompts and completion --------------------------------------------------------------------------------


def words(prefix: str) -> list[str]:
    return [word for word in ("testing", "tester", "hello", "world") if word.startswith(prefix)]


@server.completion("test://template/{id}/data", "id")
def ids(prefix: str) -> list[str]:
    return [number for number in ("123", "456") if number.startswith(prefix)]


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: Annotated[str, Complete(words)], arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
    """A prompt with a resource in it."""
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [Message("user", resource), Message("user", "Please process the embedded resource above.")]


@server.prompt
def test_prompt_with_image() -> list[Message]:
    """A prompt with an image in it."""
    image = Image(PNG, mime_type="image/png")
    return [Message("user", image), Message("user", "Please analyze the image above.")]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks before it is made."""
    schema = form(["context"], context={"type": "string"})
    answer = await ctx.elicit("What context should the prompt use?", schema, key="user_context")
    return f"Use this context: {field(answer, 'context')}"


# ---------------------------------------------------------------- tasks


@server.tool
async def greet(name: str) -> str:
    """Greet by name."""
    return f"Hello, {name}!"


@server.tool(task="optional")
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Sleep, then answer."""
    await asyncio.sleep(seconds)
    return f"computed {label}"


@server.tool(task="required")
async def failing_job() -> str:
    """Fail after a moment."""
    await asyncio.sleep(0.2)
    raise ToolError("This job always fails")


@server.tool(task="optional")
async def protocol_error_job() -> str:
    """Break the request."""
    raise ProtocolError(-32603, "This job breaks")


@server.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Delete a file after a confirmation."""
    answer = await ctx.elicit(f"Delete {filename}?", form(["confirm"], confirm={"type": "boolean"}))
    return f"deleted {filename}" if isinstance(answer, Accepted) else "kept"


@server.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two questions at once."""
    names = form(name={"type": "string"}, confirm={"type": "boolean"})
    await asyncio.gather(ctx.elicit("First?", names), ctx.elicit("Second?", names))
    return "both answered"


@server.tool(task="required", detach="manual")
async def test_tool_with_task(ctx: Context) -> str:
    """Ask first, then go on as a task."""
    answer = await ctx.elicit("What is your name?", form(["name"], name={"type": "string"}), key="user_name")
    await ctx.detach()
    return f"Hello, {field(answer, 'name')}!"


if __name__ == "__main__":
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]))
