"""The metadata table of position deletes: what is in delete files of any format, and in vectors."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyroaring import BitMap64

from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidMetadata, LakeplaneError, LimitExceeded, NotSupported
from lakeplane.iceberg import inspect_position_deletes, position_delete_files
from lakeplane.iceberg.avro_schema import avro_record
from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.model.schema import METADATA_COLUMNS
from lakeplane.model.types import LONG, STRING
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Listed, build, deletes, entries

DELETED = [("memory://t/a", 3), ("memory://t/a", 5), ("memory://t/b", 0)]


def columns(
    rows: list[tuple[str, int]], *, ids: bool = True, names: tuple[str, str] = ("file_path", "pos")
) -> pa.Table:
    fields = [
        pa.field(name, type_, nullable=False, metadata={"PARQUET:field_id": str(field_id)} if ids else None)
        for name, type_, field_id in zip(
            names, (pa.string(), pa.int64()), (2147483546, 2147483545), strict=True
        )
    ]
    arrays = [pa.array([path for path, _ in rows]), pa.array([pos for _, pos in rows], pa.int64())]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def large(table: pa.Table) -> pa.Table:
    """Paths in the type that PyIceberg gives them."""
    return table.set_column(
        0, table.field(0).with_type(pa.large_string()), table["file_path"].cast(pa.large_string())
    )


def as_orc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink)
    return sink.getvalue()


def avro(table: pa.Table) -> bytes:
    fields = [METADATA_COLUMNS[name] for name in ("file_path", "pos")]
    return write_avro(table, avro_record("delete", fields), metadata={}, codec="deflate")


def holding(data: bytes, **more: Any) -> BuiltTable:
    """A table with one file of position deletes."""
    built = build(("id", LONG), ("region", STRING), by=("identity region",))
    built.files["memory://t/d"] = data
    listed = Listed("memory://t/d", ("eu",), rows=3, more={"file_format": "PARQUET", **more})
    built.commit(deletes(built.metadata, [listed]))
    return built


def look(built: BuiltTable, at: Any = None) -> pa.Table:
    found = inspect(built.metadata, built.reading(), "position_deletes", at)
    found.validate(full=True)
    return found


WHOLE = (
    ("PARQUET", parquet(columns(DELETED))),
    ("ORC", as_orc(columns(DELETED, ids=False))),
    ("AVRO", avro(columns(DELETED))),
)


@pytest.mark.parametrize(
    ("file_format", "write"),
    [
        ("PARQUET", lambda: parquet(columns(DELETED))),
        ("parquet", lambda: parquet(columns(DELETED, ids=False))),
        ("PARQUET", lambda: parquet(columns(DELETED, names=("path", "row_number")))),
        ("PARQUET", lambda: parquet(large(columns(DELETED)))),
        ("ORC", lambda: as_orc(columns(DELETED, ids=False))),
        ("AVRO", lambda: avro(columns(DELETED))),
    ],
    ids=["parquet", "without ids", "other names", "large", "orc", "avro"],
)
def test_every_position_is_a_row_with_the_file_that_deletes_it(
    file_format: str, write: Callable[[], bytes]
) -> None:
    built = holding(write(), file_format=file_format)
    assert look(built).to_pylist() == [
        {
            "file_path": path,
            "pos": position,
            "row": None,
            "partition": {"region_0": "eu"},
            "spec_id": 0,
            "delete_file_path": "memory://t/d",
        }
        for path, position in DELETED
    ]


def test_deletion_vectors_of_one_file_are_told_apart_by_their_places() -> None:
    built = build(("id", LONG), format_version=3)
    vectors = {"memory://t/a": [1, 7, 2**33], "memory://t/b": [0]}
    file, told = write_vectors({path: BitMap64(positions) for path, positions in vectors.items()})
    built.files["memory://t/v.puffin"] = file.data
    reads: list[str] = []
    listed = [
        Listed(
            "memory://t/v.puffin",
            rows=each.cardinality,
            more={
                "file_format": "PUFFIN",
                "referenced_data_file": each.data_file,
                "content_offset": each.offset,
                "content_size_in_bytes": each.size,
            },
        )
        for each in told
    ]
    built.commit(deletes(built.metadata, listed))

    def read_many(places: Any) -> list[bytes]:
        reads.extend(places)
        return built.read_many(places)

    reading = built.reading()._replace(read_many=read_many)
    found = inspect(built.metadata, reading, "position_deletes").to_pylist()
    assert [(row["file_path"], row["pos"], row["content_offset"]) for row in found] == [
        *(("memory://t/a", position, told[0].offset) for position in vectors["memory://t/a"]),
        ("memory://t/b", 0, told[1].offset),
    ]
    assert {row["delete_file_path"] for row in found} == {"memory://t/v.puffin"}
    assert {row["row"] for row in found} == {None}
    assert found[-1]["content_size_in_bytes"] == told[1].size
    assert reads.count("memory://t/v.puffin") == 1


def test_positions_of_several_files_are_in_one_table_and_those_of_the_past_in_its_own() -> None:
    built = holding(parquet(columns(DELETED)))
    built.files["memory://t/d2"] = parquet(columns([("memory://t/c", 9)]))
    built.commit(
        entries(built.metadata, [Listed("memory://t/c", ("us",), rows=10)]),
        deletes(
            built.metadata,
            [Listed("memory://t/d2", ("us",)), Listed("memory://t/e", ("us",), content=EQUALITY_DELETES)],
        ),
    )
    found = look(built)
    assert sorted(zip(found["file_path"].to_pylist(), found["pos"].to_pylist(), strict=True)) == [
        *DELETED,
        ("memory://t/c", 9),
    ]
    assert found.group_by("delete_file_path").aggregate([([], "count_all")]).num_rows == 2
    assert look(built, 1001).num_rows == 3


def test_a_delete_file_without_rows_has_no_row() -> None:
    built = holding(parquet(columns([])))
    assert look(built).num_rows == 0


@pytest.mark.parametrize(
    ("data", "more", "error", "text"),
    [
        (parquet(columns([*DELETED, ("x", 1)])), {}, InvalidMetadata, "4 rows, and the manifest tells of 3"),
        (as_orc(columns([*DELETED, ("x", 1)])), {"file_format": "ORC"}, InvalidMetadata, "4 rows"),
        (avro(columns([*DELETED, ("x", 1)])), {"file_format": "AVRO"}, LimitExceeded, "3"),
        (b"PAR1 but nothing else", {}, InvalidMetadata, "cannot be read as position deletes"),
        (b"", {"file_format": "ORC"}, InvalidMetadata, "cannot be read as position deletes"),
        (b"Obj", {"file_format": "AVRO"}, InvalidMetadata, "Avro"),
        (parquet(pa.table({"pos": [1]})), {}, InvalidMetadata, "no column file_path"),
        (parquet(pa.table({"file_path": ["a", None], "pos": [1, 2]})), {}, InvalidMetadata, "is null"),
        (parquet(pa.table({"file_path": [1], "pos": [1]})), {}, InvalidMetadata, "paths are int64"),
        (parquet(pa.table({"file_path": ["a"], "pos": ["b"]})), {}, InvalidMetadata, "positions string"),
        (parquet(columns(DELETED)), {"key_metadata": b"k"}, NotSupported, "encrypted"),
        (b"", {"file_format": "LANCE"}, NotSupported, "LANCE"),
        (b"", {"file_format": "PUFFIN"}, InvalidMetadata, "referenced_data_file"),
    ],
)
def test_a_delete_file_that_cannot_be_right_is_named(
    data: bytes, more: dict[str, Any], error: type[LakeplaneError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        look(holding(data, **more))
    assert caught.value.source == "memory://t/d"


def test_more_positions_than_memory_should_hold_are_refused_before_a_file_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = holding(b"is not read")
    monkeypatch.setattr(inspect_position_deletes, "MAX_POSITIONS", 2)
    with pytest.raises(LimitExceeded, match="3 positions are more than 2"):
        look(built)


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built = holding(parquet(columns(DELETED)))
    monkeypatch.setattr(position_delete_files, "MAX_COLUMN_BYTES", 100)
    with pytest.raises(LimitExceeded, match="its paths and positions take"):
        look(built)


@given(st.data())
@settings(max_examples=150)
def test_a_broken_delete_file_is_named_whatever_is_broken_in_it(data: st.DataObject) -> None:
    file_format, whole = data.draw(st.sampled_from(WHOLE))
    broken = bytearray(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        look(holding(bytes(broken), file_format=file_format))
    except LakeplaneError as error:
        assert error.source == "memory://t/d"  # noqa: PT017 - some broken bits hurt nobody
