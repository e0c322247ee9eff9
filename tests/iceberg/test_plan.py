"""Plans of random tables: no row is lost, and every file that is left out is counted."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakeplane.iceberg.manifest_list import ManifestFile
from lakeplane.iceberg.manifest_schema import ADDED, DELETED, EXISTING
from lakeplane.iceberg.plan import ReadPlan, plan
from lakeplane.model.expressions.columns import matches_rows
from lakeplane.model.partitioning import PartitionField, PartitionSpec
from lakeplane.model.transforms import Void, result_type
from lakeplane.model.types import DOUBLE, FLOAT, INT, LONG, UUID, Decimal, Type
from lakeplane.model.value_bytes import bound_to_bytes
from lakeplane.model.values import fault_of
from lakeplane.testing.tables import BuiltTable
from tests.iceberg.built import Facts, Listed, build, change_list, entries, paths, with_metadata
from tests.model.expressions.oracle import (
    COLUMNS,
    FOCI,
    IDS,
    NAMES,
    SCHEMA,
    Condition,
    Names,
    Row,
    any_conditions,
    conditions,
    rows_of,
)
from tests.model.expressions.tables import FileStats, column_stats, columns_of, files, specs

Contents = dict[str, list[Row]]


class History(NamedTuple):
    """A table, and for each of its snapshots the rows of each live file."""

    built: BuiltTable
    snapshots: list[tuple[int, Contents]]


def as_bytes(type_: Type, value: Any, *, narrow: bool) -> bytes | None:
    """A bound as it is stored, perhaps by a writer from before the column was widened."""
    if value is None:
        return None
    if narrow and type_ is LONG and -(2**31) <= value < 2**31:
        return bound_to_bytes(INT, value)
    if narrow and type_ is DOUBLE:
        try:
            single = struct.pack("<f", value)
        except OverflowError:
            single = b""
        if single and (value != value or struct.unpack("<f", single)[0] == value):  # noqa: PLR0124 - NaN
            return bound_to_bytes(FLOAT, struct.unpack("<f", single)[0])
    return bound_to_bytes(type_, value)


def facts_of(type_: Type, stats: FileStats, *, narrow: bool, broken: bool) -> Facts:
    lower, upper = (as_bytes(type_, each, narrow=narrow) for each in (stats.lower, stats.upper))
    if broken and type_ in (INT, LONG, FLOAT, DOUBLE, UUID):
        lower = b"\xff" * 3
    return Facts(lower, upper, stats.values, stats.nulls, stats.nans)


@st.composite
def many_specs(draw: st.DrawFn, names: Names) -> list[PartitionSpec]:
    """The specs of a table over time; fields of the same rule share their id, as do dropped ones in v1."""
    found = [draw(specs(names))]
    for spec_id in range(1, draw(st.integers(1, 3))):
        match draw(st.sampled_from(["none", "void", "other"])):
            case "none":
                new = PartitionSpec(spec_id)
            case "void":
                gone, *rest = found[0].fields
                void = msgspec.structs.replace(gone, transform=Void())
                new = PartitionSpec(spec_id, (void, *rest))
            case _:
                new = PartitionSpec(spec_id, _numbered(draw(specs(names)), found[0], spec_id))
        found.append(new)
    return found


def _numbered(new: PartitionSpec, first: PartitionSpec, spec_id: int) -> tuple[PartitionField, ...]:
    known = {(field.source_ids, str(field.transform)): field.field_id for field in first.fields}
    fields: list[PartitionField] = []
    for n, field in enumerate(new.fields):
        same = known.get((field.source_ids, str(field.transform)))
        taken = {each.field_id for each in fields}
        field_id = 1000 + 10 * spec_id + n if same is None or same in taken else same
        fields.append(msgspec.structs.replace(field, field_id=field_id, name=f"s{spec_id}p{n}"))
    return tuple(fields)


@st.composite
def blurred(draw: st.DrawFn, manifest: ManifestFile) -> ManifestFile:
    """A manifest of which the list tells less than it could."""
    assert manifest.partitions is not None
    if draw(st.integers(0, 4)) == 0:
        return msgspec.structs.replace(manifest, partitions=None)
    changes: list[dict[str, Any]] = [
        {},
        {"contains_nan": None},
        {"lower_bound": None},
        {"upper_bound": None},
        {"contains_null": True},
    ]
    partitions = tuple(
        msgspec.structs.replace(each, **draw(st.sampled_from(changes))) for each in manifest.partitions
    )
    return msgspec.structs.replace(manifest, partitions=partitions)


def fits(field: PartitionField, value: Any) -> bool:
    type_ = result_type(field.transform, COLUMNS[NAMES[field.source_id]])
    return not isinstance(type_, Decimal) or value is None or fault_of(type_, value) is None


@st.composite
def histories(draw: st.DrawFn, names: Names) -> History:
    found = draw(many_specs(names))
    built = build(("i", INT), format_version=draw(st.sampled_from([1, 2, 3])))
    with_metadata(
        built,
        schemas=(SCHEMA,),
        last_column_id=100,
        partition_specs=tuple(found),
        last_partition_id=max(field.field_id for spec in found for field in spec.fields),
    )
    in_manifests: dict[str, Contents] = {}
    snapshots = []
    for _ in range(draw(st.integers(1, 3))):
        kept = [each for each in built.manifests() if draw(st.integers(0, 5))]
        added = []
        contents: list[Contents] = []
        for _ in range(draw(st.integers(1, 2))):
            spec = draw(st.sampled_from(found))
            parts = draw(files(draw(st.lists(rows_of(names), min_size=1, max_size=4)), spec))
            # Decimals that are truncated to more digits than their type has cannot be written.
            assume(
                all(fits(field, part.partition[n]) for part in parts for n, field in enumerate(spec.fields))
            )
            listed: list[Listed] = []
            live: Contents = {}
            for part in parts:
                path = f"memory://t/{len(in_manifests)}-{len(contents)}-{len(listed)}.parquet"
                stats = {
                    IDS[name]: facts_of(
                        COLUMNS[name],
                        draw(column_stats(COLUMNS[name], [row[name] for row in part.rows])),
                        narrow=draw(st.booleans()),
                        broken=draw(st.integers(0, 9)) == 0,
                    )
                    for name in names
                    if draw(st.integers(0, 9))
                }
                status = draw(st.sampled_from([ADDED, ADDED, ADDED, EXISTING, DELETED]))
                more = (
                    {}
                    if status == ADDED
                    else {"snapshot_id": 999, "sequence_number": 0, "file_sequence_number": 0}
                )
                listed.append(Listed(path, part.partition, stats, len(part.rows), status, more=more))
                if status != DELETED:
                    live[path] = part.rows
            added.append(entries(built.metadata, listed, spec.spec_id))
            contents.append(live)
        snapshot = built.commit(*added, keep=kept)
        change_list(built, snapshot, lambda each: draw(blurred(each)) if each.partitions else each)
        for manifest, live in zip(reversed(built.manifests()[: len(contents)]), contents, strict=True):
            in_manifests[manifest.manifest_path] = live
        state = {k: v for each in built.manifests() for k, v in in_manifests[each.manifest_path].items()}
        snapshots.append((snapshot.snapshot_id, state))
    return History(built, snapshots)


@st.composite
def examples(draw: st.DrawFn, *, only_understood: bool = False) -> tuple[History, Condition]:
    names = draw(FOCI)
    condition = draw((conditions if only_understood else any_conditions)(names))
    return draw(histories(names)), condition


def check_counts(found: ReadPlan, contents: Contents) -> None:
    counts = found.counts
    assert counts.files == counts.files_kept + counts.files_by_partition + counts.files_by_statistics
    assert counts.files_kept == found.files.num_rows
    assert counts.files <= len(contents)
    assert counts.manifests_without_files + counts.manifests_by_partition <= counts.manifests
    assert counts.rows_kept == sum(len(contents[path]) for path in paths(found))
    assert counts.bytes_kept == counts.files_kept * 1000
    assert counts.deletes == 0


@settings(max_examples=40)
@given(examples())
def test_a_plan_has_every_file_with_a_matching_row(example: tuple[History, Condition]) -> None:
    (built, snapshots), condition = example
    reading = built.reading()
    for snapshot_id, contents in reversed(snapshots):
        found = plan(built.metadata, reading, condition.sql, snapshot_id)
        needed = {
            path for path, rows in contents.items() if any(condition.holds(row) is True for row in rows)
        }
        assert needed <= paths(found) <= set(contents), condition.sql
        check_counts(found, contents)
    assert paths(plan(built.metadata, reading)) == set(snapshots[-1][1])


@settings(max_examples=40)
@given(examples(only_understood=True))
def test_the_residuals_of_planned_files_leave_exactly_the_matching_rows(
    example: tuple[History, Condition],
) -> None:
    (built, snapshots), condition = example
    contents = snapshots[-1][1]
    found = plan(built.metadata, built.reading(), condition.sql)
    for path, code in zip(
        found.files["file_path"].to_pylist(), found.files["residual"].to_pylist(), strict=True
    ):
        rows = contents[path]
        left = matches_rows(found.residuals[code], columns_of(rows).__getitem__, len(rows))
        assert left.tolist() == [condition.holds(row) is True for row in rows], condition.sql
    assert len(set(found.residuals)) == len(found.residuals)


@st.composite
def many_conditions(draw: st.DrawFn) -> tuple[History, list[Condition]]:
    names = draw(FOCI)
    return draw(histories(names)), draw(st.lists(any_conditions(names), min_size=2, max_size=4))


@settings(max_examples=25)
@given(many_conditions())
def test_what_is_kept_of_other_plans_changes_none(example: tuple[History, list[Condition]]) -> None:
    (built, snapshots), some = example
    reading = built.reading()
    for condition in (*some, some[0]):
        for snapshot_id, _ in snapshots[-2:]:
            kept = plan(built.metadata, reading, condition.sql, snapshot_id)
            fresh = plan(built.metadata, built.reading(), condition.sql, snapshot_id)
            both = [each.files.drop_columns(["partition"]) for each in (kept, fresh)]
            assert both[0].equals(both[1]), condition.sql
            assert (kept.residuals, kept.counts) == (fresh.residuals, fresh.counts), condition.sql
