"""SHOW and DESCRIBE, with the columns that Spark gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from lakeplane.catalog.names import parse_name, show
from lakeplane.errors import NotSupported
from lakeplane.model.ddl import column_to_ddl
from lakeplane.model.rules_text import partition_text, sort_text
from lakeplane.model.transforms import Identity
from lakeplane.sql.names import OfTable, OfView
from lakeplane.sql.namespaces import KINDS, missing
from lakeplane.sql.statement import Run, property_key
from lakeplane.sql.words import Parts, Words, text_literal, written

if TYPE_CHECKING:
    from lakeplane.catalog.names import Namespace
    from lakeplane.iceberg.metadata import TableMetadata
    from lakeplane.model.schema import Schema
    from lakeplane.spark.frames import DataFrame
    from lakeplane.table import Table, View

SUPPORTED: Final = (
    "NAMESPACES",
    "TABLES",
    "VIEWS",
    "COLUMNS",
    "TBLPROPERTIES",
    "CREATE TABLE",
    "PARTITIONS",
    "CURRENT NAMESPACE",
)
_MANY: Final = tuple(f"{each}S" for each in KINDS)


class ShowNames(NamedTuple):
    """``SHOW NAMESPACES``, ``SHOW TABLES`` and ``SHOW VIEWS``."""

    kind: Literal["namespace", "table", "view"]
    within: Parts | None
    pattern: str | None

    def run(self, run: Run) -> DataFrame:
        """List them."""
        namespace = None if self.within is None else run.scope.in_namespace(self.within)
        if namespace is not None and not run.scope.has_namespace(namespace):
            raise missing(run, namespace)
        if self.kind == "namespace":
            found = [each for each in run.lake.namespaces(namespace) if _matches(self.pattern, each)]
            return run.answer("namespace STRING NOT NULL", [[each] for each in found])
        # Without a namespace that is in use, all of them are looked at.
        names = run.lake.tables if self.kind == "table" else run.lake.views
        within: Namespace | None = (run.scope.namespace or None) if namespace is None else namespace
        found_names = [parse_name(each) for each in names(within or None)]
        rows = [
            [show(each.namespace), each.name, False]
            for each in found_names
            if _matches(self.pattern, each.name)
        ]
        ddl = f"namespace STRING NOT NULL, {self.kind}Name STRING NOT NULL, isTemporary BOOLEAN NOT NULL"
        return run.answer(ddl, rows)


class ShowCurrent(NamedTuple):
    """``SHOW CURRENT NAMESPACE``."""

    def run(self, run: Run) -> DataFrame:
        """Tell which namespace is in use."""
        return run.answer("catalog STRING, namespace STRING", [[run.lake.name, show(run.scope.namespace)]])


class ShowTable(NamedTuple):
    """What SHOW tells of one table or view."""

    kind: Literal["columns", "properties", "create", "partitions"]
    name: Parts
    key: str | None = None

    def run(self, run: Run) -> DataFrame:
        """Tell it."""
        found = run.scope.find(self.name)
        if found is None and not run.scope.is_ours(self.name):
            return run.to_spark()
        match found:
            case OfView(view) if self.kind != "partitions":
                return self._of_view(run, view)
            case _:
                return self._of_table(run, run.scope.table(self.name).table)

    def _of_table(self, run: Run, table: Table) -> DataFrame:
        match self.kind:
            case "columns":
                return run.answer("col_name STRING NOT NULL", [[each.name] for each in table.schema.fields])
            case "properties":
                return self._properties(run, _told(table))
            case "create":
                return run.answer("createtab_stmt STRING NOT NULL", [[create_text(table, run.lake.name)]])
            case "partitions":
                return run.answer("partition STRING NOT NULL", [[each] for each in _partitions(table)])

    def _of_view(self, run: Run, view: View) -> DataFrame:
        match self.kind:
            case "columns":
                return run.answer("col_name STRING NOT NULL", [[each.name] for each in view.schema.fields])
            case "properties":
                return self._properties(run, dict(view.properties))
            case _:
                return run.answer("createtab_stmt STRING NOT NULL", [[view_text(view, run.lake.name)]])

    def _properties(self, run: Run, properties: dict[str, str]) -> DataFrame:
        rows = sorted(properties.items())
        if self.key is not None:
            problem = f"Table {show(run.scope.full(self.name).parts)} does not have property: {self.key}"
            rows = [(self.key, properties.get(self.key, problem))]
        return run.answer("key STRING NOT NULL, value STRING NOT NULL", rows)


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

    def _view_rows(self, view: View, run: Run) -> list[list[str | None]]:
        rows = _column_rows(view.schema)
        if self.extended:
            told = [("Name", f"{run.lake.name}.{view.name}"), ("Type", "VIEW"), ("View Text", view.sql())]
            told.append(("Table Properties", _bracketed(view.properties)))
            rows += [["", "", ""], ["# Detailed View Information", "", ""], *([*each, ""] for each in told)]
        return rows

    def _one_column(self, run: Run, found: OfTable) -> DataFrame:
        assert self.column is not None
        field = found.table.schema.find(".".join(self.column), case_sensitive=run.case_sensitive)
        rows = [["col_name", field.name], ["data_type", _type(field.type)], ["comment", field.doc or "NULL"]]
        return run.answer("info_name STRING NOT NULL, info_value STRING NOT NULL", rows)


def show_statement(words: Words) -> ShowNames | ShowCurrent | ShowTable | None:
    """Read what follows ``SHOW``; None if it is for Spark to show."""
    for kind, many in (("namespace", _MANY), ("table", ("TABLES",)), ("view", ("VIEWS",))):
        if any(words.skip(each) for each in many):
            within = words.parts("a namespace") if words.skip("IN") or words.skip("FROM") else None
            words.skip("LIKE")
            pattern = None if words.is_done else words.string("a pattern")
            words.end()
            return ShowNames(kind, within, pattern)  # type: ignore[arg-type] - one of the table above
    if words.skip("CURRENT", "NAMESPACE"):
        return ShowCurrent()
    if words.skip("COLUMNS"):
        words.one_of("IN or FROM", "IN", "FROM")
        name = words.parts("the name of a table")
        if words.skip("IN") or words.skip("FROM"):
            name = (*words.parts("a namespace"), name[-1])
        words.end()
        return ShowTable("columns", name)
    if words.skip("TBLPROPERTIES"):
        name, key = words.parts("the name of a table"), None
        if words.skip("("):
            key = property_key(words)
            words.expect(")", "')'")
        words.end()
        return ShowTable("properties", name, key)
    if words.skip("CREATE", "TABLE"):
        name = words.parts("the name of a table")
        words.skip("AS", "SERDE")
        words.end()
        return ShowTable("create", name)
    if words.skip("PARTITIONS"):
        name = words.parts("the name of a table")
        if not words.is_done:
            words.refuse("PARTITION (...) is not supported here", "Filter the metadata table name.partitions")
        return ShowTable("partitions", name)
    if words.sees("TABLE"):
        raise NotSupported(
            "SHOW TABLE EXTENDED is not supported", source="SQL", hint="Write DESCRIBE EXTENDED name"
        )
    return None


def describe(words: Words) -> Describe:
    """Read what follows ``DESCRIBE TABLE``."""
    extended = words.skip("EXTENDED") or words.skip("FORMATTED")
    name = words.parts("the name of a table")
    if words.sees("PARTITION"):
        words.refuse("PARTITION (...) is not supported here", "Look at the metadata table name.partitions")
    column = None if words.is_done else words.parts("a column")
    words.end()
    return Describe(name, extended, column)


def _matches(pattern: str | None, name: str) -> bool:
    """Spark's patterns: ``*`` for anything, ``|`` between alternatives, in any case."""
    if pattern is None:
        return True
    return any(
        re.fullmatch(".*".join(map(re.escape, each.strip().split("*"))), name, re.IGNORECASE)
        for each in pattern.split("|")
    )


def _type(type_: Any) -> str:
    from lakeplane.spark.types import shown_type  # noqa: PLC0415 - brings pyspark

    try:
        return shown_type(type_).simpleString()
    except NotSupported:
        return str(type_)


def _column_rows(schema: Schema) -> list[list[str | None]]:
    return [[each.name, _type(each.type), each.doc] for each in schema.fields]


def _partition_rows(table: TableMetadata) -> list[list[str | None]]:
    fields = table.partition_spec.fields
    if not fields:
        return []
    if all(isinstance(each.transform, Identity) for each in fields):
        sources = [table.schema.get(each.source_id) for each in fields]
        rows: list[list[str | None]] = [
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
        *([f"Part {n}", each, ""] for n, each in enumerate(parts)),
    ]


def _detail_rows(table: Table, run: Run) -> list[list[str | None]]:
    told = [("Name", f"{run.lake.name}.{table.name}"), ("Type", "MANAGED")]
    if comment := table.properties.get("comment"):
        told.append(("Comment", comment))
    told += [("Location", table.location), ("Provider", "iceberg")]
    order = ", ".join(sort_text(each, table.schema) for each in table.metadata.sort_order.fields)
    told.append(("Sort Order", order or "unsorted"))
    told.append(("Table Properties", _bracketed(_told(table))))
    return [["", "", ""], ["# Detailed Table Information", "", ""], *([*each, ""] for each in told)]


def _bracketed(properties: Any) -> str:
    return f"[{','.join(f'{key}={value}' for key, value in sorted(properties.items()))}]"


def _told(table: Table) -> dict[str, str]:
    """The properties, with what Iceberg's Spark tells beside them."""
    metadata = table.metadata
    current = metadata.current_snapshot_id
    return {
        **table.properties,
        "format": f"iceberg/{table.properties.get('write.format.default', 'parquet')}",
        "format-version": str(metadata.format_version),
        "current-snapshot-id": "none" if current is None else str(current),
    }


def create_text(table: Table, catalog: str) -> str:
    """The statement that makes a table like this one."""
    schema, metadata = table.schema, table.metadata
    lines = [f"CREATE TABLE {written((catalog, *parse_name(table.name).parts))} ("]
    lines.append(",\n".join(f"  {column_to_ddl(each)}" for each in schema.fields) + ")")
    lines.append("USING iceberg")
    if rules := [partition_text(each, schema) for each in metadata.partition_spec.fields]:
        lines.append(f"PARTITIONED BY ({', '.join(rules)})")
    properties = dict(table.properties)
    if (comment := properties.pop("comment", None)) is not None:
        lines.append(f"COMMENT {text_literal(comment)}")
    lines.append(f"LOCATION {text_literal(table.location)}")
    properties["format-version"] = str(metadata.format_version)
    lines.append(f"TBLPROPERTIES ({_pairs(properties)})")
    return "\n".join(lines) + "\n"


def view_text(view: View, catalog: str) -> str:
    """The statement that makes a view like this one."""
    columns = ",\n".join(
        f"  {written((each.name,))}" + ("" if each.doc is None else f" COMMENT {text_literal(each.doc)}")
        for each in view.schema.fields
    )
    properties = {key: value for key, value in view.properties.items() if not key.startswith("spark.")}
    lines = [f"CREATE VIEW {written((catalog, *parse_name(view.name).parts))} (", columns + ")"]
    if (comment := properties.pop("comment", None)) is not None:
        lines.append(f"COMMENT {text_literal(comment)}")
    if properties:
        lines.append(f"TBLPROPERTIES ({_pairs(properties)})")
    return "\n".join([*lines, "AS", view.sql()]) + "\n"


def _pairs(properties: dict[str, str]) -> str:
    items = sorted(properties.items())
    return ", ".join(f"{text_literal(key)} = {text_literal(value)}" for key, value in items)


def _partitions(table: Table) -> Sequence[str]:
    """The partitions that have rows, as ``day=2026-01-31/region=EU``."""
    if not table.metadata.partition_spec.fields:
        raise NotSupported(
            "the table is not partitioned", source=table.name, hint="Write SHOW TABLES to look for another"
        )
    found = table.inspect("partitions")
    rows = found.select(["partition"]).to_pylist()
    texts = ("/".join(f"{key}={_value(value)}" for key, value in row["partition"].items()) for row in rows)
    return sorted(set(texts))


def _value(value: Any) -> str:
    return "null" if value is None else value.hex() if isinstance(value, bytes) else str(value)
