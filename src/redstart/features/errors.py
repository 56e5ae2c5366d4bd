"""The errors that a handler may raise, and how the text of any other exception is kept from the client."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from redstart.schema.callables import SignatureError, unwrapped
from redstart.schema.types import UnsupportedType
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError
from redstart.wire.types import Content, Text, ToolResult

R = TypeVar("R")

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_ONE_LINE = {**_CONTROLS, ord("\n"): "\\n"}


def _printable(record: logging.LogRecord) -> bool:
    """Escape text from outside: it must not control a terminal or look like a line of the log."""
    if isinstance(record.args, tuple):
        kinds = str, BaseException
        record.args = tuple(str(arg).translate(_ONE_LINE) if isinstance(arg, kinds) else arg for arg in record.args)
    if record.exc_info and not record.exc_text:
        import traceback  # slow to load, and seldom needed

        entries = traceback.format_exception(*record.exc_info)
        indented = (entry.rstrip("\n").replace("\n", "\n    ") if entry[:1] > " " else entry for entry in entries)
        record.exc_text = "\n".join(entry.rstrip("\n") for entry in indented).translate(_CONTROLS)
    return True


log = logging.getLogger("redstart")
log.addFilter(_printable)


class ToolError(Exception):
    """A failure that the model should read: raise it, return it, or put it into a list of results.

    >>> raise ToolError("No such city: Atlantis. Known cities: Bern, Oslo.")
    Traceback (most recent call last):
    ...
    redstart.features.errors.ToolError: No such city: Atlantis. Known cities: Bern, Oslo.
    """

    def __init__(self, message: str = "Tool failed", *, content: Sequence[Content] = ()) -> None:
        super().__init__(message)
        self.content = list(content)

    def result(self) -> ToolResult:
        """The result that this error becomes."""
        return ToolResult(content=[Text(str(self)), *self.content], is_error=True)


class Unencodable(Exception):
    """A returned value that JSON cannot carry."""


class Unanswered(ProtocolError):
    """`ctx.ask` got no answer: the call ends without an error, unless the handler catches this."""

    def __init__(self, message: str) -> None:
        super().__init__(INTERNAL_ERROR, message)

    def __reduce__(self) -> tuple[Any, Any]:
        return type(self), (self.message,)

    def result(self, promised: bool) -> ToolResult:
        """The result of the tool: a text for the model. It is an error only if structured output was promised."""
        return ToolResult(content=[Text(self.message)], is_error=True if promised else None)


class Unwind(BaseException):
    """Ends a `def` handler whose question has no answer yet. Private: a handler must let it pass."""


class RegistrationError(TypeError):
    """Something that cannot be served was registered; the message says where it is and what to write."""


class SettingsError(ValueError):
    """A server cannot start because of something outside of its code; the text says what it is, and what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem = problem
        self.advice = advice


def end_in_words(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For our own errors a script prints the text, which names file and line, without a traceback."""
    if issubclass(kind, RegistrationError | SignatureError | UnsupportedType) and sys.stderr is not None:
        sys.stderr.write(f"redstart: {error}\n")
    elif issubclass(kind, SettingsError) and sys.stderr is not None:
        from redstart.features.startup_errors import where

        sys.stderr.write(f"redstart: {error}{where(error)}\n")
    elif isinstance(error, ProtocolError) and error.at_start and sys.stderr is not None:
        sys.stderr.write(f"redstart: {error.at_start}\n")
    else:
        sys.__excepthook__(kind, error, trace)


class ErrorPolicy:
    """Decides what a client sees of an unexpected exception: by default its type, and an id that is also in the log."""

    __slots__ = ("debug", "expose")

    def __init__(self, expose: bool | Sequence[type[BaseException]] = False, debug: bool = False) -> None:
        self.debug = debug
        self.expose: tuple[type[BaseException], ...]
        if isinstance(expose, bool):
            self.expose = (Exception,) if expose else ()
        else:
            self.expose = tuple(expose)

    def text(self, error: BaseException, what: str) -> str:
        """The text for the client; the traceback goes to the log under the same id."""
        id = os.urandom(4).hex()
        log.error("%s failed (error id %s)", what, id, exc_info=error)
        name = type(error).__name__
        if self.debug:
            import traceback  # slow to load, and seldom needed

            return "".join(traceback.format_exception(error)).rstrip() + f"\n(error id {id})"
        if isinstance(error, self.expose):
            return f"{name}: {text_of(error)}"
        return f"{what} failed with {name} (error id {id}). The server's log has the details."

    async def outcome(self, work: Awaitable[object], finish: Callable[[object], R], what: str, where: str) -> R:
        """Await a handler, and convert its value with `finish`. A failure becomes a ProtocolError.

        This is for prompts, resources and completions. The failures of tools are results that the model reads.
        """
        try:
            return finish(await work)
        except ProtocolError:
            raise
        except ToolError as error:
            raise ProtocolError(INTERNAL_ERROR, str(error)) from error
        except Unencodable as error:
            log.error("%s: %s returned what it must not: %s", where, what, error)
            raise ProtocolError(INTERNAL_ERROR, f"{what} returned what it must not: {error}") from error
        except Exception as error:
            raise ProtocolError(INTERNAL_ERROR, self.text(error, what)) from error


def text_of(error: BaseException) -> str:
    """The text of an exception whose `__str__` may fail."""
    try:
        return str(error)
    except Exception:
        return "(the exception has no text)"


def place(fn: object) -> str:
    """`file.py:12` of a function, for messages to people."""
    code = getattr(unwrapped(fn)[0], "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)
