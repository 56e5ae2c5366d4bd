"""What a tool may return: several contents, errors, structured data, links, sound; and how it tells its progress.

redstart run examples/gallery/results.py
"""

from __future__ import annotations

import io
import os
import struct
import tempfile
import wave
import zlib
from pathlib import Path
from typing import Any

from redstart import Audio, Context, Image, Parameter, ResourceLink, Server, Text, Tool, ToolError, ToolResult

ROOT = Path(os.environ.get("GALLERY_ROOT") or tempfile.mkdtemp(prefix="gallery-")).resolve()
"""The only folder whose files can be read or deleted."""

server = Server("results")


# ---------------------------------------------------------------- text and an image


def chart(values: list[float]) -> bytes:
    """A bar chart as a PNG, made by hand: one column of pixels a value."""
    height, top = 32, max([*values, 1])
    bars = [round(height * max(value, 0) / top) for value in values]
    rows = [bytes([0, *(0 if bar >= height - y else 255 for bar in bars)]) for y in range(height)]
    header = struct.pack(">IIBBBBB", len(bars), height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    )


@server.tool
def analyze_data(data: str) -> list[Text | Image]:
    """Analyze data and return text + image.

    Args:
        data: Data to analyze: numbers with commas between them.
    """
    try:
        values = [float(part) for part in data.split(",")]
    except ValueError:
        raise ToolError("data is a list of numbers with commas between them, such as 3,1,2.") from None
    return [Text("Analysis complete"), Image(chart(values), "image/png"), Text("See chart above for details")]


# ---------------------------------------------------------------- errors


def inside(path: str) -> Path | None:
    """The file below ROOT that is meant; None if there is none, or if the path leads out of it."""
    found = (ROOT / path).resolve()
    return found if found.is_relative_to(ROOT) and found.is_file() else None


@server.tool
def safe_operation(path: str) -> ToolResult | Text:
    """Tool with explicit error handling.

    Args:
        path: File path, below the folder that is shared.
    """
    file = inside(path)
    if file is None:
        return ToolResult(content=[{"type": "text", "text": "File not found"}], is_error=True)
    return Text(file.read_text())


# ---------------------------------------------------------------- structured output

server.register(
    Tool(
        name="get_stats",
        description="Compute dataset statistics",
        parameters=[],
        output_schema={"type": "object", "properties": {"count": {"type": "integer"}}},
        handler=lambda args: ToolResult(content=[Text('{"count": 42}')], structured={"count": 42}),
    )
)


# ---------------------------------------------------------------- annotations


def delete(args: dict[str, Any]) -> str:
    file = inside(args["path"])
    if file is None:
        return "Nothing to delete."
    file.unlink()
    return f"Deleted {file.name}."


server.register(
    Tool(
        name="delete_file",
        description="Delete a file",
        parameters=[Parameter(name="path", type="string", description="File path", required=True)],
        handler=delete,
        annotations={
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    )
)


# ---------------------------------------------------------------- progress


@server.tool
async def long_job(ctx: Context) -> Text:
    """Process with progress updates."""
    for step in range(1, 11):
        await ctx.progress(step, total=10, message=f"step {step}")
    return Text("done")


# ---------------------------------------------------------------- sound and links


def beep() -> bytes:
    """A hundredth of a second of silence as a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 80)
    return out.getvalue()


@server.tool
def render() -> list[Text | Audio | ResourceLink]:
    """Return sound, and a link to something large instead of the thing itself."""
    return [
        Text("Analysis complete"),
        Audio(beep(), "audio/wav"),
        ResourceLink(uri="file:///results/overlay.png", name="overlay.png", mime_type="image/png", size=123_456),
    ]


if __name__ == "__main__":
    server.run()
