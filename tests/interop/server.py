"""The twelve-line server that every real client drives."""

import sys

from redstart import Server

server = Server("twelve", version="1.2.3")


@server.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1])) if len(sys.argv) > 1 else server.run()
