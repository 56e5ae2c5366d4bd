"""Dialogues of several rounds, for tests that kill, replace and crowd the processes that serve them."""

import asyncio
import sys

from redstart import Context, Server

server = Server("dialogues", version="1.0.0")


@server.tool
async def secret(tag: int, ctx: Context) -> str:
    """Two rounds that belong to `tag` alone, and steps before, between and after them."""
    reserved = await ctx.step("reserve", lambda: tag * 3)
    first = await ctx.ask(f"First of {tag}?", int)
    kept = await ctx.step("keep", lambda: first)
    second = await ctx.ask(f"Second of {tag}?", int)
    paid = await ctx.step("pay", lambda: second)
    return f"{tag} {reserved} {kept} {paid}"


@server.tool
async def together(tag: int, ctx: Context) -> str:
    """Four questions of three kinds in one round."""
    form, said, roots = await asyncio.gather(
        ctx.ask_all(name=("Name?", str), age=("Age?", int)), ctx.sample("Hi", key="said"), ctx.roots(key="roots")
    )
    return f"{tag} {form} {said.text} {roots[0].uri}"


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
