"""Talks to one catalog: negotiates, authenticates, tries again where that is safe, tells what is unknown."""

from __future__ import annotations

import email.utils
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from lakeplane.catalog.rest_auth import Tokens
from lakeplane.catalog.rest_errors import error_of, is_from_catalog
from lakeplane.catalog.rest_http import Answer, Call, Result, Trouble, Wire
from lakeplane.catalog.rest_options import Config, Settings, World, read_config
from lakeplane.catalog.rest_paths import Endpoint, Paths
from lakeplane.errors import (
    AccessDenied,
    AlreadyExists,
    CatalogUnavailable,
    InvalidMetadata,
    LakeplaneError,
    NotFound,
    OutcomeUnknown,
)
from lakeplane.model.json_files import Limits, decode
from lakeplane.storage.secret import Secret

log = logging.getLogger(__name__)
T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.2
_READS: Final = ("GET", "HEAD")
_FOR_NOW: Final = frozenset({429, 500, 502, 503, 504})
_REJECTED: Final = frozenset({429})
"""Statuses that say that nothing was done."""
_NOT_IMPLEMENTED: Final = 501
_SERVER_ERROR: Final = 500
_REQUEST_TIMEOUT: Final = 408
_OUTDATED_TOKEN: Final = (401, 419)
_NOT_MODIFIED: Final = 304
_NOT_FOUND: Final = 404


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask of an endpoint."""

    endpoint: Endpoint
    path: str
    doing: str
    """For errors: what this is about."""
    query: tuple[tuple[str, str], ...] = ()
    document: Any = None
    headers: Mapping[str, str] = {}
    token: Secret | None = None
    """Instead of the catalog's token: the one that the server has given for a table."""
    is_repeatable: bool = False
    """Sending it twice is the same as once, though it is no read."""

    def __repr__(self) -> str:
        return f"Request({self.endpoint}, {self.doing})"


class Reply(msgspec.Struct, frozen=True):
    """How a write went: the last answer if there was one, and whether one was lost on the way."""

    answer: Answer | None
    reason: str
    was_lost: bool

    @property
    def is_success(self) -> bool:
        """Whether the server said that it is done."""
        return self.answer is not None and 200 <= self.answer.status < 300  # noqa: PLR2004


class Session:
    """What all calls to one catalog share; may be used from many threads."""

    def __init__(self, settings: Settings, world: World) -> None:
        self.settings = settings
        self._world = world
        self._wire = Wire(settings, world)
        self._tokens = Tokens(settings, world, self._exchange)
        self._lock = threading.Lock()
        self._config: Config | None = None
        self._paths: Paths | None = None

    @property
    def config(self) -> Config:
        """What the server said about itself; asked once."""
        with self._lock:
            if self._config is None:
                self._config = self._negotiate()
            return self._config

    @property
    def paths(self) -> Paths:
        """The server's endpoints."""
        config = self.config
        with self._lock:
            if self._paths is None:
                self._paths = Paths(config, views_assumed=self.settings.views_assumed)
            return self._paths

    def now(self) -> float:
        """The time of the injected clock, in seconds."""
        return self._world.now()

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def read(self, request: Request) -> Answer:
        """Ask without changing anything; raises the error for everything but success and "not modified"."""
        reply = self._send(request)
        if reply.answer is None:
            raise CatalogUnavailable(reply.reason, source=request.doing)
        if not reply.is_success and reply.answer.status != _NOT_MODIFIED:
            raise self.error(reply.answer, request)
        return reply.answer

    def write(self, request: Request) -> Reply:
        """Ask for a change; raises only what certainly means that nothing was sent."""
        reply = self._send(request)
        if reply.answer is None and not reply.was_lost:
            raise CatalogUnavailable(reply.reason, source=request.doing)
        return reply

    def settle(self, request: Request, landed: Callable[[], bool], *, is_told: bool = False) -> Answer | None:
        """Make a change that can be seen afterwards; None when the answer was lost, and it is there.

        ``is_told``: what ``landed`` sees cannot have been there before. Then a refusal may be the answer to a
        request of ours that was delivered twice, and is looked into as well.
        """
        reply = self.write(request)
        if reply.is_success:
            return reply.answer
        refusal = None
        if not reply.was_lost:
            assert reply.answer is not None
            refusal = self.error(reply.answer, request)
            if not is_told or not isinstance(refusal, NotFound | AlreadyExists):
                raise refusal
        try:
            if landed():
                return None
        except LakeplaneError as error:
            log.debug("after a lost answer, looking failed too: %s", error)
        if refusal is not None:
            raise refusal
        hint = "Look whether it is done before trying again"
        raise OutcomeUnknown(reply.reason, source=request.doing, hint=hint)

    def error(self, answer: Answer, request: Request) -> LakeplaneError:
        """The error for an answer that is no success."""
        if request.endpoint.method == "HEAD" and answer.status == _NOT_FOUND:
            return NotFound("there is none", source=request.doing)
        return error_of(answer, request.doing, self._secrets(request))

    def parse(self, answer: Answer, convert: Callable[[Mapping[str, Any]], T], doing: str) -> T:
        """Read the body of a success."""
        limits = Limits(size=self.settings.size_limit)
        return decode(answer.body, convert, source=f"answer to {doing}", limits=limits)

    def _secrets(self, request: Request) -> list[Secret]:
        own = [] if request.token is None else [request.token]
        return [*self.settings.secrets, *self._tokens.secrets, *own]

    def _negotiate(self) -> Config:
        warehouse = self.settings.plain.get("warehouse")
        request = Request(
            endpoint=Endpoint("GET", "/v1/config"),
            path="/v1/config",
            doing="configuration of the catalog",
            query=(("warehouse", warehouse),) if warehouse else (),
        )
        answer = self.read(request)
        return self.parse(answer, lambda raw: read_config(raw, self.settings), request.doing)

    def _send(self, request: Request) -> Reply:
        # The config itself is asked for before there is one.
        config = self._config
        lifetime = config.key_lifetime_s if config is not None and request.endpoint.takes_key else None
        # Who does not announce that keys count may still keep every answer under its key, until memory ends.
        key = None if lifetime is None else new_key(self._world)
        repeatable = request.is_repeatable or request.endpoint.method in _READS or lifetime is not None
        started = self._world.monotonic()
        was_lost = False
        for attempt in range(self.settings.attempts):
            try:
                result = self._authorized(request, key)
            except LakeplaneError as error:
                if not was_lost:
                    raise
                return Reply(None, str(error), was_lost)
            was_lost = was_lost or (_is_lost(result) and request.endpoint.method not in _READS)
            pause = self._pause(result, attempt, repeatable=repeatable)
            over = lifetime is not None and self._world.monotonic() - started + (pause or 0) > lifetime
            if pause is None or over or attempt + 1 == self.settings.attempts:
                return _reply(result, was_lost=was_lost)
            log.debug("trying again in %.2f s: %r", pause, request)
            self._world.sleep(pause)
        raise AssertionError

    def _authorized(self, request: Request, key: str | None) -> Result:
        """Send it; when its token is refused, once more with another: what was refused was not done."""
        token = request.token or self._tokens.current()
        result = self._wire.send(self._call(request, key, token))
        # A table's own token may have ended; the catalog's may still be good.
        if _is_refused(result) and (request.token is not None or self._tokens.renew(token)):
            result = self._wire.send(self._call(request, key, self._tokens.current()))
        return result

    def _pause(self, result: Result, attempt: int, *, repeatable: bool) -> float | None:
        """How long to wait before the next attempt; None when there is to be none."""
        match result:
            case Trouble(is_permanent=True):
                return None
            case Trouble(may_have_arrived=arrived):
                again, least = repeatable or not arrived, 0.0
            case Answer(status, headers):
                again = status in _REJECTED or (repeatable and status in _FOR_NOW)
                least = self._retry_after(headers.get("retry-after"))
        longest = self.settings.max_wait_s
        if not again or least > longest:
            return None
        spread = min(longest, _FIRST_PAUSE_S * 2**attempt)
        return float(min(longest, max(least, self._world.random.uniform(spread / 2, spread))))

    def _retry_after(self, text: str | None) -> float:
        if text is None:
            return 0.0
        if text.strip().isascii() and text.strip().isdigit():
            return float(text[:12])
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - self._world.now())
        except (ValueError, OverflowError):
            return 0.0

    def _call(self, request: Request, key: str | None, token: Secret | None) -> Call:
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "lakeplane"}
        headers |= request.headers
        lowered = {name.lower() for name in self.settings.headers}
        headers = {name: value for name, value in headers.items() if name.lower() not in lowered}
        headers |= {name: value.reveal() for name, value in self.settings.headers.items()}
        if token is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {token.reveal()}"
        if key is not None:
            headers["Idempotency-Key"] = key
        body = None
        if request.document is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(request.document)
        url = f"{self.settings.uri}{request.path}"
        url += f"?{urlencode(request.query)}" if request.query else ""
        return Call(method=request.endpoint.method, url=url, headers=headers, body=body)

    def _exchange(self, form: bytes) -> bytes:
        """Post a form to the OAuth server, which gets nothing else of ours: it may be another host."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        call = Call(method="POST", url=self.settings.oauth_uri, headers=headers, body=form)
        for attempt in range(self.settings.attempts):
            result = self._wire.send(call)
            pause = self._pause(result, attempt, repeatable=True)
            if pause is None or attempt + 1 == self.settings.attempts:
                break
            self._world.sleep(pause)
        match result:
            case Trouble(reason):
                raise CatalogUnavailable(reason, source="oauth2-server-uri")
            case Answer(status, _, body) if 200 <= status < 300:  # noqa: PLR2004
                return body
            case Answer():
                raise _refusal(result, self.settings)


def new_key(world: World) -> str:
    """A UUID of version 7, as ``Idempotency-Key`` wants it."""
    value = (int(world.now() * 1000) & (2**48 - 1)) << 80 | world.random.getrandbits(80)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0b11 << 62) | 0b10 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def read_text(document: Mapping[str, Any], key: str) -> str | None:
    """A text of a JSON object that may be missing."""
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidMetadata("expected a text", field=key)
    return value


def _refusal(answer: Answer, settings: Settings) -> LakeplaneError:
    found = error_of(answer, "oauth2-server-uri", settings.secrets)
    if answer.status == 400 and is_from_catalog(answer):  # noqa: PLR2004
        # "invalid_client", "invalid_scope" and their like.
        return AccessDenied(found.problem, source=found.source, hint="Check credential and scope")
    return found


def _is_refused(result: Result) -> bool:
    return isinstance(result, Answer) and result.status in _OUTDATED_TOKEN


def _is_lost(result: Result) -> bool:
    match result:
        case Trouble(may_have_arrived=arrived):
            return arrived
        case Answer(status):
            return (status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED) or status == _REQUEST_TIMEOUT


def _reply(result: Result, *, was_lost: bool) -> Reply:
    match result:
        case Trouble(reason):
            return Reply(None, reason, was_lost)
        case Answer(status):
            return Reply(result, f"the server answered {status}", was_lost)
