"""DESCRIBE: columns, partitions, and all that is known of a table or view, in rows as Spark has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeplane.errors import NotSupported
from lakeplane.model.rules_text import partition_text, sort_text
from lakeplane.model.transforms import Identity
from lakeplane.sql.names import OfTable, OfView
from lakeplane.sql.statement import Run
from lakeplane.sql.words import Parts, Words

if TYPE_CHECKING:
    from lakeplane.iceberg.metadata import TableMetadata
    from lakeplane.model.schema import Schema
    from lakeplane.spark.frames import DataFrame
    from lakeplane.table import Table, View

Rows = list[list[str | None]]


class Describe(NamedTuple):
    """``DESCRIBE TABLE``."""

    name: Parts
    extended: bool
    column: Parts | None

    def run(self, run: Run) -> DataFrame:
        """Tell columns, partitions, and on request all that is known."""
        found = run.scope.find(self.name)
        if found is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        if found is None:
            run.scope.missing("table", run.scope.full(self.name))
        columns = "col_name STRING NOT NULL, data_type STRING NOT NULL, comment STRING"
        if isinstance(found, OfView):
            return run.answer(columns, self._view_rows(found.view, run))
        if self.column is not None:
            return self._one_column(run, found)
        rows = _column_rows(found.table.schema)
        if found.selector is None:
            rows += _partition_rows(found.table.metadata)
            rows += _detail_rows(found.table, run) if self.extended else []
        return run.answer(columns, rows)

    def _view_rows(self, view: View, run: Run) -> Rows:
        rows = _column_rows(view.schema)
        if self.extended:
            known = [("Name", f"{run.lake.name}.{view.name}"), ("Type", "VIEW"), ("View Text", view.sql())]
            known.append(("Table Properties", _bracketed(view.properties)))
            rows += [["", "", ""], ["# Detailed View Information", "", ""], *_pairs(known)]
        return rows

    def _one_column(self, run: Run, found: OfTable) -> DataFrame:
        assert self.column is not None
        field = found.table.schema.find(".".join(self.column), case_sensitive=run.case_sensitive)
        rows = [["col_name", field.name], ["data_type", _type(field.type)], ["comment", field.doc or "NULL"]]
        return run.answer("info_name STRING NOT NULL, info_value STRING NOT NULL", rows)


def describe(words: Words) -> Describe:
    """Read what follows ``DESCRIBE TABLE``."""
    extended = words.skip("EXTENDED") or words.skip("FORMATTED")
    name = words.parts("the name of a table")
    if words.sees("PARTITION"):
        words.refuse("PARTITION (...) is not supported here", "Look at the metadata table name.partitions")
    column = None if words.is_done() else words.parts("a column")
    words.end()
    return Describe(name, extended, column)


def _type(type_: Any) -> str:
    from lakeplane.spark.types import shown_type  # noqa: PLC0415 - brings pyspark

    try:
        return shown_type(type_).simpleString()
    except NotSupported:
        return str(type_)


def _column_rows(schema: Schema) -> Rows:
    return [[each.name, _type(each.type), each.doc] for each in schema.fields]


def _partition_rows(table: TableMetadata) -> Rows:
    fields = table.partition_spec.fields
    if not fields:
        return []
    if all(isinstance(each.transform, Identity) for each in fields):
        sources = [table.schema.get(each.source_id) for each in fields]
        rows: Rows = [
            ["# Partition Information", "", ""],
            ["# col_name", "data_type", "comment"],
        ]
        return rows + [
            [table.schema.name_of(each.id), _type(each.type), each.doc]
            for each in sources
            if each is not None
        ]
    parts = [partition_text(each, table.schema) for each in fields]
    return [
        ["", "", ""],
        ["# Partitioning", "", ""],
        *_pairs([(f"Part {n}", each) for n, each in enumerate(parts)]),
    ]


def _detail_rows(table: Table, run: Run) -> Rows:
    known = [("Name", f"{run.lake.name}.{table.name}"), ("Type", "MANAGED")]
    if comment := table.properties.get("comment"):
        known.append(("Comment", comment))
    known += [("Location", table.location), ("Provider", "iceberg")]
    order = ", ".join(sort_text(each, table.schema) for each in table.metadata.sort_order.fields)
    known.append(("Sort Order", order or "unsorted"))
    known.append(("Table Properties", _bracketed(told(table))))
    return [["", "", ""], ["# Detailed Table Information", "", ""], *_pairs(known)]


def _pairs(pairs: list[tuple[str, str]]) -> Rows:
    return [[key, value, ""] for key, value in pairs]


def _bracketed(properties: Mapping[str, str]) -> str:
    return f"[{','.join(f'{key}={value}' for key, value in sorted(properties.items()))}]"


def told(table: Table) -> dict[str, str]:
    """The properties, with what Iceberg's Spark tells beside them."""
    metadata = table.metadata
    current = metadata.current_snapshot_id
    return {
        **table.properties,
        "format": f"iceberg/{table.properties.get('write.format.default', 'parquet')}",
        "format-version": str(metadata.format_version),
        "current-snapshot-id": "none" if current is None else str(current),
    }
