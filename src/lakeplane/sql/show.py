"""SHOW, with the columns that Spark gives its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

from lakeplane.catalog.names import parse_name, show
from lakeplane.errors import NotSupported
from lakeplane.model.ddl import column_to_ddl
from lakeplane.model.rules_text import partition_text
from lakeplane.sql.describe import told
from lakeplane.sql.names import OfView
from lakeplane.sql.namespaces import KINDS, missing
from lakeplane.sql.statement import Run, property_key
from lakeplane.sql.words import Parts, Words, text_literal, written

if TYPE_CHECKING:
    from lakeplane.catalog.names import Namespace
    from lakeplane.spark.frames import DataFrame
    from lakeplane.table import Table, View

Kind: TypeAlias = Literal["namespace", "table", "view"]


class ShowNames(NamedTuple):
    """``SHOW NAMESPACES``, ``SHOW TABLES`` and ``SHOW VIEWS``."""

    kind: Kind
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
                return self._properties(run, told(table))
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


def _names(kind: Kind) -> Callable[[Words], ShowNames]:
    def read(words: Words) -> ShowNames:
        within = words.parts("a namespace") if words.skip("IN") or words.skip("FROM") else None
        words.skip("LIKE")
        return ShowNames(kind, within, None if words.is_done() else words.string("a pattern"))

    return read


def _columns(words: Words) -> ShowTable:
    words.one_of("IN or FROM", "IN", "FROM")
    name = words.parts("the name of a table")
    if words.skip("IN") or words.skip("FROM"):
        name = (*words.parts("a namespace"), name[-1])
    return ShowTable("columns", name)


def _properties(words: Words) -> ShowTable:
    name, key = words.parts("the name of a table"), None
    if words.skip("("):
        key = property_key(words)
        words.expect(")", "')'")
    return ShowTable("properties", name, key)


def _create(words: Words) -> ShowTable:
    name = words.parts("the name of a table")
    words.skip("AS", "SERDE")
    return ShowTable("create", name)


def _of_partitions(words: Words) -> ShowTable:
    name = words.parts("the name of a table")
    if not words.is_done():
        words.refuse("PARTITION (...) is not supported here", "Filter the metadata table name.partitions")
    return ShowTable("partitions", name)


def _extended(words: Words) -> NoReturn:
    words.refuse("SHOW TABLE EXTENDED is not supported", "Write DESCRIBE EXTENDED name")


_SHOWN: Final[dict[str, Callable[[Words], ShowNames | ShowCurrent | ShowTable]]] = {
    **{f"{kind}S": _names("namespace") for kind in KINDS},
    "TABLES": _names("table"),
    "VIEWS": _names("view"),
    "CURRENT NAMESPACE": lambda _words: ShowCurrent(),
    "COLUMNS": _columns,
    "TBLPROPERTIES": _properties,
    "CREATE TABLE": _create,
    "PARTITIONS": _of_partitions,
    "TABLE": _extended,
}


def show_statement(words: Words) -> ShowNames | ShowCurrent | ShowTable | None:
    """Read what follows ``SHOW``; None if it is for Spark to show."""
    for what, read in _SHOWN.items():
        if words.skip(*what.split()):
            found = read(words)
            words.end()
            return found
    return None


def _matches(pattern: str | None, name: str) -> bool:
    """Spark's patterns: ``*`` for anything, ``|`` between alternatives, in any case."""
    if pattern is None:
        return True
    return any(
        re.fullmatch(".*".join(map(re.escape, each.strip().split("*"))), name, re.IGNORECASE)
        for each in pattern.split("|")
    )


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
