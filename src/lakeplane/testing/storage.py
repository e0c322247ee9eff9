"""What every store must do: checks for stores of ours and of others.

Each check takes a store and a folder in it that nobody else uses, and raises ``AssertionError`` if the store
does not keep its contract. With pytest::

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_store(check):
        check(make_store(), parse_location("s3://bucket/a-fresh-folder"))
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from lakeplane.errors import (
    FileChanged,
    FileExists,
    FileMissing,
    InvalidInput,
    InvalidLocation,
    LakeplaneError,
    LimitExceeded,
    StoreCannot,
)
from lakeplane.model.location import Location, parse_location
from lakeplane.storage.store import Range, Store

Check: TypeAlias = Callable[[Store, Location], None]

NAMES: Final = (
    "plain.parquet",
    "with space",
    "dt=2026-01-01%2000%3A00",
    "50%",
    "%2F",
    "a%2520b",
    "a+b",
    "a#b",
    "a?b=c&d",
    "a=b",
    "ü-é",
    "u\u0308",  # as two characters: another name than with the one
    "日本語",
    "😀",
    "~'()!$,;:@[]{}^|<>*",
    'double"quote`',
    ".hidden",
    "_SUCCESS",
    "CASE",
    "case",
)
"""Names that get mixed up where somebody encodes, decodes, normalises or folds them."""

_RACERS: Final = 8


def raises(kind: type[LakeplaneError], do: Callable[[], object]) -> LakeplaneError:
    """Check that something is refused with an error of a kind, and give it."""
    try:
        done = do()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, but it gave {done!r}")


def reads_what_was_put(store: Store, folder: Location) -> None:
    """A file is there as it was put, and whole again after it was replaced."""
    at = folder / "deep/er/file.bin"
    store.put(at, b"first version")
    assert store.read(at) == b"first version"
    store.put(at, b"second")
    assert store.read(at) == b"second", "a replaced file must not keep a tail of the one before"
    assert store.stat(at).size == 6  # noqa: PLR2004


def holds_empty_and_big_files(store: Store, folder: Location) -> None:
    """Nothing at all is a file, and so is more than one request takes."""
    empty, big = folder / "empty", folder / "big"
    store.put(empty, b"")
    assert store.read(empty) == b""
    assert store.read(empty, start=-8) == b""
    assert store.read(empty, start=3, length=4) == b""
    assert store.stat(empty).size == 0
    data = random.Random(0).randbytes(11 << 20)  # noqa: S311  # not for secrets
    store.put(big, data)
    assert store.read(big) == data
    assert store.read(big, start=-5) == data[-5:]
    if store.can_put_if_absent:
        raises(FileExists, lambda: store.put(big, data[::-1], if_absent=True))
        store.put(folder / "big too", data, if_absent=True)
        assert store.read(folder / "big too") == data


def cuts_ranges_as_slices(store: Store, folder: Location) -> None:
    """Parts of a file are cut like slices, at both ends and beyond them."""
    at, data = folder / "digits", b"0123456789"
    store.put(at, data)
    for start in (0, 1, 9, 10, 11, 99, -1, -4, -10, -11, -99):
        for length in (None, 0, 1, 3, 10, 99):
            expected = data[start:][:length]
            found = store.read(at, start=start, length=length)
            assert found == expected, f"start={start} length={length}: {found!r}, not {expected!r}"
    raises(InvalidInput, lambda: store.read(at, length=-1))


def keeps_the_limit(store: Store, folder: Location) -> None:
    """A read that would be too large is refused; one that is just right is not."""
    at = folder / "ten"
    store.put(at, b"0123456789")
    assert store.read(at, limit=10) == b"0123456789"
    assert store.read(at, start=4, length=3, limit=3) == b"456"
    error = raises(LimitExceeded, lambda: store.read(at, limit=9))
    assert error.source == at.text
    raises(LimitExceeded, lambda: store.read_many([Range(at)], limit=9))


def reads_many_in_order(store: Store, folder: Location) -> None:
    """Many small files at once, in the order in which they were asked for; the first failure is told."""
    places = [folder / f"many/{n:03}" for n in range(60)]
    for n, at in enumerate(places):
        store.put(at, b"%d" % n)
    asked = [*reversed(places), places[7], places[7]]
    expected = [b"%d" % n for n in (*range(59, -1, -1), 7, 7)]
    assert store.read_many([Range(at) for at in asked]) == expected
    assert store.read_many([Range(places[12], 1, 1), Range(places[34], -1)]) == [b"2", b"4"]
    assert store.read_many([]) == []
    gone = folder / "many/gone"
    error = raises(FileMissing, lambda: store.read_many([Range(places[0]), Range(gone), Range(places[1])]))
    assert error.source == gone.text


def tells_what_is_missing(store: Store, folder: Location) -> None:
    """What is not there is missing, by its name; a folder is not a file."""
    at = folder / "no/such/file"
    for do in (store.read, store.stat):
        assert raises(FileMissing, lambda do=do: do(at)).source == at.text  # type: ignore[misc]
    raises(FileMissing, lambda: store.read(at, start=-8, length=4))
    raises(FileMissing, lambda: store.read(at, length=0))
    store.put(at, b"x")
    raises(FileMissing, lambda: store.read(folder / "no/such"))
    raises(FileMissing, lambda: store.stat(folder / "no"))


def puts_if_absent(store: Store, folder: Location) -> None:
    """Only the first one wins; a loser changes nothing, and the name is free again after a delete."""
    at = folder / "v1.metadata.json"
    if not store.can_put_if_absent:
        raises(StoreCannot, lambda: store.put(at, b"x", if_absent=True))
        return
    store.put(at, b"winner", if_absent=True)
    before = store.stat(at)
    assert raises(FileExists, lambda: store.put(at, b"loser", if_absent=True)).source == at.text
    raises(FileExists, lambda: store.put(at, b"winner", if_absent=True))
    assert store.read(at) == b"winner"
    assert store.stat(at) == before
    store.delete(at)
    store.put(at, b"next", if_absent=True)
    assert store.read(at) == b"next"


def puts_if_match(store: Store, folder: Location) -> None:
    """Compare and swap: only over the very content that was seen."""
    at = folder / "pointer"
    if not store.can_put_if_match:
        raises(StoreCannot, lambda: store.put(at, b"x", if_match="etag"))
        return
    first = store.put(at, b"1")
    assert first is not None
    assert first == store.stat(at).etag
    second = store.put(at, b"2", if_match=first)
    assert second is not None
    assert raises(FileChanged, lambda: store.put(at, b"3", if_match=first)).source == at.text
    assert store.read(at) == b"2"
    store.put(at, b"3", if_match=second)
    assert store.read(at) == b"3"
    store.delete(at)
    raises(FileChanged, lambda: store.put(at, b"4", if_match=second))
    raises(FileMissing, lambda: store.read(at))
    raises(InvalidInput, lambda: store.put(at, b"5", if_absent=True, if_match=second))


def lets_one_racer_win(store: Store, folder: Location) -> None:
    """Of many threads that put the same name at once, exactly one wins, and its bytes are there."""
    if not store.can_put_if_absent:
        return
    for lap in range(10):
        at = folder / f"race/{lap}"
        won = _race(lambda me, at=at: store.put(at, b"%d" % me, if_absent=True), FileExists)  # type: ignore[misc]
        assert len(won) == 1, f"{len(won)} writers won"
        assert store.read(at) == b"%d" % won[0]


def lets_one_swapper_win(store: Store, folder: Location) -> None:
    """Of many threads that swap the same content at once, exactly one wins, and its bytes are there."""
    if not store.can_put_if_match:
        return
    at = folder / "swapped"
    seen = store.put(at, b"start")
    for lap in range(10):

        def swap(me: int, lap: int = lap, seen: str | None = seen) -> None:
            store.put(at, b"%d in lap %d" % (me, lap), if_match=seen)

        won = _race(swap, FileChanged)
        assert len(won) == 1, f"{len(won)} writers won"
        assert store.read(at) == b"%d in lap %d" % (won[0], lap)
        seen = store.stat(at).etag


def shows_whole_files_only(store: Store, folder: Location) -> None:
    """Whoever reads while a file is replaced sees one version of it or another, never a mixture."""
    at, versions = folder / "replaced", [bytes([n]) * 50_000 for n in range(4)]
    store.put(at, versions[0])
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(store.read(at))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for n in range(20):
            store.put(at, versions[n % 4])
    finally:
        done.set()
        reader.join()
    assert seen <= set(versions), f"torn: {[(len(data), len(set(data))) for data in seen]}"


def lists_in_order(store: Store, folder: Location) -> None:
    """All files at every depth, by the bytes of their names, and only those inside, by whole segments."""
    names = ["a", "a-b", "a.c", "a0", "b/1", "b/c/2", "b-/3", "b0", "B", "z", "é", "😀", "\ufb01"]
    shuffled = random.Random(7).sample(names, len(names))  # noqa: S311  # not for secrets
    for name in shuffled:
        store.put(folder / f"in/{name}", name.encode())
    store.put(folder / "inside/not", b"")
    store.put(folder / "in.txt", b"")
    top = folder / "in"
    found = list(store.files(top))
    expected = sorted(names, key=str.encode)
    assert [stat.location for stat in found] == [top / name for name in expected]
    assert [stat.location.text for stat in found] == [f"{top.text}/{name}" for name in expected]
    assert [stat.size for stat in found] == [len(name.encode()) for name in expected]
    assert all(stat == store.stat(stat.location) for stat in found[:3])
    assert [stat.location.name for stat in store.files(top / "b")] == ["1", "2"]
    assert list(store.files(folder / "nothing/here")) == []
    assert store.folders(top) == ["b", "b-"]
    assert store.folders(top / "b") == ["c"]
    assert store.folders(folder / "nothing/here") == []


def lists_more_than_a_page(store: Store, folder: Location) -> None:
    """A listing does not end where the store's first answer does."""
    names = [f"{n:04}" for n in range(1010)]
    from lakeplane.model.parallel import in_parallel  # noqa: PLC0415  # for this check alone

    in_parallel(lambda name: store.put(folder / f"page/{name}", b""), names)
    assert [stat.location.name for stat in store.files(folder / "page")] == names
    store.delete(*(folder / f"page/{name}" for name in names))
    assert list(store.files(folder / "page")) == []


def takes_names_as_they_are(store: Store, folder: Location) -> None:
    """Names come back as they were put: nothing is encoded, decoded, normalised or folded."""
    for name in NAMES:
        store.put(folder / f"names/{name}", name.encode())
        store.put(folder / f"names in/{name}/file", b"")
    for name in NAMES:
        assert store.read(folder / f"names/{name}") == name.encode(), f"{name!r} was mixed up"
        assert store.stat(folder / f"names/{name}").size == len(name.encode())
    assert [stat.location.name for stat in store.files(folder / "names")] == sorted(NAMES, key=str.encode)
    assert store.folders(folder / "names in") == sorted(NAMES, key=str.encode)
    for name in NAMES:
        store.delete(folder / f"names/{name}")
        raises(FileMissing, lambda name=name: store.stat(folder / f"names/{name}"))  # type: ignore[misc]


def deletes_by_exact_name(store: Store, folder: Location) -> None:
    """Only what was named is deleted, never what is below it; what is not there is deleted already."""
    kept = [folder / "test2", folder / "test/file", folder / "test.txt"]
    for at in (*kept, folder / "one", folder / "two"):
        store.put(at, b"")
    store.delete(folder / "one", folder / "never was", folder / "two")
    store.delete(folder / "one")
    store.delete(folder / "test/file/below a file")
    store.delete()
    assert [stat.location for stat in store.files(folder)] == sorted(kept, key=lambda at: at.text)
    raises(FileMissing, lambda: store.read(folder / "one"))


def tells_about_files(store: Store, folder: Location) -> None:
    """Size, time and etag; another content has another etag."""
    at = folder / "file"
    etag = store.put(at, b"12345")
    before = store.stat(at)
    assert (before.location, before.size, before.etag) == (at, 5, etag)
    assert before.modified_ms > 1_500_000_000_000, "a time in milliseconds since 1970"  # noqa: PLR2004
    store.put(at, b"67890")
    assert store.stat(at).etag != before.etag or etag is None


def refuses_what_is_outside(store: Store, folder: Location) -> None:
    """A location in another store is refused by every method, before anything is done with it."""
    stranger = parse_location("unheard-of://stranger/file")
    for do in (store.read, store.stat, store.delete, store.folders, lambda at: list(store.files(at))):
        raises(InvalidLocation, lambda do=do: do(stranger))  # type: ignore[misc]
    raises(InvalidLocation, lambda: store.put(stranger, b""))
    raises(InvalidLocation, lambda: store.read_many([Range(stranger)]))
    store.put(folder / "still works", b"")


STORE_CHECKS: Final[tuple[Check, ...]] = (
    reads_what_was_put,
    holds_empty_and_big_files,
    cuts_ranges_as_slices,
    keeps_the_limit,
    reads_many_in_order,
    tells_what_is_missing,
    puts_if_absent,
    puts_if_match,
    lets_one_racer_win,
    lets_one_swapper_win,
    shows_whole_files_only,
    lists_in_order,
    lists_more_than_a_page,
    takes_names_as_they_are,
    deletes_by_exact_name,
    tells_about_files,
    refuses_what_is_outside,
)


def _race(run: Callable[[int], object], lost: type[LakeplaneError]) -> list[int]:
    """Let threads do the same thing at the same moment; give the numbers of those that did not lose."""
    start, won = threading.Barrier(_RACERS), []
    failures: list[Exception] = []

    def racer(me: int) -> None:
        start.wait()
        try:
            run(me)
        except lost:
            return
        except Exception as error:  # noqa: BLE001  # raised below, in the thread of the check
            failures.append(error)
        else:
            won.append(me)

    threads = [threading.Thread(target=racer, args=(me,)) for me in range(_RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return won
