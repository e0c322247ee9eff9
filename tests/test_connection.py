"""What a user types becomes a lake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakeplane as lp
from lakeplane.errors import InvalidInput, InvalidLocation, LakeplaneError, NotFound

REPOSITORY = Path(__file__).parents[1]


def fill(lake: lp.Lake) -> lp.Table:
    lake.create_namespace("shop")
    return lake.create_table("shop.orders", "id BIGINT")


def test_a_directory_is_a_catalog_that_others_see(tmp_path: Path) -> None:
    place = tmp_path / "new" / "warehouse"
    table = fill(lp.connect(place))
    assert table.location == f"{place}/shop/orders"
    assert lp.connect(str(place)).tables() == ["shop.orders"]
    assert lp.connect(f"file://{place}").table("shop.orders").metadata.table_uuid == table.metadata.table_uuid


def test_a_directory_may_be_relative_or_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fill(lp.connect("here")).location == f"{tmp_path}/here/shop/orders"
    assert fill(lp.connect("~/there")).location == f"{tmp_path}/there/shop/orders"


def test_a_directory_needs_no_other_warehouse(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a directory is its own warehouse\. Leave warehouse out"):
        lp.connect(tmp_path, warehouse=tmp_path / "wh")


def test_sqlite_keeps_names_and_a_warehouse_the_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    table = fill(lp.connect(url, warehouse=tmp_path / "wh"))
    assert table.location == f"{tmp_path}/wh/shop/orders"
    assert lp.connect(url, warehouse=tmp_path / "wh").tables("shop") == ["shop.orders"]
    other = lp.connect(url, warehouse=tmp_path / "wh", catalog_name="another")
    assert other.namespaces() == []


@pytest.mark.parametrize(
    "target", ["memory:", "sqlite:///catalog.db", "postgresql+psycopg://h/d", "mysql://h/d"]
)
def test_names_elsewhere_need_to_be_told_where_tables_go(target: str) -> None:
    with pytest.raises(InvalidInput, match=r"needs a warehouse.*warehouse='s3://bucket/lake'"):
        lp.connect(target)


def test_names_in_memory_vanish(tmp_path: Path) -> None:
    assert fill(lp.connect("memory:", warehouse=tmp_path)).name == "shop.orders"
    assert lp.connect("memory:", warehouse=tmp_path).namespaces() == []


def test_files_beside_the_warehouse_are_opened_only_if_named(tmp_path: Path) -> None:
    """A metadata file of a stranger could make us read any file of this machine."""
    elsewhere, home = tmp_path / "elsewhere", tmp_path / "wh"
    found = fill(lp.connect("memory:", warehouse=elsewhere)).metadata_location
    lake = lp.connect("memory:", warehouse=home)
    lake.create_namespace("shop")
    with pytest.raises(InvalidLocation):
        lake.register_table("shop.orders", found)
    assert lake.tables() == []
    lake = lp.connect("memory:", warehouse=home, locations=[str(elsewhere)])
    lake.create_namespace("shop")
    assert lake.register_table("shop.orders", found).location == f"{elsewhere}/shop/orders"


@pytest.mark.parametrize("target", ["ftp://host/x", "s3:/bucket", "", "warehouse\0", "http://"])
def test_what_cannot_be_reached_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LakeplaneError):
        lp.connect(target).tables()


def test_a_misspelled_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeplaneError, match=r"s3\.endpiont"):
        misspelled: dict[str, Any] = {"s3.endpiont": "http://localhost"}
        lp.connect("s3://bucket/lake", **misspelled)
    del tmp_path


def test_the_warehouse_of_a_directory_is_not_made_before_it_is_needed(tmp_path: Path) -> None:
    lake = lp.connect(tmp_path / "wh")
    assert (lake.namespaces(), lake.tables(), lake.views()) == ([], [], [])
    with pytest.raises(NotFound):
        lake.table("a.b")
    assert not (tmp_path / "wh").exists()


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    secret = "s3cret-canary"  # noqa: S105
    with pytest.raises(LakeplaneError) as failure:
        lp.connect(f"postgresql+psycopg://u:{secret}@127.0.0.1:1/d", warehouse=tmp_path).namespaces()
    assert secret not in str(failure.value) + repr(failure.value)
    options: dict[str, Any] = {
        "s3.secret-access-key": secret,
        "s3.access-key-id": "me",
        "s3.region": "eu",
    }
    lake = lp.connect("s3://bucket/lake", **options)
    assert secret not in repr(lake) + str(vars(lake)) + str(vars(lake._catalog))


def test_connecting_to_a_directory_loads_no_database_http_or_sql_parser(tmp_path: Path) -> None:
    script = (
        "import sys, lakeplane as lp; lp.connect(sys.argv[1]).namespaces(); "
        "print(sorted(sys.modules.keys() & {'sqlalchemy', 'httpx', 'sqlglot', 'pyarrow', 'pyspark'}))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=dict(os.environ), cwd=REPOSITORY
    )
    assert done.stdout.strip() == "[]"
