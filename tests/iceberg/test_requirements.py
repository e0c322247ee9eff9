from __future__ import annotations

import typing
from typing import Any

import pytest

from lakeplane.errors import RequirementFailed
from lakeplane.iceberg import requirements as q
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.view import ViewMetadata
from tests.iceberg.documents import FIRST, SECOND, UUID, metadata, view

TABLE = metadata(2)
OTHER = "9c12d441-03fe-4693-9a96-a0705ddf69c1"

HOLD: list[tuple[q.Requirement, TableMetadata | ViewMetadata | None]] = [
    (q.AssertCreate(), None),
    (q.AssertTableUuid(UUID), TABLE),
    (q.AssertTableUuid(UUID.upper()), TABLE),
    (q.AssertViewUuid(view().view_uuid), view()),
    (q.AssertViewUuid(view().view_uuid.upper()), view()),
    (q.AssertRefSnapshotId("main", SECOND), TABLE),
    (q.AssertRefSnapshotId("audit", FIRST), TABLE),
    (q.AssertRefSnapshotId("v1.0", FIRST), TABLE),
    (q.AssertRefSnapshotId("nobody", None), TABLE),
    (q.AssertLastAssignedFieldId(9), TABLE),
    (q.AssertCurrentSchemaId(1), TABLE),
    (q.AssertLastAssignedPartitionId(1001), TABLE),
    (q.AssertDefaultSpecId(1), TABLE),
    (q.AssertDefaultSortOrderId(1), TABLE),
]
FAIL: list[tuple[q.Requirement, TableMetadata | ViewMetadata | None, str]] = [
    (q.AssertCreate(), TABLE, "exists already"),
    (q.AssertCreate(), view(), "exists already"),
    (q.AssertTableUuid(OTHER), TABLE, "uuid"),
    (q.AssertTableUuid(UUID), metadata(1, table_uuid=...), "uuid"),
    (q.AssertViewUuid(OTHER), view(), "uuid"),
    (q.AssertRefSnapshotId("main", FIRST), TABLE, "main"),
    (q.AssertRefSnapshotId("main", None), TABLE, "main"),
    (q.AssertRefSnapshotId("nobody", FIRST), TABLE, "nobody"),
    (q.AssertLastAssignedFieldId(8), TABLE, "9, expected 8"),
    (q.AssertCurrentSchemaId(0), TABLE, "1, expected 0"),
    (q.AssertLastAssignedPartitionId(1000), TABLE, "1001, expected 1000"),
    (q.AssertDefaultSpecId(0), TABLE, "1, expected 0"),
    (q.AssertDefaultSortOrderId(0), TABLE, "1, expected 0"),
]
KINDS = typing.get_args(q.Requirement)


def name(value: Any) -> str:
    return type(value).__name__


def test_every_requirement_holds_and_fails_somewhere() -> None:
    assert {type(requirement) for requirement, _ in HOLD} == set(KINDS)
    assert {type(requirement) for requirement, _, _ in FAIL} == set(KINDS)


@pytest.mark.parametrize(("requirement", "base"), HOLD, ids=name)
def test_a_requirement_holds(requirement: q.Requirement, base: TableMetadata | ViewMetadata | None) -> None:
    q.check([requirement], base)


@pytest.mark.parametrize(("requirement", "base", "problem"), FAIL, ids=name)
def test_a_requirement_fails_with_what_was_found(
    requirement: q.Requirement, base: TableMetadata | ViewMetadata | None, problem: str
) -> None:
    with pytest.raises(RequirementFailed) as failure:
        q.check([requirement], base)
    assert problem in failure.value.problem
    assert failure.value.hint


@pytest.mark.parametrize(
    "requirement", [each for each, _ in HOLD if type(each) is not q.AssertCreate], ids=name
)
def test_a_requirement_on_what_does_not_exist_fails(requirement: q.Requirement) -> None:
    with pytest.raises(RequirementFailed, match="does not exist"):
        q.check([requirement], None)


@pytest.mark.parametrize("requirement", [each for each, base in HOLD if base is TABLE], ids=name)
def test_a_requirement_on_tables_fails_for_a_view(requirement: q.Requirement) -> None:
    with pytest.raises(RequirementFailed, match="does not fit a view"):
        q.check([requirement], view())


def test_a_requirement_on_views_fails_for_a_table_even_of_the_same_uuid() -> None:
    with pytest.raises(RequirementFailed, match="does not fit a table"):
        q.check([q.AssertViewUuid(UUID)], TABLE)


def test_all_requirements_must_hold() -> None:
    q.check([], None)
    q.check([], TABLE)
    q.check([requirement for requirement, base in HOLD if base is TABLE], TABLE)
    with pytest.raises(RequirementFailed, match="default partition spec"):
        q.check([q.AssertTableUuid(UUID), q.AssertDefaultSpecId(7), q.AssertCurrentSchemaId(7)], TABLE)
