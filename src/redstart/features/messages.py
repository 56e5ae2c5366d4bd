"""The messages of a handler to its client before the result: progress, and log messages."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from redstart.protocol.call import Call
from redstart.wire.check import checked
from redstart.wire.meta import LOG_LEVELS
from redstart.wire.types import LogParams, ProgressParams

_LEVEL: Final = {name: rank for rank, name in enumerate(LOG_LEVELS)}


def is_replaying(call: Call) -> bool:
    """Whether a handler runs again, and has not come to where its last run ended: what it says was sent before."""
    return call.dialogue is not None and call.dialogue.replaying


def send_progress(call: Call, progress: float, total: float | None, message: str | None) -> bool:
    """Tell the client how far a call is, if it has asked for that; whether something was sent."""
    token = call.meta.progress_token if call.meta else UNSET
    params = checked(ProgressParams("" if token is UNSET else token, progress, total, message), "ctx.progress()")
    if call.task is not None and call.task.running:
        call.task.tell(params.progress, params.total, params.message)
        return True
    if token is UNSET or (call.progress is not None and progress <= call.progress) or is_replaying(call):
        return False
    if not call.dialect.progress_messages:
        params.message = None
    if not _sent(call, "notifications/progress", params):
        return False
    call.progress = progress
    return True


def send_log(call: Call, level: str, data: object, logger: str | None, *, offered: bool) -> bool:
    """Send a log message, if the server offers them and the client wants this level; whether it was sent."""
    wanted = call.log_level if call.session is None else call.session.log_level
    if wanted is UNSET:
        if call.dialect.modern:
            return False
        wanted = "info"
    params = checked(LogParams(level, data, logger or None), "ctx.log()")
    if _LEVEL[level] < _LEVEL[wanted] or not offered or is_replaying(call):
        return False
    return _sent(call, "notifications/message", params)


def _sent(call: Call, method: str, params: LogParams | ProgressParams) -> bool:
    data = call.link.notify(call, method, params)
    if data is not None:
        call.channel.send(data)
    return data is not None
