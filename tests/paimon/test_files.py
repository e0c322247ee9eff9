from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from lakeplane.errors import FileMissing, InvalidMetadata
from lakeplane.paimon.manifest_schema import FACT_COLUMNS, KEY_COLUMNS, VALUE_COLUMNS
from tests.paimon.stored import stored

if TYPE_CHECKING:
    import pyarrow as pa


def test_the_parts_of_a_manifest_are_read_together_and_kept_apart() -> None:
    table = stored("pp21_p_dedup")
    kept: dict[tuple[str, ...], pa.Table] = {}
    reads: list[str] = []

    def recall(key: tuple[str, ...], make: Callable[[], pa.Table]) -> pa.Table:
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def read_many(paths: Sequence[str]) -> list[bytes]:
        reads.extend(paths)
        return [table.content[path] for path in paths]

    files = table.files._replace(recall=recall, read_many=read_many)
    names = [path.removeprefix("manifest/") for path in sorted(table.manifests)]
    facts = files.manifests(names, [FACT_COLUMNS])
    assert len(reads) == len(names)
    assert [each.column_names for each in facts] == [list(FACT_COLUMNS)] * len(names)
    every = files.manifests(names, [FACT_COLUMNS, KEY_COLUMNS, VALUE_COLUMNS])
    assert len(reads) == 2 * len(names)
    files.manifests(names, [VALUE_COLUMNS, FACT_COLUMNS])
    assert len(reads) == 2 * len(names)
    for some, all_ in zip(facts, every, strict=True):
        assert all_.select(FACT_COLUMNS).equals(some)
        assert set(all_.column_names) == {*FACT_COLUMNS, *KEY_COLUMNS, *VALUE_COLUMNS}


def test_a_manifest_that_is_missing_is_the_error_of_the_store() -> None:
    def read_many(paths: Sequence[str]) -> list[bytes]:
        raise FileMissing("there is no such file", source=paths[0])

    files = stored("rust04_a1").files._replace(read_many=read_many)
    for read in (lambda: files.manifest_list("list-1"), lambda: files.manifests(["list-1"], [FACT_COLUMNS])):
        with pytest.raises(FileMissing, match="manifest/list-1"):
            read()


def test_an_index_manifest_that_deletes_is_refused() -> None:
    table = stored("pp21_a_rowid")
    [path] = table.index_manifests
    name = path.removeprefix("manifest/")
    assert table.files.index_manifest(name).num_rows == 1
    [data] = table.manifests.values()
    files = table.files._replace(read_many=lambda _: [data])
    with pytest.raises(InvalidMetadata, match=name):
        files.index_manifest(name)
