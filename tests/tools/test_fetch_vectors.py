from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tools import fetch_vectors
from tools.fetch_vectors import BrokenArchive, Source, cache_directory, ensure, unpack
from tools.package_index import IndexFailure, Page

if TYPE_CHECKING:
    from pathlib import Path


def archive(members: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for other in others:
            tar.addfile(other)
    return buffer.getvalue()


def source(content: bytes) -> Source:
    return Source("it", "it", "it-1.tar.gz", hashlib.sha256(content).hexdigest(), "it-1/testdata")


def test_only_the_folder_is_unpacked(tmp_path: Path) -> None:
    content = archive({"it-1/setup.py": b"1", "it-1/testdata/a/b.json": b"{}", "it-1/testdata2/c": b"2"})
    unpack(content, source(content), tmp_path / "it")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "it" / "a" / "b.json"]


def test_links_are_left_out(tmp_path: Path) -> None:
    link = tarfile.TarInfo("it-1/testdata/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    content = archive({"it-1/testdata/a": b""}, link)
    unpack(content, source(content), tmp_path / "it")
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"it-1/testdata/../../../out": b""}, "leads astray"),
        ({"it-1/testdata/bomb": bytes(1001)}, "too large"),
        ({"it-1/other": b""}, "no file in it-1/testdata"),
    ],
)
def test_an_archive_that_is_not_what_it_should_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], problem: str
) -> None:
    monkeypatch.setattr(fetch_vectors, "MAX_UNPACKED_BYTES", 1000)
    content = archive(members)
    with pytest.raises(BrokenArchive, match=problem):
        unpack(content, source(content), tmp_path / "it")
    assert list(tmp_path.iterdir()) == []


def test_another_archive_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    content = archive({"it-1/testdata/a": b""})
    with pytest.raises(BrokenArchive, match="pinned is"):
        unpack(content, source(content + b"!"), tmp_path / "it")


def test_vectors_are_fetched_once_and_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = archive({"it-1/testdata/a": b"1"})
    asked = []

    def get(url: str) -> Page:
        asked.append(url)
        return Page(url, "application/gzip", content)

    monkeypatch.setattr(fetch_vectors, "file_url", lambda _project, filename: filename)
    monkeypatch.setattr(fetch_vectors, "get", get)
    broken = source(content + b"!")
    with pytest.raises(BrokenArchive):
        ensure(tmp_path, [source(content), broken])
    assert list(tmp_path.iterdir()) == []
    folder = ensure(tmp_path, [source(content)])
    assert (folder / "it" / "a").read_bytes() == b"1"
    assert ensure(tmp_path, [source(content)]) == folder
    assert len(asked) == 3


def test_a_failure_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_project: str, _filename: str) -> str:
        raise IndexFailure("no route")

    monkeypatch.setenv("LAKEPLANE_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch_vectors, "file_url", unreachable)
    with pytest.raises(SystemExit, match=r"(?s)no route.*PIP_INDEX_URL.*LAKEPLANE_CACHE"):
        fetch_vectors.main()


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LAKEPLANE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "lakeplane"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "lakeplane"
    monkeypatch.setenv("LAKEPLANE_CACHE", str(tmp_path / "chosen"))
    assert cache_directory() == tmp_path / "chosen"


def test_the_vectors_of_this_run_are_there(vectors: Path) -> None:
    table = json.loads((vectors / "iceberg-rust/table_metadata/TableMetadataV2Valid.json").read_text())
    assert table["format-version"] == 2
    assert (vectors / "pyiceberg/table/bitmaps/64map32bitvals.bin").stat().st_size > 0
