"""Files lie where other implementations would put them, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidLocation
from lakeplane.files.places import Places, partition_path
from lakeplane.files.target import write_target
from lakeplane.iceberg.apply import apply
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.new_table import creation
from lakeplane.model.location import parse_location
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import SortField, SortOrder
from lakeplane.model.transforms import Identity
from lakeplane.model.types import LONG, STRING, Field
from tests.files.samples import target
from tests.interop.peers import ask

SCHEMA = Schema((Field(1, "id", LONG), Field(2, "name", STRING)))
LAYOUTS = [
    {},
    {"write.data.path": "s3://b/elsewhere"},
    {"write.object-storage.enabled": "true"},
    {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"},
]


@pytest.mark.parametrize("partition", ["", "a=1/b=x%2Fy"])
def test_places_are_those_of_pyiceberg(partition: str) -> None:
    questions = [
        ["s3://b/db/t", layout, partition, f"f{at}.parquet"] for layout in LAYOUTS for at in range(20)
    ]
    expected = ask("pyiceberg_locations", questions)
    found = [
        Places(target(SCHEMA, location=location, properties=layout)).place(name, path)  # type: ignore[arg-type]
        for location, layout, path, name in questions
    ]
    assert found == expected


def test_elsewhere_a_hashed_path_names_the_table() -> None:
    """As Java does it: who lists a bucket that tables share sees whose the files are."""
    layout = {"write.object-storage.enabled": "true", "write.data.path": "s3://shared/data/"}
    places = Places(target(SCHEMA, location="s3://b/db/t", properties=layout))
    head, tail = "s3://shared/data/", "/db/t/f.parquet"
    found = places.place("f.parquet")
    assert found.startswith(head)
    assert found.endswith(tail)
    assert set(found[len(head) : -len(tail)]) == {"0", "1", "/"}
    # Directories of 4, 4, 4 and 8 bits.
    assert [len(part) for part in found[len(head) : -len(tail)].split("/")] == [4, 4, 4, 8]


def test_fresh_places_differ() -> None:
    one, two = Places(target(SCHEMA)), Places(target(SCHEMA), task="1")
    found = [places.fresh(path) for places in (one, two) for path in ("", "a=1", "")]
    assert len(set(found)) == len(found)
    assert found[0] == "/lake/t/data/00000-0-run-00001.parquet"
    assert found[1] == "/lake/t/data/a=1/00000-0-run-00002.parquet"


@given(st.text(), st.text())
def test_any_text_makes_a_path_that_stays_inside(name: str, value: str) -> None:
    path = partition_path([name, "b"], [value, value * 50])
    inside = parse_location("s3://bucket/table/data")
    found = inside / f"{path}/f.parquet"
    assert inside.contains(found)
    assert len(found.segments) == len(inside.segments) + 3
    assert all(len(segment) <= 255 + 150 for segment in found.segments)
    assert all(len(segment.partition("=")[2]) <= 200 for segment in found.segments)
    assert path.isascii()
    assert path.isprintable()


def test_paths_are_encoded_as_java_does() -> None:
    found = partition_path(["a b", "c"], ["x/y=z ~*-_.", "ž"])
    assert found == "a+b=x%2Fy%3Dz+%7E*-_./c=%C5%BE"


def test_a_place_that_is_refused() -> None:
    with pytest.raises(InvalidLocation):
        Places(target(SCHEMA, properties={"write.data.path": "s3://b/../x"}))


# Targets


def table(**properties: str) -> TableMetadata:
    spec = PartitionSpec(0, (PartitionField((1,), 1000, "id", Identity()),))
    order = SortOrder(1, (SortField((2,), Identity(), "asc", "nulls-first"),))
    updates = creation(SCHEMA, uuid="u", location="s3://b/t", spec=spec, order=order, properties=properties)
    return apply(None, updates, now_ms=1)


def test_a_target_is_what_the_table_says() -> None:
    secret = {
        "s3.secret-access-key": "hidden",
        "write.format.default": "ORC",
        "write.target-file-size-bytes": "5",
    }
    found = write_target(table(**secret))
    assert (found.file_format, found.target_bytes, found.location) == ("orc", 5, "s3://b/t")
    assert found.spec.spec_id == 0
    assert found.sort_order.order_id == 1
    assert "hidden" not in repr(found)
    assert found.run_id != write_target(table()).run_id


def test_options_of_one_write_go_first() -> None:
    options = {"write-format": "avro", "compression-codec": "zstd", "write.target-file-size-bytes": "7"}
    found = write_target(table(**{"write.format.default": "orc"}), options=options, run_id="r")
    assert (found.file_format, found.target_bytes, found.run_id) == ("avro", 7, "r")
    assert found.properties["write.avro.compression-codec"] == "zstd"
    assert write_target(table(), file_format="orc").file_format == "orc"


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match="option 'targetsize'"):
        write_target(table(), options={"targetsize": "1"})
    with pytest.raises(InvalidInput, match="no format"):
        write_target(table(), file_format="csv")
    with pytest.raises(InvalidInput, match="no partition spec 9"):
        write_target(table(), spec_id=9)
