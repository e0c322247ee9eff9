"""Tables and views as a server sends them: kept with their ETag, and with the ways to their files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakeplane.catalog.catalog import Entry, Kind, Metadata
from lakeplane.catalog.names import Name
from lakeplane.catalog.rest_http import Answer
from lakeplane.catalog.rest_options import DELEGATION
from lakeplane.catalog.rest_paths import LOAD
from lakeplane.catalog.rest_session import Request, Session, read_text
from lakeplane.errors import CatalogUnavailable, InvalidMetadata, NotFound
from lakeplane.iceberg.metadata_json import read_metadata
from lakeplane.iceberg.view import read_view
from lakeplane.storage.secret import Secret

DELEGATED: Final = {DELEGATION: "vended-credentials"}
ALL: Final = "all"

_KEPT: Final = 64
_NOT_MODIFIED: Final = 304
_ENDINGS: Final = (
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token-expires-at-ms",
)
_MARGIN_S: Final = 300.0
_LONGEST_ETAG: Final = 1024


class Credential(msgspec.Struct, frozen=True):
    """What the files below a prefix are reached with."""

    prefix: str
    config: dict[str, Secret]


class Access(msgspec.Struct, frozen=True):
    """What a server has sent along with a table: all of it may be secret."""

    config: dict[str, Secret] = {}
    credentials: tuple[Credential, ...] = ()

    @property
    def token(self) -> Secret | None:
        """The bearer token for requests about this table."""
        found = self.config.get("token")
        good = found is not None and found.reveal().isascii() and found.reveal().isprintable()
        return found if good and found is not None and found.reveal() else None

    def ends_soon(self, now: float) -> bool:
        """Whether one of the credentials is about to expire."""
        parts = (self.config, *(each.config for each in self.credentials))
        ends = [
            int(value.reveal()) / 1000
            for part in parts
            for key, value in part.items()
            if key.startswith(_ENDINGS) and value.reveal().isascii() and value.reveal().isdigit()
        ]
        return any(end - _MARGIN_S <= now for end in ends)


class _Kept(msgspec.Struct, frozen=True):
    entry: Entry
    access: Access
    etag: str | None
    snapshots: str


class Entries:
    """Loads tables and views; may be used from many threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Kind, Name], _Kept] = OrderedDict()

    def load(self, kind: Kind, name: Name, *, whole: bool = False, fresh: bool = False) -> Entry:
        """A table or view as it is now; ``whole``: with all snapshots, ``fresh``: with new credentials."""
        session = self._session
        snapshots = ALL if whole or kind == "view" else session.config.snapshots
        kept = self._find(kind, name)
        headers = dict(DELEGATED)
        # A "not modified" brings no credentials.
        usable = kept is not None and kept.snapshots == snapshots and not kept.access.ends_soon(session.now())
        if kept is not None and kept.etag and usable and not fresh:
            headers["If-None-Match"] = kept.etag
        request = Request(
            endpoint=LOAD[kind],
            path=session.paths.of(LOAD[kind], name.namespace, name.name),
            doing=f"{kind} {name}",
            query=() if snapshots == ALL else (("snapshots", snapshots),),
            headers=headers,
            token=self.token(kind, name),
        )
        try:
            answer = session.read(request)
        except NotFound:
            self.forget(kind, name)
            raise
        if answer.status == _NOT_MODIFIED:
            if kept is None or "If-None-Match" not in headers:
                raise CatalogUnavailable("answered 304 unasked", source=request.doing)
            return kept.entry
        return self.take(kind, name, answer, snapshots)

    def seen(self, kind: Kind, name: Name) -> Entry | None:
        """A table or view with all its snapshots, as it was when it was last seen."""
        kept = self._find(kind, name)
        return kept.entry if kept is not None and kept.snapshots == ALL else None

    def take(self, kind: Kind, name: Name, answer: Answer, snapshots: str = ALL) -> Entry:
        """Read the answer to a load, commit, create or register, and keep it."""
        entry, access = self._session.parse(
            answer, lambda raw: _read_entry(kind, name, raw), f"{kind} {name}"
        )
        etag = _etag(answer)
        with self._lock:
            before = self._kept.get((kind, name))
            if before and access == Access() and before.entry.metadata.location == entry.metadata.location:
                # The answer to a commit brings no credentials: those of the load go on.
                access = before.access
            self._kept[kind, name] = _Kept(entry, access, etag, snapshots)
            self._kept.move_to_end((kind, name))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return entry

    def forget(self, kind: Kind, name: Name) -> None:
        """Keep nothing of a table or view: its name means something else by now."""
        with self._lock:
            self._kept.pop((kind, name), None)

    def token(self, kind: Kind, name: Name) -> Secret | None:
        """The token that the server wants for requests about a table or view."""
        kept = self._find(kind, name)
        return None if kept is None else kept.access.token

    def access(self, entry: Entry, *, fresh: bool = False) -> Access:
        """What the files of a table are reached with now; asked for when it is not known, or ends soon."""
        kept = self._find(entry.kind, entry.name)
        same = kept is not None and kept.entry.metadata.location == entry.metadata.location
        if kept is None or not same or fresh or kept.access.ends_soon(self._session.now()):
            now = self.load(entry.kind, entry.name, fresh=True)
            kept = self._find(entry.kind, entry.name)
            if now.metadata.location != entry.metadata.location or kept is None:
                return Access()
        return kept.access

    def _find(self, kind: Kind, name: Name) -> _Kept | None:
        with self._lock:
            return self._kept.get((kind, name))


def _etag(answer: Answer) -> str | None:
    etag = answer.headers.get("etag", "")
    if not etag or len(etag) > _LONGEST_ETAG or not etag.isascii() or not etag.isprintable():
        return None
    # Jetty marks the tag of a compressed answer, and does not know its own mark when it comes back.
    return etag.replace("--gzip", "")


def _read_entry(kind: Kind, name: Name, document: Mapping[str, Any]) -> tuple[Entry, Access]:
    raw = document.get("metadata")
    if not isinstance(raw, dict):
        raise InvalidMetadata("expected an object", field="metadata")
    metadata: Metadata = read_metadata(raw) if kind == "table" else read_view(raw)
    entry = Entry(kind, name, metadata, read_text(document, "metadata-location") or "")
    return entry, read_access(document)


def read_access(document: Mapping[str, Any]) -> Access:
    """What an answer brings along: its config, and the credentials for prefixes."""
    found = document.get("storage-credentials") or []
    if not isinstance(found, list):
        raise InvalidMetadata("expected a list", field="storage-credentials")
    credentials = []
    for each in found:
        prefix = each.get("prefix") if isinstance(each, dict) else None
        if not isinstance(prefix, str):
            raise InvalidMetadata("expected a prefix", field="storage-credentials")
        credentials.append(Credential(prefix, _wrapped(each.get("config"))))
    return Access(_wrapped(document.get("config")), tuple(credentials))


def _wrapped(raw: object) -> dict[str, Secret]:
    if not isinstance(raw, dict):
        return {}
    return {key: Secret(value) for key, value in raw.items() if isinstance(value, str)}
