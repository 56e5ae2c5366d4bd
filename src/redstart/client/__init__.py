"""A client for MCP servers of every revision: in memory, over stdio, over Streamable HTTP."""

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
)
from redstart.client.handlers import ElicitRequest, SampleRequest
from redstart.client.listen import Event, Events
from redstart.client.results import CallResult

__all__ = [
    "CallResult",
    "Client",
    "ClientError",
    "ConnectionClosed",
    "ElicitRequest",
    "Event",
    "Events",
    "HttpError",
    "InvalidReply",
    "LogMessage",
    "NotSupported",
    "Notification",
    "Progress",
    "RequestError",
    "SampleRequest",
    "SessionExpired",
]
