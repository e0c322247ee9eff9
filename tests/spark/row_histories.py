"""Random histories of a table, with a model of its rows: each step does to both what it says."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pytest

from lakeplane.errors import InvalidInput
from tests.spark.row_model import POOLS, UTC, Column, Conditions, Env, Sql, compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakeplane.lake import Lake
    from lakeplane.table import Table

Row = dict[str, Any]
"""The values of a row by the keys of the columns, which stay the same when columns are renamed."""

_ARROW: Final = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "DECIMAL(6,2)": pa.decimal128(6, 2),
    "STRUCT": pa.struct([("p", pa.int32()), ("q", pa.string())]),
}
_DDL: Final = {"STRUCT": "STRUCT<p: INT, q: STRING>"}
_PARTS: Final = ("{s}", "truncate(2, {s})", "bucket(3, {id})", "days({ts})", "{a}", "bucket(2, {s})", "{x}")
_NAMES: Final = ("n1", "c d", "é", "select", "X", "a.b", "t", "we`ird")


def same(name: str) -> Sql:
    """A column as it is."""
    return Sql(name, lambda row: row[name])


class Clause(NamedTuple):
    """A clause of MERGE."""

    when: str
    does: str
    test: Sql | None
    values: dict[str, Sql] | None

    def __str__(self) -> str:
        values = {name: sql.text for name, sql in (self.values or {}).items()}
        return f"{self.when} {self.does} {values} if {self.test and self.test.text}"


def first_of(clauses: Sequence[Clause], when: str, env: Env) -> Clause | None:
    """The clause that decides about a row."""
    fits = (each for each in clauses if each.when == when and (each.test is None or each.test.value(env)))
    return next(fits, None)


_METHODS: Final = {
    "matched": "when_matched_",
    "unmatched": "when_not_matched_",
    "alone": "when_not_matched_by_source_",
}


@dataclass
class Col:
    """A column of the table."""

    key: str
    name: str
    type: str
    initial: Any = None
    default: Any = None
    """What is written where nothing is given."""

    def text(self, alias: str = "") -> str:
        return alias + "`" + self.name.replace("`", "``") + "`"


@dataclass
class History:
    """A table and its model."""

    spark: SparkSession
    lake: Lake
    seed: int
    table: Table = field(init=False)
    rows: dict[int, Row] = field(default_factory=dict)
    """By ``u``, which no step changes, so that rows can be told apart."""
    lineage: dict[int, tuple[int, int]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    """Rows that the last step has changed."""
    said: list[str] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        kinds = (("u", "BIGINT"), ("id", "BIGINT"), ("a", "INT"), ("x", "DOUBLE"), ("s", "STRING"))
        more = [("d", "DATE"), ("ts", "TIMESTAMP"), ("m", "DECIMAL(6,2)"), ("place", "STRUCT")]
        self.version = self.chance.choice([2, 3])
        self.modes = [self.chance.choice(["copy-on-write", "merge-on-read"]) for _ in range(3)]
        properties = {"format-version": str(self.version)}
        properties |= {
            f"write.{each}.mode": mode
            for each, mode in zip(("delete", "update", "merge"), self.modes, strict=True)
        }
        properties["write.format.default"] = self.chance.choice(["parquet"] * 6 + ["orc", "avro"])
        properties["write.delete.granularity"] = self.chance.choice(["file", "file", "partition"])
        properties["write.delete.format.default"] = "parquet"
        self.format = properties["write.format.default"]
        # Files of ORC hold no parts of seconds before 1970.
        more = [each for each in more if each[1] != "TIMESTAMP" or self.format != "orc"]
        self.columns = [Col(name, name, type_) for name, type_ in (*kinds, *more)]
        parts = self.chance.sample(self.rules(), self.chance.choice([0, 0, 1, 1, 2]))
        ddl = ", ".join(f"{each.name} {_DDL.get(each.type, each.type)}" for each in self.columns)
        self.say(f"v{self.version} {self.modes} {self.format} {parts}")
        self.views: dict[str, list[Any]] = {}
        for values in ([1, 2], [3, None], []):
            view = f"keys_{len(self.views)}"
            self.views[view] = values
            rows = self.spark.createDataFrame([(each,) for each in values], "k BIGINT")
            rows.createOrReplaceTempView(view)
        self.table = self.lake.create_table(
            f"shop.h{self.seed}", ddl, partition_by=parts, properties=properties
        )

    def say(self, what: str) -> None:
        self.said.append(what)

    def rules(self) -> list[str]:
        """By what the table may be partitioned."""
        names = {each.key: each.text() for each in self.columns}
        return [each.format(**names) for each in _PARTS if any(f"{{{name}}}" in each for name in names)]

    # Rows

    def value(self, column: Col) -> Any:
        if column.type == "STRUCT":
            parts = {
                name: self.chance.choice(POOLS[type_]) for name, type_ in (("p", "INT"), ("q", "STRING"))
            }
            return None if self.chance.random() < 0.3 else parts
        return self.chance.choice(POOLS[column.type])

    def new_row(self) -> Row:
        self.number += 1
        return {each.key: self.number if each.key == "u" else self.value(each) for each in self.columns}

    def arrow(self, rows: Sequence[Row], columns: Sequence[Col]) -> pa.Table:
        arrays = [pa.array([row[each.key] for row in rows], _ARROW[each.type]) for each in columns]
        return pa.Table.from_arrays(arrays, names=[each.name for each in columns])

    def env(self, row: Row, alias: str = "") -> Env:
        """A row as expressions see it."""
        found: Env = {}
        for each in self.columns:
            value = row.get(each.key, each.initial)
            found[each.text(alias)] = value
            if each.type == "STRUCT":
                found |= {f"{each.text(alias)}.{name}": value and value[name] for name in ("p", "q")}
        return found

    def scope(self, alias: str = "") -> list[Column]:
        found = []
        for each in self.columns:
            if each.type == "STRUCT":
                found += [Column(f"{each.text(alias)}.p", "INT"), Column(f"{each.text(alias)}.q", "STRING")]
            elif each.key != "u":
                found.append(Column(each.text(alias), each.type))
        return found

    def conditions(self, columns: Sequence[Column], *, queries: bool = True) -> Conditions:
        return Conditions(self.chance, columns, self.views if queries else {})

    # Steps

    def step(self) -> None:
        steps = [self.append] * 2 + [self.delete] * 3 + [self.update] * 3 + [self.merge] * 4
        steps += [self.evolve] * 2 + [self.repartition] + [self.overwrite, self.upgrade, self.switch]
        self.changed = set()
        self.chance.choice(steps)()

    def append(self) -> None:
        rows = [self.new_row() for _ in range(self.chance.choice([1, 5, 12]))]
        self.say(f"append {len(rows)}")
        given = [each for each in self.columns if each.key == "u" or self.chance.random() < 0.9]
        self.table.append(self.arrow(rows, given))
        for row in rows:
            self.put(row, given)

    def put(self, row: Row, given: Sequence[Col]) -> None:
        """A new row, of which some columns are given."""
        kept = {each.key: row[each.key] if each in given else each.default for each in self.columns}
        self.rows[kept["u"]] = kept
        self.lineage.pop(kept["u"], None)
        self.changed.add(kept["u"])

    def overwrite(self) -> None:
        rows = [self.new_row() for _ in range(5)]
        self.say("overwrite")
        self.table.overwrite(self.arrow(rows, self.columns))
        self.rows = {}
        self.lineage = {}
        for row in rows:
            self.put(row, self.columns)

    def delete(self) -> None:
        where = self.conditions(self.scope()).condition()
        self.say(f"delete {where.text}")
        self.table.delete(where.text)
        for each in [u for u, row in self.rows.items() if where.value(self.env(row))]:
            del self.rows[each]

    def update(self) -> None:
        where = self.conditions(self.scope()).condition() if self.chance.random() < 0.8 else None
        values = self.assignments("", self.conditions(self.scope(), queries=False))
        self.say(f"update {[(name, sql.text) for name, sql in values.items()]} where {where and where.text}")
        self.table.update({name: sql.text for name, sql in values.items()}, where and where.text)
        for row in self.rows.values():
            env = self.env(row)
            if where is None or where.value(env):
                self.set(row, values, env)

    def assignments(self, alias: str, values: Conditions) -> dict[str, Sql]:
        """What some columns are set to, by what SET calls them."""
        found: dict[str, Sql] = {}
        for each in self.chance.sample(self.columns[1:], self.chance.choice([1, 2, 3])):
            if each.type == "STRUCT":
                found[f"{each.text(alias)}.p"] = values.value("INT")
            elif self.chance.random() < 0.1:
                found[each.text(alias)] = Sql("DEFAULT", lambda _, each=each: each.default)  # type: ignore[misc]
            else:
                found[each.text(alias)] = values.value(each.type)
        return found

    def set(self, row: Row, values: dict[str, Sql], env: Env, alias: str = "") -> None:
        made = {name: sql.value(env) for name, sql in values.items()}
        for each in self.columns:
            if each.text(alias) in made:
                row[each.key] = made[each.text(alias)]
            elif (inside := f"{each.text(alias)}.p") in made:
                old = row.get(each.key, each.initial) or {"q": None}
                row[each.key] = {"p": made[inside], "q": old["q"]}
        self.changed.add(row["u"])

    def merge(self) -> None:
        source = self.source_rows()
        target, other = self.scope("t."), self.scope("s.")
        on = self.join()
        work = self.table.merge(self.as_source(source), on.text)
        clauses = []
        for when, does, columns in (
            ("matched", "update", [*target, *other]),
            ("matched", "delete", [*target, *other]),
            ("unmatched", "insert", other),
            ("alone", "update", target),
            ("alone", "delete", target),
        ):
            if self.chance.random() < 0.5:
                clauses.append(self.clause(when, does, self.conditions(columns, queries=False)))
        for each in clauses or [Clause("matched", "delete", None, None)]:
            given: dict[str, Any] = {} if each.test is None else {"condition": each.test.text}
            if each.values is not None:
                what = "values" if each.does == "insert" else "set"
                given[what] = {name: sql.text for name, sql in each.values.items()}
            work = getattr(work, _METHODS[each.when] + each.does)(**given)
        self.say(f"merge {len(source)} on {on.text}: {'; '.join(map(str, clauses))}")
        self.run_merge(work, source, on, clauses or [Clause("matched", "delete", None, None)])

    def clause(self, when: str, does: str, scope: Conditions) -> Clause:
        """What becomes of rows; only the last clause of a kind is sometimes without a condition."""
        is_last = when == "unmatched" or does == "delete"
        test = None if is_last and self.chance.random() < 0.5 else scope.condition(1)
        values: dict[str, Sql] | None = None
        if does == "update":
            values = self.assignments("t.", scope)
            if when == "matched" and self.chance.random() < 0.3:
                values = self.from_source(self.columns[1:])
        elif does == "insert" and self.chance.random() < 0.4:
            values = self.from_source([each for each in self.columns if each.key in ("u", "id", "s")])
        return Clause(when, does, test, values)

    def from_source(self, columns: Sequence[Col]) -> dict[str, Sql]:
        """Columns as the source has them."""
        return {each.text("t."): same(each.text("s.")) for each in columns}

    def run_merge(self, work: Any, source: list[Row], on: Sql, clauses: list[Clause]) -> None:
        """Run it, or see it refused, and do the same to the model."""
        pairs = {
            u: [each for each in source if on.value({**self.env(row, "t."), **self.env(each, "s.")})]
            for u, row in self.rows.items()
        }
        matched = [each for each in clauses if each.when == "matched"]
        is_lenient = not matched or (
            len(matched) == 1 and (matched[0].does, matched[0].test) == ("delete", None)
        )
        if not is_lenient and any(len(each) > 1 for each in pairs.values()):
            self.say("(refused)")
            with pytest.raises(InvalidInput, match="several rows of the source"):
                work.execute()
            return
        work.execute()
        for u, found in pairs.items():
            env = self.env(self.rows[u], "t.") | (self.env(found[0], "s.") if found else {})
            clause = first_of(clauses, "matched" if found else "alone", env)
            if clause is not None and clause.does == "delete":
                del self.rows[u]
            elif clause is not None and clause.values is not None:
                self.set(self.rows[u], clause.values, env, "t.")
        met = {id(each) for found in pairs.values() for each in found}
        for each in source:
            clause = None if id(each) in met else first_of(clauses, "unmatched", self.env(each, "s."))
            if clause is not None:
                values = clause.values
                self.put(each, [one for one in self.columns if values is None or one.text("t.") in values])

    def source_rows(self) -> list[Row]:
        return [self.new_row() for _ in range(self.chance.choice([0, 1, 3, 6]))]

    def as_source(self, rows: list[Row]) -> Any:
        """Rows as users give them."""
        given = self.arrow(rows, self.columns)
        return self.spark.createDataFrame(given) if self.chance.random() < 0.4 else given

    def join(self) -> Sql:
        usable = [each for each in self.columns if each.type != "STRUCT" and each.key != "u"]
        column = self.chance.choice([each for each in usable if each.type in ("BIGINT", "STRING")] or usable)
        if self.chance.random() < 0.3:
            column = self.chance.choice(usable)
        mine, theirs = column.text("t."), column.text("s.")
        op = self.chance.choice(["=", "=", "=", "<=>"])
        same = Sql(f"{mine} {op} {theirs}", lambda row: compared(op, row[mine], row[theirs]))
        if self.chance.random() < 0.5:
            return same
        more = self.conditions(self.scope("t."), queries=False).condition(1)
        if self.chance.random() < 0.7:
            return Sql(
                f"{same.text} AND ({more.text})", lambda row: bool(same.value(row)) and bool(more.value(row))
            )
        return Sql(
            f"{same.text} OR ({more.text})", lambda row: bool(same.value(row)) or bool(more.value(row))
        )

    # What is not about rows

    def evolve(self) -> None:
        kind = self.chance.choice(["add", "add", "rename", "drop", "widen", "default"])
        free = [each for each in _NAMES if each.casefold() not in {c.name.casefold() for c in self.columns}]
        parted = {each.source_id for spec in self.table.metadata.partition_specs for each in spec.fields}
        others = [
            each
            for each in self.columns[2:]
            if next(one.id for one in self.table.schema.fields if one.name == each.name) not in parted
        ]
        chosen = self.chance.choice(others or self.columns[2:])
        if kind == "add" and len(self.columns) < 11:
            self.add(self.chance.choice(free))
        elif kind == "rename":
            name = self.chance.choice(free)
            self.say(f"rename {chosen.name} to {name}")
            with self.table.evolve() as change:
                change.rename_column((chosen.name,), name)
            chosen.name = name
        elif kind == "drop" and others and len(self.columns) > 6:
            self.say(f"drop {chosen.name}")
            with self.table.evolve() as change:
                change.drop_column((chosen.name,))
            self.columns.remove(chosen)
        elif kind == "widen" and (narrow := [each for each in self.columns if each.type == "INT"]):
            self.say(f"widen {narrow[0].name}")
            with self.table.evolve() as change:
                change.update_column((narrow[0].name,), type="BIGINT")
            narrow[0].type = "BIGINT"
        elif kind == "default" and self.version == 3 and chosen.type in ("BIGINT", "INT", "STRING"):
            default = self.chance.choice(POOLS[chosen.type][1:])
            self.say(f"default {chosen.name} {default!r}")
            with self.table.evolve() as change:
                change.update_column((chosen.name,), default=default)
            chosen.default = default

    def add(self, name: str) -> None:
        type_ = self.chance.choice(["INT", "STRING", "BIGINT", "DATE"])
        has_default = self.version == 3 and type_ != "DATE" and self.chance.random() < 0.6
        default = self.chance.choice(POOLS[type_][1:]) if has_default else None
        self.number += 1
        self.say(f"add {name} {type_} {default!r}")
        with self.table.evolve() as change:
            change.add_column((name,), type_, default=default)
        self.columns.append(Col(f"{name} {self.number}", name, type_, default, default))

    def repartition(self) -> None:
        fields = self.table.metadata.partition_spec.fields
        if fields and self.chance.random() < 0.4:
            name = self.chance.choice(fields).name
            self.say(f"drop partition field {name}")
            with self.table.evolve() as change:
                change.drop_partition_field(name)
            return
        rule = self.chance.choice(self.rules())
        self.say(f"partition by {rule}")
        try:
            with self.table.evolve() as change:
                change.add_partition_field(rule)
        except InvalidInput as refused:
            self.say(f"({refused})")

    def upgrade(self) -> None:
        if self.version == 2:
            self.say("upgrade")
            with self.table.evolve() as change:
                change.upgrade(3)
            self.version = 3

    def switch(self) -> None:
        name = self.chance.choice(["delete", "update", "merge"])
        mode = self.chance.choice(["copy-on-write", "merge-on-read"])
        self.say(f"{name} by {mode}")
        with self.table.evolve() as change:
            change.set_properties({f"write.{name}.mode": mode})

    # Checks

    def expected(self) -> list[str]:
        return sorted(repr(self.shown(row)) for row in self.rows.values())

    def shown(self, row: Row) -> tuple[Any, ...]:
        return tuple(_plain(row.get(each.key, each.initial)) for each in self.columns)

    def found_in(self, rows: pa.Table) -> list[str]:
        """Rows that somebody has read, as they are compared."""
        columns = [_values(rows[each.name]) for each in self.columns]
        return sorted(repr(row) for row in zip(*columns, strict=True)) if rows.num_rows else []

    def check(self) -> None:
        """What we read is what the model says; rows keep their identity."""
        extra = ["_row_id", "_last_updated_sequence_number"] if self.version == 3 else []
        found = self.table.read([*(each.name for each in self.columns), *extra]).toArrow()
        assert self.found_in(found) == self.expected(), self.story
        if self.version == 3:
            self.check_lineage(found)

    def check_lineage(self, found: pa.Table) -> None:
        numbers, ids, since = (found[name].to_pylist() for name in (self.columns[0].name, *_LINEAGE))
        if None in ids:
            # An upgraded table gives its rows no ids before the first commit.
            head = self.table.metadata.current_snapshot
            assert head is None or head.first_row_id is None, self.story
            return
        assert len(set(ids)) == len(ids), self.story
        assert all(each < (self.table.metadata.next_row_id or 0) for each in ids), self.story
        now = self.table.metadata.last_sequence_number
        for number, row_id, sequence in zip(numbers, ids, since, strict=True):
            known = self.lineage.get(number)
            if known is not None:
                assert row_id == known[0], f"{self.story}\nrow {number} has another id"
            if known is not None or number in self.changed:
                since_then = now if number in self.changed else known[1]  # type: ignore[index]
                assert sequence == since_then, f"{self.story}\nrow {number}: {sequence}, not {since_then}"
            self.lineage[number] = (row_id, sequence)

    @property
    def story(self) -> str:
        return "\n".join([f"seed {self.seed}", *self.said])


_LINEAGE: Final = ("_row_id", "_last_updated_sequence_number")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_plain(each) for each in value.values())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dt.datetime):
        return value.astimezone(UTC)
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC"))
    return [_plain(each) for each in column.to_pylist()]
