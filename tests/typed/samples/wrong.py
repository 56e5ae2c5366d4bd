"""Mistakes that type checkers find: an error is expected on each line that ends in the mark, and on no other."""

from __future__ import annotations

from redstart import Call, Context, Server

server = Server("typed", versoin="1")  # WRONG
Server(5)  # WRONG


@server.tool(titel="Add")  # WRONG
def add(a: int) -> int:
    return a


@server.tool(timeout="5")  # WRONG
def slow(a: int) -> int:
    return a


@server.tool(executor="fiber")  # WRONG
def odd(a: int) -> int:
    return a


@server.prompt(titel="Review")  # WRONG
def review(code: str) -> str:
    return code


@server.resource("notes://{name}", mimetype="text/plain")  # WRONG
def note(name: str) -> str:
    return name


@server.add_middleware  # WRONG
async def alone(call: Call) -> None: ...


async def ask(ctx: Context) -> None:
    name = await ctx.ask("Name?", str)
    name.bit_length()  # WRONG
    await ctx.progress("half")  # WRONG
    await ctx.repotr("half")  # WRONG
    first = await ctx.choose("Which?", [1, 2])
    first.upper()  # WRONG


server.run("http", hots="127.0.0.1")  # WRONG
server.run("http", port="8000")  # WRONG
server.asgi(allowed_hosts=5)  # WRONG
