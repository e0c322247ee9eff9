"""Tokens: one that the user gives, or those that client credentials are exchanged for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from lakeplane.catalog.rest_options import Settings, World
from lakeplane.errors import AccessDenied, CatalogCannot, CatalogUnavailable, InvalidMetadata
from lakeplane.storage.secret import Secret

_MARGIN_S: Final = 300.0
"""How long before its end a token is renewed; less for short-lived ones."""

_PATIENCE_S: Final = 30.0
"""How long after a renewal that failed the next one is tried, as long as the old token lasts."""

_LONGEST: Final = 1 << 16


class Tokens:
    """Hands out the token for the next request; may be used from many threads."""

    def __init__(self, settings: Settings, world: World, exchange: Callable[[bytes], bytes]) -> None:
        """Make it; ``exchange`` posts a form to the OAuth server and gives back the body of its answer."""
        self._settings = settings
        self._world = world
        self._exchange = exchange
        self._lock = threading.Lock()
        self._token = settings.token
        self._renew_at: float | None = None
        self._ends_at: float | None = None

    def __repr__(self) -> str:
        return "Tokens(***)"

    @property
    def secrets(self) -> list[Secret]:
        """The token of the moment."""
        token = self._token
        return [] if token is None else [token]

    def current(self) -> Secret | None:
        """The token to send; None when the catalog is open."""
        with self._lock:
            if self._settings.credential is None:
                return self._token
            now = self._world.now()
            if self._token is None or (self._ends_at is not None and now >= self._ends_at):
                self._fetch(now)
            elif self._renew_at is not None and now >= self._renew_at:
                try:
                    self._fetch(now)
                except CatalogUnavailable:
                    # The old one is still good for a while.
                    self._renew_at = self._world.now() + _PATIENCE_S
            return self._token

    def renew(self, refused: Secret | None) -> bool:
        """Get another token than the one that was refused; False when there is no way to."""
        with self._lock:
            if self._token is not None and self._token != refused:
                return True
            if self._settings.credential is None:
                return False
            self._fetch(self._world.now())
            return True

    def _fetch(self, now: float) -> None:
        credential = self._settings.credential
        assert credential is not None
        name, secret = credential
        form = {"grant_type": "client_credentials", "client_secret": secret.reveal()}
        form |= {} if name is None else {"client_id": name}
        form |= {"scope": self._settings.plain.get("scope", "catalog")}
        for option in ("audience", "resource"):
            if option in self._settings.plain:
                form[option] = self._settings.plain[option]
        document = _object(self._exchange(urlencode(form).encode()))
        token, kind, lifetime = (document.get(key) for key in ("access_token", "token_type", "expires_in"))
        if not isinstance(token, str) or not _can_be_sent(token):
            raise AccessDenied("the OAuth server sent no token that can be used", source="oauth2-server-uri")
        if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a"):
            raise CatalogCannot("the OAuth server sent a token that is no bearer token")
        self._token = Secret(token)
        if isinstance(lifetime, int | float) and lifetime > 0:
            self._ends_at = now + lifetime
            self._renew_at = self._ends_at - min(_MARGIN_S, lifetime / 5)
        else:
            self._ends_at = self._renew_at = None


def _can_be_sent(token: str) -> bool:
    return 0 < len(token) <= _LONGEST and token.isascii() and token.isprintable() and " " not in token


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidMetadata("the OAuth server's answer is not a JSON object", source="oauth2-server-uri")
    return document
