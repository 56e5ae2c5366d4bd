"""A client for MCP servers of every revision: in memory, over stdio, over Streamable HTTP.

The names of `redstart.client.oauth` load on first use: most clients need no sign-in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from redstart.client.callbacks import LogMessage, Notification
from redstart.client.callbacks import ProgressMessage as Progress
from redstart.client.client import Client
from redstart.client.errors import (
    ClientError,
    ConnectionClosed,
    HttpError,
    InvalidReply,
    NotSupported,
    RequestError,
    SessionExpired,
    SignInError,
    TaskCancelled,
)
from redstart.client.handlers import ElicitRequest, SampleRequest
from redstart.client.listen import Event, Events
from redstart.client.results import CallResult
from redstart.client.skills import Skill, SkillFile
from redstart.client.tasks import RemoteTask, TaskInfo

if TYPE_CHECKING:
    from redstart.client.oauth import (
        ClientCredentials,
        FileTokens,
        IdentityAssertion,
        JwtBearer,
        MemoryTokens,
        OAuth,
        TokenStore,
    )

__all__ = [
    "CallResult",
    "Client",
    "ClientCredentials",
    "ClientError",
    "ConnectionClosed",
    "ElicitRequest",
    "Event",
    "Events",
    "FileTokens",
    "HttpError",
    "IdentityAssertion",
    "InvalidReply",
    "JwtBearer",
    "LogMessage",
    "MemoryTokens",
    "NotSupported",
    "Notification",
    "OAuth",
    "Progress",
    "RemoteTask",
    "RequestError",
    "SampleRequest",
    "SessionExpired",
    "SignInError",
    "Skill",
    "SkillFile",
    "TaskCancelled",
    "TaskInfo",
    "TokenStore",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("redstart.client.oauth"), name)
