"""Spark Connect: the same reads without py4j. A process has one sort of session, so these have their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote import found_by

NO_KEY = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("way", ["log", "paths"])
def test_reads_through_connect(tmp_path: Path, way: str) -> None:
    found = found_by("spark.connect_session", str(tmp_path), way)
    assert found["all"] == [
        [0, [0, NO_KEY], "n0", "00:00:00.000001"],
        [1, [1, NO_KEY], "n1", "00:00:00.000001"],
        [2, [2, NO_KEY], "n2", "00:00:00.000001"],
        [3, None, "n3", "00:00:01"],
    ]
    assert found["filtered"] == [[1]]
    files = [each for _, _, each, _ in found["left"]]
    assert [each[:2] + each[3:] for each in found["left"]] == [[2, 2, 2], [3, 0, 0]]
    assert sorted(files) == [0, 1]
    assert found["derived"] == [[2]]
    assert found["later"] == [[NO_KEY, "n2"]]
    data = tmp_path / "data"
    assert found["where"] == [
        [0, 0, f"{data}/00001.parquet", 0],
        [1, 1, f"{data}/00001.parquet", 1],
        [3, 0, f"{data}/f.avro", 3],
    ]
    # A server reads its log whenever a query runs, so it is kept as long as somebody holds a frame.
    assert (found["logs while frames live"] > 0) == (way == "log")
    # Of all the frames that were made, the client may still hold the last one.
    assert found["logs"] <= 1


def test_changes_through_connect(tmp_path: Path) -> None:
    found = found_by("spark.connect_changes", str(tmp_path))
    told = [[1, "delete", 0], [3, "delete", 1], [13, "insert", 1]]
    assert found["copy-on-write"] == told
    told = [[1, "delete", 0], [3, "update_before", 1], [13, "update_after", 1]]
    assert found["merge-on-read"] == told
    assert found["copy-on-write, all"] == found["merge-on-read, all"] == 8
