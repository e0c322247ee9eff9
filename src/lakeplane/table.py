"""The nouns that users hold: tables and views, thin over the floors below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from lakeplane.catalog.catalog import Catalog, Entry, same_table, table_of
from lakeplane.catalog.commit_loop import Work, publish
from lakeplane.errors import InvalidInput, LakeplaneError, OutcomeUnknown
from lakeplane.evolution import Evolution
from lakeplane.iceberg import refs
from lakeplane.iceberg.evolve import propose_evolution
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.refs import Proposal, Retention
from lakeplane.iceberg.snapshots import MAIN, Ref, Snapshot
from lakeplane.iceberg.view import ViewMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.schema import Schema
from lakeplane.receipt import Commit, receipt
from lakeplane.resources import Resources

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeplane.iceberg.changes import Change
    from lakeplane.iceberg.conflicts import Isolation
    from lakeplane.iceberg.explain import Explanation
    from lakeplane.iceberg.manifest_scan import Reading
    from lakeplane.iceberg.new_files import NewFiles
    from lakeplane.iceberg.replacement import Wanted
    from lakeplane.iceberg.time_travel import At
    from lakeplane.merging import Merge
    from lakeplane.model.expressions.tree import Predicate
    from lakeplane.reading import Reader
    from lakeplane.row_changing import RowChange, RowHow, Statement
    from lakeplane.spark.frames import DataFrame
    from lakeplane.spark.merge import Merging
    from lakeplane.storage.store import Store
    from lakeplane.writing import Also, How, Written

ProposeTable = Callable[[TableMetadata], Proposal]


class Table:
    """A table as it was when it was loaded, or last changed through this object; ``refresh`` looks again."""

    def __init__(self, catalog: Catalog, entry: Entry, resources: Resources) -> None:
        self._catalog = catalog
        self._entry = entry
        self._metadata = table_of(entry)
        self._resources = resources

    def __repr__(self) -> str:
        return f"Table({self.name!r}, v{self.metadata.format_version}, {len(self.snapshots)} snapshots)"

    @property
    def name(self) -> str:
        """The name in the catalog."""
        return str(self._entry.name)

    @property
    def metadata(self) -> TableMetadata:
        """Everything that is true of the table, as an immutable value."""
        return self._metadata

    @property
    def metadata_location(self) -> str:
        """The file that holds the metadata."""
        return self._entry.metadata_location

    @property
    def location(self) -> str:
        """Where the table's files go."""
        return self.metadata.location

    @property
    def schema(self) -> Schema:
        """The current columns."""
        return self.metadata.schema

    @property
    def properties(self) -> FrozenDict[str, str]:
        """The table's properties."""
        return self.metadata.properties

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots that the table still has."""
        return self.metadata.snapshots

    @property
    def refs(self) -> FrozenDict[str, Ref]:
        """The branches and tags, by name."""
        return self.metadata.refs

    def refresh(self) -> Table:
        """Look at the table again, and give it back."""
        self._become(self._catalog.load("table", self._entry.name))
        return self

    def read(
        self, columns: Sequence[str] | None = None, where: str | None = None, at: At = None
    ) -> DataFrame:
        """The rows of the table, as an ordinary DataFrame of Spark.

        Args:
            columns: Some of the columns, in this order. On request also what Iceberg tells of each row:
                ``_file``, ``_pos``, ``_partition``, ``_spec_id``, ``_row_id`` and
                ``_last_updated_sequence_number``.
            where: A condition in Spark's SQL. It leaves out files before Spark hears of them, which filters
                that are chained to the DataFrame later cannot do.
            at: A snapshot id, a branch, a tag or a time; without one, the table as it was loaded.
        """
        from lakeplane.reading import read_rows  # noqa: PLC0415 - planning brings pyarrow

        store = self._catalog.store_for(self._entry)
        return read_rows(self.metadata, store, self._resources, columns=columns, where=where, at=at)

    def changes(
        self,
        since: At,
        until: At = None,
        *,
        net: bool = False,
        columns: Sequence[str] | None = None,
        identifier_columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """What happened to the rows of the table, commit by commit, as an ordinary DataFrame of Spark.

        It has the table's current columns, then ``_change_type`` (``insert``, ``delete``, ``update_before``,
        ``update_after``), ``_change_ordinal`` (0 for the first commit) and ``_commit_snapshot_id``. Rows that
        were only copied, and compactions, are no changes.

        Args:
            since: The state that changes come after: a snapshot id, a branch, a tag or a time; None is the
                empty table at its beginning.
            until: The state that the last change has led to; without one, the table as it was loaded.
            net: Tell only how the two states differ, as if by one commit.
            columns: Some of the columns, in this order, and what ``read`` can tell of rows besides.
            identifier_columns: What tells which rows were updated where rows have no ids; without them, the
                identifier fields of the schema. An empty list is for none.
        """
        from lakeplane.reading import read_changes  # noqa: PLC0415 - planning brings pyarrow

        store = self._catalog.store_for(self._entry)
        return read_changes(
            self.metadata,
            store,
            self._resources,
            since,
            until,
            net=net,
            columns=columns,
            identifier_columns=identifier_columns,
        )

    def append(self, rows: Any, branch: str = MAIN, **how: Unpack[Also]) -> Commit:
        """Add rows: a frame of Spark, Arrow, pandas or polars, whose columns are matched by name.

        Columns that the frame lacks take their ``write-default``, or null. All writes take these, too:

        - ``merge_schema=True`` adds the columns that the table lacks, and widens types until the rows fit
        - ``properties`` are said by the summary of the snapshot
        - ``options`` are properties of the table (``write.…``) that are others for this write
        - ``wap_id`` and ``wap_branch`` stage the rows, to be audited before they are published
        """
        from lakeplane.iceberg.changes import Append  # noqa: PLC0415 - changes bring pyarrow

        return self._write(rows, {**how, "branch": branch}, lambda files, said: Append(files=files, **said))

    def overwrite(
        self,
        rows: Any,
        where: str | None = None,
        *,
        isolation: Isolation | None = "serializable",
        **how: Unpack[How],
    ) -> Commit:
        """Replace the rows that match a condition, or all rows, by others.

        The condition has to cover whole files: a file of which only some rows match is an error that names
        it. What others did to those rows since the table was loaded is a ``CommitConflict``; under
        ``isolation="snapshot"`` rows that they added are replaced too, and without isolation whatever they
        did. Further arguments as for ``append``.
        """
        from lakeplane.iceberg.changes import Overwrite  # noqa: PLC0415 - changes bring pyarrow

        replaced = self._condition(where, rows)
        read = self._snapshot_of(how)

        def change(files: tuple[NewFiles, ...], said: Any) -> Change:
            return Overwrite(files=files, where=replaced, isolation=isolation, validate_from=read, **said)

        return self._write(rows, how, change)

    def overwrite_partitions(
        self, rows: Any, *, isolation: Isolation | None = "serializable", **how: Unpack[How]
    ) -> Commit:
        """Replace the partitions that the rows fall into; of a table without partitions, all rows.

        Further arguments as for ``append`` and ``overwrite``.
        """
        from lakeplane.iceberg.changes import OverwritePartitions  # noqa: PLC0415 - changes bring pyarrow

        read = self._snapshot_of(how)

        def change(files: tuple[NewFiles, ...], said: Any) -> Change:
            return OverwritePartitions(files=files, isolation=isolation, validate_from=read, **said)

        return self._write(rows, how, change)

    def delete(self, where: str, **how: Unpack[RowHow]) -> Commit:
        """Delete the rows that match a condition in Spark's SQL; ``"true"`` deletes all of them.

        The table is looked at anew first. Rows are deleted by ``write.delete.mode``: *copy-on-write* writes
        the touched files anew, *merge-on-read* only writes down which of their rows are gone. Files whose
        rows are known to match all are removed without being read. If no row matches, no snapshot is made.

        What others do to these rows meanwhile is a ``CommitConflict``, and under ``serializable`` isolation
        also what they add to them. Besides the arguments of ``append``, ``mode=`` and ``isolation=`` stand in
        for the table's properties.
        """
        return self._change_rows("delete", how, lambda change: change.delete(where))

    def update(self, set: Mapping[str, Any], where: str | None = None, **how: Unpack[RowHow]) -> Commit:  # noqa: A002 - its name in SQL
        """Give columns of the rows that match a condition other values; without one, of all rows.

        ``set`` has SQL, columns of Spark or plain values by the names of columns, at any depth of structs:
        ``orders.update({"total": "total * 2", "place.x": 0}, "id = 7")``. Rows keep their identity
        (``_row_id``). More is told at ``delete``.
        """
        return self._change_rows("update", how, lambda change: change.update(set, where))

    def merge(
        self, source: Any, on: Any, *, target_name: str = "t", source_name: str = "s", **how: Unpack[RowHow]
    ) -> Merge:
        """Bring a source and the table together, clause by clause; nothing happens before ``execute``.

        ::

            orders.merge(updates, on="t.id = s.id").when_matched_update().when_not_matched_insert().execute()

        ``source`` is a frame of Spark, Arrow, pandas or polars, or a table; its rows are computed once. In
        conditions and values the table is called ``t`` and the source ``s``, or as the two names say. A row
        of the table that meets two rows of the source is an error. More is told at ``delete``.
        """
        from lakeplane.merging import Merge  # noqa: PLC0415 - brings pyspark
        from lakeplane.spark.merge import Merging  # noqa: PLC0415

        merging = Merging(on, target=target_name, source=source_name)
        return Merge(merging, lambda merging: self._merge(source, merging, how))

    def _merge(self, source: Any, merging: Merging, how: RowHow) -> Commit:
        from lakeplane import writing  # noqa: PLC0415 - brings pyarrow

        given = writing.given_rows(source.read() if isinstance(source, Table) else source)
        if merging.evolves:
            self._widen(given)
        return self._change_rows("merge", how, lambda change: change.merge(given, merging))

    def upsert(self, rows: Any, on: Sequence[str] | None = None, **how: Unpack[How]) -> Commit:
        """Add rows, and delete older ones with the same key, without reading the table.

        The key are the columns ``on``, or those that identify rows of the table. It costs what an append
        costs: keys are written as equality deletes, which every read has to apply. ``merge`` reads the
        table, and leaves nothing to be done by others; ``convert_equality_deletes`` does it afterwards.
        Rows lose their identity. Further arguments as for ``append``.
        """
        from lakeplane import upserting, writing  # noqa: PLC0415 - brings pyarrow

        said = {key: value for key, value in how.items() if key not in ("merge_schema", "options")}
        rows = writing.given_rows(rows)
        if how.get("merge_schema", False):
            self._widen(rows)
        store = self._catalog.store_for(self._entry)
        options, schemes = how.get("options", EMPTY), self._resources.spark_schemes
        with writing.Written(store) as written:
            change = upserting.upsert(
                rows, on, self.metadata, written, options=options, schemes=schemes, said=said
            )
        return self._publish_files(change, store, written.paths)

    def convert_equality_deletes(self, branch: str = MAIN, *, options: Mapping[str, str] = EMPTY) -> Commit:
        """Write down the positions of rows that equality deletes leave out, so that reads find them faster.

        The rows are the same afterwards. If there are no such deletes, no snapshot is made.
        """
        from lakeplane.upserting import convert  # noqa: PLC0415 - brings pyarrow

        return self._publish_found(
            lambda reader, written: convert(self.metadata, reader, written, options=options, branch=branch)
        )

    def _change_rows(
        self, statement: Statement, how: RowHow, make: Callable[[RowChange], Change | None]
    ) -> Commit:
        """Find the rows of a statement, write what becomes of them, and publish it."""
        from lakeplane.row_changing import RowChange  # noqa: PLC0415 - brings pyspark

        def find(reader: Reader, written: Written) -> Change | None:
            return make(RowChange(statement, self.metadata, reader, written, how))

        return self._publish_found(find)

    def _publish_found(self, find: Callable[[Reader, Written], Change | None]) -> Commit:
        """Look at the table anew, find what is to change, and publish it."""
        from lakeplane.reading import Reader  # noqa: PLC0415 - brings pyarrow
        from lakeplane.writing import Written  # noqa: PLC0415

        self._look_again()
        store = self._catalog.store_for(self._entry)
        with Written(store) as written:
            change = find(Reader.of(store, self._resources), written)
        if change is None:
            return Commit(table=self.name, metadata_location=self.metadata_location, attempts=0)
        return self._publish_files(change, store, written.paths)

    def _look_again(self) -> None:
        """Refresh, but never become another table that has the name by now."""
        entry = self._catalog.load("table", self._entry.name)
        same_table(self._entry, entry)
        self._become(entry)

    def _write(self, rows: Any, how: How, change: Callable[[tuple[NewFiles, ...], Any], Change]) -> Commit:
        """Write rows as files, and publish them. What was certainly not published is deleted."""
        from lakeplane import writing  # noqa: PLC0415 - brings pyarrow
        from lakeplane.iceberg.changes import new_paths  # noqa: PLC0415

        said = {key: value for key, value in how.items() if key not in ("merge_schema", "options")}
        change((), said)  # what nobody knows is refused before anything is written
        rows = writing.given_rows(rows)
        if how.get("merge_schema", False):
            self._widen(rows)
        store = self._catalog.store_for(self._entry)
        options, schemes = how.get("options", EMPTY), self._resources.spark_schemes
        made = change(writing.write_files(rows, self.metadata, store, options, schemes), said)
        return self._publish_files(made, store, new_paths(made))

    def _replace(self, wanted: Wanted, rows: Any) -> Commit:
        """Give the table other columns and rows."""
        from lakeplane import writing  # noqa: PLC0415 - brings pyarrow
        from lakeplane.iceberg.apply import apply  # noqa: PLC0415
        from lakeplane.iceberg.changes import Replace, new_paths  # noqa: PLC0415
        from lakeplane.iceberg.replacement import replacement  # noqa: PLC0415

        base, store = self.metadata, self._catalog.store_for(self._entry)
        change = Replace(wanted=wanted, base=base)
        if rows is not None:
            draft = apply(base, replacement(base, wanted), now_ms=base.last_updated_ms)
            given, schemes = writing.given_rows(rows), self._resources.spark_schemes
            files = writing.write_files(given, draft, store, EMPTY, schemes)
            change = Replace(wanted=wanted, base=base, files=files)
        return self._publish_files(change, store, new_paths(change))

    def _widen(self, rows: Any) -> None:
        """Add the columns that rows have more, and widen types until their values fit."""
        from lakeplane.writing import widened_schema  # noqa: PLC0415 - brings pyarrow

        with self.evolve() as evolution:
            evolution.union_by_name(widened_schema(rows, self.metadata))

    def _publish_files(self, change: Change, store: Store, written: Iterable[str]) -> Commit:
        """Publish a change; files that were written for it and certainly are not published are deleted."""
        from lakeplane.changing import delete_unpublished  # noqa: PLC0415 - brings pyarrow

        try:
            return self._change(change)
        except OutcomeUnknown:
            raise
        except LakeplaneError:
            delete_unpublished(store, written)
            raise

    def _condition(self, where: str | None, rows: Any) -> Predicate:
        from lakeplane.writing import understand  # noqa: PLC0415 - brings pyarrow

        return understand(where, self.schema, rows)

    def _snapshot_of(self, how: How) -> int | None:
        """The snapshot that a write to a branch replaces, as far as this object has seen."""
        branch = how.get("wap_branch") or how.get("branch", MAIN)
        ref = self.refs.get(branch) or self.refs.get(MAIN)
        return None if ref is None else ref.snapshot_id

    def explain(self, where: str | None = None, at: At = None, *, zone: str = "UTC") -> Explanation:
        """Tell what a read would look at: what is kept, what is left out, and by which rule.

        ``where`` is a condition in Spark's SQL, ``at`` a snapshot id, a branch, a tag or a time, and
        ``zone`` the time zone in which times without one are understood. No rows are read.
        """
        from lakeplane.iceberg.explain import explain  # noqa: PLC0415 - planning brings pyarrow
        from lakeplane.iceberg.plan import plan  # noqa: PLC0415

        return explain(plan(self.metadata, self._reading(), where, at, zone=zone), self.name)

    def inspect(self, name: str, at: At = None) -> pa.Table:
        """One of Iceberg's metadata tables: ``snapshots``, ``files``, ``partitions``, and so on.

        Those of one snapshot can be of another state: ``at`` is a snapshot id, a branch, a tag or a time.
        """
        from lakeplane.iceberg.inspect import inspect  # noqa: PLC0415 - metadata tables bring pyarrow

        return inspect(self.metadata, self._reading(), name, at, metadata_location=self.metadata_location)

    def _reading(self) -> Reading:
        """How the files of the table's metadata are read, and where they are kept."""
        from lakeplane.reading import reading_of  # noqa: PLC0415 - planning brings pyarrow

        return reading_of(self._catalog.store_for(self._entry), self._resources.cache)

    def evolve(self, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> Evolving:
        """Change columns, partition fields, sort order, properties and more, all published at the end.

        ::

            with orders.evolve() as change:
                change.add_column("note", "STRING")
                change.add_partition_field("days(at)")
        """
        evolution = Evolution()

        def propose(table: TableMetadata) -> Proposal:
            return propose_evolution(
                table,
                evolution.steps,
                allow_incompatible=allow_incompatible,
                case_sensitive=case_sensitive,
            )

        return Evolving(evolution, lambda: self._publish(propose))

    def create_branch(
        self, name: str, at: int | str | None = None, *, replace: bool = False, **retention: int
    ) -> Commit:
        """Make a branch at a snapshot id, a branch or a tag; without one, at the current snapshot.

        Retention: ``max_ref_age_ms``, ``max_snapshot_age_ms``, ``min_snapshots_to_keep``.
        """
        kept = _retention(retention)
        return self._publish(lambda table: refs.create_branch(table, name, at, kept, replace=replace))

    def create_tag(
        self, name: str, at: int | str | None = None, *, replace: bool = False, **retention: int
    ) -> Commit:
        """Make a tag at a snapshot id, a branch or a tag; without one, at the current snapshot.

        Retention: ``max_ref_age_ms``.
        """
        kept = _retention(retention)
        return self._publish(lambda table: refs.create_tag(table, name, at, kept, replace=replace))

    def drop_ref(self, name: str) -> Commit:
        """Drop a branch or tag; its snapshots stay until they are expired."""
        return self._publish(lambda table: refs.drop(table, name))

    def set_retention(self, name: str, **retention: int) -> Commit:
        """Change how long a branch or tag is kept; arguments as for ``create_branch``."""
        if not retention:
            hint = f"Give {', '.join(Retention.__struct_fields__)}"
            raise InvalidInput("no retention to set", source=self.name, hint=hint)
        kept = _retention(retention)
        return self._publish(lambda table: refs.set_retention(table, name, kept))

    def fast_forward(self, branch: str, to: int | str) -> Commit:
        """Move a branch to a snapshot that descends from where it is."""
        return self._publish(lambda table: refs.fast_forward(table, branch, to))

    def rollback(self, to: int | None = None, *, before_ms: int | None = None) -> Commit:
        """Make an ancestor of the current snapshot the current one: by its id, or the last before a time."""
        return self._publish(lambda table: refs.rollback(table, to, before_ms=before_ms))

    def set_current_snapshot(self, to: int | str) -> Commit:
        """Make any snapshot of the table the current one."""
        return self._publish(lambda table: refs.move(table, "main", refs.resolve(table, to)))

    def cherrypick(self, snapshot_id: int) -> Commit:
        """Do to main what a snapshot did that was written beside it: an append, or new partitions."""
        from lakeplane.iceberg.cherrypick import Cherrypick  # noqa: PLC0415 - changes bring pyarrow

        return self._change(Cherrypick(snapshot_id=snapshot_id))

    def publish_changes(self, wap_id: str) -> Commit:
        """Cherry-pick the snapshot that was staged under an id to be audited."""
        from lakeplane.iceberg.cherrypick import Cherrypick  # noqa: PLC0415 - changes bring pyarrow

        return self._change(Cherrypick(wap_id=wap_id))

    def _change(self, change: Change) -> Commit:
        """Publish a change of files."""
        from lakeplane.changing import publish_change  # noqa: PLC0415 - changes bring pyarrow

        before = self.metadata
        done = publish_change(self._catalog, self._entry, self._reading().cache, change)
        self._become(done.entry)
        location, made = done.entry.metadata_location, done.snapshot_id
        if made is None:
            return Commit(table=self.name, metadata_location=location, attempts=done.attempts)
        return receipt(self.name, before, self.metadata, location, done.attempts, snapshot_id=made)

    def _publish(self, propose: ProposeTable) -> Commit:
        before = self.metadata

        def of_this_table(entry: Entry) -> Proposal:
            nonlocal before
            before = same_table(self._entry, entry)
            return propose(before)

        done = publish(self._catalog, [Work("table", self._entry.name, of_this_table)])
        [entry] = done.entries
        self._become(entry)
        return receipt(self.name, before, self.metadata, entry.metadata_location, done.attempts)

    def _become(self, entry: Entry) -> None:
        self._entry, self._metadata = entry, table_of(entry)


class Evolving:
    """An evolution that is published when its ``with`` block ends, and forgotten when it fails."""

    def __init__(self, evolution: Evolution, finish: Callable[[], Commit]) -> None:
        self._evolution = evolution
        self._finish = finish

    def __enter__(self) -> Evolution:
        return self._evolution

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._evolution.steps:
            self._evolution.receipt = self._finish()


class View:
    """A view as it was when it was loaded."""

    def __init__(self, entry: Entry) -> None:
        assert isinstance(entry.metadata, ViewMetadata)
        self._entry = entry
        self._metadata = entry.metadata

    def __repr__(self) -> str:
        return f"View({self.name!r})"

    @property
    def name(self) -> str:
        """The name in the catalog."""
        return str(self._entry.name)

    @property
    def metadata(self) -> ViewMetadata:
        """Everything that is true of the view, as an immutable value."""
        return self._metadata

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return self.metadata.schema

    @property
    def properties(self) -> FrozenDict[str, str]:
        """The view's properties."""
        return self.metadata.properties

    def sql(self, dialect: str = "spark") -> str:
        """The SELECT that defines the view, in a dialect."""
        found = self.metadata.current_version.sql_for(dialect)
        if found is None:
            known = ", ".join(
                sorted(each.dialect or "?" for each in self.metadata.current_version.representations)
            )
            raise InvalidInput(
                f"no definition for {dialect}", source=self.name, hint=f"There is one for {known}"
            )
        return found


def _retention(given: Mapping[str, Any]) -> Retention:
    try:
        return msgspec.convert(dict(given), Retention, strict=True) if given else Retention()
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), field="retention") from None
