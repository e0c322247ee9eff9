"""DELETE, UPDATE and MERGE through the front door: rows are those of a model, by us and by others."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeplane as lp
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = "id BIGINT NOT NULL, day DATE, amount DECIMAL(10,2), region STRING, place STRUCT<x: DOUBLE, y: INT>"
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("amount", pa.decimal128(10, 2)),
        ("region", pa.string()),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.int32())])),
    ]
)
MODES = ("copy-on-write", "merge-on-read")
LAYOUTS = [(2, ()), (2, ("region",)), (3, ()), (3, ("region", "bucket(3, id)"))]
Row = dict[str, Any]


def rows(start: int, end: int) -> list[Row]:
    return [
        {
            "id": number,
            "day": dt.date(2026, 1, 1) + dt.timedelta(days=number % 5),
            "amount": None if number % 11 == 0 else Decimal(number) / 4,
            "region": None if number % 7 == 0 else f"r {number % 3}",
            "place": None if number % 5 == 0 else {"x": number / 2, "y": number},
        }
        for number in range(start, end)
    ]


def arrow(values: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(values, schema=ARROW)


class Tried:
    """A table, and the rows that it should have."""

    def __init__(
        self, folder: Path, spark: SparkSession, version: int, parts: tuple[str, ...], mode: str
    ) -> None:
        self.lake = lp.connect(str(folder / "warehouse"), spark=spark)
        self.lake.create_namespace("shop")
        properties = {"format-version": str(version)}
        properties |= {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
        self.table = self.lake.create_table(
            "shop.orders", DDL, partition_by=list(parts), properties=properties
        )
        self.version, self.folder = version, folder
        self.rows: dict[int, Row] = {}
        for start in range(0, 90, 30):
            self.table.append(arrow(rows(start, start + 30)))
            self.rows |= {each["id"]: each for each in rows(start, start + 30)}

    def check(self) -> None:
        """What we read is what the model says."""
        found = sorted(self.table.read().toArrow().to_pylist(), key=lambda each: each["id"])
        assert found == self.expected

    @property
    def expected(self) -> list[Row]:
        return [self.rows[each] for each in sorted(self.rows)]

    def check_outside(self) -> None:
        """So is what others read."""
        metadata = self.table.metadata_location
        readers = ("pyiceberg", "duckdb") if self.version == 2 else ("duckdb",)
        for reader, answer in zip(
            readers, ask("table_rows", [[each, metadata] for each in readers]), strict=True
        ):
            found = pa.ipc.open_stream(base64.b64decode(answer)).read_all().to_pylist()
            assert sorted(found, key=lambda each: each["id"]) == self.expected, reader


@pytest.fixture(params=[(*layout, mode) for layout in LAYOUTS for mode in MODES], ids=str)
def tried(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Tried:
    version, parts, mode = request.param
    return Tried(tmp_path, spark, version, parts, mode)


def test_rows_are_deleted(tried: Tried) -> None:
    done = tried.table.delete("amount < 5 OR id = 77")
    gone = [each["id"] for each in rows(0, 90) if (each["amount"] or 9) < 5 or each["id"] == 77]
    for each in gone:
        del tried.rows[each]
    tried.check()
    assert done.snapshot_id == tried.table.metadata.current_snapshot_id
    tried.table.delete("id % 10 = 3")
    tried.rows = {each: row for each, row in tried.rows.items() if each % 10 != 3}
    tried.check()
    tried.check_outside()


def test_rows_are_updated(tried: Tried) -> None:
    tried.table.update(
        {"amount": "amount * 1.1", "place.y": "-1", "region": "concat(region, '!')"}, "id >= 45"
    )
    for each in tried.rows.values():
        if each["id"] >= 45:
            amount = each["amount"]
            each["amount"] = (
                None
                if amount is None
                else (amount * Decimal("1.1")).quantize(Decimal("0.01"), "ROUND_HALF_UP")
            )
            each["place"] = {"x": each["place"] and each["place"]["x"], "y": -1}
            each["region"] = each["region"] and each["region"] + "!"
    tried.check()


def test_rows_are_merged(tried: Tried) -> None:
    source = pa.table({"id": [5, 6, 200, 201], "op": ["u", "d", "i", "x"], "amount": [Decimal("1.5")] * 4})
    done = (
        tried.table.merge(source, "t.id = s.id")
        .when_matched_delete("s.op = 'd'")
        .when_matched_update({"amount": "t.amount + s.amount"})
        .when_not_matched_insert({"id": "s.id", "amount": "s.amount"}, "s.op = 'i'")
        .when_not_matched_by_source_update({"region": "'old'"}, "t.id >= 80")
        .when_not_matched_by_source_delete("t.id = 40")
        .execute()
    )
    assert done.snapshot_id is not None
    tried.rows[5]["amount"] += Decimal("1.5")
    del tried.rows[6], tried.rows[40]
    tried.rows[200] = {"id": 200, "day": None, "amount": Decimal("1.5"), "region": None, "place": None}
    for number in range(80, 90):
        tried.rows[number]["region"] = "old"
    tried.check()
    tried.check_outside()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("rows_are", ["here", "in Spark"])
def test_rows_are_upserted_without_a_look_at_the_table(
    tmp_path: Path,
    spark: SparkSession,
    version: int,
    rows_are: str,
) -> None:
    tried = Tried(tmp_path, spark, version, ("bucket(2, id)",), "merge-on-read")
    for start in (20, 25):
        changed = [{**each, "region": f"new {start}"} for each in rows(start, start + 10)]
        changed += [{"id": 500 + start, "day": None, "amount": None, "region": "x", "place": None}]
        frame = arrow(changed)
        tried.table.upsert(frame if rows_are == "here" else spark.createDataFrame(frame), on=["id"])
        tried.rows |= {each["id"]: each for each in changed}
    tried.check()
    assert set(tried.table.inspect("delete_files")["content"].to_pylist()) == {2}
    tried.table.convert_equality_deletes()
    assert set(tried.table.inspect("delete_files")["content"].to_pylist()) == {1}
    tried.check()
    tried.check_outside()
    assert tried.table.convert_equality_deletes().snapshot_id is None


def test_an_upsert_of_two_rows_with_one_key_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    tried = Tried(tmp_path, spark, 2, (), "merge-on-read")
    with pytest.raises(lp.InvalidInput, match="have the key of another one"):
        tried.table.upsert(arrow([*rows(3, 5), *rows(4, 6)]), on=["id"])
    tried.check()
