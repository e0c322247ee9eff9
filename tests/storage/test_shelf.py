"""Tables on a shelf: a cache that may lose anything, and never gives back anything else."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lakeplane.errors import InvalidInput
from lakeplane.storage import shelf as shelves
from lakeplane.storage.shelf import FolderShelf


def table(n: int, rows: int = 10) -> pa.Table:
    return pa.table({"n": pa.array([n] * rows, pa.int64()), "s": [str(n)] * rows, "none": pa.nulls(rows)})


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_what_is_put_is_found_by_every_shelf_of_the_folder(tmp_path: Path) -> None:
    one, other = FolderShelf(tmp_path / "a/b"), FolderShelf(str(tmp_path / "a/b"))
    assert one.get("key") is None
    one.put("key", table(1))
    one.put("../../key", table(2))
    assert other.get("key") == table(1)
    assert other.get("../../key") == table(2)
    assert other.get("nothing") is None
    assert repr(one) == f"FolderShelf({str(tmp_path / 'a/b')!r})"
    assert names(tmp_path) == ["a"]
    assert all(each.endswith(".arrow") for each in names(tmp_path / "a/b"))


@pytest.mark.parametrize(
    "given",
    [
        pa.table({}),
        pa.table({"a": pa.array([], pa.int32())}),
        pa.table({"p": pa.array([{}, {}], pa.struct([]))}),
        pa.table({"p": pa.array([{"x": 1}, None]), "l": [[1], []]}),
        pa.table({"m": pa.array([[(1, b"x")], None], pa.map_(pa.int32(), pa.binary()))}),
        pa.concat_tables([table(1), table(2)]),
    ],
)  # fmt: skip
def test_tables_of_any_shape_come_back_as_they_were(tmp_path: Path, given: pa.Table) -> None:
    shelf = FolderShelf(tmp_path)
    shelf.put("key", given)
    found = shelf.get("key")
    assert found is not None
    assert found.schema == given.schema
    assert found.to_pylist() == given.to_pylist()


def test_the_last_one_that_was_put_counts(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    shelf.put("key", table(1))
    old = shelf.get("key")
    shelf.put("key", table(2))
    assert shelf.get("key") == table(2)
    assert old == table(1)  # who has it keeps it
    assert len(names(tmp_path)) == 1


def test_only_its_user_may_look_into_a_folder_that_it_makes(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path / "cache")
    shelf.put("key", table(1))
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert all(each.stat().st_mode & 0o077 == 0 for each in (tmp_path / "cache").iterdir())


def test_a_place_that_can_be_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(InvalidInput, match="no folder can be made for the cache") as failure:
            FolderShelf(place)
        assert str(tmp_path / "file") in str(failure.value)


@pytest.mark.parametrize("left", [0, 1, 8, 100, -1, -20])
def test_half_a_file_is_none(tmp_path: Path, left: int) -> None:
    shelf = FolderShelf(tmp_path)
    shelf.put("key", table(1))
    [place] = tmp_path.iterdir()
    place.write_bytes(place.read_bytes()[:left])
    assert shelf.get("key") is None
    shelf.put("key", table(2))
    assert shelf.get("key") == table(2)


def test_what_was_not_used_for_long_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "_LOOK_EVERY", 1)
    monkeypatch.setattr(shelves.FolderShelf, "_make_room", lambda _: None)
    filling = FolderShelf(tmp_path)
    for n in range(4):
        filling.put(str(n), table(n))
        os.utime(filling._place(str(n)), (1000 + n, 1000 + n))
    monkeypatch.undo()
    assert filling.get("0") == table(0)  # used now
    size = filling._place("0").stat().st_size
    FolderShelf(tmp_path, 3 * size).put("new", table(9))
    assert [n for n in "0123" if filling.get(n) is None] == ["1", "2"]
    assert filling.get("new") == table(9)


def test_what_a_writer_that_died_has_left_goes_too(tmp_path: Path) -> None:
    """Nothing ever took half-written files away: each crash left one more."""
    place = tmp_path / "tmpabc.partial"
    place.write_bytes(b"half")
    os.utime(place, (1000, 1000))
    young = tmp_path / "tmpdef.partial"
    young.write_bytes(b"of a writer that is at work")
    FolderShelf(tmp_path).put("key", table(1))
    assert not place.exists()
    assert young.exists()


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "below").mkdir()
    FolderShelf(tmp_path, 0).put("key", table(1))
    assert {"notes.txt", "below"} <= set(names(tmp_path))


def test_threads_put_and_get_at_once(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path, 20_000)

    def work(n: int) -> bool:
        for turn in range(30):
            key = str((n + turn) % 5)
            shelf.put(key, table(int(key)))
            found = shelf.get(key)
            if found is not None and found != table(int(key)):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert not [each for each in names(tmp_path) if each.endswith(".partial")]


def test_another_process_finds_what_this_one_has_put(tmp_path: Path) -> None:
    FolderShelf(tmp_path).put("key", table(7))
    program = (
        "import sys; from lakeplane.storage.shelf import FolderShelf; "
        "print(FolderShelf(sys.argv[1]).get('key')['n'][0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "7"
