from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.expressions.parse import parse_predicate
from lakeplane.model.types import STRING
from lakeplane.paimon.buckets import bucket_of
from lakeplane.paimon.deletion_vectors import DELETION_VECTORS, VectorRange, vector_of, write_vectors
from lakeplane.paimon.manifest_schema import INDEX_COLUMNS
from lakeplane.paimon.plan import ReadPlan, plan
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.types import parse_fields
from tests.paimon.built import Built, Row, make_schema, numbered
from tests.paimon.stored import NAMES, reader, stored

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row", "vectors", "append")
CONDITIONS = (
    *("k = 3", "k > 5", "k IN (1, 8) AND v = 2", "v > 4", "v IS NULL", "v = 1 OR k = 2", "s = 'b'"),
    *(
        "s >= 'c' AND v < 3",
        "p = 'x'",
        "p = 'x' AND v = 3",
        "p IS NULL OR k < 2",
        "NOT (k = 4)",
        "s LIKE 'a%'",
    ),
    *("p = 'y' AND k = 7 AND s IS NOT NULL", "k BETWEEN 2 AND 4", "v != 2", "k = 3 AND p = 'x'"),
)


@pytest.mark.parametrize("name", NAMES)
def test_live_files_of_other_writers_hold_the_rows_that_they_say(name: str) -> None:
    table = stored(name)
    found = plan(table.files)
    assert found.state.snapshot is not None
    assert found.counts.rows_kept == found.state.snapshot.total_record_count
    if not table.schema.has_primary_key and not found.counts.vectors:
        assert found.counts.rows_kept == len(table.rows)
    assert found.files["path"].null_count == 0
    assert not found.merges or table.schema.has_primary_key


def test_a_table_that_was_compacted_in_part_is_parted_into_sections() -> None:
    """Snapshot 3 has compacted the partition p1 to level 100; snapshot 4 wrote some of its keys again."""
    table = stored("java09_p_dedup")
    found = plan(table.files)
    rows = found.files.select(["partition_code", "bucket", "level", "section", "raw"]).to_pylist()
    for row in rows:
        others = [each for each in rows if each["section"] == row["section"]]
        assert row["raw"] == (len(others) == 1)
        assert len({(each["partition_code"], each["bucket"]) for each in others}) == 1
    assert any(row["raw"] for row in rows)
    assert any(not row["raw"] for row in rows)


def test_deletion_vectors_are_attached() -> None:
    [row] = plan(stored("pp21_a_rowid").files).files.to_pylist()
    assert row["vector_path"].startswith("index/index-")
    assert (row["vector_offset"], row["vector_length"], row["vector_cardinality"]) == (1, 24, 2)


def test_deletion_vectors_of_java_take_the_rows_that_were_replaced() -> None:
    table = stored("java09_p_dv")
    files = plan(table.files).files.to_pylist()
    [vector] = [each for each in files if each["vector_path"] is not None]
    told = VectorRange(vector["file_name"], vector["vector_offset"], vector["vector_length"])
    data = table.content[vector["vector_path"]]
    positions = vector_of(data, told, source=vector["vector_path"])
    assert list(positions) == [3, 7, 150]
    assert write_vectors({vector["file_name"]: positions}, bitmap64=False)[0] == data
    assert sum(each["row_count"] for each in files) - len(positions) == len(table.rows)
    assert all(each["raw"] and each["level"] > 0 for each in files)


def test_a_table_that_has_evolved_under_another_writer() -> None:
    """A column was dropped, and its name given to another one: it is told apart by its id."""
    table = stored("java09_evolved")
    for condition, schemas in (
        ("v = 10", [0]),
        ("v > 4000000000", [3]),
        ("added IS NULL", [0]),
        ("old IS NULL", [0, 1]),
        ("old = DATE '2022-01-08'", [3]),
        ("id = 3", [1]),
    ):
        assert plan(table.files, condition).files["schema_id"].to_pylist() == schemas, condition
    rows = {at: plan(table.files, at=at).counts.rows_kept for at in (1, 2, 3, "before", "kept", "dev")}
    assert rows == {1: 2, 2: 3, 3: 4, "before": 2, "kept": 4, "dev": 2}
    assert plan(table.files, "old = 'a'", at="before").counts.rows_kept == 2


def test_partition_values_are_those_of_the_metadata() -> None:
    found = plan(stored("java09_part_types").files)
    rows = found.partitions.drop_columns([""]).to_pylist()
    assert {row["d"] is None for row in rows} == {True, False}
    [row] = [row for row in rows if row["d"] is not None]
    told = stored("java09_part_types").rows[0]
    assert row["d"].isoformat() == told["d"]
    assert str(row["dec"]) == told["dec"]
    assert row["ts"].isoformat() == told["ts"]
    assert row["b"] is told["b"]


# A table whose rows are known, against what is left of it.


def engine_schema(engine: str, buckets: int) -> TableSchema:
    options = {"bucket": str(buckets)}
    match engine:
        case "vectors":
            options["deletion-vectors.enabled"] = "true"
        case "append":
            options["bucket-key"] = "k"
        case _:
            options["merge-engine"] = engine
    columns = {"k": "INT NOT NULL", "v": "INT", "s": "STRING", "p": "STRING"}
    key = () if engine == "append" else ("p", "k") if engine != "aggregation" else ("k",)
    by = () if engine == "aggregation" else ("p",)
    return make_schema(columns, primary_key=key, partition_by=by, options=options)


def merged(engine: str, rows: Sequence[Row]) -> list[Row]:
    """What files with these rows read as."""
    if engine in ("append", "vectors"):
        return [row for row in rows if row["_kind"] in (0, 2)]
    keys: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda each: each["_seq"]):
        keys.setdefault((row["p"], row["k"]) if engine != "aggregation" else row["k"], []).append(row)
    return [found for group in keys.values() if (found := merged_key(engine, group)) is not None]


def merged_key(engine: str, group: list[Row]) -> Row | None:
    match engine:
        case "deduplicate":
            return group[-1] if group[-1]["_kind"] in (0, 2) else None
        case "first-row":
            return group[0]
        case _:
            result = dict(group[0])
            for row in group[1:]:
                if engine == "aggregation":
                    values = [each for each in (result["v"], row["v"]) if each is not None]
                    result["v"] = sum(values) if values else None
                elif row["v"] is not None:
                    result["v"] = row["v"]
                for name in ("s", "p"):
                    result[name] = row[name] if row[name] is not None else result[name]
            return result


def read(engine: str, table: Built, found: ReadPlan) -> list[Row]:
    """The rows that the files of a plan read as: raw ones as they are, others merged by section."""
    result: list[Row] = []
    sections: dict[int, list[Row]] = {}
    for file in found.files.select(["file_name", "section", "raw"]).to_pylist():
        rows = table.rows_of[file["file_name"]]
        if file["raw"]:
            result += [row for row in rows if row["_kind"] in (0, 2)]
        else:
            sections.setdefault(file["section"], []).extend(rows)
    for rows in sections.values():
        result += merged(engine, rows)
    return result


def matching(schema: TableSchema, condition: str, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    predicate = parse_predicate(condition, schema.model)
    types = {"k": pa.int32(), "v": pa.int32(), "s": pa.string(), "p": pa.string()}
    columns = {
        schema.field(name).id: pa.array([row[name] for row in rows], kind) for name, kind in types.items()
    }
    mask = matches_rows(predicate, columns.__getitem__, len(rows))
    told = [(row["p"], row["k"], row["v"], row["s"]) for row, hit in zip(rows, mask, strict=True) if hit]
    return sorted(told, key=str)


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, Built]:
    engine = draw(st.sampled_from(ENGINES))
    buckets = draw(st.integers(1, 3))
    schema = engine_schema(engine, buckets)
    table = Built(schema)
    for commit in range(draw(st.integers(1, 4))):
        drawn = draw(st.lists(row_values(), min_size=1, max_size=12))
        placed: dict[tuple[Any, int], dict[int, Row]] = {}
        for number, each in enumerate(drawn):
            deletes = each.pop("_delete") and engine == "deduplicate"
            row = {**each, "_kind": 3 if deletes else 0, "_seq": commit * 100 + number}
            bucket = bucket_of([schema.field("k").type], [row["k"]], buckets)
            part = row["p"] if schema.partition_keys else None
            placed.setdefault((part, bucket), {}).setdefault(row["k"], row)
        level = 5 if engine in ("vectors", "first-row") and commit == 0 else 0
        stats = draw(st.booleans())
        table.commit(
            [
                table.file(list(rows.values()), bucket=bucket, level=level, stats=stats)
                for (_, bucket), rows in placed.items()
            ]
        )
    return engine, table


@st.composite
def row_values(draw: st.DrawFn) -> Row:
    return {
        "k": draw(st.integers(0, 9)),
        "v": draw(st.none() | st.integers(0, 6)),
        "s": draw(st.sampled_from([None, "a", "ab", "b", "c", "d"])),
        "p": draw(st.sampled_from(["x", "y"])),
        "_delete": draw(st.booleans()),
    }


@given(histories(), st.sampled_from(CONDITIONS))
def test_no_row_is_lost_and_none_comes_back_whatever_is_left_out(
    case: tuple[str, Built], condition: str
) -> None:
    """A file left out by its values brought back older rows of its keys."""
    engine, table = case
    schema = table.schema
    everything = plan(table.files)
    expected = matching(schema, condition, read(engine, table, everything))
    assert read(engine, table, everything) is not None
    found = plan(table.files, condition)
    assert matching(schema, condition, read(engine, table, found)) == expected
    kept = found.counts
    left_out = kept.files_by_bucket + kept.files_by_key + kept.files_by_statistics + kept.files_not_compacted
    assert kept.files_kept + left_out == kept.files
    # Sections without any merging say the same as all files of the table merged at once.
    if engine not in ("vectors", "first-row"):
        whole = merged(engine, [row for rows in table.rows_of.values() for row in rows])
        assert matching(schema, condition, whole) == expected


def rows_in(found: ReadPlan) -> set[str]:
    return set(found.files["file_name"].to_pylist())


def test_an_update_that_does_not_match_keeps_the_row_that_it_replaced_away() -> None:
    table = Built(engine_schema("deduplicate", 1))
    old = table.file([row(1, v=5, seq=1)])
    new = table.file([row(1, v=9, seq=2)])
    other = table.file([row(2, v=9, seq=3)])
    table.commit([old])
    table.commit([new, other])
    found = plan(table.files, "v = 5")
    assert rows_in(found) == {old["file_name"], new["file_name"]}
    assert found.merges
    assert plan(table.files, "v = 7").counts.files_kept == 0
    assert rows_in(plan(table.files, "k = 2 AND v = 9")) == {other["file_name"]}


def test_rows_that_are_made_of_several_are_not_judged_by_the_values_of_one() -> None:
    table = Built(engine_schema("aggregation", 1))
    table.commit([table.file([row(1, v=2, seq=1)]), table.file([row(1, v=3, seq=2)])])
    assert plan(table.files, "v = 5").counts.files_kept == 2


def row(
    k: int, *, v: int | None = None, s: str | None = None, p: str = "x", seq: int = 0, kind: int = 0
) -> Row:
    return {"k": k, "v": v, "s": s, "p": p, "_seq": seq, "_kind": kind}


def test_tables_whose_readers_wait_for_compaction_do_not_see_the_lowest_level() -> None:
    for engine in ("first-row", "vectors"):
        table = Built(engine_schema(engine, 1))
        seen = table.file([row(1, v=5)], level=3)
        table.commit([seen, table.file([row(2, v=5)])])
        found = plan(table.files, "v = 5")
        assert rows_in(found) == {seen["file_name"]}
        assert found.counts.files_not_compacted == 1
        assert not found.merges


def test_a_read_optimized_plan_has_the_highest_level_only() -> None:
    table = Built(engine_schema("deduplicate", 1))
    top = table.file([row(1, v=5)], level=5)
    table.commit([top, table.file([row(1, v=6)]), table.file([row(2, v=6)], level=4)])
    found = plan(table.files, "v > 1", read_optimized=True)
    assert rows_in(found) == {top["file_name"]}
    assert not found.merges


def test_each_rule_counts_what_it_has_left_out() -> None:
    table = Built(engine_schema("deduplicate", 3))
    for part in ("x", "y"):
        entries = []
        for key in range(6):
            bucket = bucket_of([table.schema.field("k").type], [key], 3)
            entries.append(table.file([row(key, v=key, p=part)], bucket=bucket))
        table.commit(entries)
    found = plan(table.files, "p = 'x' AND k = 4")
    assert found.counts.manifests == 2
    assert found.counts.manifests_by_partition == 1
    assert found.counts.files_kept == 1
    assert found.counts.files_by_bucket + found.counts.files_by_key == 5
    assert found.counts.files_by_bucket > 0
    assert [str(each) for each in found.residuals] == ["#0 = 4"]
    assert found.partitions["p"].to_pylist() == ["x"]


def test_a_file_that_is_moved_up_is_there_once() -> None:
    table = Built(engine_schema("deduplicate", 1))
    low = table.file([row(1, v=5)])
    table.commit([low])
    table.commit([{**low, "level": 5}], [low], kind="COMPACT")
    assert plan(table.files).files["level"].to_pylist() == [5]


def test_a_file_that_was_deleted_stays_away_after_its_buckets_were_rescaled() -> None:
    """What deletes it tells of the new number of buckets, under which its bucket cannot match."""
    table = Built(engine_schema("append", 2))
    type_ = table.schema.field("k").type
    key = next(k for k in range(100) if bucket_of([type_], [k], 2) != bucket_of([type_], [k], 3))
    old = table.file([row(key, v=1)], bucket=bucket_of([type_], [key], 2))
    new = table.file([row(key, v=2)], bucket=bucket_of([type_], [key], 3), total_buckets=3)
    table.commit([old])
    assert rows_in(plan(table.files, f"k = {key}")) == {old["file_name"]}
    table.commit([new], [{**old, "total_buckets": 3}], kind="OVERWRITE")
    assert rows_in(plan(table.files, f"k = {key}")) == {new["file_name"]}


def test_manifests_that_tell_of_their_buckets_are_left_out_unless_they_delete() -> None:
    table = Built(engine_schema("append", 4))
    type_ = table.schema.field("k").type
    files = {bucket: table.file([row(0)], bucket=bucket) for bucket in range(4)}
    for file in files.values():
        table.commit([file])
    table.commit([], [files[3]])
    table.base = table.base.set_column(
        table.base.schema.get_field_index("total_buckets"),
        "total_buckets",
        pa.array([4] * table.base.num_rows, pa.int32()),
    )
    table.commit()
    found = plan(table.files, "k = 0")
    assert rows_in(found) <= {files[bucket_of([type_], [0], 4)]["file_name"]}
    assert found.counts.manifests_by_bucket >= 3


def test_a_file_that_is_added_twice_is_refused() -> None:
    table = Built(engine_schema("append", 1))
    low = table.file([row(1, v=5)])
    table.commit([low])
    table.commit([low])
    with pytest.raises(InvalidMetadata, match="added twice"):
        plan(table.files)


def test_a_column_that_was_added_later_is_null_in_older_files() -> None:
    table = Built(make_schema({"k": "INT", "v": "INT"}))
    old = table.file([{"k": 1, "v": 5}])
    table.commit([old])
    fields = parse_fields(
        [
            {"id": 1, "name": "k", "type": "BIGINT"},
            {"id": 2, "name": "v", "type": "STRING"},
            {"id": 0, "name": "renamed", "type": "BIGINT"},
        ],
        "",
    )
    table.evolve(numbered(table.schema, 1, fields=fields, highest_field_id=2))
    new = table.file([{"renamed": 7, "k": 8, "v": "x"}])
    table.commit([new])
    assert rows_in(plan(table.files, "v IS NULL")) == {old["file_name"]}
    assert rows_in(plan(table.files, "v = 'x'")) == {new["file_name"]}
    assert rows_in(plan(table.files, "renamed = 1")) == {old["file_name"]}
    assert rows_in(plan(table.files, "k = 5")) == {old["file_name"]}
    assert rows_in(plan(table.files, "k = 8")) == {new["file_name"]}
    assert set(plan(table.files).schemas) == {0, 1}


def test_a_column_whose_type_was_cast_is_not_judged_by_its_old_values() -> None:
    """As numbers 9 < 10, as texts it is the other way round."""
    table = Built(make_schema({"k": "INT"}))
    old = table.file([{"k": 9}, {"k": 10}])
    table.commit([old])
    fields = parse_fields([{"id": 0, "name": "k", "type": "STRING"}], "")
    table.evolve(numbered(table.schema, 1, fields=fields))
    assert table.schema.model.find("k").type is STRING
    for condition in ("k = '9'", "k > '8'", "k IS NULL"):
        assert rows_in(plan(table.files, condition)) == {old["file_name"]}


def vectors(*told: tuple[str, int, str]) -> pa.Table:
    ranges = [{"f0": name, "f1": 1, "f2": 24, "_CARDINALITY": 2} for _, _, name in told]
    entries = [
        {
            "kind": 0,
            "partition": bytes(12),
            "bucket": bucket,
            "index_type": DELETION_VECTORS,
            "file_name": index,
            "file_size": 33,
            "row_count": 1,
            "ranges": [each],
        }
        for (index, bucket, _), each in zip(told, ranges, strict=True)
    ]
    return pa.Table.from_pylist(entries, INDEX_COLUMNS)


def test_vectors_of_files_that_are_gone_are_passed_over_and_two_of_a_file_refused() -> None:
    table = Built(make_schema({"k": "INT"}, options={"deletion-vectors.enabled": "true"}))
    first, second = table.file([{"k": 1}]), table.file([{"k": 2}])
    index = vectors(
        ("index-1", 0, first["file_name"]),
        ("index-2", 0, "gone.parquet"),
        ("index-3", 1, second["file_name"]),
    )
    table.commit([first, second], index=index)
    files = plan(table.files).files
    assert files["vector_path"].to_pylist() == ["index/index-1", None]
    table.commit([], index=vectors(("index-1", 0, first["file_name"]), ("index-4", 0, first["file_name"])))
    with pytest.raises(InvalidMetadata, match="two deletion vectors"):
        plan(table.files)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"bucket": -2}, "bucket-postpone"),
        ({"write_cols": ["k"], "value_stats_cols": None}, "data-evolution"),
        ({"first_row_id": 5}, "row ids"),
    ],
)
def test_files_whose_rows_cannot_be_put_together_are_refused(told: dict[str, Any], said: str) -> None:
    table = Built(make_schema({"k": "INT"}))
    table.commit([table.file([{"k": 1}, {"k": 2}], first_row_id=4), table.file([{"k": 1}], **told)])
    with pytest.raises(NotSupported, match=said):
        plan(table.files)


def test_a_table_that_must_not_be_read_is_refused_before_anything_is_read() -> None:
    table = Built(make_schema({"k": "INT"}, options={"sequence.snapshot-ordering": "true"}))
    table.commit([table.file([{"k": 1}])])
    touched: list[str] = []

    def read_many(paths: Sequence[str]) -> list[bytes]:
        touched.extend(paths)
        return []

    files = table.files._replace(read_many=read_many)
    with pytest.raises(NotSupported, match=r"sequence\.snapshot-ordering"):
        plan(files)
    assert touched == []


def test_files_elsewhere_keep_their_path() -> None:
    table = Built(make_schema({"k": "INT"}))
    table.commit([table.file([{"k": 1}], external_path="s3://other/place/x.parquet"), table.file([{"k": 2}])])
    paths = plan(table.files).files["path"].to_pylist()
    assert paths[0] == "s3://other/place/x.parquet"
    assert paths[1].startswith("bucket-0/data-")


def test_names_that_lead_out_of_a_bucket_are_refused() -> None:
    table = Built(make_schema({"k": "INT"}))
    table.commit([table.file([{"k": 1}], file_name="../../secret")])
    with pytest.raises(InvalidMetadata, match="no name of a file"):
        plan(table.files)


def test_a_table_without_snapshots_has_no_files() -> None:
    found = plan(Built(make_schema({"k": "INT"})).files, "k = 1")
    assert found.files.num_rows == 0
    assert not found.merges
    assert found.counts.files == 0


def test_what_is_decoded_is_kept_by_whoever_reads() -> None:
    table = Built(engine_schema("deduplicate", 1))
    table.commit([table.file([row(1, v=5)])])
    kept: dict[tuple[str, ...], pa.Table] = {}

    def recall(key: tuple[str, ...], make: Any) -> pa.Table:
        if key not in kept:
            kept[key] = make()
        return kept[key]

    reads: list[str] = []
    whole = table.files

    def read_many(paths: Sequence[str]) -> list[bytes]:
        reads.extend(paths)
        return whole.read_many(paths)

    files = whole._replace(recall=recall, read_many=read_many)
    assert plan(files, "v = 5").files.equals(plan(files, "v = 5").files)
    assert len(reads) == len(set(reads)) == 3


def test_a_manifest_that_is_missing_or_broken_is_an_error_that_names_it() -> None:
    table = Built(make_schema({"k": "INT"}))
    table.commit([table.file([{"k": 1}])])
    name = next(
        path for path in table.content if path.startswith("manifest/manifest-") and "list" not in path
    )
    broken = {**table.content, name: table.content[name][:-20]}
    with pytest.raises(InvalidMetadata, match=name):
        plan(reader(broken))
