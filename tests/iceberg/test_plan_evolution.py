"""Plans of tables whose columns and partitions have changed, and of tables that careless writers left."""

from __future__ import annotations

import itertools
import math
import struct

import msgspec
import pytest

from lakeplane.errors import InvalidExpression, InvalidMetadata
from lakeplane.iceberg import updates as u
from lakeplane.iceberg.inspect import inspect
from lakeplane.iceberg.manifest_list import FieldSummary, ManifestFile
from lakeplane.iceberg.manifest_schema import DELETED, EXISTING
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import plan
from lakeplane.iceberg.snapshots import Snapshot
from lakeplane.model.expressions.sql_text import to_sql
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.transforms import Identity, UnknownTransform, Void
from lakeplane.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    Decimal,
    Field,
    Fixed,
    Type,
)
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import (
    Facts,
    Listed,
    bounds,
    build,
    change_list,
    deletes,
    entries,
    paths,
    with_metadata,
)


def found(built: BuiltTable, where: str | None = None, at: int | str | None = None) -> set[str]:
    return paths(plan(built.metadata, built.reading(), where, at))


def reshape(built: BuiltTable, *columns: tuple[int, str, object]) -> None:
    """Give the table a new current schema, of columns with ids."""
    schema = Schema(tuple(Field(n, name, type_) for n, name, type_ in columns), schema_id=7)  # type: ignore[arg-type]
    schemas = [*(each for each in built.metadata.schemas if each.schema_id != 7), schema]
    with_metadata(built, schemas=tuple(schemas), current_schema_id=7, last_column_id=100)


def add_spec(built: BuiltTable, *fields: PartitionField, spec_id: int = 1) -> None:
    specs = (*built.metadata.partition_specs, PartitionSpec(spec_id, fields))
    with_metadata(built, partition_specs=specs, default_spec_id=spec_id, last_partition_id=1100)


def table(built: BuiltTable) -> TableMetadata:
    return built.metadata


# What is left out, and why


def test_each_rule_leaves_out_what_it_can_and_is_counted() -> None:
    built = build(("id", LONG), ("day", DATE), by=["identity day"])
    by_day = {
        day: [Listed(f"{day}-{n}", (day,), {1: bounds(LONG, n * 10, n * 10 + 9)}, 10) for n in range(3)]
        for day in range(4)
    }
    built.commit(entries(table(built), by_day[0] + by_day[1]))
    built.commit(entries(table(built), by_day[2] + by_day[3]))
    built.commit(entries(table(built), [Listed("gone", (2,), status=DELETED, more={"sequence_number": 1})]))
    read = plan(table(built), built.reading(), "day = DATE '1970-01-02' AND id BETWEEN 12 AND 19")
    assert paths(read) == {"1-1"}
    assert [to_sql(each, read.schema) for each in read.residuals] == ["`id` >= 12 AND `id` <= 19"]
    counts = read.counts
    assert (counts.manifests, counts.manifests_without_files, counts.manifests_by_partition) == (3, 1, 1)
    assert (counts.files_by_statistics, counts.files_kept, counts.rows_kept, counts.bytes_kept) == (
        2,
        1,
        10,
        1000,
    )
    # Small manifests are read together, so that the files of one which was left out may be among those seen.
    assert counts.files - counts.files_by_partition == 3
    assert counts.files in (6, 12)


def test_nothing_matches_a_condition_that_is_never_true() -> None:
    built = build(("id", LONG))
    built.commit(entries(table(built), [Listed("a"), Listed("b")]))
    read = plan(table(built), built.reading(), "id > 5 AND id < 3 AND FALSE")
    assert paths(read) == set()
    assert (read.counts.manifests_by_partition, read.counts.files_kept, read.counts.rows_kept) == (1, 0, 0)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_empty_table_has_an_empty_plan(version: int) -> None:
    built = build(("id", LONG), by=["bucket[4] id"], format_version=version)
    for where in (None, "id = 1"):
        read = plan(table(built), built.reading(), where)
        assert (read.snapshot, read.files.num_rows, read.deletes.num_rows) == (None, 0, 0)
        assert set(msgspec.structs.astuple(read.counts)) == {0}
    built.commit()
    read = plan(table(built), built.reading(), "id = 1")
    assert read.snapshot is not None
    assert read.files.num_rows == 0
    names = (
        "file_path",
        "record_count",
        "partition",
        "vector",
        "position_deletes",
        "equality_deletes",
        "residual",
    )
    assert set(names) <= set(read.files.column_names)


def test_metadata_columns_are_not_columns_of_the_table() -> None:
    built = build(("id", LONG))
    for where in ("_file = 'a'", "_pos > 3", "_deleted"):
        with pytest.raises(InvalidExpression):
            plan(table(built), built.reading(), where)


# Partitions


def test_null_nan_and_zero_partitions_are_found() -> None:
    built = build(("x", DOUBLE), ("f", FLOAT), by=["identity x"])
    values = {"null": None, "nan": math.nan, "minus": -0.0, "plus": 0.0, "one": 1.0}
    built.commit(*(entries(table(built), [Listed(name, (value,))]) for name, value in values.items()))
    other_nan = struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]
    built.commit(entries(table(built), [Listed("odd nan", (other_nan,))]))
    assert found(built, "x IS NULL") == {"null"}
    assert found(built, "isnan(x)") == {"nan", "odd nan"}
    assert found(built, "x = CAST('NaN' AS DOUBLE)") == {"nan", "odd nan"}
    assert found(built, "x = 0D") == {"minus", "plus"}
    assert found(built, "x = -0D") == {"minus", "plus"}
    assert found(built, "x > 0.5D") == {"one", "nan", "odd nan"}
    assert found(built, "x <=> NULL") == {"null"}
    assert found(built, "x <> 0D") == {"one", "nan", "odd nan"}
    assert found(built, "x >= 0D") == {"minus", "plus", "one", "nan", "odd nan"}
    assert found(built, "x < 0.5D") == {"minus", "plus"}


def test_files_of_several_specs_are_planned_each_by_its_own() -> None:
    built = build(("id", LONG), ("s", STRING), by=["bucket[4] id"])
    built.commit(entries(table(built), [Listed(f"bucket {n}", (n,)) for n in range(4)]))
    add_spec(built)
    built.commit(entries(table(built), [Listed("whole")], 1))
    add_spec(built, PartitionField((2,), 1001, "s", Identity()), spec_id=2)
    built.commit(entries(table(built), [Listed("a", ("a",)), Listed("b", ("b",))], 2))
    read = plan(table(built), built.reading(), "s = 'a'")
    assert paths(read) == {*(f"bucket {n}" for n in range(4)), "whole", "a"}
    by_path = dict(zip(read.files["file_path"].to_pylist(), read.files["residual"].to_pylist(), strict=True))
    left = {path: to_sql(read.residuals[code], read.schema) for path, code in by_path.items()}
    assert left["a"] == "TRUE"
    assert left["whole"] == left["bucket 0"] != "TRUE"
    partitions = dict(
        zip(read.files["file_path"].to_pylist(), read.files["partition"].to_pylist(), strict=True)
    )
    assert partitions["whole"] == {"1000": None, "1001": None}
    assert partitions["a"] == {"1000": None, "1001": "a"}
    # Spark's hash of 5 is in one bucket of four; the other buckets go.
    assert len(found(built, "id = 5") & {f"bucket {n}" for n in range(4)}) == 1


def test_a_v1_field_that_became_void_keeps_its_id_with_another_type() -> None:
    """Every v1 table with a dropped bucket failed to plan: its id had two types in the two specs."""
    built = build(("s", STRING), ("at", TIMESTAMP), by=["bucket[4] s", "day at"], format_version=1)
    built.commit(entries(table(built), [Listed("old", (1, 10))]))
    bucket, day = built.metadata.partition_spec.fields
    void = msgspec.structs.replace(bucket, transform=Void(), name="gone")
    add_spec(built, void, day)
    built.commit(entries(table(built), [Listed("new", (None, 10)), Listed("later", (None, 11))], 1))
    add_spec(built, void, msgspec.structs.replace(day, transform=Void(), name="gone too"), spec_id=2)
    built.commit(entries(table(built), [Listed("last", (None, None))], 2))
    assert found(built) == {"old", "new", "later", "last"}
    assert found(built, "at = TIMESTAMP_NTZ '1970-01-11 05:00:00'") == {"old", "new", "last"}
    assert found(built, "s IS NULL") == {"new", "later", "last"}


@pytest.mark.parametrize("type_", [STRING, TIMESTAMP, Decimal(9, 2), LONG], ids=str)
def test_the_nulls_of_a_void_field_may_be_stored_as_integers(type_: Type) -> None:
    """Such tables could not be planned; the spec says of void: source type or int."""
    built = build(("n", LONG), ("gone", INT))
    keys = (PartitionField((1,), 1000, "n", Identity()), PartitionField((2,), 1001, "gone_null", Void()))
    with_metadata(built, partition_specs=(PartitionSpec(0, keys),))
    built.commit(entries(table(built), [Listed("x", (1, None)), Listed("y", (2, None))]))
    built.commit(deletes(table(built), [Listed("delete", (1, None))]))
    columns = (Field(1, "n", LONG), Field(2, "gone", type_))
    with_metadata(built, schemas=(msgspec.structs.replace(table(built).schema, fields=columns),))
    assert found(built, "n = 1 AND gone IS NULL") == {"x"}
    done = plan(table(built), built.reading())
    assert {row["file_path"]: row["position_deletes"] for row in done.files.to_pylist()} == {
        "x": [0],
        "y": [],
    }
    shown = inspect(table(built), built.reading(), "files")["partition"].to_pylist()
    assert {"n": 2, "gone_null": None} in shown


@pytest.mark.parametrize("types", [*itertools.permutations([STRING, LONG, DATE], 2)], ids=str)
def test_two_specs_of_an_early_v1_table_give_the_same_id_to_fields_of_different_types(
    types: tuple[Type, Type],
) -> None:
    """Such tables could not be planned. The spec warns of them: v1 numbered the fields of each spec anew."""
    built = build(("a", types[0]), ("b", types[1]))
    keys = [PartitionField((n,), 1000, name, Identity()) for n, name in ((1, "a"), (2, "b"))]
    specs = tuple(PartitionSpec(n, (key,)) for n, key in enumerate(keys))
    with_metadata(built, partition_specs=specs, default_spec_id=1)
    value: dict[Type, object] = {STRING: "eu", LONG: 18_262, DATE: 18_262}
    for n, type_ in enumerate(types):
        kept = [Listed(f"data {n}", (value[type_],)), Listed(f"null {n}", (None,))]
        built.commit(entries(table(built), kept, spec_id=n))
        built.commit(deletes(table(built), [Listed(f"delete {n}", (value[type_],))], spec_id=n))
    text: dict[Type, str] = {STRING: "'eu'", LONG: "18262", DATE: "DATE '2020-01-01'"}
    done = plan(table(built), built.reading())
    assert paths(done) == {"data 0", "null 0", "data 1", "null 1"}
    assert found(built, f"a = {text[types[0]]}") == {"data 0", "data 1", "null 1"}
    assert found(built, f"b = {text[types[1]]}") == {"data 0", "null 0", "data 1"}
    names = done.deletes["file_path"].to_pylist()
    assert {
        row["file_path"]: [names[each] for each in row["position_deletes"]] for row in done.files.to_pylist()
    } == {"data 0": ["delete 0"], "data 1": ["delete 1"], "null 0": [], "null 1": []}


@pytest.mark.parametrize("stored", ["bucket[4]", "identity"])
def test_an_unknown_transform_prunes_nothing_whatever_it_stores(stored: str) -> None:
    built = build(("s", STRING), ("id", LONG), by=[f"{stored} s", "identity id"])
    values = {"identity": ("x", "y")}.get(stored, (1, 3))
    built.commit(entries(table(built), [Listed(f"{value}", (value, n)) for n, value in enumerate(values)]))
    first, second = built.metadata.partition_spec.fields
    unknown = msgspec.structs.replace(first, transform=UnknownTransform("zorder[4]"))
    with_metadata(built, partition_specs=(PartitionSpec(0, (unknown, second)),))
    assert len(found(built, "s = 'nothing'")) == 2
    assert found(built, "s = 'nothing' AND id = 1") == {f"{values[1]}"}


def test_a_dropped_source_column_leaves_its_partitions_readable() -> None:
    built = build(("id", LONG), ("s", STRING), by=["identity s", "bucket[2] id"])
    built.commit(entries(table(built), [Listed("a", ("a", 0)), Listed("b", ("b", 1))]))
    reshape(built, (1, "id", LONG))
    assert found(built) == {"a", "b"}
    assert len(found(built, "id = 5")) == 1
    # No schema knows the column any more: the type comes from the file.
    with_metadata(built, schemas=(built.metadata.schema,))
    assert found(built) == {"a", "b"}
    assert len(found(built, "id = 5")) == 1


def test_a_column_dropped_since_prunes_plans_of_the_past() -> None:
    built = build(("id", LONG), ("s", STRING), by=["identity s"])
    first = built.commit(entries(table(built), [Listed("a", ("a",)), Listed("b", ("b",))]))
    reshape(built, (1, "id", LONG))
    built.commit(entries(table(built), [Listed("c", ("c",))]))
    assert found(built, "s = 'a'", first.snapshot_id) == {"a"}
    with pytest.raises(InvalidExpression):
        found(built, "s = 'a'")


# Columns


def test_bounds_of_before_a_column_was_widened_are_understood() -> None:
    built = build(("n", INT), ("x", FLOAT), ("d", Decimal(4, 1)), by=["identity n", "truncate[10] n"])
    low = Facts(struct.pack("<i", -5), struct.pack("<i", -1), 10, 0)
    old = {
        1: low,
        2: Facts(struct.pack("<f", 1.5), struct.pack("<f", 2.5), 10, 0, 0),
        3: Facts(b"\xff", b"\x01", 10, 0),
    }
    first = built.commit(entries(table(built), [Listed("old", (-5, -10), old)]))
    before = built.reading()
    assert paths(plan(table(built), before, "n < 0")) == {"old"}
    reshape(built, (1, "n", LONG), (2, "x", DOUBLE), (3, "d", Decimal(12, 1)))
    built.commit(entries(table(built), [Listed("new", (2**40, 2**40 - 6), {1: bounds(LONG, 2**40, 2**40)})]))
    for reading in (before, built.reading()):  # the first one has the old file in its cache, as it was
        where = {
            "n = -5": {"old"},
            "n > 1000": {"new"},
            "n = 1099511627776": {"new"},
            "n < -5": set(),
            "n = 3": set(),
            "x > 2.6D": {"new"},
            "d > 0.2": {"new"},
            "n < 0 AND x < 2D": {"old"},
            "truncate(10, n) = -10": {"old"},
        }
        assert {each: paths(plan(table(built), reading, each)) for each in where} == where
        assert paths(plan(table(built), reading, "n = -5", first.snapshot_id)) == {"old"}
        assert paths(plan(table(built), reading, "n = 7", first.snapshot_id)) == set()


def test_columns_are_found_by_id_not_by_name() -> None:
    built = build(("a", LONG), ("b", LONG))
    facts = {1: bounds(LONG, 0, 9), 2: bounds(LONG, 100, 109)}
    first = built.commit(entries(table(built), [Listed("x", (), facts)]))
    reshape(built, (1, "b", LONG), (3, "a", LONG))  # b dropped, a renamed to b, a new a
    assert found(built, "b = 5") == {"x"}
    assert found(built, "b = 105") == set()
    assert found(built, "a = 12345") == {"x"}  # of a column that was added later, the file tells nothing
    assert found(built, "a = 5 AND b = 105", first.snapshot_id) == {"x"}


def test_bounds_that_are_no_values_prune_nothing() -> None:
    built = build(("n", INT), ("s", STRING), ("d", Decimal(9, 2)))
    odd = {
        1: Facts(b"\1\2\3", b"", 10, 0),
        2: Facts(b"\xff\xfe", b"\xff", 10, 0),
        3: Facts(b"", b"\0" * 40, 10, 0),
    }
    swapped = {1: bounds(INT, 9, 3), 2: bounds(STRING, "z", "a")}
    built.commit(
        entries(table(built), [Listed("odd", (), odd), Listed("swapped", (), swapped), Listed("none")])
    )
    for where in ("n = 5", "n > 100", "d = 1.00", "s = 'm'", "n IS NOT NULL"):
        assert {"none", "swapped"} <= found(built, where), where
    assert "odd" in found(built, "n = 5")
    assert "odd" in found(built, "d = 1.00")


def test_bounds_of_nanoseconds_in_orc_files_leave_nothing_out() -> None:
    """Java up to 1.11 wrote them as microseconds, so that all rows seemed to be of 1970 (iceberg #16922)."""
    built = build(("at", TIMESTAMP_NS), ("on", TIMESTAMP), format_version=3)
    nanos, micros = 1_700_000_000_000_000_000, 1_700_000_000_000_000
    by_java = {1: bounds(TIMESTAMP_NS, micros, micros), 2: bounds(TIMESTAMP, micros, micros)}
    good = {1: bounds(TIMESTAMP_NS, nanos, nanos), 2: bounds(TIMESTAMP, micros, micros)}
    orc = [Listed(each, (), by_java, more={"file_format": each}) for each in ("ORC", "orc")]
    built.commit(entries(table(built), [*orc, Listed("parquet", (), good)]))
    assert found(built, "at > TIMESTAMP_NTZ '2020-01-01'") == {"ORC", "orc", "parquet"}
    assert found(built, "at < TIMESTAMP_NTZ '2020-01-01'") == {"ORC", "orc"}
    assert found(built, "on < TIMESTAMP_NTZ '2020-01-01'") == set()  # those were always right
    assert found(built, "at IS NULL") == set()


# Lists that tell little, or the wrong thing


@pytest.mark.parametrize("type_", [BINARY, Fixed(1)], ids=str)
def test_summaries_of_binary_partitions_leave_nothing_out(type_: Type) -> None:
    """Java before 1.11 put the bytes of the last file into all bounds when it deleted (iceberg #15127)."""
    built = build(("b", type_), by=["identity b"])
    snapshot = built.commit(entries(table(built), [Listed(each, (each.encode(),)) for each in "abc"]))

    def by_java(manifest: ManifestFile) -> ManifestFile:
        return msgspec.structs.replace(
            manifest, partitions=(FieldSummary(contains_null=False, lower_bound=b"c", upper_bound=b"c"),)
        )

    change_list(built, snapshot, by_java)
    assert found(built, "b = X'61'") == {"a"}
    assert found(built, "b >= X'62'") == {"b", "c"}
    assert plan(table(built), built.reading(), "b IS NULL").counts.manifests_by_partition == 1


def test_summaries_that_are_missing_or_too_few_prune_nothing() -> None:
    built = build(("id", LONG), ("s", STRING), by=["identity id", "identity s"])
    snapshot = built.commit(entries(table(built), [Listed("a", (1, "a"))]))

    def shorter(manifest: ManifestFile) -> ManifestFile:
        assert manifest.partitions is not None
        return msgspec.structs.replace(manifest, partitions=manifest.partitions[:1])

    for change in (shorter, lambda each: msgspec.structs.replace(each, partitions=None)):
        change_list(built, snapshot, change)
        assert plan(table(built), built.reading(), "s = 'b'").counts.manifests_by_partition == 0
        assert found(built, "s = 'a'") == {"a"}
        assert found(built, "s = 'b'") == set()


def test_a_list_without_counts_is_read_whole() -> None:
    built = build(("id", LONG), format_version=1)
    snapshot = built.commit(entries(table(built), [Listed("a"), Listed("b", (), status=EXISTING)]))
    counts = dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"))
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, **counts))
    assert found(built) == {"a", "b"}


def test_a_manifest_of_a_spec_that_the_table_does_not_have_is_an_error_of_the_file() -> None:
    built = build(("id", LONG), by=["identity id"])
    snapshot = built.commit(entries(table(built), [Listed("a", (1,))]))
    change_list(built, snapshot, lambda each: msgspec.structs.replace(each, partition_spec_id=7))
    for where in (None, "id = 1"):
        with pytest.raises(InvalidMetadata, match="spec 7"):
            found(built, where)


def inline(built: BuiltTable, snapshot: Snapshot, manifests: tuple[str, ...]) -> Snapshot:
    """Let a v1 snapshot name its manifests itself."""
    changed = msgspec.structs.replace(snapshot, manifest_list=None, manifests=manifests)
    others = tuple(each for each in built.metadata.snapshots if each.snapshot_id != snapshot.snapshot_id)
    with_metadata(built, snapshots=(*others, changed))
    return changed


def test_a_v1_snapshot_may_name_its_manifests_itself() -> None:
    built = build(("id", LONG), by=["identity id"], format_version=1)
    first = built.commit(entries(table(built), [Listed("a", (1,)), Listed("b", (2,))]))
    add_spec(built)
    second = built.commit(entries(table(built), [Listed("c")], 1))
    both = tuple(each.manifest_path for each in built.manifests())
    inline(built, first, both[1:])
    inline(built, second, both)
    assert found(built) == {"a", "b", "c"}
    assert found(built, "id = 2") == {"b", "c"}
    assert found(built, "id = 2", first.snapshot_id) == {"b"}


def test_v1_manifests_in_a_v3_table_are_older_than_all_deletes() -> None:
    built = build(("id", LONG), by=["identity id"], format_version=1)
    built.commit(entries(table(built), [Listed("a", (1,))]))
    built.change(u.UpgradeFormatVersion(2))
    built.commit(
        deletes(table(built), [Listed("d", (1,), more={"equality_ids": [1]}, content=2)]), operation="delete"
    )
    built.change(u.UpgradeFormatVersion(3))
    built.commit(entries(table(built), [Listed("b", (1,))]))
    read = plan(table(built), built.reading())
    rows = {each["file_path"]: each for each in read.files.to_pylist()}
    assert rows["a"]["equality_deletes"] == [0]
    assert rows["b"]["equality_deletes"] == []
    assert (rows["a"]["sequence_number"], rows["b"]["sequence_number"]) == (0, 2)
    assert {rows["a"]["first_row_id"], rows["b"]["first_row_id"]} == {0, 1}


def test_deletes_of_partitions_that_are_left_out_are_not_planned() -> None:
    built = build(("id", LONG), ("s", STRING), by=["identity s"])
    built.commit(entries(table(built), [Listed("a", ("a",)), Listed("b", ("b",))]))
    of_a, of_b = (Listed(f"d{each}", (each,), content=2, more={"equality_ids": [1]}) for each in "ab")
    built.commit(deletes(table(built), [of_a]), deletes(table(built), [of_b]), operation="delete")
    read = plan(table(built), built.reading(), "s = 'a'")
    assert read.deletes["file_path"].to_pylist() == ["da"]
    assert read.files["equality_deletes"].to_pylist() == [[0]]
    assert (read.counts.deletes, read.counts.manifests) == (1, 3)


def test_a_delete_by_equality_of_no_partition_is_never_left_out() -> None:
    built = build(("id", LONG), ("s", STRING), by=["identity s"])
    built.commit(entries(table(built), [Listed("a", ("a",)), Listed("b", ("b",))]))
    add_spec(built, PartitionField((2,), 1000, "s", Void()))
    built.commit(deletes(table(built), [Listed("all", (None,), content=2, more={"equality_ids": [1]})], 1))
    read = plan(table(built), built.reading(), "s = 'a' AND id = 3")
    assert read.deletes["file_path"].to_pylist() == ["all"]
    assert read.files["equality_deletes"].to_pylist() == [[0]]


def test_a_branch_is_planned_with_its_own_manifests() -> None:
    built = build(("id", LONG), by=["bucket[2] id"])
    built.commit(entries(table(built), [Listed("main", (0,))]))
    built.commit(entries(table(built), [Listed("side", (1,))]), branch="side")
    assert found(built, None, "side") == {"side"}
    assert found(built, None, "main") == {"main"}
