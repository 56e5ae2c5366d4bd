"""Ways to find the user of a bearer token, for `Server(auth=…)`.

What needs a library of the extra `auth` imports it when it is used.
"""

from redstart.auth.introspection import Introspection
from redstart.auth.jwt import JWT
from redstart.auth.providers import Auth0, Cognito, Entra, GitHub, Google, Keycloak, Okta, WorkOS
from redstart.auth.tokens import BearerTokens
from redstart.features.principal import User
from redstart.server.authenticate import TokenVerifier

__all__ = [
    "JWT",
    "Auth0",
    "BearerTokens",
    "Cognito",
    "Entra",
    "GitHub",
    "Google",
    "Introspection",
    "Keycloak",
    "Okta",
    "TokenVerifier",
    "User",
    "WorkOS",
]
