"""Paimon's databases in a warehouse, beside namespaces of Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeplane as lp
from tests.paimon.stored import stored


def put(name: str, home: Path) -> None:
    for path, data in stored(name).content.items():
        place = home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


@pytest.fixture
def lake(tmp_path: Path) -> lp.Lake:
    put("java09_evolved", tmp_path / "shop.db" / "goods")
    put("java09_ice_append", tmp_path / "shop.db" / "days")
    put("java09_p_dedup", tmp_path / "only.db" / "facts")
    (tmp_path / "only.db" / "nothing").mkdir()
    lake = lp.connect(tmp_path)
    lake.create_namespace("shop")
    lake.create_table("shop.orders", "id BIGINT")
    return lake


def test_both_formats_are_listed_side_by_side(lake: lp.Lake) -> None:
    assert lake.namespaces() == ["only", "shop"]
    assert lake.namespaces("only") == []
    assert lake.tables() == ["only.facts", "shop.days", "shop.goods", "shop.orders"]
    assert lake.tables("only") == ["only.facts"]
    assert lake.views() == []
    assert lake.views("only") == []


def test_a_table_of_paimon_tells_what_it_is(lake: lp.Lake, tmp_path: Path) -> None:
    table = lake.table("shop.goods")
    assert isinstance(table, lp.PaimonTable)
    assert (table.name, table.format) == ("shop.goods", "paimon")
    assert table.location == str(tmp_path / "shop.db" / "goods")
    assert [each.name for each in table.schema.fields] == ["id", "v", "added", "old"]
    assert table.properties["file.format"] == "parquet"
    assert [each.id for each in table.snapshots] == [1, 2, 3]
    assert set(table.refs) == {"main", "dev", "before", "kept"}
    assert table.refresh() is table
    assert table.inspect("snapshots")["snapshot_id"].to_pylist() == [1, 2, 3]
    assert table.explain(at=2).snapshot_id == 2
    facts = lake.table("only.facts")
    assert isinstance(facts, lp.PaimonTable)
    assert (facts.primary_keys, facts.partition_keys) == (("dt", "id"), ("dt",))


def test_what_cannot_be_done_to_a_table_of_paimon_is_refused_by_name(lake: lp.Lake) -> None:
    table = lake.table("shop.goods")
    for name in ("append", "delete", "evolve", "upsert"):
        with pytest.raises(lp.NotSupported, match=f"{name} of a Paimon table"):
            getattr(table, name)
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(table, "nonsense")  # noqa: B009 - types know of no such thing


def test_a_table_of_iceberg_comes_first(lake: lp.Lake, tmp_path: Path) -> None:
    put("java09_evolved", tmp_path / "shop.db" / "orders")
    assert isinstance(lake.table("shop.orders"), lp.Table)
    assert lake.tables("shop").count("shop.orders") == 1


def test_no_table_is_made_that_would_hide_one_of_paimon(lake: lp.Lake) -> None:
    with pytest.raises(lp.AlreadyExists, match=r"shop\.goods is taken by a table of Paimon"):
        lake.create_table("shop.goods", "id BIGINT")
    with pytest.raises(lp.AlreadyExists, match=r"shop\.goods is taken by a table of Paimon"):
        lake.rename_table("shop.orders", "shop.goods")


def test_names_that_are_nowhere_are_not_found(lake: lp.Lake) -> None:
    for name in ("shop.nothing", "only.nothing", "none.facts", "only.facts.more"):
        with pytest.raises(lp.NotFound):
            lake.table(name)
    with pytest.raises(lp.NotFound):
        lake.tables("none")


def test_a_directory_is_opened_as_what_paimon_has_made_of_it(tmp_path: Path) -> None:
    """Beside its own files, Paimon keeps metadata of Iceberg that may be behind."""
    put("java09_ice_append", tmp_path / "table")
    assert (tmp_path / "table" / "metadata").is_dir()
    assert isinstance(lp.open(tmp_path / "table"), lp.PaimonTable)


def test_manifests_are_kept_apart_by_their_tables(lake: lp.Lake, tmp_path: Path) -> None:
    """Paths of manifests begin at the table: two copies of a table must not share what was decoded."""
    home = tmp_path / "only.db" / "facts"
    first = lake.table("only.facts").explain().counts
    assert lake.table("only.facts").explain().counts == first
    cache = lake._resources.cache
    kept = [key for key in cache._kept if key[0] == "paimon"]
    assert kept
    assert {key[1] for key in kept} == {str(home)}
