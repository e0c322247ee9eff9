"""Catalogs that Iceberg's own Java classes share with us, both ways: HadoopCatalog and JdbcCatalog.

Iceberg's REST server stands in front of them, so what comes through it was written and read by Java; we open
the same directory, or the same database, beside it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import lakeplane
from lakeplane.catalog.names import parse_name
from lakeplane.catalog.rest import RestCatalog
from lakeplane.lake import Lake
from tests.catalog.rest_fixture import running_server
from tests.commits.worlds import append

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDERS = "shop.orders"
COLUMNS = "id BIGINT NOT NULL, at TIMESTAMP, place STRUCT<x: INT, y: DOUBLE>"
GZIP = {"write.metadata.compression-codec": "gzip"}


class Pair:
    """Java's way to a catalog, and ours."""

    def __init__(self, java: Lake, ours: Lake) -> None:
        self.java, self.ours = java, ours

    def agree(self, name: str = ORDERS) -> Any:
        """Both see the same table."""
        theirs, ours = self.java.table(name).metadata, self.ours.table(name).metadata
        assert theirs == ours
        return ours


@pytest.fixture(scope="module", params=["hadoop", "jdbc"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    is_hadoop = request.param == "hadoop"
    chosen = {"catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog"} if is_hadoop else {}
    with running_server(folder, **chosen) as uri, closing(RestCatalog(uri)) as java:
        warehouse = folder / "wh"
        if is_hadoop:
            yield Pair(Lake(java), lakeplane.connect(warehouse))
            return
        ours = lakeplane.connect(
            f"sqlite:///{folder}/catalog.db", warehouse=warehouse, catalog_name="rest_backend"
        )
        yield Pair(Lake(java), ours)
        ours._catalog._pointers.close()  # type: ignore[attr-defined]


def test_what_java_makes_is_ours_to_change(both: Pair) -> None:
    both.java.create_namespace("shop")
    both.java.create_table(ORDERS, COLUMNS, partition_by=["days(at)"], properties={"made": "there"})
    assert both.ours.namespaces() == ["shop"]
    assert both.ours.tables() == [ORDERS]
    assert both.agree().properties["made"] == "there"
    with both.ours.table(ORDERS).evolve() as change:
        change.add_column("note", "STRING")
        change.add_partition_field("bucket(4, id)")
        change.sort_by("id DESC")
        change.set_properties(changed="here")
    assert [field.name for field in both.agree().schema.fields] == ["id", "at", "place", "note"]
    append(both.ours._catalog, parse_name(ORDERS), 7)
    both.ours.table(ORDERS).create_tag("first")
    assert both.agree().refs["first"].snapshot_id == 7


def test_what_we_make_is_javas_to_change(both: Pair) -> None:
    both.ours.create_namespace("home", {} if "Filesystem" in repr(both.ours) else {"owner": "ann"})
    both.ours.create_table("home.orders", COLUMNS, partition_by=["days(at)"])
    assert "home" in both.java.namespaces()
    assert both.java.tables("home") == ["home.orders"]
    both.agree("home.orders")
    with both.java.table("home.orders").evolve() as change:
        change.add_column("note", "STRING")
    assert both.agree("home.orders").schema.fields[-1].name == "note"
    with both.ours.table("home.orders").evolve() as change:
        change.drop_column("note")
    both.agree("home.orders")


def test_in_turn_and_with_compressed_metadata(both: Pair) -> None:
    both.java.create_namespace("turns")
    both.java.create_table("turns.orders", COLUMNS)
    for turn in range(8):
        lake = (both.java, both.ours)[turn % 2]
        with lake.table("turns.orders").evolve() as change:
            change.set_properties({f"turn-{turn}": "done", **(GZIP if turn == 2 else {})})
        table = both.agree("turns.orders")
        assert sum(key.startswith("turn-") for key in table.properties) == turn + 1
    assert "gz" in both.ours.table("turns.orders").metadata_location


def test_what_one_drops_is_gone_for_the_other(both: Pair) -> None:
    both.java.create_namespace("gone")
    for maker, dropper in ((both.java, both.ours), (both.ours, both.java)):
        maker.create_table("gone.orders", COLUMNS)
        dropper.drop_table("gone.orders")
        assert both.java.tables("gone") == both.ours.tables("gone") == []
