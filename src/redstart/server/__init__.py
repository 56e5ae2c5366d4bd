"""The Server object, its contexts, middleware, dispatch, and the running of calls.

The numbers are here because `redstart run --help` shows them, and loads nothing of the server.
"""

from typing import Final

DRAIN: Final = 30.0
"""Seconds that calls over HTTP have to finish when the server stops. A call that waits for a user ends at once."""
MAX_PORT: Final = 65535
