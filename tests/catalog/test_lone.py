"""A table is opened without a catalog, and can only be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakeplane as lp

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path) -> lp.Table:
    lake = lp.connect(tmp_path / "warehouse")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", "id BIGINT")
    with table.evolve() as change:
        change.add_column("note", "STRING")
    return table


def test_a_directory_is_opened_at_its_newest_version(made: lp.Table) -> None:
    found = lp.open(made.location)
    assert (found.name, found.metadata) == ("orders", made.metadata)
    with made.evolve() as change:
        change.add_column("more", "INT")
    assert found.refresh().metadata == made.metadata


def test_a_metadata_file_is_opened_as_it_is(made: lp.Table) -> None:
    first = lp.open(f"{made.location}/metadata/v1.metadata.json")
    assert [field.name for field in first.schema.fields] == ["id"]
    assert first.name == "orders"


def test_files_of_other_catalogs_are_in_the_order_of_their_numbers(tmp_path: Path, made: lp.Table) -> None:
    copied = tmp_path / "copied" / "metadata"
    copied.mkdir(parents=True)
    for number, version in ((9, 1), (10, 2)):
        data = (tmp_path / f"warehouse/shop/orders/metadata/v{version}.metadata.json").read_bytes()
        (copied / f"{number:05d}-0f5c.metadata.json").write_bytes(data)
    (copied / "00011-0f5c.metadata.json.tmp").write_bytes(b"")
    assert lp.open(copied.parent).metadata == made.metadata


def test_it_cannot_be_changed(made: lp.Table) -> None:
    found = lp.open(made.location)
    with (
        pytest.raises(lp.CatalogCannot, match=r"opened without a catalog.*register_table"),
        found.evolve() as change,
    ):
        change.add_column("more", "INT")
    assert lp.open(made.location).metadata == made.metadata


def test_what_is_no_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(lp.NotFound, match=r"there is no metadata file in it.*Give the directory"):
        lp.open(tmp_path)
    with pytest.raises(lp.InvalidMetadata, match="missing"):
        lp.open(tmp_path / "v1.metadata.json")
