"""A small server to look at: `make demo` serves it."""

from redstart import Context, Server

server = Server("demo", version="1.0.0", instructions="Adds numbers and counts slowly.")


@server.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Count up, telling the client how far it is."""
    for number in range(1, to + 1):
        await ctx.progress(number, total=to, message=f"at {number}")
    return f"counted to {to}"


if __name__ == "__main__":
    server.run()
