"""The connections of requests whose URLs come from a peer: to addresses that were checked.

A name may mean another address by the time of the connection (DNS rebinding), so it is not resolved again.
Imported only when there is a request: httpx2 is an extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from ssl import SSLContext

import httpx2

from redstart.transports.outgoing import Address


class PinnedTransport(httpx2.AsyncHTTPTransport):  # type: ignore[misc]
    """Connects to one of `addresses`, in their order. The certificate must still be for the name in the URL."""

    def __init__(self, addresses: Sequence[Address], verify: SSLContext | bool) -> None:
        super().__init__(verify=verify)
        self._addresses = addresses

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        refused: httpx2.TransportError = httpx2.ConnectError("there is no address")
        timeout = dict(request.extensions["timeout"])
        timeout["connect"] /= len(self._addresses) or 1  # so that there is time for the last one
        extensions = {**request.extensions, "timeout": timeout, "sni_hostname": request.url.raw_host.decode()}
        for address in self._addresses:
            url = request.url.copy_with(host=str(address))
            pinned = httpx2.Request(
                request.method, url, headers=request.headers, stream=request.stream, extensions=extensions
            )
            try:
                return await super().handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # nothing was sent
                refused = error
        raise refused
