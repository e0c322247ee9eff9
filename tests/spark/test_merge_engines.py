"""Random histories of keys, merged by Spark and by a plain loop over the same rows.

Each partition of a table is a history of its own, so that one query merges many of them. The loop does what
Paimon's own readers do, one row after the other.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.orc import write_table as write_orc
from pyspark.errors import PySparkException

import lakeplane as lp
from lakeplane.avro.write import write_avro
from lakeplane.paimon.layout import bucket_folder
from lakeplane.paimon.schema import TableSchema
from tests.paimon.built import Built, Row, make_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 25
ADDS = (0, 2)
ARROW = {"a": pa.int32(), "b": pa.string(), "c": pa.int64(), "g": pa.int32(), "k": pa.int32()}
ARROW |= {
    "f": pa.float64(),
    "t": pa.bool_(),
    "l": pa.list_(pa.int32()),
    "m": pa.map_(pa.string(), pa.int32()),
}
TYPES: dict[str, Any] = {"a": "INT", "b": "STRING", "c": "BIGINT", "g": "INT", "k": "INT", "f": "DOUBLE"}
TYPES |= {"t": "BOOLEAN", "l": {"type": "ARRAY", "element": "INT"}}
TYPES |= {"m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}}


class Case(NamedTuple):
    """A table, and how a plain loop merges the rows of one of its keys, which are in their order."""

    columns: str
    options: dict[str, str]
    kinds: tuple[int, ...]
    merge: Callable[[list[Row]], Row | None]
    order: Callable[[Row], Any] = lambda row: row["_seq"]
    formats: tuple[str, ...] = ("parquet",)


def nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


def last(rows: list[Row]) -> Row | None:
    return rows[-1] if rows and rows[-1]["_kind"] in ADDS else None


def adds_only(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["_kind"] in ADDS]


def updated(rows: list[Row]) -> Row | None:
    """What is not null replaces what was there; a delete begins anew."""
    state: Row | None = None
    for row in rows:
        if row["_kind"] == 3:
            state = None
        elif row["_kind"] in ADDS:
            state = {**(state or dict.fromkeys(row)), **{n: v for n, v in row.items() if v is not None}}
    return state


def by_groups(rows: list[Row]) -> Row | None:
    """Sequences g and (k, c): g protects a, (k, c) protects b and the sum f."""
    if len(rows) == 1:
        return last(rows)
    state: Row = dict.fromkeys(rows[0])
    for row in rows:
        adds = row["_kind"] in ADDS
        state |= {name: row[name] for name in ("h", "id")}
        for sequence, protected in (("g",), ("a",)), (("k", "c"), ("b", "f")):
            if all(row[name] is None for name in sequence):
                continue
            newer = [nulls_first(row[n]) for n in sequence] >= [nulls_first(state[n]) for n in sequence]
            for name in protected:
                if name == "f" and row["f"] is not None:
                    state["f"] = (state["f"] or 0.0) + (row["f"] if adds else -row["f"])
                elif name != "f" and newer:
                    state[name] = row[name] if adds else None
            if newer:
                state |= {name: row[name] for name in sequence}
        if adds and row["t"] is not None:
            state["t"] = row["t"]
    return state if adds_only(rows) else None


def aggregated(functions: dict[str, str], *, removes: bool = False) -> Callable[[list[Row]], Row | None]:
    def merge(rows: list[Row]) -> Row | None:
        if len(rows) == 1:
            return last(rows)
        state: Row | None = None
        for row in rows:
            if removes and row["_kind"] == 3:
                state = None
                continue
            state = (
                {**dict.fromkeys(row), "h": row["h"], "id": row["id"], "first": {}}
                if state is None
                else state
            )
            for name, function in functions.items():
                adds = row["_kind"] in ADDS
                state[name] = one_more(
                    function, state[name], row[name], adds=adds, first=state["first"], name=name
                )
        return state

    return merge


def one_more(function: str, now: Any, value: Any, *, adds: bool, first: dict[str, bool], name: str) -> Any:
    if function == "last_value":
        return value if adds else None
    if function == "first_value":
        seen = first.setdefault(name, False)
        first[name] = True
        return now if seen else value
    if value is None:
        return now
    if function == "last_non_null_value":
        return value if adds else None
    if function == "sum" and not adds:
        value = -value
    if function == "listagg" and not value.strip():
        return now
    return value if now is None else PAIRS[function](now, value)


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda now, value: now + value,
    "product": lambda now, value: now * value,
    "max": max,
    "min": min,
    "bool_and": lambda now, value: now and value,
    "bool_or": lambda now, value: now or value,
    "first_non_null_value": lambda now, _: now,
    "listagg": lambda now, value: f"{now}|{value}",
    "collect": lambda now, value: now + value,
    "merge_map": lambda now, value: {**now, **value},
}


def functions_of(functions: dict[str, str]) -> dict[str, str]:
    return {f"fields.{name}.aggregate-function": each for name, each in functions.items()}


MANY = {"a": "sum", "b": "listagg", "c": "max", "g": "first_value", "k": "first_non_null_value"}
MANY |= {"f": "product", "t": "bool_and", "l": "collect", "m": "merge_map"}
OTHERS = {"a": "min", "b": "max", "c": "sum", "f": "sum", "t": "bool_or", "g": "last_value"}
RETRACTED = {"a": "sum", "b": "last_non_null_value", "c": "sum", "g": "last_value", "f": "sum"}
AGGREGATION = {"merge-engine": "aggregation"}
PARTIAL = {"merge-engine": "partial-update"}

CASES = {
    "deduplicate": Case("ab", {}, (0, 1, 2, 3), last),
    "files of all formats": Case("abcf", {}, (0, 2, 3), last, formats=("parquet", "orc", "avro")),
    "deduplicate by sequence": Case(
        "abgk",
        {"sequence.field": "g,k"},
        (0, 2, 3),
        last,
        lambda row: (nulls_first(row["g"]), nulls_first(row["k"]), row["_seq"]),
    ),
    "deduplicate by falling sequence": Case(
        "abg",
        {"sequence.field": "g", "sequence.field.sort-order": "descending"},
        (0, 3),
        last,
        lambda row: (row["g"] is not None, -(row["g"] or 0), row["_seq"]),
    ),
    "deduplicate without deletes": Case(
        "ab", {"ignore-delete": "true"}, (0, 1, 2, 3), lambda rows: last(adds_only(rows))
    ),
    "partial update": Case("abct", PARTIAL, (0, 2), updated),
    "partial update by sequence, deletes ignored": Case(
        "abg",
        {**PARTIAL, "sequence.field": "g", "partial-update.ignore-delete": "true"},
        (0, 2, 3),
        lambda rows: updated(adds_only(rows)),
        lambda row: (nulls_first(row["g"]), row["_seq"]),
    ),
    "partial update that removes": Case(
        "abc", {**PARTIAL, "partial-update.remove-record-on-delete": "true"}, (0, 2, 3), updated
    ),
    "partial update by groups": Case(
        "abcgkft",
        {
            **PARTIAL,
            "fields.g.sequence-group": "a",
            "fields.k,c.sequence-group": "b,f",
            "fields.f.aggregate-function": "sum",
        },
        (0, 2, 3),
        by_groups,
    ),
    "aggregation": Case(
        "abcgkftlm",
        {**AGGREGATION, **functions_of(MANY), "fields.b.list-agg-delimiter": "|"},
        (0, 2),
        aggregated(MANY),
    ),
    "other aggregations": Case("abcgft", {**AGGREGATION, **functions_of(OTHERS)}, (0, 2), aggregated(OTHERS)),
    "aggregation with rows taken back": Case(
        "abcgf", {**AGGREGATION, **functions_of(RETRACTED)}, (0, 1, 2, 3), aggregated(RETRACTED)
    ),
    "aggregation that removes": Case(
        "ac",
        {
            **AGGREGATION,
            **functions_of({"a": "max", "c": "sum"}),
            "aggregation.remove-record-on-delete": "true",
        },
        (0, 2, 3),
        aggregated({"a": "max", "c": "sum"}, removes=True),
    ),
}


def value_of(chance: random.Random, name: str) -> Any:
    if chance.random() < 0.3:
        return None
    match name:
        case "b":
            return chance.choice(["x", "y", "zz", " "])
        case "f":
            return chance.choice([0.5, 1.0, -2.0, 3.0])
        case "t":
            return chance.random() < 0.5
        case "l":
            return [chance.randint(0, 3) for _ in range(chance.randint(0, 3))]
        case "m":
            return {key: chance.randint(0, 9) for key in "pqr" if chance.random() < 0.5}
        case _:
            return chance.randint(0, 4)


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def orc(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    write_orc(rows, sink)
    return sink.getvalue()


AVRO = {"int8": "int", "int32": "int", "int64": "long", "string": "string", "double": "double"}


def avro(rows: pa.Table) -> bytes:
    fields = [
        {"name": each.name, "type": ["null", AVRO[str(each.type)]], "default": None} for each in rows.schema
    ]
    return write_avro(rows, {"type": "record", "name": "row", "fields": fields}, metadata={})


WRITERS = {"parquet": parquet, "orc": orc, "avro": avro}


def written(folder: Path, table: Built, rows: Sequence[Row], ending: str, **told: Any) -> Row:
    """A file with some rows, as Paimon writes it, and its entry."""
    schema = table.schema
    ordered = sorted(rows, key=lambda row: row["id"])
    names = [each.name for each in schema.fields]
    columns = {
        "_KEY_id": pa.array([row["id"] for row in ordered], pa.int32()),
        "_SEQUENCE_NUMBER": pa.array([row["_seq"] for row in ordered], pa.int64()),
        "_VALUE_KIND": pa.array([row["_kind"] for row in ordered], pa.int8()),
    }
    for name in names:
        kind = ARROW.get(name, pa.int32())
        values = [row[name] for row in ordered]
        if pa.types.is_map(kind):
            values = [None if each is None else list(each.items()) for each in values]
        columns[name] = pa.array(values, kind)
    data = WRITERS[ending](pa.table(columns))
    has_nested = any(name in ("l", "m") for name in names)
    entry = table.file(rows, stats=not has_nested, file_size=len(data), **told)
    entry["file_name"] = entry["file_name"].removesuffix("parquet") + ending
    parts = ["h"], [str(rows[0]["h"])]
    place = folder / bucket_folder(schema.settings, *parts, entry["bucket"]) / entry["file_name"]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return entry


def commit(folder: Path, table: Built, entries: Sequence[Row]) -> None:
    table.commit(entries)
    for path, data in table.content.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def make_table(folder: Path, case: Case, chance: random.Random) -> list[Row]:
    """Write a table of many histories; give the rows that it has, by the plain loop."""
    columns = {"h": "INT NOT NULL", "id": "INT NOT NULL", **{name: TYPES[name] for name in case.columns}}
    options = {"bucket": "1", **case.options}
    schema: TableSchema = make_schema(columns, primary_key=("h", "id"), partition_by=("h",), options=options)
    table = Built(schema)
    wanted: list[Row] = []
    entries = []
    for history in range(HISTORIES):
        number, known = 0, dict[int, list[Row]]()
        for _ in range(chance.randint(1, 5)):
            first = chance.randint(0, 3)
            ids = range(first, first + chance.randint(1, 3))
            rows = []
            for key in ids:
                row = {name: value_of(chance, name) for name in case.columns}
                rows.append(
                    {"h": history, "id": key, **row, "_seq": number, "_kind": chance.choice(case.kinds)}
                )
                number += 1
            for row in rows:
                known.setdefault(row["id"], []).append(row)
            # Some writers say of every file that nothing in it is deleted.
            ending = chance.choice(case.formats)
            entries.append(written(folder, table, rows, ending, delete_row_count=0))
        for rows in known.values():
            found = case.merge(sorted(rows, key=case.order))
            if found is not None:
                wanted.append({name: found[name] for name in columns})
    commit(folder, table, entries)
    return sorted(wanted, key=lambda row: (row["h"], row["id"]))


def plain_rows(frame: Any) -> list[Row]:
    found = [{**row.asDict()} for row in frame.collect()]
    return sorted(found, key=lambda row: (row["h"], row["id"]))


@pytest.mark.parametrize("name", CASES)
def test_spark_merges_rows_as_a_plain_loop_does(name: str, tmp_path: Path, spark: SparkSession) -> None:
    case = CASES[name]
    seed = random.randrange(2**32)
    wanted = make_table(tmp_path, case, random.Random(seed))
    table = lp.open(tmp_path, spark=spark)
    assert plain_rows(table.read()) == wanted, f"seed {seed}"
    assert isinstance(table, lp.PaimonTable)
    assert table.explain().merges
    conditions: dict[str, Callable[[Row], bool]] = {
        "a = 2 or h = 7": lambda row: row["a"] == 2 or row["h"] == 7,
        "h < 9 and id = 1": lambda row: row["h"] < 9 and row["id"] == 1,
    }
    for where, holds in conditions.items():
        found = plain_rows(table.read(["id", "a", "h"], where=where))
        matching = [{each: row[each] for each in ("id", "a", "h")} for row in wanted if holds(row)]
        assert found == matching, f"seed {seed}, {where}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PARTIAL, "partial-update table were deleted"),
        ({**AGGREGATION, **functions_of({"a": "max"})}, "cannot be done to max of a"),
    ],
)
def test_what_paimon_cannot_merge_is_an_error_of_the_query(
    options: dict[str, str], said: str, tmp_path: Path, spark: SparkSession
) -> None:
    """A guess would show a row that no other reader sees."""
    columns = {"h": "INT NOT NULL", "id": "INT NOT NULL", "a": "INT"}
    options = {"bucket": "1", **options}
    table = Built(make_schema(columns, primary_key=("h", "id"), partition_by=("h",), options=options))
    rows = [{"h": 1, "id": 1, "a": 5, "_seq": number, "_kind": kind} for number, kind in enumerate((0, 3))]
    commit(tmp_path, table, [written(tmp_path, table, [row], "parquet") for row in rows])
    found = lp.open(tmp_path, spark=spark).read()
    with pytest.raises(PySparkException, match=said):
        found.collect()
