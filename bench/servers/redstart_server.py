"""redstart, as its README writes it. `--tools 1` leaves only `add`; REDSTART_LOOP picks the event loop."""

import sys

from extra import extra_functions, option, timed_registration

from redstart import Server

server = Server("bench", version="1.0.0")
tools = option(sys.argv, "--tools", 3)


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if tools > 1:

    @server.tool
    def add_sync(a: int, b: int) -> int:
        """Add two numbers in a plain function."""
        return a + b

    @server.tool
    async def echo(text: str) -> str:
        """Return the text."""
        return text


for function in extra_functions(tools - 3):
    server.tool(function)

if __name__ == "__main__":
    if count := option(sys.argv, "--time-registration"):
        timed_registration(server.tool, count)
    elif port := option(sys.argv, "--port"):
        server.run("http", host="127.0.0.1", port=port)
    else:
        server.run()
