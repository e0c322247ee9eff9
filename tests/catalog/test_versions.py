"""Numbered files: the newest is found from any hint and any listing, and numbers are not used twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.catalog.versions import HINT, Series
from lakeplane.errors import StorageError
from lakeplane.storage.memory import MemoryStore
from lakeplane.testing.faults import Fail, FailAfter, FaultStore, Hide, Script

STORE_ROOT = MemoryStore().root
SUFFIXES = ("json", "gz.json")


def series(numbers: range, *, suffix: str = "json") -> tuple[MemoryStore, Series]:
    store = MemoryStore()
    made = Series(store, store.root / "t/metadata", SUFFIXES)
    for number in numbers:
        store.put(made.file(number, suffix), b"x")
    return store, made


def test_nothing_has_no_newest() -> None:
    _, empty = series(range(0))
    assert empty.newest() is None
    assert empty.all() == []
    assert empty.before(5) == []
    assert empty.first_free() == 1


@given(
    first=st.integers(1, 5),
    count=st.integers(1, 12),
    hint=st.one_of(st.none(), st.integers(-2, 30).map(lambda n: str(n).encode()), st.binary(max_size=30)),
    seed=st.integers(0, 1000),
)
def test_the_newest_is_found_whatever_the_hint_and_the_listing_say(
    first: int, count: int, hint: bytes | None, seed: int
) -> None:
    store, made = series(range(first, first + count))
    if hint is not None:
        store.put(made.directory / HINT, hint)
    # One file at least is shown: from there on the search does not need the listing.
    listing = FaultStore(store, Script(Hide(0.5), name="files", for_ever=True), seed=seed)
    newest = made._replace(store=listing).newest()
    shown = list(FaultStore(store, Script(Hide(0.5), name="files"), seed=seed).files(made.directory))
    if newest is None:
        assert not any(stat.location.name != HINT for stat in shown)
    else:
        assert newest.number == first + count - 1


@given(first=st.integers(1, 5), count=st.integers(1, 12), seed=st.integers(0, 1000))
def test_what_is_before_a_version_is_found_without_a_listing(first: int, count: int, seed: int) -> None:
    store, made = series(range(first, first + count))
    hidden = made._replace(store=FaultStore(store, Script(Hide(0.5), name="files", for_ever=True), seed=seed))
    last = first + count - 1
    assert [version.number for version in hidden.before(last)] == list(range(first, last))


def test_other_files_are_no_versions() -> None:
    store, made = series(range(1, 3))
    for name in (
        "v9.json.tmp",
        "v9.other",
        "xv9.json",
        "v.json",
        "v-9.json",
        "deep/v9.json",
        "V9.json",
        "v9json",
    ):
        store.put(made.directory / name, b"")
    found = made.newest()
    assert found is not None
    assert found.number == 2
    assert [version.number for version in made.all()] == [1, 2]


def test_a_version_is_found_under_any_suffix() -> None:
    store, made = series(range(1, 3))
    store.put(made.file(3, "gz.json"), b"")
    store.put(made.file(4, "json"), b"")
    found = made.newest()
    assert found is not None
    assert found.at == made.file(4, "json")
    assert [version.number for version in made.before(4)] == [1, 2, 3]


def test_a_hint_is_never_worth_a_failure() -> None:
    store, made = series(range(1, 3))
    for fault in (Fail(), Fail("denied"), Fail("full"), Fail("unknown"), FailAfter()):
        made._replace(store=FaultStore(store, Script(fault, name="put"))).hint(2)


def test_a_store_that_fails_is_not_an_empty_one() -> None:
    """If trouble were taken for absence, a table would be made in the place of another."""
    store, made = series(range(1, 3))
    for name in ("stat", "files"):
        troubled = made._replace(store=FaultStore(store, Script(Fail(), name=name, for_ever=True)))
        with pytest.raises(StorageError):
            troubled.newest()


def test_numbers_of_dropped_versions_are_not_used_again() -> None:
    store, made = series(range(0))
    for number in (3, 12, 7):
        store.put(made.dropped(number, f"v99-{number}"), b"")
    store.put(made.directory / "dropped-x.json", b"")
    assert made.first_free() == 13
    assert made.newest() is None
