"""Questions to the user or the client, and the dialogue of one call that they make."""

from typing import Final

KEY_VARIABLES: Final = ("REDSTART_KEYS", "REDSTART_KEY_FILE")
"""The environment variables that may hold the keys of a server, or name the file that does."""
