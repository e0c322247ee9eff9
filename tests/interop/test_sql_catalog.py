"""PyIceberg and lakeplane share a SQL catalog in one file: each sees and changes what the other made."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeplane.catalog.names import Name
from lakeplane.catalog.pointers import Swap
from lakeplane.catalog.sql import SqlPointers
from lakeplane.errors import AlreadyExists, NamespaceNotEmpty
from tests.interop.peers import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = Name(("plain",), "orders")


@pytest.fixture
def question(tmp_path: Path) -> dict[str, Any]:
    return {"file": str(tmp_path / "catalog.db"), "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def pointers(question: dict[str, Any]) -> Iterator[SqlPointers]:
    url = f"sqlite:///{question['file']}"
    with contextlib.closing(SqlPointers(url, catalog_name="shared")) as found:
        yield found


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def written_anew(location: str, key: str) -> str:
    """The metadata file that sets one more property, beside another one."""
    metadata = json.loads(local(location).read_text())
    metadata["properties"][key] = "done"
    metadata["last-updated-ms"] += 1
    new = local(location).with_name(f"99999-{key}.metadata.json")
    new.write_text(json.dumps(metadata))
    return f"file://{new}"


def test_what_pyiceberg_made_is_read(question: dict[str, Any], pointers: SqlPointers) -> None:
    made = ask("pyiceberg_sql_catalog", {**question, "do": "make"})
    found = {"/".join(each): dict(pointers.namespace(each)) for each in pointers.namespaces()}
    theirs = {
        name: {key: value for key, value in properties.items() if key != "exists"}
        for name, properties in made["namespaces"].items()
    }
    assert found == theirs
    assert set(found) == {"plain", "rich", "outer", "outer/inner"}
    locations = {
        "/".join(name.parts): pointers.get("table", name)
        for each in pointers.namespaces()
        for name in pointers.names("table", each)
    }
    assert locations == {name: facts[0] for name, facts in made["tables"].items()}
    assert set(locations) == {"plain/orders", "rich/o%_'rders", "outer/inner/deep"}
    with pytest.raises(AlreadyExists):
        pointers.create_namespace(("plain",), {})
    with pytest.raises(NamespaceNotEmpty):
        pointers.drop_namespace(("outer",))


def test_what_we_make_is_read_by_pyiceberg(question: dict[str, Any], pointers: SqlPointers) -> None:
    ask("pyiceberg_sql_catalog", {**question, "do": "make"})
    now = pointers.get("table", ORDERS)
    assert now is not None
    pointers.create_namespace(("ours", "in"), {"k": "v"})
    pointers.create_namespace(("our_",), {})
    created, changed = written_anew(now, "created"), written_anew(now, "changed")
    assert pointers.swap(
        [
            Swap("table", Name(("ours", "in"), "t%_"), None, created),
            Swap("table", ORDERS, now, changed),
            Swap("view", Name(("ours", "in"), "a view"), None, "file:///none.json"),
        ]
    )
    pointers.rename("table", Name(("outer", "inner"), "deep"), Name(("our_",), "moved"))
    pointers.change_namespace(("rich",), {"added": "x"}, ["owner"])
    told = ask("pyiceberg_sql_catalog", {**question, "do": "tell"})
    assert set(told["namespaces"]) == {"plain", "rich", "outer", "outer/inner", "ours", "ours/in", "our_"}
    assert told["namespaces"]["rich"] == {"exists": "true", "added": "x", "ü": "é"}
    assert told["namespaces"]["ours/in"] == {"exists": "true", "k": "v"}
    assert set(told["tables"]) == {"plain/orders", "rich/o%_'rders", "our_/moved", "ours/in/t%_"}
    assert told["tables"]["ours/in/t%_"][:2] == [created, ["id"]]
    assert told["tables"]["plain/orders"][2]["changed"] == "done"
    told = ask("pyiceberg_sql_catalog", {**question, "do": "change", "table": "ours.in.t%_", "times": 1})
    assert pointers.get("table", Name(("ours", "in"), "t%_")) == told["tables"]["ours/in/t%_"][0] != created


def test_a_catalog_that_we_made_is_used_by_pyiceberg(question: dict[str, Any], pointers: SqlPointers) -> None:
    pointers.create_namespace(("first",), {})
    told = ask("pyiceberg_sql_catalog", {**question, "do": "make"})
    assert told["namespaces"]["first"] == {"exists": "true"}
    assert ask("pyiceberg_sql_catalog", {**question, "do": "tell", "name": "another"})["namespaces"] == {}


def test_both_commit_to_one_table_and_nothing_is_lost(
    question: dict[str, Any], pointers: SqlPointers
) -> None:
    ask("pyiceberg_sql_catalog", {**question, "do": "make"})
    answers: list[dict[str, Any]] = []
    asking = {**question, "do": "change", "table": "plain.orders", "times": 25}
    peer = threading.Thread(target=lambda: answers.append(ask("pyiceberg_sql_catalog", asking)))
    peer.start()
    ours: list[str] = []
    while peer.is_alive() or len(ours) < 25:
        now = pointers.get("table", ORDERS)
        assert now is not None
        key = f"ours{len(ours)}"
        if pointers.swap([Swap("table", ORDERS, now, written_anew(now, key))]):
            ours.append(key)
        peer.join(0.01)
    [answer] = answers
    assert len(answer["done"]) == 25
    last = pointers.get("table", ORDERS)
    assert last is not None
    properties = json.loads(local(last).read_text())["properties"]
    assert [key for key in [*ours, *answer["done"]] if properties.get(key) != "done"] == []
