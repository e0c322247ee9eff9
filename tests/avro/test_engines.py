"""The two decoders, generated code and plain Python, give the same columns; and fastavro the same values."""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
import time
from typing import Any, NamedTuple, cast

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.avro.container import pack_file, write_long
from lakeplane.avro.read import Engine, Pick, read_avro, read_avro_files
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidMetadata, LakeplaneError
from lakeplane.model.parallel import in_parallel
from tests.avro.kinds import Kind, _Names, read_by_fastavro, records

ENGINES: tuple[Engine, ...] = ("wasm", "rows")
KEYS = (-7, 0, 1, 2, 3, 2**31 - 1)


class File(NamedTuple):
    """A file of a random schema."""

    kind: Kind
    values: list[dict[str, Any]]
    """As fastavro reads them."""
    data: bytes


@st.composite
def files(draw: st.DrawFn) -> File:
    """A file that fastavro writes, in blocks of any size; some of its fields have ids."""
    kind = draw(records(_Names(), 3))
    numbers = draw(st.randoms(use_true_random=False))
    numbered(kind.schema, numbers)
    values = draw(st.lists(kind.values, max_size=12))
    out = io.BytesIO()
    codec = draw(st.sampled_from(["null", "deflate"]))
    fastavro.writer(
        out, kind.schema, values, codec=codec, sync_interval=draw(st.sampled_from([1, 30, 16000]))
    )
    return File(kind, values, out.getvalue())


def numbered(schema: Any, numbers: random.Random) -> None:
    """Give ids to most fields, in place."""
    match schema:
        case {"type": "record", "fields": fields}:
            for position, field in enumerate(fields):
                if numbers.random() < 0.8:
                    field["field-id"] = 100 * numbers.randrange(1, 9) + position
                numbered(field["type"], numbers)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            numbered(inner, numbers)
        case list():
            for branch in schema:
                numbered(branch, numbers)
        case _:
            pass


def record_in(schema: Any) -> dict[str, Any] | None:
    """A record, perhaps an optional one."""
    match schema:
        case {"type": "record"} as found:
            return cast("dict[str, Any]", found)
        case [{"type": "record"} as found, "null"] | ["null", {"type": "record"} as found]:
            return cast("dict[str, Any]", found)
        case _:
            return None


def is_keyed(schema: Any) -> bool:
    """Whether columns can be made of the keys of a field."""
    match schema:
        case ["null", inner] | [inner, "null"]:
            return is_keyed(inner)
        case {"type": "array", "items": {"fields": [{"type": "int" | "long"}, {"type": value}]}}:
            return is_scalar(value)
        case _:
            return False


def is_scalar(schema: Any) -> bool:
    match schema:
        case ["null", inner] | [inner, "null"]:
            return is_scalar(inner)
        case {"type": "record" | "array" | "map"}:
            return False
        case _:
            return True


def fields_in(schema: Any, above: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The way to each field within records, as the JSON of the fields on it."""
    found = []
    for field in (record_in(schema) or {"fields": []})["fields"]:
        path = (*above, field)
        found += [(path, field["type"]), *fields_in(field["type"], path)]
    return found


class Wanted(NamedTuple):
    """A pick, and the names on the way to it, none if there is no such field."""

    pick: Pick
    names: tuple[str, ...] | None


@st.composite
def wishes(draw: st.DrawFn, file: File) -> list[Wanted]:
    """Some fields of a file by name or by id, whole or by their keys, more than once, and missing ones."""
    found = []
    schema = file.kind.schema
    ways = fields_in(schema)
    for number in range(draw(st.integers(0, 6))):
        if not ways or draw(st.integers(0, 9)) == 0:
            missing: tuple[str | int, ...] = draw(st.sampled_from([("nowhere",), (99_999,)]))
            found.append(Wanted(Pick(f"c{number}", missing, type=pa.int64()), None))
            continue
        way, kind = draw(st.sampled_from(ways))
        steps = tuple(
            field["field-id"] if unique_id(way, field, schema) and draw(st.booleans()) else field["name"]
            for field in way
        )
        keys = ()
        names = tuple(field["name"] for field in way)
        if is_keyed(kind) and draw(st.booleans()):
            there = [each["key"] for value in file.values for each in follow(value, names) or ()]
            keys = tuple(
                draw(st.lists(st.sampled_from([*KEYS, *there]), min_size=1, max_size=6, unique=True))
            )
        found.append(Wanted(Pick(f"c{number}", steps, keys=keys), names))
    return found


def unique_id(way: tuple[Any, ...], field: Any, schema: Any) -> bool:
    """Whether a field has an id that none of its neighbours has."""
    place = way.index(field)
    around = record_in(way[place - 1]["type"] if place else schema)
    assert around is not None
    return (
        "field-id" in field
        and sum(each.get("field-id") == field["field-id"] for each in around["fields"]) == 1
    )


def both(data: bytes, picks: list[Pick] | None = None) -> pa.Table:
    """The table that both engines agree on."""
    one, other = (read_avro(data, picks, source="x", engine=engine).table for engine in ENGINES)
    for each in (one, other):
        each.validate(full=True)
    assert one.schema.equals(other.schema, check_metadata=True)
    assert one.equals(other)
    return one


@given(files())
def test_whole_files_hold_what_fastavro_reads(file: File) -> None:
    found = both(file.data)
    assert read_by_fastavro(file.data) == file.values
    assert found.num_rows == len(file.values)
    expected = [file.kind.to_arrow(value) for value in file.values]
    for name in found.column_names:
        column = found[name].combine_chunks()
        assert column.equals(pa.array([value[name] for value in expected], column.type)), name


@given(st.data())
def test_picked_columns_hold_what_fastavro_reads(data: st.DataObject) -> None:
    file = data.draw(files())
    wanted = data.draw(wishes(file))
    found = both(file.data, [each.pick for each in wanted])
    expected = [file.kind.to_arrow(value) for value in file.values]
    for pick, names in wanted:
        values = [None if names is None else follow(value, names) for value in expected]
        if not pick.keys:
            column = found[pick.name].combine_chunks()
            assert column.equals(pa.array(values, column.type)), pick
        for key in pick.keys:
            column = found[f"{pick.name}.{key}"].combine_chunks()
            assert column.equals(pa.array([at_key(value, key) for value in values], column.type)), pick


@given(st.lists(files(), min_size=1, max_size=4), st.data())
def test_many_files_are_read_as_each_of_them_is(several: list[File], data: st.DataObject) -> None:
    wanted = [each.pick for each in data.draw(wishes(several[0]))]
    together = [(each.data, f"x{number}") for number, each in enumerate([several[0], *several, several[0]])]
    try:
        one_by_one = [read_avro(content, wanted, source=source) for content, source in together]
    except LakeplaneError as refused:
        with pytest.raises(type(refused), match=re.escape(str(refused))):
            read_avro_files(together, wanted)
        return
    for engine in ENGINES:
        for alone, found in zip(one_by_one, read_avro_files(together, wanted, engine=engine), strict=True):
            assert found.table.equals(alone.table)
            assert (found.schema, found.metadata, found.codec) == (alone.schema, alone.metadata, alone.codec)


@given(files(), st.data())
def test_of_many_files_the_one_that_is_broken_is_named(file: File, data: st.DataObject) -> None:
    broken = file.data[: data.draw(st.integers(0, len(file.data) - 1))]
    together = [(file.data, "good"), (broken, "bad"), (file.data, "good as well")]
    try:
        alone = read_avro(broken, [], source="bad")
    except InvalidMetadata as refused:
        with pytest.raises(InvalidMetadata, match=re.escape(str(refused))):
            read_avro_files(together, [])
    else:
        assert read_avro_files(together, [])[1].table.num_rows == alone.table.num_rows


def follow(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if value is None:
            return None
        value = value[name]
    return value


def at_key(value: Any, key: int) -> Any:
    """The last value of a key, of an array or of a map; nulls are as good as absent."""
    pairs = [(each["key"], each["value"]) if isinstance(each, dict) else each for each in value or ()]
    return {name: found for name, found in pairs if found is not None}.get(key)


BYTES_BY_KEY = {
    "type": "record",
    "name": "row",
    "fields": [
        {
            "name": "bounds",
            "field-id": 7,
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "entry",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "bytes"]}],
                },
            },
        }
    ],
}


@given(
    st.lists(
        st.lists(
            st.fixed_dictionaries({"key": st.integers(0, 3), "value": st.none() | st.binary(max_size=3)}),
            max_size=6,
        ),
        max_size=5,
    )
)
def test_of_a_key_that_is_there_twice_the_last_value_counts(rows: list[list[dict[str, Any]]]) -> None:
    out = io.BytesIO()
    fastavro.writer(out, BYTES_BY_KEY, [{"bounds": row} for row in rows], sync_interval=10)
    found = both(out.getvalue(), [Pick("b", (7,), keys=(1, 2, 9), type=pa.binary())])
    for key in (1, 2, 9):
        assert found[f"b.{key}"].to_pylist() == [at_key(row, key) for row in rows]


# Many at once, large and small


PLAIN = {"type": "record", "name": "row", "fields": [{"name": "t", "type": ["null", "string"]}]}


def numbered_file(number: int) -> tuple[bytes, pa.Table]:
    """A file with a schema of its own."""
    table = pa.table(
        {
            f"n{number}": pa.array(range(number * 50)),
            "t": pa.array([None if row % 3 == 0 else f"{number} {row}" for row in range(number * 50)]),
        }
    )
    fields = [{"name": f"n{number}", "type": "long"}, {"name": "t", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "row", "fields": fields}
    return write_avro(table, schema, metadata={}, codec="zstd", block_bytes=500), table


def test_eight_threads_read_different_files_and_the_same() -> None:
    made = [numbered_file(number) for number in range(1, 13)]
    work = [made[turn % 12] for turn in range(120)] + [made[-1]] * 40
    found = in_parallel(lambda each: read_avro(each[0], source="x", engine="wasm").table, work, 8)
    for table, (_, expected) in zip(found, work, strict=True):
        assert table.to_pydict() == expected.to_pydict()


FORKING = """
import os, signal, sys, threading
from lakeplane.avro.read import Pick, read_avro

data = sys.stdin.buffer.read()
def read(engine="wasm"):
    return read_avro(data, source="x", engine=engine).table

expected = read("rows").to_pydict()
threads = [threading.Thread(target=read) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
for _ in range(5):
    child = os.fork()
    if not child:
        signal.alarm(30)
        same = read().to_pydict() == expected
        other = read_avro(data, [Pick("t", ("t",))], source="x", engine="wasm").table  # compiled in the child
        os._exit(0 if same and other.column_names == ["t"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read().to_pydict() == expected
print("done")
"""


def test_a_process_forks_after_it_has_read() -> None:
    data, _ = numbered_file(9)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], input=data, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"done\n"


def test_more_selections_than_are_remembered() -> None:
    """What was compiled is let go of, and compiled again."""
    fields = [{"name": f"f{number}", "type": "long"} for number in range(50)]
    table = pa.table({f"f{number}": [number, number + 1] for number in range(50)})
    data = write_avro(table, {"type": "record", "name": "row", "fields": fields}, metadata={})
    for _ in range(2):
        for number in range(50):
            found = read_avro(data, [Pick("x", (f"f{number}",))], source="x", engine="wasm").table
            assert found.to_pydict() == {"x": [number, number + 1]}


def test_blocks_of_one_row_and_of_none() -> None:
    texts = [None if row % 4 == 0 else "t" * (row % 90) for row in range(3000)]
    blocks = []
    for text in texts:
        stored = b"\0" if text is None else b"\x02" + write_long(len(text)) + text.encode()
        blocks += [(1, stored), (0, b"")]
    data = pack_file(fastavro_json(PLAIN), {}, "null", blocks)
    assert [each["t"] for each in read_by_fastavro(data)] == texts
    assert both(data)["t"].to_pylist() == texts


def test_blocks_that_are_larger_than_a_batch_and_rows_that_are() -> None:
    size = 9 << 20  # a batch is of 8 MiB
    texts = [None, "a" * size, "b", None, "c" * size, "d" * 5]
    out = io.BytesIO()
    fastavro.writer(out, PLAIN, [{"t": each} for each in texts], sync_interval=1 << 28)
    fastavro.writer(out, PLAIN, [{"t": each} for each in reversed(texts)], sync_interval=10)
    found = both(out.getvalue())
    assert found["t"].to_pylist() == texts + texts[::-1]
    assert found["t"].num_chunks >= 1


def fastavro_json(schema: dict[str, Any]) -> bytes:
    return json.dumps(schema).encode()


def test_engines_agree_on_what_is_wrong() -> None:
    """A wrong byte anywhere: one refuses the file if the other does, and else they read the same."""
    data, _ = numbered_file(1)
    out = io.BytesIO()
    fastavro.writer(
        out, BYTES_BY_KEY, [{"bounds": [{"key": 1, "value": b"ab"}, {"key": 2, "value": None}]}] * 3
    )
    for whole, picks in (
        (data, None),
        (out.getvalue(), [Pick("b", (7,), keys=(1, 2))]),
        (out.getvalue(), None),
    ):
        start = len(whole) - 90
        for at in range(start, len(whole)):
            for flip in (0x01, 0x02, 0x40, 0x80, 0xFF):
                broken = bytearray(whole)
                broken[at] ^= flip
                one, other = (outcome(bytes(broken), picks, engine) for engine in ENGINES)
                assert (one is None) == (other is None), (at, flip)
                assert one is None or one.equals(other)


def outcome(data: bytes, picks: list[Pick] | None, engine: Engine) -> pa.Table | None:
    try:
        return read_avro(data, picks, source="x", engine=engine).table
    except LakeplaneError as error:
        assert error.source == "x"  # noqa: PT017  # most bytes are wrong, and some are just other values
        return None


def wide(count: int, kind: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number in range(count)]
    return {"type": "record", "name": "row", "fields": fields}


def nested(depth: int) -> Any:
    kind: Any = "long"
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


MANY_NULLS = {"type": "record", "name": "empty", "fields": wide(15_000, "null")["fields"]}
HEAVY: dict[str, tuple[dict[str, Any], int, bytes]] = {
    "20,000 numbers": (wide(19_000, "long"), 2, b"\2" * 38_000),
    "optional": (wide(6_000, ["null", "string"]), 2, b"\0" * 12_000),
    "arrays": (wide(6_000, {"type": "array", "items": "long"}), 2, b"\0" * 12_000),
    "deep": (wide(1, nested(60)), 1, b"\0"),
    "many deep ones": (wide(300, nested(60)), 1, b"\0" * 300),
    "a union": (
        wide(1, [{"type": "fixed", "size": 1, "name": f"n{number}"} for number in range(9_000)]),
        1,
        b"\0a",
    ),
    "empty rows": (wide(15_000, "null"), 300_000, b""),
    "empty items": (
        wide(1, {"type": "array", "items": MANY_NULLS}),
        50,
        (write_long(1_000_000) + b"\0") * 50,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_schemas_take_no_longer_than_their_files(name: str, engine: Engine) -> None:
    """A schema of some hundred kilobytes kept the compiler busy for minutes."""
    schema, count, body = HEAVY[name]
    data = pack_file(fastavro_json(schema), {}, "null", [(count, body)])
    start = time.process_time()
    found = read_avro(data, [Pick("last", ("missing",), type=pa.int64())], source="x", engine=engine).table
    assert found.num_rows == count
    try:
        assert read_avro(data, source="x", engine=engine).table.num_rows == count
    except LakeplaneError as error:
        assert error.source == "x"  # noqa: PT017  # some take more than they may
    assert time.process_time() - start < 12
