"""A stdio server that does as it is told: its argument is a JSON object from method to what to do.

A list of strings is written out line by line (`$id` becomes the request's id); "ignore" is silence, "exit" the end.
A method that is not named gets -32601.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    script = json.loads(sys.argv[1])
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        does = script.get(message.get("method"), [])
        if does == "exit":
            sys.stderr.write("unexpected request\n")
            sys.exit(7)
        if does == "ignore" or "id" not in message:
            continue
        if not does:
            does = ['{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}']
        for text in does:
            out.write(text.replace("$id", json.dumps(message["id"])).encode() + b"\n")
            out.flush()


if __name__ == "__main__":
    main()
