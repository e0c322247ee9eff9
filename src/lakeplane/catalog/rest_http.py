"""The one place that talks HTTP: one request, one answer, and nothing that is decided by the other side.

No redirect is followed, no answer is larger than its limit, and what goes wrong is told apart by the only
question that matters to a writer: whether the request may have arrived.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from lakeplane.catalog.rest_options import Settings, World
from lakeplane.errors import InvalidInput

if TYPE_CHECKING:
    import httpx

_CONNECTIONS: Final = 20
_KEPT_OPEN: Final = _CONNECTIONS
_CONNECT_S: Final = 10.0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it goes out. Its headers hold secrets: it must not be shown."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"Call({self.method} {self.url})"


class Answer(msgspec.Struct, frozen=True):
    """What came back. Its body may hold secrets: it must not be shown."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Answer({self.status}, {len(self.body)} bytes)"


class Trouble(msgspec.Struct, frozen=True):
    """No answer, or none that can be used."""

    reason: str
    may_have_arrived: bool
    is_permanent: bool = False
    """Trying again would give the same."""


Result: TypeAlias = Answer | Trouble


class Wire:
    """Sends calls over pooled connections; may be used from many threads, and after a fork."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings = settings
        self._world = world
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._process = 0

    def send(self, call: Call) -> Result:
        """Send a call once."""
        import httpx  # noqa: PLC0415 - only users of REST catalogs pay for it

        try:
            url = httpx.URL(call.url)
        except httpx.InvalidURL:
            return Trouble("this is not an address", may_have_arrived=False, is_permanent=True)
        request = httpx.Request(call.method, url, headers=call.headers, content=call.body)
        request.extensions = {"timeout": self._timeout().as_dict()}
        try:
            response = self._open().send(request, stream=True, follow_redirects=False)
            try:
                return self._receive(response)
            finally:
                response.close()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Trouble(f"no connection ({_name(error)})", may_have_arrived=False)
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            return Trouble(f"cannot be sent ({_name(error)})", may_have_arrived=False, is_permanent=True)
        except (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError) as error:
            # The text of such an error may quote the request.
            return Trouble(f"the answer was lost ({_name(error)})", may_have_arrived=True)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            client.close()

    def _receive(self, response: httpx.Response) -> Result:
        limit = self._settings.size_limit
        ends = self._world.monotonic() + self._settings.deadline_s
        parts: list[bytes] = []
        size = 0
        for part in response.iter_bytes():
            size += len(part)
            if size > limit:
                return Trouble(
                    f"the answer has more than {limit} bytes (option response-limit-bytes)",
                    may_have_arrived=True,
                    is_permanent=True,
                )
            if self._world.monotonic() > ends:
                return Trouble("the answer came too slowly", may_have_arrived=True)
            parts.append(part)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, b"".join(parts))

    def _open(self) -> httpx.Client:
        import httpx  # noqa: PLC0415

        with self._lock:
            # A connection that two processes share gives each the answers of the other.
            if self._client is None or self._process != os.getpid():
                self._client = httpx.Client(
                    verify=self._tls(),
                    timeout=self._timeout(),
                    limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_KEPT_OPEN),
                    headers={},
                )
                self._process = os.getpid()
            return self._client

    def _timeout(self) -> httpx.Timeout:
        import httpx  # noqa: PLC0415

        return httpx.Timeout(self._settings.timeout_s, connect=min(_CONNECT_S, self._settings.timeout_s))

    def _tls(self) -> ssl.SSLContext:
        plain = self._settings.plain
        try:
            context = ssl.create_default_context(cafile=plain.get("ssl.cabundle"))
            if "ssl.client.cert" in plain:
                context.load_cert_chain(plain["ssl.client.cert"], plain.get("ssl.client.key"))
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                f"a certificate cannot be used: {error.strerror or error}", field="ssl"
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _name(error: Exception) -> str:
    return type(error).__name__
