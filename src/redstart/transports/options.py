"""The options of `run()` and `run_async()` on stdio, each with its rule, and which options belong to which transport.

Those of HTTP are in a module of their own: a stdio server need not load that.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from redstart.features.rules import OptionError, Rule, anything, at_least, caller, checked, one_of
from redstart.protocol.framing import MAX_MESSAGE, Framing


class StdioOptions(TypedDict, total=False):
    """What `run("stdio", …)` takes."""

    framing: Annotated[Framing, Rule(one_of("auto", "newline", "content-length"), "auto")]
    """How messages are told apart; `auto` looks at the first bytes."""
    stdin: Annotated[object, Rule(anything)]
    """A binary file to read from, in place of the process's own."""
    stdout: Annotated[object, Rule(anything)]
    """A binary file to write to, in place of the process's own."""
    max_message_bytes: Annotated[int, Rule(at_least(1), MAX_MESSAGE)]
    """How large a message may be."""


def transport_options(call: str, transport: object, given: Mapping[str, object]) -> tuple[bool, Any]:
    """Whether HTTP is meant, and not stdio, and all options of that transport. `call` is `run` or `run_async`."""
    what = f"server.{call}()"
    if transport == "stdio" and given.keys() <= StdioOptions.__annotations__.keys():
        return False, checked(StdioOptions, what, given)
    from redstart.transports.http_options import HttpOptions

    if transport not in ("stdio", "http", "streamable-http"):
        hint = f'; write server.{call}("http", legacy_sse=True)' if transport == "sse" else ""
        raise OptionError(f'{caller()}: transport must be "stdio" or "http", not {transport!r:.50}{hint}')
    http = transport != "stdio"
    kind, other, spelled = (HttpOptions, StdioOptions, "stdio") if http else (StdioOptions, HttpOptions, "http")
    for name, value in given.items():
        if name in other.__annotations__ and name not in kind.__annotations__:
            advice = f'write server.{call}("{spelled}", {name}={value!r:.50})'
            raise OptionError(f"{caller()}: {name}= is an option of {spelled}, and this is {transport}: {advice}")
    return http, checked(kind, what, given, also=())
