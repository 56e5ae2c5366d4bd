"""What nearly every block of the docs imports: see `warm`."""

from redstart import Client, Server

__all__ = ["Client", "Server"]
