"""What DELETE, UPDATE and MERGE have done to tables elsewhere, or nearly here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeplane as lp
from lakeplane.errors import CommitConflict, InvalidInput, NotSupported, OutcomeUnknown
from lakeplane.model.schema import Schema
from lakeplane.model.types import LONG, STRING, TIMESTAMP_NS, Field
from lakeplane.spark.held import held
from lakeplane.spark.merge import source_of
from lakeplane.spark.row_positions import positions_of
from lakeplane.testing.clock import ManualClock
from tests.commits.worlds import without_waiting
from tests.iceberg_tables import iceberg
from tests.spark.programs import answer_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeplane.lake import Lake
    from lakeplane.table import Table

Make = Callable[..., "Table"]
MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    found = lp.connect(str(tmp_path_factory.mktemp("lake")), spark=spark)
    found.create_namespace("shop")
    return found


@pytest.fixture(params=MODES)
def make(request: pytest.FixtureRequest, lake: Lake) -> Make:
    """Makes tables of numbers and texts that are changed in one mode."""
    numbers = itertools.count()
    mode, name = request.param, request.node.name.translate({ord(each): "_" for each in "[]-'., "})

    def made(ddl: str = "id BIGINT, v STRING", rows: Any = 4, version: int = 3, **more: Any) -> Table:
        properties = {"format-version": str(version), **more.pop("properties", {})}
        properties |= {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
        table = lake.create_table(f"shop.{name}_{next(numbers)}", ddl, properties=properties, **more)
        table.append(numbered(rows) if isinstance(rows, int) else rows)
        return table

    return made


def numbered(count: int) -> pa.Table:
    return pa.table({"id": list(range(count)), "v": [f"v{n}" for n in range(count)]})


def rows(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(each) for each in table.read(**how).collect()), key=repr)


def files(table: Table) -> set[Path]:
    return {each for each in Path(table.location).rglob("*") if each.is_file()}


@contextmanager
def before_commit(table: Table, work: Callable[[], object]) -> Iterator[None]:
    """Let somebody else work between what a change has read and its commit."""
    real, waiting = table._catalog.commit, [work]

    def commit(*given: Any, **named: Any) -> Any:
        if waiting:
            waiting.pop()()
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch, without_waiting(ManualClock()):
        patch.setattr(table._catalog, "commit", commit)
        yield


# Sources that are others each time they are looked at


def test_an_update_by_a_sub_query_does_not_double_rows(make: Make, spark: SparkSession) -> None:
    """A table of 71 million rows was doubled, twice, by UPDATE ... WHERE EXISTS (SELECT ...)."""
    table = make()
    spark.range(2).selectExpr("id AS other").createOrReplaceTempView("two")
    table.update({"v": "concat(v, '!')"}, "EXISTS (SELECT 1 FROM two WHERE other = id)")
    table.update({"v": "(SELECT concat('m', max(other)) FROM two)"}, "id IN (SELECT other + 2 FROM two)")
    assert rows(table) == [(0, "v0!"), (1, "v1!"), (2, "m1"), (3, "m1")]


def test_a_sub_query_with_a_null_deletes_nothing_by_not_in(make: Make, spark: SparkSession) -> None:
    """Rows of which nobody knows whether they match must stay."""
    table = make()
    spark.sql("SELECT * FROM VALUES (1L), (NULL) AS t(other)").createOrReplaceTempView("unsure")
    assert table.delete("id NOT IN (SELECT other FROM unsure)").snapshot_id is None
    assert len(rows(table)) == 4


def test_random_conditions_and_values_are_computed_once(make: Make) -> None:
    """Rows that were found with one throw of the dice and written with another are lost, or there twice."""
    table = make(rows=40)
    table.update({"v": "CAST(rand() AS STRING)"}, "rand() < 0.5")
    assert [each[0] for each in rows(table)] == [each[0] for each in rows(make(rows=40))]
    table.delete("rand() < 0.5")
    left = [each[0] for each in rows(table)]
    assert len(set(left)) == len(left) < 40


def test_a_random_source_is_computed_once(make: Make) -> None:
    """MERGE with a source that is another one at its second look has lost rows, and inserted others twice."""
    table = make(rows=20)
    source = table.read().selectExpr("IF(rand() < 0.5, id, id + 100) AS id", "'new' AS v")
    table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert().execute()
    found = rows(table)
    updated = {each[0] for each in found if each[0] < 20 and each[1] == "new"}
    inserted = {each[0] - 100 for each in found if each[0] >= 100}
    assert updated | inserted == set(range(20))
    assert not updated & inserted
    assert len(found) == 20 + len(inserted)


def test_a_source_whose_files_are_replaced_meanwhile_is_one_source(
    make: Make, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows would be deleted for source rows that are not there any more when the new rows are written."""
    place, find = str(tmp_path / "source"), positions_of
    spark.sql("SELECT id, 'new' AS v FROM range(2, 6)").write.parquet(place)

    def find_and_replace(*given: Any, **named: Any) -> Any:
        found = find(*given, **named)
        spark.sql("SELECT id, 'other' AS v FROM range(50, 60)").write.mode("overwrite").parquet(place)
        return found

    monkeypatch.setattr("lakeplane.spark.row_changes.positions_of", find_and_replace)
    table = make()
    merging = table.merge(spark.read.parquet(place), "t.id = s.id")
    merging.when_matched_update().when_not_matched_insert().execute()
    assert rows(table) == [(0, "v0"), (1, "v1"), (2, "new"), (3, "new"), (4, "new"), (5, "new")]


def test_a_table_is_merged_with_itself(make: Make) -> None:
    """What a MERGE writes must not become part of what it reads."""
    table = make()
    merging = table.merge(table, "t.id = s.id + 1").when_matched_update({"v": "s.v"})
    merging.when_not_matched_insert({"id": "s.id + 100", "v": "s.v"}).execute()
    assert rows(table) == [(0, "v0"), (1, "v0"), (103, "v3"), (2, "v1"), (3, "v2")]


def test_a_source_may_have_row_ids_of_its_own(make: Make) -> None:
    """A source read from a table with ``_row_id`` made the MERGE fail, as two columns had that name."""
    table = make()
    source = table.read(["id", "v", "_row_id", "_last_updated_sequence_number"]).where("id < 2")
    before = {each.id: each._row_id for each in table.read(["id", "_row_id"]).collect()}
    table.merge(source, "t.id = s.id + 2").when_matched_update({"v": "s.v"}).execute()
    assert rows(table) == [(0, "v0"), (1, "v1"), (2, "v0"), (3, "v1")]
    assert {each.id: each._row_id for each in table.read(["id", "_row_id"]).collect()} == before


def test_a_source_of_few_long_texts_is_not_sent_to_all_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source of few rows and gigabytes has taken the memory of every task: only its rows were counted."""
    monkeypatch.setattr("lakeplane.spark.merge._SENT_AROUND", 1 << 20)
    long = source_of(spark.range(3).selectExpr("id", "repeat('x', 500000) AS v"))
    assert not long.is_small
    assert source_of(spark.range(3).selectExpr("id", "'x' AS v")).is_small
    none = source_of(spark.range(0).selectExpr("id", "'x' AS v", "array(id) AS l", "1 AS L"))
    assert (none.size, none.is_small) == (0, True)


# Which rows meet


def test_a_row_that_meets_two_rows_of_the_source_is_refused(make: Make) -> None:
    """Which of the two values it has would be chance, or it would be there twice."""
    table = make()
    before = files(table)
    source = pa.table({"id": [1, 1, 9], "v": ["a", "b", "c"]})
    merging = table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert()
    with pytest.raises(InvalidInput, match="several rows of the source"):
        merging.execute()
    assert files(table) == before
    # Whichever of them deletes it, it is gone.
    table.merge(source, "t.id = s.id").when_matched_delete().when_not_matched_insert().execute()
    assert rows(table) == [(0, "v0"), (2, "v2"), (3, "v3"), (9, "c")]


def test_nulls_meet_nobody_and_equal_new_rows_are_all_inserted(make: Make) -> None:
    """A null key is no key: such rows were lost, or updated all rows without one."""
    none = pa.table({"id": pa.array([None], pa.int64()), "v": ["old"]})
    table = make(rows=pa.concat_tables([none, numbered(2)]))
    source = pa.table({"id": [None, 7, 7, None, 1], "v": ["a", "b", "c", "d", "e"]})
    table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert().execute()
    new = [(1, "e"), (7, "b"), (7, "c"), (None, "a"), (None, "d"), (None, "old")]
    assert rows(table) == [(0, "v0"), *new]
    table.merge(none.set_column(1, "v", pa.array(["x"])), "t.id <=> s.id").when_matched_update().execute()
    assert rows(table) == [
        (0, "v0"),
        *((each[0], "x") if each[0] is None else each for each in new[:3]),
        *[(None, "x")] * 3,
    ]


def test_one_row_of_the_source_may_meet_many(make: Make) -> None:
    """Only the other way round is it an error."""
    table = make(rows=pa.concat_tables([numbered(2), numbered(2)]))
    table.merge(pa.table({"id": [1], "v": ["new"]}), "t.id = s.id").when_matched_update().execute()
    assert rows(table) == [(0, "v0"), (0, "v0"), (1, "new"), (1, "new")]


@pytest.mark.parametrize(
    ("type_", "hit"),
    [
        (pa.int8(), [1, 2]),
        (pa.float64(), [1, 2]),
        (pa.decimal128(20, 1), [1, 2]),
        (pa.string(), [1, 2]),
        (pa.int64(), [1, 2]),
    ],
    ids=str,
)
def test_keys_of_another_type_leave_out_no_file(make: Make, type_: pa.DataType, hit: list[int]) -> None:
    """Files that were left out since the texts of keys differ had rows that met: they were there twice."""
    table = make("id INT, v STRING", pa.table({"id": pa.array([0], pa.int32()), "v": ["old"]}))
    for number in (1, 2):
        table.append(pa.table({"id": pa.array([number], pa.int32()), "v": ["old"]}))
    source = pa.table({"id": pa.array(hit, pa.int64()).cast(type_)})
    table.merge(source, "t.id = s.id").when_matched_update({"v": "'hit'"}).execute()
    assert rows(table) == [(0, "old"), (1, "hit"), (2, "hit")]


def test_a_condition_with_or_reaches_files_that_its_key_does_not(make: Make) -> None:
    """The key tells nothing about rows that meet by the other half."""
    table = make(rows=numbered(2))
    table.append(pa.table({"id": [50], "v": ["far"]}))
    source = pa.table({"id": [1], "v": ["far"]})
    table.merge(source, "t.id = s.id OR t.v = s.v").when_matched_update({"v": "'hit'"}).execute()
    assert rows(table) == [(0, "v0"), (1, "hit"), (50, "hit")]


# Others at the same time


def test_two_merges_that_find_nothing_do_not_insert_twice(make: Make) -> None:
    """Two MERGE that both found no match were both committed as appends: each row was there twice."""
    table = make()
    source = pa.table({"id": [7], "v": ["new"]})

    def merge(into: Table) -> None:
        into.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert().execute()

    twin = type(table)(table._catalog, table._entry, table._resources)
    with before_commit(table, lambda: merge(twin)):
        before = files(table)
        with pytest.raises(CommitConflict):
            merge(table)
    mine = {each for each in files(table) - before if each.suffix == ".parquet"}
    twin.refresh()
    named = {Path(each) for each in twin.inspect("files")["file_path"].to_pylist()}
    assert mine <= named, "what lost is deleted"
    merge(table)
    assert rows(table).count((7, "new")) == 1


def test_a_table_that_was_made_anew_is_not_changed(make: Make, lake: Lake) -> None:
    """A DELETE that was meant for a table that is gone deleted rows of the one that has its name now."""
    table = make()
    name = table.name
    lake.drop_table(name)
    lake.create_table(name, "id BIGINT, v STRING").append(numbered(3))
    with pytest.raises(CommitConflict, match="dropped"):
        table.delete("true")
    assert len(rows(iceberg(lake, name))) == 3


# Whole files


def test_whole_files_are_deleted_without_being_read(make: Make) -> None:
    """A DELETE of a partition took as long as reading it, and failed where a file was missing."""
    data = pa.table({"id": [1, 2, 3], "v": ["a", "b", "a"]})
    table = make(rows=data, partition_by=["v"])
    for each in Path(table.location).rglob("*.parquet"):
        each.rename(f"{each}.gone")
    done = table.delete("v = 'a'")
    assert (done.operation, done.removed_files, done.removed_rows) == ("delete", 1, 2)
    assert table.delete("v = 'b' AND id < 10").removed_files == 1
    assert rows(table) == []


def test_files_of_which_no_row_is_left_go(make: Make) -> None:
    """They would be read for ever, with a delete file for each."""
    table = make()
    table.delete("length(v) = 2 AND id = 1")
    table.delete("length(v) = 2")
    assert table.inspect("files").num_rows == 0
    assert rows(table) == []


def test_a_condition_may_name_columns_that_decide_nothing(make: Make) -> None:
    """A column of a part that can never hold was not read, and the filter that names it failed."""
    table = make()
    assert rows(table, columns=["v"], where="id = 1 OR ID NOT IN (7, NULL)") == [("v1",)]
    table.delete("length(v) > 5 OR v = 'v1' OR (id NOT IN (1, NULL))")
    table.delete("v = 'v2' OR `id` NOT IN (1, NULL)")
    table.update({"v": "'x'"}, "v = 'v3' OR id = 1.5")
    assert rows(table) == [(0, "v0"), (3, "x")]


# Values


def test_values_that_do_not_fit_are_refused_by_name(make: Make) -> None:
    """Nulls in required columns, and numbers cut to fit, were only noticed by the readers."""
    table = make("id BIGINT NOT NULL, n INT, d DECIMAL(4,2)", pa.table({"id": [1, 2]}))
    before = files(table)
    for values, said in (
        ({"id": "IF(id = 1, NULL, id)"}, "id: it is required"),
        ({"n": "id + 3000000000"}, "n: a value is out of the range of int"),
        ({"d": "CAST(id AS DECIMAL(10,2)) + 99"}, r"d: a value is out of the range of decimal\(4,2\)"),
    ):
        with pytest.raises(InvalidInput, match=said):
            table.update(values)
        with pytest.raises(InvalidInput, match=said):
            merging = table.merge(pa.table({"id": [1]}), "t.id = s.id")
            merging.when_matched_update(
                {name: text.replace("id", "t.id") for name, text in values.items()}
            ).execute()
    with pytest.raises(InvalidInput, match="id: it is required"):
        table.merge(pa.table({"k": pa.array([None], pa.int64())}), "t.id = s.k").when_not_matched_insert(
            {"id": "s.k"}
        ).execute()
    assert files(table) == before
    assert len(rows(table)) == 2


def test_defaults_are_written_and_read(make: Make) -> None:
    """Columns that INSERT leaves out take the default of now; older rows that of when the column came."""
    table = make(rows=numbered(2))
    with table.evolve() as change:
        change.add_column("w", "INT", default=7)
    with table.evolve() as change:
        change.update_column("w", default=9)
    merging = table.merge(pa.table({"id": [1, 5]}), "t.id = s.id").when_matched_update({"v": "DEFAULT"})
    merging.when_not_matched_insert({"id": "s.id"}).execute()
    assert rows(table) == [(0, "v0", 7), (1, None, 7), (5, None, 9)]
    table.update({"v": "'seven'"}, "w = 7")
    table.update({"w": "default"}, "id = 0")
    table.delete("w = 9 AND id = 5")
    assert rows(table) == [(0, "seven", 9), (1, "seven", 7)]


def test_rows_move_between_partitions(make: Make) -> None:
    """Empty texts, nulls and the name that Hive has for nulls are three partitions."""
    data = pa.table({"id": [1, 2, 3], "v": ["a", None, ""]})
    table = make(rows=data, partition_by=["v"])
    table.update(
        {"v": "CASE WHEN v IS NULL THEN '' WHEN v = '' THEN NULL ELSE '__HIVE_DEFAULT_PARTITION__' END"}
    )
    assert rows(table) == [(1, "__HIVE_DEFAULT_PARTITION__"), (2, ""), (3, None)]
    assert [rows(table, where=each) for each in ("v = ''", "v IS NULL")] == [[(2, "")], [(3, None)]]


def test_a_merge_may_add_columns_and_widen_types(make: Make) -> None:
    """Rows that were there keep what they have; the others keep all digits."""
    table = make("id INT, v STRING", pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    source = pa.table({"id": [2, 2**40], "w": [1.5, 2.5]})
    merging = table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert()
    merging.with_schema_evolution().execute()
    assert rows(table) == [(1, "a", None), (1 << 40, None, 2.5), (2, "b", 1.5)]


def test_nanoseconds_of_a_source_are_kept_or_refused(make: Make) -> None:
    """Spark has cut them off: 1 became 0, and -1 became -1000."""
    fields = (Field(1, "id", LONG), Field(2, "at", TIMESTAMP_NS), Field(3, "v", STRING))
    times = pa.array([1, None, -1], pa.timestamp("ns"))
    table = make(Schema(fields), pa.table({"id": [0], "at": times.slice(0, 1), "v": ["old"]}))
    source = pa.table({"id": [0, 1, 2], "at": times.take(pa.array([2, 1, 2])), "v": ["a", "b", "c"]})
    table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert().execute()
    assert rows(table) == [(0, -1, "a"), (1, None, "b"), (2, -1, "c")]
    with pytest.raises(InvalidInput, match="other: it has nanoseconds"):
        table.merge(pa.table({"id": [0], "other": times[:1]}), "t.id = s.id").when_matched_delete().execute()


# Names

ODD = ("a.b", "c d", "we`ird", "é", "select", "t", "s", "_file", "_pos", "_deleted")


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_columns_may_be_called_what_you_like(make: Make, form: str) -> None:
    """Names with backticks could not be set, as these were taken out of them, nor be written by Arrow."""
    columns = {"id": [1, 2], **{name: ["x", "y"] for name in ODD}}
    ddl = ", ".join(["id BIGINT", *(f"`{name.replace('`', '``')}` STRING" for name in ODD)])
    table = make(ddl, pa.table(columns), properties={"write.format.default": form})
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in ODD}
    table.update({quoted[name]: f"concat({quoted[name]}, '1')" for name in ODD}, f"{quoted['we`ird']} = 'x'")
    table.update({name: f"concat(t.{quoted[name]}, '2')" for name in ODD}, "id = 1")
    source = pa.table({"id": [2, 3], **{name: ["p", "q"] for name in ODD}})
    values = {f"t.{quoted[name]}": f"concat(t.{quoted[name]}, s.{quoted[name]})" for name in ODD}
    table.merge(source, "t.id = s.id").when_matched_update(values).when_not_matched_insert().execute()
    several = len(ODD)
    assert rows(table) == [(1, *["x12"] * several), (2, *["yp"] * several), (3, *["q"] * several)]


def test_names_that_differ_in_case_are_two_columns_where_the_session_says_so(
    make: Make, spark: SparkSession
) -> None:
    """One of them took the values of the other."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table = make("id BIGINT, ID BIGINT", pa.table({"id": [1, 2, 3], "ID": [10, 20, 30]}))
        table.update({"ID": "ID + 1"}, "id = 1")
        table.delete("ID = 20")
        source = pa.table({"id": [3, 4], "ID": [7, 8]})
        table.merge(source, "t.id = s.id").when_matched_update().when_not_matched_insert().execute()
        assert rows(table) == [(1, 11), (3, 7), (4, 8)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("name", ["__lakeplane_action", "__LAKEPLANE_SOURCE_ROW", "_metadata"])
def test_columns_called_like_ours_are_refused_by_name(make: Make, name: str) -> None:
    """A column called like one that a MERGE adds was set to null without a word."""
    table = make(f"id BIGINT, `{name}` BIGINT", pa.table({"id": [1, 2], name: [10, 20]}))
    source = pa.table({"id": [1], "v": [7]})
    changes: list[Callable[[], object]] = [
        lambda: table.delete("id = 1"),
        lambda: table.update({"id": "3"}, "id = 1"),
        lambda: table.merge(source, "t.id = s.id").when_matched_delete().execute(),
    ]
    for change in changes:
        with pytest.raises(NotSupported, match=f"(?i){name}: .* cannot be changed"):
            change()
    other = make(rows=2)
    with pytest.raises(InvalidInput, match=f"(?i){name}"):
        other.merge(pa.table({"id": [1], name: [1]}), "t.id = s.id").when_matched_delete().execute()


def test_arguments_that_nobody_knows_are_refused(make: Make) -> None:
    """A misspelt isolation level was no isolation level, and nobody was told."""
    table = make()
    with pytest.raises(TypeError, match="isolaton"):
        table.delete("id = 1", isolaton="snapshot")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="merge_schema"):
        table.update({"v": "'x'"}, merge_schema=True)
    with pytest.raises(InvalidInput, match="isolation"):
        table.delete("id = 1", options={"write.delete.isolation-level": "none"})
    before = files(table)
    with pytest.raises(InvalidInput, match="isolation"):
        table.delete("id = 1", isolation="serialisable")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="isolation"):
        table.overwrite(numbered(1), isolation="serialisable")  # type: ignore[arg-type]
    assert files(table) == before
    assert len(rows(table)) == 4


# Failures


def test_a_job_that_fails_leaves_nothing(make: Make, spark: SparkSession) -> None:
    """Files of changes that failed halfway stayed for ever."""
    table = make()
    before = files(table)
    changes: list[Callable[[], object]] = [
        lambda: table.update({"v": "IF(id = 3, raise_error('no'), 'x')"}),
        lambda: table.delete("IF(id = 3, raise_error('no'), true)"),
        lambda: (
            table.merge(spark.range(4, 6), "t.id = s.id")
            .when_not_matched_insert({"id": "s.id", "v": "IF(s.id = 5, raise_error('no'), 'x')"})
            .execute()
        ),
    ]
    for change in changes:
        with pytest.raises(Exception, match="no"):
            change()
        assert files(table) == before
    assert len(rows(table)) == 4


@pytest.mark.parametrize("is_certain", [True, False])
def test_only_files_that_certainly_are_not_published_are_deleted(
    make: Make,
    is_certain: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a lost answer, the files may be part of the table: deleting them has made tables unreadable."""
    table = make()
    before = files(table)
    fault: Exception = CommitConflict("no") if is_certain else OutcomeUnknown("who knows")

    def commit(*_: Any, **__: Any) -> Any:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(table._catalog, "commit", commit)
        changes: list[Callable[[], object]] = [
            lambda: table.delete("id = 1"),
            lambda: table.update({"v": "'x'"}, "id = 1"),
            lambda: table.merge(pa.table({"id": [1]}), "t.id = s.id").when_matched_delete().execute(),
        ]
        for change in changes:
            with pytest.raises(type(fault)):
                change()
            assert (files(table) == before) == is_certain
    assert len(rows(table.refresh())) == 4


def test_a_store_that_fails_leaves_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """New data files stayed when the deletes beside them could not be written."""
    from lakeplane import writing  # noqa: PLC0415
    from lakeplane.errors import NoSpace  # noqa: PLC0415

    table = make()
    before = files(table)

    def full(*_: Any, **__: Any) -> None:
        raise NoSpace("it is full")

    monkeypatch.setattr(writing, "write_unique", full)
    monkeypatch.setattr("lakeplane.storage.local.LocalStore.put", full)
    with pytest.raises(NoSpace):
        table.update({"v": "'x'"}, "id = 1")
    assert files(table) == before


def test_rows_change_through_connect(tmp_path: Path) -> None:
    """A session without a JVM in reach could not tell whether rows are the same at a second look."""
    answers = answer_of("connect_rows", tmp_path)
    for mode in MODES:
        answer = answers[mode]
        left = {"1": "v1!", "2": "s", "3": "s", "4": "h", "5": "v5", "6": "v6", "9": "h"}
        assert answer["rows"] == left, mode
        assert "several rows of the source" in answer["refused"]
        assert answer["kept"]
        assert answer["once"]


def test_a_change_without_isolation_is_refused(make: Make) -> None:
    """Copies of files brought back the rows that somebody else had deleted from them meanwhile."""
    table = make()
    with pytest.raises(InvalidInput, match="would come back"):
        table.update({"v": "'x'"}, "id = 1", isolation=None)  # type: ignore[arg-type]
    assert len(table.snapshots) == 1


def test_what_asks_other_tables_is_asked_once(spark: SparkSession) -> None:
    """A lost executor made Spark ask a sub-query again, and other rows went than those that came."""
    rows = spark.range(3)
    for said, is_kept in (
        (["id = 1", 7, None], True),
        (["id IN (SELECT id FROM v)"], False),
        ([rows.id], False),
    ):
        with held(rows, said) as found:
            assert found.is_cached == is_kept, said
            assert sorted(found.collect()) == sorted(rows.collect())
