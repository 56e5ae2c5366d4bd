"""The judge of messages is strict: what it lets through says something."""

from __future__ import annotations

from typing import Any

import pytest

from spec_facts import REVISIONS, facts, problems

OLDEST, LATEST = REVISIONS[0], REVISIONS[-1]


@pytest.mark.parametrize(
    ("value", "kind", "revision", "problem"),
    [
        ({"type": "text", "text": "a", "_meta": {}}, "TextContent", OLDEST, "$._meta does not exist"),
        ({"type": "text", "text": None}, "TextContent", LATEST, "$.text: null is not string"),
        ({"type": "text", "text": "a", "annotations": {"priority": 5}}, "TextContent", LATEST, "5 is not 0..1"),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, "PromptMessage", OLDEST, "content is missing"),
        ({"type": "image", "data": "A", "mimeType": "image/png"}, "ImageContent", LATEST, "is not base64"),
        ({"content": [{"type": "text", "text": 1}]}, "CallToolResult", OLDEST, "$.content[0].text: 1 is not string"),
        ({"content": [], "resultType": "complete", "isError": "no"}, "CallToolResult", LATEST, "is not boolean"),
        ({"tools": [], "resultType": "complete"}, "ListToolsResult", LATEST, "ttlMs is missing"),
        ({"uri": "a:b", "name": "a", "size": True}, "Resource", OLDEST, "true is not integer"),
        ({"name": "a", "inputSchema": {"type": "object", "properties": {"x": True}}}, "Tool", OLDEST, "properties.x"),
        ({"role": "user", "content": []}, "SamplingMessage", REVISIONS[2], "$.content: [] is not"),
        ("loud", "LoggingLevel", LATEST, '"loud" is not'),
        ({"src": "https://x"}, "Icon", OLDEST, "is not Icon"),
        ([], "{object}", LATEST, "[] is not {object}"),
    ],
)
def test_a_problem_is_found_and_placed(value: Any, kind: str, revision: str, problem: str) -> None:
    assert problem in "; ".join(problems(value, kind, revision))


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_name_in_the_table_is_defined(revision: str) -> None:
    known = facts(revision)
    words = {"string", "base64", "integer", "number", "boolean", "object", "any", "null"}
    kinds = [*known.results.values(), *known.params.values(), *known.faults.values(), *known.names.values()]
    kinds += [kind for shape in known.shapes.values() for kind in shape.kinds.values()]
    for kind in kinds:
        for name in kind.replace("?", "").translate(str.maketrans("[]{}|", "     ")).split():
            plain = name in words or name[0] in '"-0123456789>'
            assert plain or name in known.names or name in known.shapes, f"{name} in {revision}"
