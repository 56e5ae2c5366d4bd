"""Results from bytes: known blocks, unknown blocks, nulls, and what is no result at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from redstart import Server, ToolError
from redstart.client import CallResult, Client, InvalidReply, results
from redstart.wire import types as t
from support import run


def test_every_kind_of_block() -> None:
    raw = Raw(
        b'{"content":[{"type":"text","text":"x"},{"type":"image","data":"aGk=","mimeType":"image/png"},'
        b'{"type":"audio","data":"aGk=","mimeType":"audio/wav"},{"type":"resource_link","uri":"a:b","name":"n"},'
        b'{"type":"resource","resource":{"uri":"a:b","text":"t"}}],"structuredContent":{"a":null},"isError":true,'
        b'"_meta":{"k":1}}'
    )
    result = results.call_result(raw)
    assert [type(block) for block in result.content] == [t.Text, t.Image, t.Audio, t.ResourceLink, t.EmbeddedResource]
    assert isinstance(result.content[1], t.Image)
    assert result.content[1].data == b"hi"
    assert (result.structured, result.is_error, result.meta) == ({"a": None}, True, {"k": 1})
    assert result.text == "x"


def test_an_unknown_block_stays_a_dict() -> None:
    result = results.call_result(Raw(b'{"content":[{"type":"hologram","rays":3},{"type":"text","text":"x"}]}'))
    assert result.content[0] == {"type": "hologram", "rays": 3}
    assert result.content[1] == t.Text("x")


def test_nulls_of_absent_members_are_forgiven() -> None:
    result = results.call_result(Raw(b'{"content":[{"type":"text","text":"x","annotations":null}],"isError":null}'))
    assert (result.content, result.is_error) == ([t.Text("x")], False)
    page = results.decoded(
        "tools/list",
        t.ListResult,
        Raw(b'{"tools":[{"name":"a","title":null,"inputSchema":{"default":null}}],"nextCursor":null}'),
    )
    assert page.next_cursor is None
    assert isinstance(page.tools, list)
    assert page.tools[0].input_schema == {"default": None}


@pytest.mark.parametrize("raw", [b"[]", b"7", b'{"content":7}', b'{"content":[],"isError":"maybe not"}'])
def test_what_is_no_tool_result(raw: bytes) -> None:
    with pytest.raises(InvalidReply, match="tools/call"):
        results.call_result(Raw(raw))


def test_prompts_and_resources() -> None:
    prompt = results.prompt_result(
        Raw(b'{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"x"}}]}')
    )
    assert prompt.messages == [t.Message("user", t.Text("x"))]
    resource = results.resource_result(Raw(b'{"contents":[{"uri":"a:b","text":"t"},{"uri":"a:c","blob":"aGk="}]}'))
    assert [content.uri for content in resource.contents] == ["a:b", "a:c"]
    assert resource.contents[1].blob == b"hi"
    with pytest.raises(InvalidReply, match="resources/read"):
        results.resource_result(Raw(b'{"contents":[{}]}'))


def test_data_unwraps_only_what_was_wrapped() -> None:
    assert CallResult(content=[], structured={"result": 3}).data == {"result": 3}
    assert CallResult(content=[], structured={"result": 3}, wrapped=True).data == 3
    assert CallResult(content=[]).data is None


def test_raw_results_must_be_objects() -> None:
    assert results.decoded("x", dict[str, Any], Raw(b'{"a":1}')) == {"a": 1}
    with pytest.raises(InvalidReply):
        results.decoded("x", dict[str, Any], Raw(b"[1]"))


def test_shapes_survive_a_round_trip() -> None:
    tool = msgspec.json.decode(b'{"name":"a","inputSchema":{}}', type=t.ListedTool)
    assert msgspec.json.encode(tool) == b'{"name":"a","inputSchema":{}}'


@dataclass
class Place:
    name: str
    height: float = 0


@pytest.mark.parametrize("protocol", ["2025-06-18", "2026-07-28"])
def test_a_result_of_the_type_that_was_asked_for(protocol: str) -> None:
    server = Server("places")

    @server.tool
    def peak() -> Place:
        return Place("Eiger", 3967)

    @server.tool
    def peaks() -> list[Place]:
        return [peak()]

    @server.tool
    def fail() -> Place:
        raise ToolError("no mountains")

    async def main() -> None:
        async with Client(server, protocol=protocol) as client:
            assert (await client.call_tool("peak", returns=Place)).data == Place("Eiger", 3967)
            assert (await client.call_tool("peaks", returns=list[Place])).data == [Place("Eiger", 3967)]
            assert (await client.call_tool("fail", returns=Place)).is_error
            with pytest.raises(InvalidReply) as caught:
                await client.call_tool("peak", returns=int)
            assert "tools/call of peak: the result is not of the type that returns= names" in str(caught.value)

    run(main())
