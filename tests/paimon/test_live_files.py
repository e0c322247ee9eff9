from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.paimon.live_files import identities, joined, live, settled
from lakeplane.paimon.manifest_schema import ENTRY_COLUMNS
from lakeplane.paimon.manifests import entry_rows
from tests.paimon.test_manifests import entry

NAMES = ("a", "b", "c")


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Entries as commits make them: a file is added, moved to another level, deleted."""
    there: dict[str, int] = {}
    entries = []
    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(NAMES))
        if name not in there:
            there[name] = draw(st.integers(0, 5))
            entries.append(entry(name, level=there[name]))
        elif draw(st.booleans()):
            entries.append(entry(name, level=there.pop(name), kind=1))
        else:
            entries.append(entry(name, level=there[name], kind=1))
            there[name] = (there[name] + 1) % 6
            entries.append(entry(name, level=there[name]))
    return entries


def one_by_one(entries: list[dict[str, Any]]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for each in entries:
        key = each["file_name"], each["level"]
        if each["kind"]:
            found.remove(key)
        else:
            assert key not in found
            found.add(key)
    return found


def keys(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table["file_name"].to_pylist(), table["level"].to_pylist(), strict=True))


@given(histories(), st.randoms())
def test_live_files_are_those_that_were_added_last_in_any_order_of_manifests(
    entries: list[dict[str, Any]], random: Any
) -> None:
    expected = one_by_one(entries)
    assert set(keys(live(entry_rows(entries), "x"))) == expected
    shuffled = random.sample(entries, len(entries))
    found = keys(live(entry_rows(shuffled), "x"))
    assert set(found) == expected
    assert len(found) == len(expected)


@given(histories(), st.integers(0, 12))
def test_entries_that_are_settled_mean_the_same(entries: list[dict[str, Any]], cut: int) -> None:
    first, second = entry_rows(entries[:cut]), entry_rows(entries[cut:])
    expected = keys(live(entry_rows(entries), "x"))
    for tables in ([settled(first, "x"), second], [first, settled(second, "x")]):
        assert set(keys(live(pa.concat_tables(tables), "x"))) == set(expected)


def test_what_tells_files_apart() -> None:
    alike = [entry("a"), entry("a")]
    assert len(set(identities(entry_rows(alike)).tolist())) == 1
    for told in (
        {"bucket": 1},
        {"level": 1},
        {"partition": b"\x00" * 11 + b"\x01"},
        {"extra_files": ["a.index"]},
        {"embedded_file_index": b"x"},
        {"external_path": "s3://b/a"},
        {"file_name": "b"},
    ):
        rows = entry_rows([entry("a"), entry("a", **told)])
        assert len(set(identities(rows).tolist())) == 2, told
    same = {"schema_id": 7, "row_count": 9}
    assert len(set(identities(entry_rows([entry("a"), entry("a", **same)])).tolist())) == 1


def test_a_file_that_is_added_twice_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match="the file a is added twice") as refusal:
        live(entry_rows([entry("a"), entry("b"), entry("a")]), "manifest-list-1")
    assert refusal.value.source == "manifest-list-1"
    with pytest.raises(InvalidMetadata, match="twice"):
        settled(entry_rows([entry("a", kind=1), entry("a", kind=1)]), "manifest-list-1")


def test_no_manifests_are_no_files() -> None:
    assert joined([], ["file_name", "kind"]).column_names == ["file_name", "kind"]
    assert live(joined([], ENTRY_COLUMNS.names), "x").num_rows == 0
