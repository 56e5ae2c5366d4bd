"""The strict door: hostile text gets a defined error, quickly, and the next request works."""

from __future__ import annotations

import json
import time

import pytest

from protocol.support import Wire, modern, request
from redstart import Context, Server
from redstart.protocol.strict import MAX_DEPTH, _too_deep
from redstart.wire.meta import PROTOCOL_VERSION
from support import ENVELOPE

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def ping(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":%b}' % params


def nested(depth: int, kind: bytes = b"[]") -> bytes:
    """A request whose deepest bracket is the `depth`-th; the message and its params are two of them."""
    inner = depth - 2
    opening = kind[:1] if kind == b"[]" else b'{"a":'
    middle = b"" if kind == b"[]" else b"0"
    return ping(b'{"a":' + opening * inner + middle + kind[1:] * inner + b"}")


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(
    ("data", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"nonsense", -32700, None),
        (b"\xef\xbb\xbf" + PING, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}', -32700, None),
        (ping(b'{"a":"\xff"}'), -32700, None),
        (ping(b'{"a":"\xed\xa0\x80"}'), -32700, None),  # a surrogate in UTF-8
        (ping(b'{"a":"\xc0\xaf"}'), -32700, None),  # an overlong slash
        (ping(b'{"a":"\\ud800"}'), -32700, None),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\udc00"}', -32700, None),
        (ping(b'{"a":NaN}'), -32700, None),
        (ping(b'{"a":Infinity}'), -32700, None),
        (ping(b'{"a":-Infinity}'), -32700, None),
        (ping(b'{"a":01}'), -32700, None),
        (ping(b"{'a':1}"), -32700, None),
        (ping(b'{"a":1,}'), -32700, None),
        (ping(b'{"a":"\x01"}'), -32700, None),
        (PING + PING, -32700, None),
        (PING + b"x", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\x00', -32700, None),
        (b"1", -32600, None),
        (b"null", -32600, None),
        (b'"ping"', -32600, None),
        (b"{}", -32600, None),
        (b'{"id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"params":{}}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', -32600, 1),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, 1),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1' + b"0" * 40 + b',"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 1_000_000 + b',"method":"ping"}', -32600, None),
        (request(2**53 + 1, "ping"), -32600, None),
        (request(-(2**53) - 1, "ping"), -32600, None),
        (request("x" * 257, "ping"), -32600, None),
        (b"[" * 100_000, -32700, None),
        (b"[" * 100_000 + b"]" * 100_000, -32700, None),
        (ping(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), -32700, None),
        (ping(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), -32700, None),
        (ping(b'{"a":' + b"[" * 65 + b'"' + b'\\"' * 500_000), -32700, None),  # a string of escapes without an end
        (b'{"a":' * 65 + b'"' + b"\\" * 1_000_001, -32700, None),
        (nested(MAX_DEPTH + 1), -32700, None),
        (nested(MAX_DEPTH + 1, b"{}"), -32700, None),
        (ping(b'{"a":' + b"[[]," * 70 + b"1" + b"]" * 70 + b"}"), -32700, None),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else str(value),
)
def test_hostile_text(data: bytes, code: int, id: object) -> None:
    wire = Wire("2025-03-26") if data[:1] == b"[" else Wire()
    started = time.process_time()
    answer = wire.one(data)
    assert time.process_time() - started < 1
    assert (answer["error"]["code"], answer.get("id")) == (code, id)
    assert wire.status == 400
    assert wire.one(PING) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.requirement("R2")
@pytest.mark.parametrize("hill", [1, 2, 3, 8, 9, 31, MAX_DEPTH - 1])
@pytest.mark.parametrize("below", [0, 1])
def test_how_deep_brackets_go_is_found_whatever_their_shape(hill: int, below: int) -> None:
    """Exact at the limit, for shapes that are peeled, walked, or both."""
    for floor, deep in ((MAX_DEPTH - hill, False), (MAX_DEPTH - hill + 1, True)):
        hills = b"[" * hill + b"]" * hill
        data = b"[" * floor + b"{}" * below + hills * 40 + b"[]" * below * 40 + hills + b"]" * floor
        assert _too_deep(data) is deep


def bush(levels: int) -> bytes:
    """Brackets of which every level has an eighth more than the one around it, and no long run of opening ones."""
    inner: list[bytes] = []
    for level in reversed(range(levels)):
        size = int((8 / 7) ** level)
        inner = [b"[%b]" % b"".join(inner[len(inner) * n // size : len(inner) * (n + 1) // size]) for n in range(size)]
    return inner[0].replace(b"[", b"[[]", 1)


@pytest.mark.requirement("R2")
def test_how_deep_brackets_go_is_found_where_every_level_is_peeled() -> None:
    assert not _too_deep(bush(MAX_DEPTH))
    assert _too_deep(bush(MAX_DEPTH + 1))


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(
    "data",
    [
        PING,
        b" \t\r\n" + PING + b"\r\n ",
        request(0, "ping"),
        request(-1, "ping"),
        request("", "ping"),
        request(2**53, "ping"),
        request(-(2**53), "ping"),
        request("x" * 256, "ping"),
        request("☃" * 256, "ping"),
        request('a"b\\\n', "ping"),
        nested(MAX_DEPTH),
        nested(MAX_DEPTH, b"{}"),
        ping(b'{"a":"' + b"[" * 100_000 + b'"}'),
        ping(b'{"a":"' + b'\\"[{' * 100_000 + b'"}'),
        ping(b'{"a":"' + b"\\\\[" * 100_000 + b'"}'),
        ping(b'{"a":[' + b"[]," * 100_000 + b"1]}"),
        ping(b'{"a":' + b"9" * 1_000_000 + b"}"),
        ping(b'{"a":' + b"9" * 1_000_000 + b',"b":"\\u0041"}'),
        ping(b'{"a":1e999}'),
        ping(b'{"a":"\\ud83d\\ude00"}'),
        ping('{"a":"😀"}'.encode()),
        ping(b'{"id":1,"method":2,"jsonrpc":3,"params":{"id":4}}'),  # the words are not keys of the envelope
        ping(b'{"a":"\\u0069d"}'),
        b'{"jsonrpc":"2.0","id":"id","method":"ping","params":{"x":"\\"id\\""}}',
        b'{"unknown":{"id":7},"jsonrpc":"2.0","id":1,"method":"ping"}',
    ],
    ids=lambda value: repr(value[:60]),
)
def test_unusual_but_fine(data: bytes) -> None:
    answer = Wire().one(data)
    assert answer["result"] == {}


@pytest.mark.requirement("R2")
@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"id":3},"id":2}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","\\u0069d":2}',
        b'{"jsonrpc":"2.0","id":1,"m\\u0065thod":"tools/list","method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","\\u0070arams":{},"params":{}}',
        b'{"jsonrpc":"2.0","id":"x","result":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":"x","id":"y","result":{}}',
        b'{"jsonrpc":"2.0","id":"x","error":{},"\\u0065rror":{}}',
    ],
)
def test_a_key_that_routes_stands_once(data: bytes) -> None:
    answer = Wire().one(data)
    assert answer["error"]["code"] == -32700
    assert "twice" in answer["error"]["message"]


MEMBERS = [
    b'"jsonrpc":"2.0"',
    b'"id":1',
    b'"id":123456789',
    b'"id":-0',
    b'"method":"ping"',
    b'"method":""',
    b'"params":{}',
]
SECOND = [*MEMBERS, b'"jsonrpc":""', b'"method":"a long name of a method"', b'"params":{"a":[1,2,3]}', b'"params":null']


def test_a_second_member_does_not_take_the_room_of_one_that_is_missing() -> None:
    data = b'{"id":1,"method":"ping","method":"pong","params":{}}'  # as long as one with "jsonrpc":"2.0"
    assert "twice" in Wire().one(data)["error"]["message"]


@pytest.mark.parametrize("second", SECOND, ids=bytes.decode)
@pytest.mark.parametrize("place", range(5))
def test_a_short_message_has_no_room_for_a_second_member(place: int, second: bytes) -> None:
    """Whichever of the two is longer, and wherever it stands: the bytes of a message are compared with its members."""
    members = [MEMBERS[0], MEMBERS[1], MEMBERS[4], MEMBERS[6]]
    data = b"{%b}" % b",".join([*members[:place], second, *members[place:]])
    assert "twice" in Wire().one(data)["error"]["message"]


def test_the_key_that_stands_twice_is_named() -> None:
    answer = Wire().one(b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}')
    assert "'method'" in answer["error"]["message"]


CALL = modern(1, "tools/call", {"name": "echo", "arguments": {}})
CLIENT = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}}
NAMED_CALL = modern(1, "tools/call", {"name": "echo", "arguments": {}}, CLIENT)
META = b'"_meta"'
CLAIM = PROTOCOL_VERSION.encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name": "echo"', b'"name": "echo", "name": "other"'),
        (b'"name": "echo"', b'"n\\u0061me": "other", "name": "echo"'),
        (b'"arguments": {}', b'"arguments": {}, "arguments": {"text": "x"}'),
        (META, b'"_meta": {}, "_meta"'),
        (b'"%b"' % CLAIM, b'"%b": "1900-01-01", "%b"' % (CLAIM, CLAIM)),
        (b'"%b"' % CLAIM, b'"%b": "1900-01-01", "%b"' % (CLAIM.replace(b"/", b"\\/"), CLAIM)),
        (b'"%b"' % CLAIM, b'"%b": "1900-01-01", "%b"' % (CLAIM.replace(b"/", b"\\u002f"), CLAIM)),
    ],
)
@pytest.mark.parametrize("call", [CALL, NAMED_CALL], ids=["", "named"])
def test_a_parameter_that_routes_stands_once(call: bytes, old: bytes, new: bytes) -> None:
    assert call.count(old) == 1
    answer = Wire().one(call.replace(old, new))
    assert answer["error"]["code"] == -32700
    assert Wire().code(call) == 0


def compact(data: bytes) -> bytes:
    """The same message without white space, as most clients write it."""
    return json.dumps(json.loads(data), separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name":"echo"', b'"name":"echo","name":"other"'),
        (b'"name":"echo"', b'"name":"a much longer name","name":"echo"'),
        (b'"arguments":{}', b'"arguments":{},"arguments":{"text":"x"}'),
        (b'"arguments":{}', b'"arguments":{"text":"x"},"arguments":{}'),
        (b'"_meta":', b'"_meta":{},"_meta":'),
        (b'"%b"' % CLAIM, b'"%b":"1900-01-01","%b"' % (CLAIM, CLAIM)),
        (b'"name":"c"', b'"name":"c","name":"d"'),
    ],
)
def test_the_parameters_of_a_compact_call_stand_once(old: bytes, new: bytes) -> None:
    """Also the second time: what was refused is not remembered."""
    call = compact(NAMED_CALL)
    assert call.count(old) == 1
    wire = Wire()
    twice = call.replace(old, new)
    assert [wire.code(data) for data in (call, twice, twice, call)] == [0, -32700, -32700, 0]


@pytest.mark.parametrize(
    ("meta", "where"),
    [
        (b"1", "got `int` - at `$._meta`"),
        (b"null", "got `null` - at `$._meta`"),
        (b'{"progressToken":{}}', "got `object` - at `$._meta.progressToken`"),
    ],
)
def test_the_refusal_of_a_meta_says_where(meta: bytes, where: str) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":%b}}' % meta
    assert Wire("2025-11-25").one(data)["error"]["message"].endswith(where.replace("`", ""))


def test_what_a_handler_does_to_its_client_is_not_seen_by_others() -> None:
    server = Server("open", version="1")

    @server.tool
    async def mark(ctx: Context) -> str:
        assert ctx.client is not None
        with pytest.raises(AttributeError):
            ctx.client.name = "another"  # type: ignore[misc]
        ctx.client.icons.append({"src": "https://evil.example"})
        return str(len(ctx.client.icons))

    client = {**CLIENT, "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1", "icons": []}}
    call = compact(modern(1, "tools/call", {"name": "mark", "arguments": {}}, client))
    for _ in range(2):
        assert Wire(server=server).one(call)["result"]["content"][0]["text"] == "1"


def test_what_is_remembered_of_metas_is_bounded() -> None:
    import tracemalloc

    wire = Wire()

    def send(tokens: range, size: int) -> None:
        for token in tokens:
            envelope = {**CLIENT, "progressToken": token, "more": "x" * size}
            assert wire.code(compact(modern(1, "tools/call", {"name": "echo", "arguments": {}}, envelope))) == 0

    send(range(2), 10)
    tracemalloc.start()
    try:
        send(range(3_000), 600)
        send(range(300), 40_000)
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def notes() -> Wire:
    server = Server("notes", version="1")

    @server.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    @server.prompt
    async def greet(name: str = "") -> str:
        return name

    return Wire(server=server)


@pytest.mark.parametrize(
    ("method", "params", "old", "new", "code"),
    [
        ("resources/read", {"uri": "notes://a"}, b'"uri"', b'"uri"', 0),
        ("resources/read", {"uri": "notes://a"}, b'"uri"', b'"uri": "notes://b", "uri"', -32700),
        ("prompts/get", {"name": "greet"}, b'"name"', b'"name"', 0),
        ("prompts/get", {"name": "greet"}, b'"name"', b'"name": "other", "name"', -32700),
        ("prompts/get", {"arguments": {"name": "a"}, "name": "greet"}, b'"a"', b'"a"', 0),
        ("prompts/get", {"arguments": {"name": "a"}, "name": "greet"}, b'"a"', b'"a", "name": "b"', -32700),
    ],
)
def test_a_name_or_uri_stands_once(method: str, params: dict[str, str], old: bytes, new: bytes, code: int) -> None:
    data = modern(1, method, params)
    assert data.count(old) == 1
    assert notes().code(data.replace(old, new, 1)) == code


def test_the_name_of_the_client_stands_once() -> None:
    answer = Wire().one(NAMED_CALL.replace(b'"name": "c"', b'"name": "c", "name": "d"'))
    assert answer["error"]["code"] == -32700


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"text": "name"}',
        b'{"text": "\\"name\\" \\"arguments\\" \\"_meta\\""}',
        b'{"text": "io.modelcontextprotocol\\/protocolVersion"}',
    ],
)
def test_the_same_words_inside_the_arguments_are_no_duplicates(arguments: bytes) -> None:
    data = NAMED_CALL.replace(b'"arguments": {}', b'"arguments": ' + arguments)
    assert Wire().code(data) == 0


def test_keys_inside_the_arguments_may_be_called_like_routing_keys() -> None:
    arguments = {"name": 1, "_meta": {PROTOCOL_VERSION: "x"}, "arguments": {}, "id": 2, "method": 3, "params": {}}
    data = modern(1, "tools/call", {"name": "echo", "arguments": arguments})
    answer = Wire().one(data)  # refused by the tool, which has no such arguments, not at the door
    assert answer["result"]["isError"] is True


MUCH = b"x" * 100_000
ROUTED = b'{"name":"echo","arguments":{"text":"%b"}}'


@pytest.mark.parametrize("much", [b"", MUCH], ids=["small", "large"])
@pytest.mark.parametrize(
    ("data", "twice"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS}', False),
        (b'{"params" : PARAMS,"jsonrpc":"2.0","id":1,"method":"tools/call"}', False),
        (b'{"jsonrpc":"2.0","id":"params","method":"tools/call","params":PARAMS}', False),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","p\\u0061rams":PARAMS}', False),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e","\\u0061rguments":PARAMS}}', False),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":PARAMS}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS,"id":2}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":PARAMS,"method":"tools/call"}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS,"params":PARAMS}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},"params":PARAMS}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS,"params":{"name":"echo"}}', True),
        (b'{"jsonrpc":"2.0","id":1,"x":{"params":PARAMS},"method":"tools/call","params":PARAMS}', False),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","a":PARAMS,"name":"echo"}}', True),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":PARAMS,"name":"x","name":"echo"}}',
            True,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e","arguments":{},"arguments":PARAMS}}',
            True,
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e","arguments":PARAMS}}', False),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e","arguments":{"id":PARAMS,"_meta":1}}}',
            False,
        ),
    ],
)
def test_keys_around_much_data_stand_once_too(data: bytes, twice: bool, much: bytes) -> None:
    (answer,) = Wire("2025-11-25").send(data.replace(b"PARAMS", ROUTED % much))
    assert ("twice" in answer.get("error", {}).get("message", "")) == twice


def test_a_large_message_is_read_in_time_and_memory_that_grow_with_it() -> None:
    import tracemalloc

    data = ping(b'{"a":"' + b"[" * 4_000_000 + b'"}')
    wire = Wire()
    tracemalloc.start()
    try:
        started = time.process_time()
        assert wire.one(data)["result"] == {}
        assert time.process_time() - started < 2
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
