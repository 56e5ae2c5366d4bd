"""Questions to the user: what is asked, in the words of the dialect, and what an answer means.

A Question is data with a reader. The dialogue sends it: in the handshake era as a request, in the modern era inside of
a result. Spec: /specification/2026-07-28/client/elicitation.
"""

from __future__ import annotations

import secrets
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeAlias, TypeVar
from urllib.parse import urlsplit
from zlib import crc32

from msgspec import Raw, Struct

from redstart.features.errors import ToolError, Unanswered
from redstart.features.tools import missing_capability
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import URL_ELICITATION_REQUIRED, ProtocolError, encode

T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class Accepted(Struct, Generic[T], frozen=True):
    """The user answered; `data` is the answer, validated and of the type that was asked for.

    >>> match Accepted({"name": "Ada"}):
    ...     case Accepted({"name": name}):
    ...         print(name)
    Ada
    """

    data: T


class Declined(Struct, frozen=True):
    """The user said no."""


class Cancelled(Struct, frozen=True):
    """The user gave no answer: closed the form, took too long, or the client could not ask."""


def _explained(answer: object, name: str) -> NoReturn:
    """An error that says how an answer is read, for `answer.action` and other names of other frameworks."""
    raise AttributeError(
        f"{type(answer).__name__} has no {name!r}: write `match answer:` with `case Accepted(data):`, "
        "`case Declined():` and `case Cancelled():`, or `if isinstance(answer, Accepted):` and answer.data",
        obj=answer,
    )


for _kind in (Accepted, Declined, Cancelled):  # here, because a type checker should go on to refuse other names
    _kind.__getattr__ = _explained  # type: ignore[union-attr]

Answer: TypeAlias = Accepted[T] | Declined | Cancelled
DECLINED: Final = Declined()
CANCELLED: Final = Cancelled()
CANCEL: Final = {"action": "cancel"}
"""The client's answer to an elicitation that its user has closed."""


class UrlElicitationRequired(ProtocolError):
    """The call cannot go on before the user has been to `url`: raise it in place of `ctx.elicit_url`.

    >>> raise UrlElicitationRequired("https://example.com/sign-in", "Please sign in")
    Traceback (most recent call last):
    ...
    redstart.asking.questions.UrlElicitationRequired: Please sign in
    """

    def __init__(self, url: str, message: str) -> None:
        self.url = _checked_url(url)
        message = plain_text(message, MESSAGE)
        wire = {"mode": "url", "message": message, "url": self.url, "elicitationId": secrets.token_urlsafe(16)}
        super().__init__(URL_ELICITATION_REQUIRED, message, {"elicitations": [wire]})

    def __reduce__(self) -> tuple[Any, Any]:
        return type(self), (self.url, self.message)


class BadAnswer(Exception):
    """An answer that is not valid; `content` says whether the user may give a better one."""

    def __init__(self, problem: str, content: bool = False) -> None:
        super().__init__(problem)
        self.content = content


class Question(Struct, Generic[A_co]):
    """One thing to ask the client: an elicitation, a sampling, or its roots."""

    message: str
    key: str | None
    params: Raw
    digest: int
    """A fingerprint of the whole question: a replay must ask the same one. It finds mistakes, not attacks."""
    name: str = ""
    """The name on the wire: the key, or `q1`, `q2` … in the order in which a call asks."""
    problem: str = ""
    """What was wrong with the last answer."""
    threaded: bool = False
    """Whether a thread asks."""
    alone: bool = False
    """Whether it was the only question of its turn."""

    kind: ClassVar[str]
    method: ClassVar[str]
    need: ClassVar[str]
    """The capability without which a client cannot be asked."""

    def read(self, result: object) -> A_co:
        """What the client's answer means, or a BadAnswer."""
        raise NotImplementedError

    def reworded(self, message: str) -> Raw:
        """The params with this message, if they have one."""
        return self.params

    def worded(self) -> Raw:
        """The params; after a bad answer the message says what was wrong with it."""
        return self.reworded(f"{self.message}\n\n{self.problem}") if self.problem else self.params


_DOING: Final = {"elicitation.form": "ask the user a question", "elicitation.url": "send the user to a web page"}


def check_client(call: Call, needs: Sequence[str], message: str) -> None:
    """Refuse to ask a client what it did not declare."""
    for need in needs:
        if call.capabilities.has(need):
            continue
        if not call.dialect.modern:
            raise _cannot(message, need, f"the client does not support it (it did not declare {need})")
        # `{}` declares plain forms, so a client that declared nothing is told the shorter way.
        name = need.partition(".")[0]
        short = need == "elicitation.form" and not call.capabilities.has(name)
        raise missing_capability([name if short else need], message)


def no_stream(question: Question[object]) -> ToolError:
    """The error for a question to a client that waits for one JSON document."""
    return _cannot(question.message, question.need, "the client accepts no messages before the result")


def _cannot(message: str, need: str, reason: str) -> ToolError:
    doing = _DOING.get(need, "use " + need.replace(".", " with "))
    return ToolError(f"This needs to {doing}, but {reason}. The question was: {message}")


# ---------------------------------------------------------------- elicitation


MESSAGE: Final = "the message of a question"


class UrlQuestion(Question[Answer[None]], kw_only=True):
    """A request to visit a web page; accepting means consent, not that anything was done there."""

    page: dict[str, str]

    kind = "elicit_url"
    method = "elicitation/create"
    need = "elicitation.url"

    def reworded(self, message: str) -> Raw:
        return Raw(encode({**self.page, "message": message}))

    def read(self, result: object) -> Answer[None]:
        accepted = isinstance(result, dict) and result.get("action") == "accept"
        return Accepted(None) if accepted else refusal(result)


def url_question(call: Call, url: str, message: str, key: str | None = None) -> UrlQuestion:
    """A request to visit a web page."""
    url, message = _checked_url(url), plain_text(message, MESSAGE)
    page = {"mode": "url", "url": url}
    if call.dialect.url_required:
        page["elicitationId"] = secrets.token_urlsafe(16)
    elif not call.dialect.modern:
        raise ToolError(f"This client's protocol revision cannot send a user to a web page. It was asked: {message}")
    check_client(call, [UrlQuestion.need], message)
    params = Raw(encode({**page, "message": message}))
    digest = crc32(encode((url, message)))  # without the id of the elicitation, which is another one each time
    return UrlQuestion(message, key, params, digest, page=page)


class VisitQuestion(UrlQuestion, kw_only=True):
    """A page that must be visited before the call can go on. The handler does not get the answer."""

    kind = "visit"


def visit_question(call: Call, url: str, message: str) -> VisitQuestion:
    """The question that a `UrlElicitationRequired` asks."""
    check_client(call, [VisitQuestion.need], message)
    page = {"mode": "url", "url": url}
    params = Raw(encode({**page, "message": message}))
    return VisitQuestion(message, "url", params, 0, name="url", page=page)


def refusal(result: object) -> Declined | Cancelled:
    """The meaning of an answer that does not accept; an unknown action counts as cancelled."""
    action = result.get("action") if isinstance(result, dict) else None
    if not isinstance(action, str):
        raise BadAnswer('An answer is {"action": "accept" | "decline" | "cancel", "content": …}.')
    return DECLINED if action == "decline" else CANCELLED


def plain_text(text: object, what: str) -> str:
    """The text as a plain str, because the encoder refuses subclasses of str. A value that is not text is refused."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, not {text!r}")
    return str.__str__(text)


def _checked_url(address: object) -> str:
    url = plain_text(address, "the address that a user is sent to")
    if not url.isprintable() or " " in url:  # urlsplit drops some of these, and so reads another address
        raise ValueError(f"there is a space or a control character in the address that a user is sent to: {url!r:.200}")
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"a user can be sent to an http or https address only, not to {url!r}")
    if parts.username or parts.password:
        raise ValueError("the address that a user is sent to must not contain credentials")
    return url


def value_of(answer: Answer[T], message: str) -> T:
    """The accepted value; without one the call ends with a result that says so."""
    if isinstance(answer, Accepted):
        return answer.data
    did = "declined to answer" if isinstance(answer, Declined) else "did not answer"
    raise Unanswered(f"The user {did}: {message}")


class Confirmation(Coroutine[Any, Any, bool]):
    """An awaitable yes or no. Without `await`, `if ctx.confirm("Delete?")` raises: it must not mean yes."""

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, bool]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, bool]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __bool__(self) -> bool:
        self.close()
        raise TypeError('ctx.confirm(…) has no answer before it is awaited: write `if await ctx.confirm("Delete?"):`')


class Detach(Question[None]):
    """Ends a run so that a worker goes on with it as a task. No client is asked, and nobody answers."""

    kind = "detach"
    method = "tasks/detach"
    need = ""


def detach_question() -> Detach:
    return Detach("", Detach.kind, Raw(b"{}"), 0)
