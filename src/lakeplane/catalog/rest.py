"""The catalog behind a server that speaks Iceberg's REST protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lakeplane.catalog.catalog import Change, Entry, Kind, Outcome
from lakeplane.catalog.names import Name, Namespace, check_new, show
from lakeplane.catalog.pointers import changed_before_drop
from lakeplane.catalog.rest_commit import Commits
from lakeplane.catalog.rest_create import probe_request
from lakeplane.catalog.rest_entries import DELEGATED, Entries
from lakeplane.catalog.rest_options import World, read_settings
from lakeplane.catalog.rest_paths import (
    CHANGE_NAMESPACE,
    CREATE,
    CREATE_NAMESPACE,
    DROP,
    DROP_NAMESPACE,
    EXISTS,
    LIST,
    LIST_NAMESPACES,
    LOAD_NAMESPACE,
    REGISTER,
    RENAME,
    Endpoint,
)
from lakeplane.catalog.rest_session import Request, Session, read_text
from lakeplane.catalog.rest_storage import open_for
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CatalogUnavailable,
    InvalidInput,
    InvalidMetadata,
    LakeplaneError,
    LimitExceeded,
    NotFound,
)
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.store import Store

_MOST_PAGES: Final = 100_000
_MOST_NAMES: Final = 5_000_000


class RestCatalog:
    """A REST catalog; may be used from many threads. Nothing is sent before the first question."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, Any] | None = None,
        /,
        *,
        world: World | None = None,
        **more: Any,
    ) -> None:
        """Make it from the address and the options of docs/catalog-rest.md; ``world`` is for tests."""
        options = {**(options or {}), **more}
        settings = read_settings(uri, options)
        self._given = (uri, options) if not settings.secrets else None
        self._session = Session(settings, world or World())
        self._entries = Entries(self._session)
        self._commits = Commits(self._session, self._entries)

    def __repr__(self) -> str:
        settings = self._session.settings
        warehouse = settings.plain.get("warehouse")
        return f"RestCatalog({settings.uri!r}{f', warehouse={warehouse!r}' if warehouse else ''})"

    def __reduce__(self) -> tuple[object, ...]:
        if self._given is None:
            hint = "Make the catalog anew in the other process, with secrets from its own environment"
            raise InvalidInput("a catalog with secrets does not travel to another process", hint=hint)
        return _revive, self._given

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        self._session.close()

    def namespaces(self, under: Namespace = ()) -> list[Namespace]:
        """The namespaces directly inside another one, sorted."""
        query = (("parent", self._session.paths.parent(under)),) if under else ()
        request = self._request(LIST_NAMESPACES, f"namespaces in {show(under) or 'the root'}", query=query)
        found = {tuple(_texts(raw)) for raw in self._pages(request, "namespaces")}
        # Some servers list all levels.
        depth = len(under)
        return sorted({each[: depth + 1] for each in found if len(each) > depth and each[:depth] == under})

    def namespace(self, namespace: Namespace) -> FrozenDict[str, str]:
        """The properties of a namespace."""
        request = self._request(LOAD_NAMESPACE, f"namespace {show(namespace)}", namespace)
        return self._session.parse(self._session.read(request), _read_properties, request.doing)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make a namespace."""
        check_new(namespace)
        if not namespace:
            raise AlreadyExists("the root is there always")
        request = self._request(
            CREATE_NAMESPACE,
            f"create namespace {show(namespace)}",
            document={"namespace": list(namespace), "properties": dict(properties)},
        )
        self._session.settle(request, lambda: properties.items() <= self.namespace(namespace).items())

    def change_namespace(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        if both := sorted(set(updates).intersection(removals)):
            raise InvalidInput(f"the property {both[0]!r} is to be set and removed")
        document = {"updates": dict(updates), "removals": list(dict.fromkeys(removals))}
        request = self._request(
            CHANGE_NAMESPACE, f"change namespace {show(namespace)}", namespace, document=document
        )

        def landed() -> bool:
            now = self.namespace(namespace)
            return updates.items() <= now.items() and not set(removals).intersection(now)

        self._session.settle(request, landed)

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace that is empty."""
        request = self._request(DROP_NAMESPACE, f"drop namespace {show(namespace)}", namespace)

        def landed() -> bool:
            try:
                self.namespace(namespace)
            except NotFound:
                return True
            return False

        self._session.settle(request, landed)

    def names(self, kind: Kind, namespace: Namespace) -> list[Name]:
        """The tables or views directly in a namespace, sorted."""
        request = self._request(LIST[kind], f"{kind}s in {show(namespace)}", namespace)
        names = {_read_name(raw) for raw in self._pages(request, "identifiers")}
        return sorted(name for name in names if name.namespace == namespace)

    def exists(self, kind: Kind, name: Name) -> bool:
        """Whether there is a table or view of that name."""
        try:
            if not self._session.paths.has(EXISTS[kind]):
                self.load(kind, name)
                return True
            request = self._request(EXISTS[kind], f"{kind} {name}", name.namespace, name.name)
            self._session.read(request)
        except NotFound:
            return False
        return True

    def load(self, kind: Kind, name: Name) -> Entry:
        """A table or view as it is now."""
        return self._entries.load(kind, name)

    def commit(self, changes: Sequence[Change]) -> Outcome:
        """Publish changes: of one table or view, or of several tables together."""
        return self._commits.commit(changes)

    def register(self, kind: Kind, name: Name, metadata_location: str) -> Entry:
        """Give a name to a table or view whose metadata file exists."""
        check_new(name.parts)
        parse_location(metadata_location)
        self._commits.require_namespace(name.namespace)
        request = self._request(
            REGISTER[kind],
            f"register {kind} {name}",
            name.namespace,
            document={"name": name.name, "metadata-location": metadata_location},
            headers=DELEGATED,
        )
        answer = self._session.settle(
            request,
            lambda: self.load(kind, name).metadata_location == metadata_location,
            is_told=self._look(kind, name) is False,
        )
        return self.load(kind, name) if answer is None else self._entries.take(kind, name, answer)

    def rename(self, kind: Kind, old: Name, new: Name) -> None:
        """Give a table or view another name."""
        check_new(new.parts)
        before = self._look(kind, old)

        def landed() -> bool:
            if before and before != self._look(kind, new):
                return False
            return not self._is_there(kind, old) and self._is_there(kind, new)

        request = self._request(
            RENAME[kind],
            f"rename {kind} {old}",
            document={"source": _write_name(old), "destination": _write_name(new)},
            token=self._entries.token(kind, old),
        )
        self._session.settle(request, landed, is_told=bool(before))
        self._entries.forget(kind, old)
        self._entries.forget(kind, new)

    def drop(self, kind: Kind, name: Name, expected: Entry | None = None) -> None:
        """Take the name of a table or view away; its files stay."""
        if expected is not None and self.load(kind, name) != expected:
            # The protocol has no condition for this: it is as late a look as can be had.
            raise changed_before_drop(kind, name)
        request = self._request(
            DROP[kind],
            f"drop {kind} {name}",
            name.namespace,
            name.name,
            query=(("purgeRequested", "false"),) if kind == "table" else (),
            token=self._entries.token(kind, name),
        )
        self._session.settle(request, lambda: not self._is_there(kind, name))
        self._entries.forget(kind, name)

    def default_location(self, kind: Kind, name: Name) -> Location:
        """Where a new table or view of that name would lie: the server's choice, where it tells."""
        found = self._staged_location(name) if kind == "table" else None
        if found is not None:
            return found
        home = self.namespace(name.namespace).get("location")
        if home:
            return parse_location(home) / name.name
        found = self._staged_location(name) if kind == "view" else None
        warehouse = self._session.settings.plain.get("warehouse", "")
        if found is not None:
            return found
        if "://" in warehouse:
            return parse_location(warehouse) / "/".join(name.parts)
        hint = "Give a location, or set the property location of the namespace"
        raise CatalogCannot("the server does not tell where tables go", source=str(name), hint=hint)

    def store_for(self, entry: Entry) -> Store:
        """The store that holds the files of a table, with the credentials for it."""
        return open_for(self._session, self._entries, entry)

    def _staged_location(self, name: Name) -> Location | None:
        """Stage a table and leave it at that: nothing is created, and the answer says where it would lie."""
        if not self._session.paths.has(CREATE["table"]):
            return None
        request = self._request(
            CREATE["table"],
            f"place of {name}",
            name.namespace,
            document=probe_request(name.name),
            is_repeatable=True,
        )
        reply = self._session.write(request)
        if not reply.is_success or reply.answer is None:
            error = None if reply.answer is None else self._session.error(reply.answer, request)
            if isinstance(error, CatalogCannot | AlreadyExists | InvalidInput):
                return None
            raise error or CatalogUnavailable(reply.reason, source=request.doing)
        location = self._session.parse(reply.answer, _read_location, request.doing)
        return parse_location(location) if location else None

    def _is_there(self, kind: Kind, name: Name) -> bool:
        # Not by HEAD: its 404 does not show whether the catalog said so, or somebody on the way.
        try:
            self.load(kind, name)
        except NotFound:
            return False
        return True

    def _look(self, kind: Kind, name: Name) -> str | bool | None:
        """Which table or view stands under a name: its uuid; False if none does, None if it cannot be said.

        Only asked where the server does not keep keys, which tell a request that was delivered twice.
        """
        if self._session.config.key_lifetime_s is not None:
            return None
        try:
            metadata = self.load(kind, name).metadata
        except NotFound:
            return False
        except LakeplaneError:
            return None
        return metadata.table_uuid if isinstance(metadata, TableMetadata) else metadata.view_uuid

    def _request(
        self,
        endpoint: Endpoint,
        doing: str,
        namespace: Namespace = (),
        name: str | None = None,
        **parts: Any,
    ) -> Request:
        path = self._session.paths.of(endpoint, namespace, name)
        return Request(endpoint=endpoint, path=path, doing=doing, **parts)

    def _pages(self, request: Request, key: str) -> Iterator[Any]:
        """Follow the pages of a listing; a server that goes in circles, or on for ever, is stopped."""
        size = self._session.config.page_size
        query = request.query + ((("pageToken", ""), ("pageSize", str(size))) if size else ())
        seen: set[str] = set()
        count = 0
        for _ in range(_MOST_PAGES):
            answer = self._session.read(_with_query(request, query))
            found, token = self._session.parse(answer, lambda raw: _read_page(raw, key), request.doing)
            yield from found
            count += len(found)
            if not token:
                return
            if token in seen:
                raise InvalidMetadata("the server lists the same page again", source=request.doing)
            if count > _MOST_NAMES:
                break
            seen.add(token)
            query = (*request.query, ("pageToken", token), *((("pageSize", str(size)),) if size else ()))
        raise LimitExceeded("the server lists too many names", source=request.doing)


def _revive(uri: str, options: dict[str, Any]) -> RestCatalog:
    return RestCatalog(uri, options)


def _with_query(request: Request, query: tuple[tuple[str, str], ...]) -> Request:
    return Request(endpoint=request.endpoint, path=request.path, doing=request.doing, query=query)


def _read_page(document: Mapping[str, Any], key: str) -> tuple[list[Any], str | None]:
    found = document.get(key)
    if not isinstance(found, list):
        raise InvalidMetadata("expected a list", field=key)
    return found, read_text(document, "next-page-token")


def _read_properties(document: Mapping[str, Any]) -> FrozenDict[str, str]:
    found = document.get("properties") or {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidMetadata("expected a map of texts", field="properties")
    return FrozenDict(found)


def _read_name(raw: object) -> Name:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise InvalidMetadata("expected an identifier", field="identifiers")
    return Name(tuple(_texts(raw.get("namespace"))), raw["name"])


def _write_name(name: Name) -> dict[str, Any]:
    return {"namespace": list(name.namespace), "name": name.name}


def _read_location(document: Mapping[str, Any]) -> str | None:
    metadata = document.get("metadata")
    return read_text(metadata, "location") if isinstance(metadata, dict) else None


def _texts(raw: object) -> list[str]:
    if not isinstance(raw, list) or not all(isinstance(each, str) for each in raw):
        raise InvalidMetadata("expected a list of texts", field="namespace")
    return raw
