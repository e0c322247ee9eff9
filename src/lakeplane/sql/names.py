"""What names mean: a temporary view, a table or view of the lake, or something that only Spark knows.

==========================  ================================================================================
``orders``                  a temporary view of the session, or else a table of the namespace that is in use
``shop.orders``             a table or view of the lake
``lake.shop.orders``        the same, where the lake is called ``lake``
``shop.orders.branch_x``    a branch; ``tag_x``, ``snapshot_id_n`` and ``at_timestamp_n`` (in ms) likewise
``shop.orders.snapshots``   a metadata table
==========================  ================================================================================
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias

from lakeplane.catalog.names import Name, Namespace, check_part, show
from lakeplane.errors import CatalogCannot, InvalidInput, NotFound, NotSupported

if TYPE_CHECKING:
    from lakeplane.lake import Lake
    from lakeplane.paimon_table import PaimonTable
    from lakeplane.sql.words import Parts
    from lakeplane.table import Table, View

_SELECTOR: Final = re.compile(r"(branch|tag)_(.+)|(snapshot_id|at_timestamp)_([0-9]{1,19})", re.DOTALL)

METADATA_TABLES: Final = frozenset(
    {"entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots", "refs"}
    | {
        "manifests",
        "partitions",
        "all_data_files",
        "all_delete_files",
        "all_files",
        "all_manifests",
        "all_entries",
    }
    | {"position_deletes", "changes"}
)


class Branch(NamedTuple):
    """``t.branch_x``."""

    name: str


class Tag(NamedTuple):
    """``t.tag_x``."""

    name: str


class Snapshot(NamedTuple):
    """``t.snapshot_id_n``."""

    snapshot_id: int


class Moment(NamedTuple):
    """``t.at_timestamp_n``, in milliseconds."""

    ms: int


class About(NamedTuple):
    """``t.snapshots`` and the other metadata tables."""

    name: str


Selector: TypeAlias = Branch | Tag | Snapshot | Moment | About


class OfTable(NamedTuple):
    """A table, perhaps some state or side of it."""

    table: Table
    selector: Selector | None = None


class OfView(NamedTuple):
    """A view."""

    view: View


class Scope:
    """What names mean within one statement: each table is loaded once, so that all of it sees one state."""

    def __init__(
        self,
        lake: Lake,
        namespace: Namespace,
        is_temporary: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self.lake = lake
        self.namespace = namespace
        self.is_temporary = is_temporary
        self._tables: dict[Name, Table | None] = {}
        self._views: dict[Name, View | None] = {}

    def within(self, namespace: Namespace) -> Scope:
        """The same, with another namespace in use and no temporary views, as in the text of a view."""
        inner = Scope(self.lake, namespace)
        inner._tables, inner._views = self._tables, self._views
        return inner

    def find(self, parts: Parts) -> OfTable | OfView | None:
        """A table or view of the lake; None if the name is not one of its."""
        if len(parts) == 1 and self.is_temporary(parts[0]):
            return None
        bare = self.without_catalog(parts)
        whole = (*self.namespace, *bare) if len(bare) == 1 else bare
        if found := self._entry(whole):
            return found
        places = [whole] if len(bare) == 1 else [bare, (*self.namespace, *bare)]
        selector = selector_of(parts[-1])
        if selector is not None:
            for each in places:
                table = self._table(each[:-1])
                if table is not None:
                    return OfTable(table, selector)
        return None

    def table(self, parts: Parts, *, plain: bool = False) -> OfTable:
        """A table that must be there; ``plain`` is one without a branch or the like."""
        found = self.find(parts)
        if found is None:
            self.missing("table", self.full(parts))
        if isinstance(found, OfView):
            raise InvalidInput(f"{found.view.name} is a view", source="SQL", hint="Name a table")
        if found.selector is not None and plain:
            hint = f"Name the table: {found.table.name}"
            raise InvalidInput(f"{show(parts)} is only a part of a table", source="SQL", hint=hint)
        return found

    def view(self, parts: Parts) -> View:
        """A view that must be there."""
        name = self.full(parts)
        found = self._view(name)
        if found is None:
            self.missing("view", name)
        return found

    def exists(self, parts: Parts) -> bool:
        """Whether a table has exactly this name."""
        return self._table(self.full(parts).parts) is not None

    def full(self, parts: Parts) -> Name:
        """The name of a table or view, which need not be there."""
        bare = self.without_catalog(parts)
        whole = (*self.namespace, *bare) if len(bare) == 1 else bare
        for each in whole:
            check_part(each)
        if len(whole) < 2:  # noqa: PLR2004 - a namespace and a name
            hint = "Write namespace.name, or say USE namespace first"
            raise InvalidInput(f"the name {show(parts)} has no namespace", source="SQL", hint=hint)
        return Name(whole[:-1], whole[-1])

    def without_catalog(self, parts: Parts) -> Parts:
        """A name without that of the lake."""
        return parts[1:] if len(parts) > 2 and self.is_ours(parts) else parts  # noqa: PLR2004

    def is_ours(self, parts: Parts) -> bool:
        """Whether a name begins with that of the lake."""
        return parts[0] == self.lake.name

    def qualified(self, parts: Parts) -> frozenset[Parts]:
        """All ways to write the name of a table in front of its columns, with a namespace."""
        bare = self.without_catalog(parts)
        whole = (*self.namespace, *bare) if len(bare) == 1 else bare
        return frozenset({parts, whole, (self.lake.name, *whole)})

    def in_namespace(self, parts: Parts) -> Namespace:
        """The name of a namespace, without that of the lake."""
        bare = parts[1:] if len(parts) > 1 and self.is_ours(parts) else parts
        if len(parts) == 1 and self.is_ours(parts) and not self.has_namespace(parts):
            return ()
        return bare

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the lake has a namespace."""
        if not namespace:
            return True
        try:
            self.lake.namespace(namespace)
        except (NotFound, InvalidInput):
            return False
        return True

    def missing(self, kind: str, name: Name) -> NoReturn:
        """Say that there is no such table or view, and which ones are like it."""
        known: list[str] = []
        for namespace in [name.namespace, None]:
            try:
                known = self.lake.tables(namespace) + self._known_views(namespace)
            except (NotFound, InvalidInput):
                continue
            if close := difflib.get_close_matches(str(name), known, n=3):
                raise NotFound(f"there is no {kind} {name}", hint=f"Did you mean {' or '.join(close)}?")
        shown = ", ".join(known[:10])
        raise NotFound(
            f"there is no {kind} {name}", hint=f"There is {shown}" if shown else "The lake is empty"
        )

    def advice(self, names: Sequence[Parts]) -> str | None:
        """What may have been meant by names that nobody knows."""
        known = self.lake.tables() + self._known_views(None)
        known += [each.rpartition(".")[2] for each in known] if self.namespace else []
        for parts in names:
            if close := difflib.get_close_matches(show(self.without_catalog(parts)), known, n=3):
                return f"Did you mean {' or '.join(close)}?"
        return None

    def _known_views(self, namespace: Namespace | None) -> list[str]:
        try:
            return self.lake.views(namespace)
        except CatalogCannot:
            return []

    def _entry(self, whole: Parts) -> OfTable | OfView | None:
        table = self._table(whole)
        if table is not None:
            return OfTable(table)
        view = self._view(Name(whole[:-1], whole[-1])) if self._is_name(whole) else None
        return None if view is None else OfView(view)

    def _is_name(self, whole: Parts) -> bool:
        try:
            for each in whole:
                check_part(each)
        except InvalidInput:
            return False
        return len(whole) > 1

    def _table(self, whole: Parts) -> Table | None:
        if not self._is_name(whole):
            return None
        name = Name(whole[:-1], whole[-1])
        if name not in self._tables:
            try:
                found = self.lake.table(name)
            except NotFound:
                self._tables[name] = None
            else:
                self._tables[name] = _of_iceberg(found)
        return self._tables[name]

    def _view(self, name: Name) -> View | None:
        if name not in self._views:
            try:
                self._views[name] = self.lake.view(name)
            except (NotFound, CatalogCannot):
                self._views[name] = None
        return self._views[name]


def selector_of(part: str) -> Selector | None:
    """What the last part of a name says about the table before it."""
    if part.lower() in METADATA_TABLES:
        return About(part.lower())
    found = _SELECTOR.fullmatch(part)
    if found is None:
        return None
    if found[1]:
        return Branch(found[2]) if found[1] == "branch" else Tag(found[2])
    return Snapshot(int(found[4])) if found[3] == "snapshot_id" else Moment(int(found[4]))


def _of_iceberg(table: Table | PaimonTable) -> Table:
    from lakeplane.table import Table  # noqa: PLC0415 - it knows this front end

    if not isinstance(table, Table):
        hint = f"Read it as a frame: lake.table({table.name!r}).read()"
        raise NotSupported("SQL on tables of Paimon", source=table.name, hint=hint)
    return table
