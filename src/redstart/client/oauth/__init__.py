"""OAuth for clients: `Client(url, auth="oauth")`, or `auth=` with one of the grants of this package."""

from redstart.client.oauth.grants import ClientCredentials, IdentityAssertion, JwtBearer, OAuth
from redstart.client.oauth.store import FileTokens, MemoryTokens, TokenStore

__all__ = [
    "ClientCredentials",
    "FileTokens",
    "IdentityAssertion",
    "JwtBearer",
    "MemoryTokens",
    "OAuth",
    "TokenStore",
]
