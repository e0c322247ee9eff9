"""Summaries of changes of rows: those that iceberg-core 1.11 wrote for the same changes of the same files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakeplane.iceberg.changes import Overwrite, RowDelta
from lakeplane.iceberg.snapshots import Snapshot
from tests.iceberg.row_deltas import Rows

WRITTEN_BY_JAVA = {
    "delete": (
        "delete",
        """
        added-delete-files=1 added-dvs=1 added-files-size=40 added-position-deletes=1
        changed-partition-count=1 manifests-created=1 manifests-kept=1 manifests-replaced=0
        total-data-files=2 total-delete-files=1 total-equality-deletes=0
        total-files-size=2040 total-position-deletes=1 total-records=5
        """,
    ),
    "again": (
        "overwrite",
        """
        added-data-files=1 added-delete-files=1 added-dvs=1 added-files-size=1040
        added-position-deletes=2 added-records=1 changed-partition-count=1
        manifests-created=3 manifests-kept=1 manifests-replaced=1 removed-delete-files=1
        removed-dvs=1 removed-files-size=40 removed-position-deletes=1 total-data-files=3
        total-delete-files=1 total-equality-deletes=0 total-files-size=3040
        total-position-deletes=2 total-records=6
        """,
    ),
    "upsert": (
        "overwrite",
        """
        added-data-files=1 added-delete-files=1 added-equality-delete-files=1
        added-equality-deletes=4 added-files-size=2000 added-records=1
        changed-partition-count=1 manifests-created=2 manifests-kept=3 manifests-replaced=0
        total-data-files=4 total-delete-files=2 total-equality-deletes=4
        total-files-size=5040 total-position-deletes=2 total-records=7
        """,
    ),
    "append": (
        "append",
        """
        added-data-files=1 added-files-size=1000 added-records=1 changed-partition-count=1
        manifests-created=1 manifests-kept=5 manifests-replaced=0 total-data-files=5
        total-delete-files=2 total-equality-deletes=4 total-files-size=6040
        total-position-deletes=2 total-records=8
        """,
    ),
    "replace": (
        "overwrite",
        """
        added-data-files=1 added-files-size=1000 added-records=2 changed-partition-count=1
        deleted-data-files=1 deleted-records=3 manifests-created=3 manifests-kept=4
        manifests-replaced=2 removed-delete-files=1 removed-dvs=1 removed-files-size=1040
        removed-position-deletes=2 total-data-files=5 total-delete-files=1
        total-equality-deletes=4 total-files-size=6000 total-position-deletes=0
        total-records=7
        """,
    ),
    "copy": (
        "overwrite",
        """
        added-data-files=1 added-files-size=1000 added-records=2 changed-partition-count=1
        deleted-data-files=1 deleted-records=2 manifests-created=2 manifests-kept=5
        manifests-replaced=1 removed-files-size=1000 total-data-files=5 total-delete-files=1
        total-equality-deletes=4 total-files-size=6000 total-position-deletes=0
        total-records=7
        """,
    ),
}
"""For each change, in turn: the operation and the counts. All files have 1000 bytes, vectors 40."""


def _changes(rows: Rows) -> dict[str, Snapshot]:
    """What was done with Java, done here; v2 has position delete files in the place of vectors."""

    def delta(**change: Any) -> Snapshot:
        return rows.commit(RowDelta(validate_from=rows.read_at, **change))

    def of_f0(*positions: int) -> dict[str, Any]:
        return {
            "deletes": rows.by_position({"f0": set(positions)}),
            "deletes_from": rows.made.files("f0"),
            "remove_deletes": rows.older_deletes(["f0"]),
        }

    return {
        "delete": delta(**of_f0(0)),
        "again": delta(files=rows.files([("x", 9)]), **of_f0(0, 1)),
        "upsert": delta(files=rows.files([("y", 8)]), deletes=rows.by_value("y", 50, 51, 52, 53)),
        "append": delta(files=rows.files([("x", 7)])),
        "replace": delta(files=rows.files([("x", 7), ("x", 8)]), remove=rows.made.files("f0")),
        "copy": rows.commit(Overwrite(files=rows.files([("y", 1), ("y", 2)]), remove=rows.made.files("f1"))),
    }


def _counts(snapshot: Snapshot) -> dict[str, int]:
    told: Mapping[str, str] = snapshot.summary or {}
    return {name: int(text) for name, text in told.items() if text.isdigit()}


@pytest.mark.parametrize("version", [2, 3])
def test_counts_are_those_of_java(version: int) -> None:
    rows = Rows(version, ("x", 1), ("x", 2), ("x", 3), ("y", 1), ("y", 2), partition_limit="10")
    done = _changes(rows)
    assert {name: each.operation for name, each in done.items()} == {
        name: operation for name, (operation, _) in WRITTEN_BY_JAVA.items()
    }
    for name, (_, text) in WRITTEN_BY_JAVA.items():
        expected = {key: int(count) for key, count in (each.split("=") for each in text.split())}
        found = _counts(done[name])
        if version == 2:
            # Here the delete file of 1000 bytes is what the vector of 40 bytes is in v3.
            expected = {_of_v2(key): count for key, count in expected.items() if "size" not in key}
            found = {key: count for key, count in found.items() if "size" not in key}
        assert found == expected, name


def _of_v2(name: str) -> str:
    return name.replace("-dvs", "-position-delete-files")
