"""Tables of many files for the planning benchmark: metadata, manifest lists and manifests, but no data.

``python -m bench._planning_tables FOLDER FILES COLUMNS CODEC`` makes one in a folder, and beside it the same
table after one more small commit. Its files are partitioned by region and day, and have full statistics of
random values, which pack worse than those of real tables.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakeplane.iceberg.manifest_schema import ADDED
from lakeplane.iceberg.metadata_json import serialize_metadata
from lakeplane.model.ddl import parse_ddl
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.rules_text import parse_partition_field
from lakeplane.testing.tables import BuiltTable, Entries

PER_MANIFEST = 5_000
PLAIN = 3
"""The first columns: id, ts and region."""
DAY_MICROS = 86_400_000_000
FIRST_DAY = 20_454  # 2026-01-01
REGIONS = 20
KINDS = ("DOUBLE", "BIGINT", "STRING", "INT", "TIMESTAMP")


def columns(count: int) -> str:
    """The columns of a table, as DDL."""
    rest = (f"c{number:02} {KINDS[number % len(KINDS)]}" for number in range(count - PLAIN))
    return ", ".join(["id BIGINT NOT NULL", "ts TIMESTAMP", "region STRING", *rest])


def entries(number: int, count: int, column_count: int) -> pa.Table:
    """The entries of one manifest: the files of one day."""
    draw = np.random.default_rng(number)
    day = FIRST_DAY + number
    names = np.char.add(
        f"s3://warehouse-bucket/warehouse/events/data/day={day}/region=r00/",
        np.char.mod("%05d", np.arange(count)),
    )
    suffixes = np.char.mod("-%016x", draw.integers(0, 2**62, count))
    paths = [
        f"{a}{b}-{number:05}-0-00001-4f1c2b7e-padding-padding.parquet"
        for a, b in zip(names, suffixes, strict=True)
    ]
    rows = draw.integers(100_000, 2_000_000, count)
    first_id = np.arange(count) * 1_000_000 + number * 5_000_000_000
    region = draw.integers(0, REGIONS, count)
    regions = np.array([f"region-{each:02}" for each in range(REGIONS)], object)[region]
    lower: list[Any] = [_longs(first_id), _longs(day * DAY_MICROS + draw.integers(0, DAY_MICROS // 2, count))]
    upper: list[Any] = [
        _longs(first_id + 999_999),
        _longs(day * DAY_MICROS + draw.integers(DAY_MICROS // 2, DAY_MICROS, count)),
    ]
    lower.append(pa.array(regions, pa.string()).cast(pa.binary()))
    upper.append(lower[-1])
    for position in range(column_count - PLAIN):
        low, high = _bounds(KINDS[position % len(KINDS)], count, draw)
        lower.append(low)
        upper.append(high)
    ids = list(range(1, column_count + 1))
    null_counts = [
        np.zeros(count, np.int64) if each < PLAIN else draw.integers(0, 100, count) for each in ids
    ]
    return pa.table(
        {
            "status": pa.repeat(pa.scalar(ADDED, pa.int32()), count),
            "content": pa.repeat(pa.scalar(0, pa.int32()), count),
            "file_path": pa.array(paths),
            "file_format": pa.repeat("PARQUET", count),
            "partition": pa.StructArray.from_arrays(
                [
                    pa.array(regions, pa.string()),
                    pa.repeat(pa.scalar(day, pa.int32()), count).cast(pa.date32()),
                ],
                ["1000", "1001"],
            ),
            "record_count": pa.array(rows),
            "file_size_in_bytes": pa.array(rows * 40),
            "column_sizes": _counts(ids, [draw.integers(10_000, 9_000_000, count) for _ in ids]),
            "value_counts": _counts(ids, [rows for _ in ids]),
            "null_value_counts": _counts(ids, null_counts),
            "nan_value_counts": _counts(
                [each for each in ids if each > PLAIN and KINDS[(each - PLAIN - 1) % len(KINDS)] == "DOUBLE"],
                [
                    np.zeros(count, np.int64)
                    for each in ids
                    if each > PLAIN and KINDS[(each - PLAIN - 1) % len(KINDS)] == "DOUBLE"
                ],
            ),
            "lower_bounds": _map(ids, lower, pa.binary()),
            "upper_bounds": _map(ids, upper, pa.binary()),
            "split_offsets": pa.array([[4, 134_217_732]] * count, pa.list_(pa.int64())),
            "sort_order_id": pa.repeat(pa.scalar(0, pa.int32()), count),
        }
    )


def _bounds(kind: str, count: int, draw: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    match kind:
        case "STRING":
            return tuple(
                pa.array(
                    [f"{a}{each:014x}".encode() for each in draw.integers(0, 2**55, count).tolist()],
                    pa.binary(),
                )
                for a in "mz"
            )
        case "INT":
            low = draw.integers(0, 1 << 20, count).astype("<i4")
            return _fixed(low), _fixed(low + np.int32(1000))
        case "DOUBLE":
            floats = draw.random(count)
            return _fixed(floats.astype("<f8")), _fixed((floats + 100).astype("<f8"))
        case _:
            numbers = draw.integers(0, 1 << 50, count)
            return _longs(numbers), _longs(numbers + 5_000_000)


def _longs(values: np.ndarray) -> pa.Array:
    return _fixed(values.astype("<i8"))


def _fixed(values: np.ndarray) -> pa.Array:
    width = values.dtype.itemsize
    offsets = np.arange(0, width * (len(values) + 1), width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _counts(ids: list[int], counts: list[Any]) -> pa.MapArray:
    return _map(ids, [pa.array(each, pa.int64()) for each in counts], pa.int64())


def _map(ids: list[int], values: list[pa.Array], kind: pa.DataType) -> pa.MapArray:
    """A map from field ids to columns of values."""
    count, width = len(values[0]), len(ids)
    order = (np.arange(count)[:, None] + np.arange(width) * count).ravel()
    items = pa.concat_arrays(values).take(pa.array(order))
    keys = pa.array(np.tile(np.array(ids, np.int32), count))
    offsets = pa.array(np.arange(0, count * width + 1, width, dtype=np.int32))
    field = pa.field("value", kind, nullable=False)
    return pa.MapArray.from_arrays(
        offsets, keys, items, pa.map_(pa.field("key", pa.int32(), nullable=False), field)
    )


def main(folder: Path, files: int, column_count: int, codec: str) -> None:
    """Write ``v1.metadata.json``, and ``v2.metadata.json`` after one more commit of ten files."""
    schema = parse_ddl(columns(column_count))
    fields = [parse_partition_field(rule, schema) for rule in ("region", "days(ts)")]
    spec = PartitionSpec(0, tuple(fields))
    table = BuiltTable(schema, spec, location=str(folder))
    table.codec = codec
    (folder / "metadata").mkdir(parents=True)
    made = (Entries(entries(number, PER_MANIFEST, column_count)) for number in range(files // PER_MANIFEST))
    table.commit(*made)
    (folder / "v1.metadata.json").write_bytes(serialize_metadata(table.metadata))
    table.commit(Entries(entries(files // PER_MANIFEST, 10, column_count)))
    (folder / "v2.metadata.json").write_bytes(serialize_metadata(table.metadata))
    for path, data in table.files.items():
        Path(path).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
