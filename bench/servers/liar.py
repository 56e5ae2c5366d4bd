"""A server that misbehaves as it is told, to show that the generator notices: `liar.py MODE [--port N]`.

Every mode answers a few requests well before it goes wrong. Standard library only; it parses just enough.
"""

import json
import socket
import sys

MODE = sys.argv[1]
GOOD_ANSWERS = 100


def result(request):
    if request["method"] != "tools/call":
        return {"ok": True}
    return {"content": [{"type": "text", "text": str(request["params"]["arguments"]["a"] + 7)}]}


def answer(request, count):
    """The reply to one request, wrong from the hundredth on."""
    reply = {"jsonrpc": "2.0", "id": request["id"], "result": result(request)}
    if MODE == "result-first":
        reply = {"result": reply["result"], "jsonrpc": "2.0", "id": reply["id"]}
    if count < GOOD_ANSWERS:
        return json.dumps(reply)
    if MODE == "wrong-sum":
        reply["result"]["content"][0]["text"] = "100000000"
    elif MODE == "wrong-id":
        reply["id"] += 5000
    elif MODE == "null-id":
        reply["id"] = None
    elif MODE == "tool-error":
        reply["result"]["isError"] = True
    elif MODE == "error":
        reply = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": "no"}}
    elif MODE == "twice":
        return json.dumps(reply) + "\n" + json.dumps(reply)
    elif MODE == "gone":
        sys.exit(0)
    elif MODE == "chatty":
        return '{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' + json.dumps(reply)
    return json.dumps(reply)


def http_reply(request, count):
    body = answer(request, count)
    status = "500 Oops" if MODE == "status" and count >= GOOD_ANSWERS else "200 OK"
    if MODE != "sse":
        return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    events = f"id: 1\r\ndata: \r\n\r\n: comment\r\n\r\nevent: message\r\ndata: {body}\r\n\r\n"
    half = len(events) // 2
    chunks = "".join(f"{len(part):x}\r\n{part}\r\n" for part in (events[:half], events[half:], ""))
    return f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"


def serve_stdio():
    count = 0
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            print(answer(request, count), flush=True)
            count += 1


def serve_http(port):
    """One connection after the other: the opening's, then the leg's."""
    count = 0
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                length = 0
                while (line := stream.readline()) != b"\r\n":
                    name, _, value = line.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                request = json.loads(stream.read(length))
                reply = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
                if "id" in request:
                    reply = http_reply(request, count)
                    count += 1
                connection.sendall(reply.encode())


if __name__ == "__main__":
    if "--port" in sys.argv:
        serve_http(int(sys.argv[sys.argv.index("--port") + 1]))
    else:
        serve_stdio()
