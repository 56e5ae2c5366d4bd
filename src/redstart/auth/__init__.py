"""Ways to find the user of a bearer token, for `Server(auth=…)`.

What needs a library of the extra `auth` imports it when it is used.
"""

from redstart.access.verifier import TokenVerifier
from redstart.auth.introspection import Introspection
from redstart.auth.jwt import JWT
from redstart.auth.providers import Auth0, Cognito, Entra, GitHub, Google, Keycloak, Okta, OpenID, WorkOS
from redstart.auth.proxy import OAuthProxy
from redstart.auth.tokens import BearerTokens
from redstart.features.principal import User

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
    "OAuthProxy",
    "Okta",
    "OpenID",
    "TokenVerifier",
    "User",
    "WorkOS",
]
