"""Tables of other writers, unpacked into memory; ``tables/README.md`` tells what they are."""

from __future__ import annotations

import functools
import io
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from lakeplane.paimon.files import Files
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.time_travel import latest_schema

OURS = Path(__file__).parent / "tables"
SHARED = Path(__file__).parents[3] / "shared" / "fixtures" / "paimon"
"""Beside the checkout: most tables, among them those with the defects of their writers."""
ARCHIVES = {
    path.name.removesuffix(".tar.gz"): path
    for folder in (SHARED, OURS)
    for path in sorted(folder.glob("*.tar.gz"))
}
NAMES = sorted(ARCHIVES)
assert any(path.parent == SHARED for path in ARCHIVES.values()), f"no tables were found in {SHARED}"


class Stored(NamedTuple):
    """The files of a table by their paths, and what is known of it."""

    name: str
    content: dict[str, bytes]
    facts: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that the table must read as."""
        rows: list[dict[str, Any]] = self.facts["rows"]
        return rows

    @property
    def files(self) -> Files:
        """The table as a reader sees it."""
        return reader(self.content)

    @property
    def schema(self) -> TableSchema:
        """The schema that the table has now."""
        return latest_schema(self.files)

    def starting_with(self, prefix: str) -> dict[str, bytes]:
        """The files whose paths begin so."""
        return {path: data for path, data in self.content.items() if path.startswith(prefix)}

    @property
    def manifest_lists(self) -> dict[str, bytes]:
        """The manifest lists."""
        return self.starting_with("manifest/manifest-list-")

    @property
    def index_manifests(self) -> dict[str, bytes]:
        """The index manifests."""
        return self.starting_with("manifest/index-manifest-")

    @property
    def manifests(self) -> dict[str, bytes]:
        """The data manifests."""
        others = {*self.manifest_lists, *self.index_manifests}
        return {path: data for path, data in self.starting_with("manifest/").items() if path not in others}


def reader(content: dict[str, bytes]) -> Files:
    """A table in memory, as it is read."""

    def names(folder: str) -> list[str]:
        inside = (path.removeprefix(f"{folder}/") for path in content if path.startswith(f"{folder}/"))
        return sorted({rest.partition("/")[0] for rest in inside})

    return Files(lambda paths: [content[path] for path in paths], content.get, names)


@functools.cache
def stored(name: str) -> Stored:
    """A table by its name."""
    archived = ARCHIVES[name]
    facts = json.loads(archived.with_name(f"{name}.json").read_text())
    content: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archived.read_bytes())) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file is not None:
                path = member.name.removeprefix("./").removeprefix(f"{facts['table_dir']}/")
                content[path] = file.read()
    return Stored(name, content, facts)


def everyone() -> list[Stored]:
    """All tables."""
    return [stored(name) for name in NAMES]
