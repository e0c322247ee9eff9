"""SQL catalogs: pointers swap all or none, names are what they say, and every ending is told as it was."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import re
import socket
import sqlite3
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, make_url
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.names import Name
from lakeplane.catalog.pointers import Swap
from lakeplane.catalog.sql import SqlPointers
from lakeplane.catalog.sql_tables import TABLES, plain, same
from lakeplane.catalog.sql_trouble import Clash
from lakeplane.errors import (
    AlreadyExists,
    CatalogCannot,
    CatalogError,
    CatalogUnavailable,
    InvalidInput,
    LakeplaneError,
    NamespaceNotEmpty,
    NotFound,
    OutcomeUnknown,
)
from tests.catalog import postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeplane.catalog.pointers import Pointers

ORDERS = Name(("shop",), "orders")
ITEMS = Name(("shop",), "items")

JAVA_V0 = """CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,
table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000),
previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))"""
JAVA_PROPERTIES = """CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,
namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),
PRIMARY KEY (catalog_name, namespace, property_key))"""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(postgres.postgres())
        except postgres.CannotStart as reason:
            pytest.skip(f"NO POSTGRESQL, so it is not tested: {reason}")
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[postgres.Server]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(postgres.mariadb())
        except postgres.CannotStart as reason:
            pytest.skip(f"NO MARIADB, so MySQL is not tested: {reason}")
        yield server


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    server: postgres.Server = request.getfixturevalue(f"{request.param}_server")
    return server.new_database()


@pytest.fixture
def opened() -> Iterator[Callable[..., SqlPointers]]:
    """Open pointers that are closed after the test."""
    with contextlib.ExitStack() as stack:

        def open_pointers(url: str, **options: Any) -> SqlPointers:
            return stack.enter_context(contextlib.closing(SqlPointers(url, **options)))

        yield open_pointers


@pytest.fixture
def pointers(url: str, opened: Callable[..., SqlPointers]) -> SqlPointers:
    """A catalog with a namespace and a table."""
    made = opened(url)
    made.create_namespace(("shop",), {"owner": "me"})
    assert made.swap([Swap("table", ORDERS, None, "m0")])
    return made


def run(url: str, *statements: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.exec_driver_sql(query)]
    engine.dispose()
    return found


# What a swap does


def test_a_swap_happens_once(pointers: SqlPointers, url: str) -> None:
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1")])
    assert not pointers.swap([Swap("table", ORDERS, "m0", "m2")])
    assert not pointers.swap([Swap("table", ORDERS, "M1", "m2")])
    assert not pointers.swap([Swap("table", ORDERS, None, "m2")])
    assert not pointers.swap([Swap("view", ORDERS, "m1", "m2")])
    assert pointers.get("table", ORDERS) == "m1"
    assert rows(url, "SELECT * FROM iceberg_tables") == [("lakeplane", "shop", "orders", "m1", "m0", "TABLE")]


def test_swaps_of_several_tables_happen_all_or_none(pointers: SqlPointers) -> None:
    create = Swap("table", ITEMS, None, "i0")
    assert not pointers.swap([create, Swap("table", ORDERS, "stale", "m1")])
    assert pointers.get("table", ITEMS) is None
    with pytest.raises(NotFound):
        pointers.swap(
            [create, Swap("table", ORDERS, "m0", "m1"), Swap("table", Name(("no",), "t"), None, "x")]
        )
    assert (pointers.get("table", ITEMS), pointers.get("table", ORDERS)) == (None, "m0")
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1"), create])
    assert (pointers.get("table", ITEMS), pointers.get("table", ORDERS)) == ("i0", "m1")
    with pytest.raises(InvalidInput, match="twice"):
        pointers.swap([Swap("table", ORDERS, "m1", "m2"), Swap("table", ORDERS, "m2", "m3")])
    assert pointers.swap([])


def test_who_is_in_the_way_of_a_swap_has_not_moved_its_pointer(
    pointers: SqlPointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a deadlock a name was said to be taken, and nobody had it."""
    move, turns = SqlPointers._move, [Clash, Clash]

    def meet(*given: Any) -> None:
        if turns:
            raise turns.pop()
        move(*given)

    monkeypatch.setattr(SqlPointers, "_move", meet)
    assert pointers.swap([Swap("table", ITEMS, None, "i0")])
    assert pointers.get("table", ITEMS) == "i0"


def test_a_pointer_that_is_to_stay_holds_the_others_back(pointers: SqlPointers, url: str) -> None:
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1"), Swap("table", ITEMS, None, "m0")])
    move = Swap("table", ITEMS, "m0", "m1")
    assert not pointers.swap([Swap("table", ORDERS, "m0", "m0"), move])
    assert not pointers.swap([Swap("view", ORDERS, "m1", "m1"), move])
    assert pointers.get("table", ITEMS) == "m0"
    assert pointers.swap([Swap("table", ORDERS, "m1", "m1"), move])
    found = rows(url, "SELECT metadata_location, previous_metadata_location FROM iceberg_tables")
    assert found == [("m1", "m0")] * 2


def test_a_name_is_one_for_tables_and_views(pointers: SqlPointers) -> None:
    view = Name(("shop",), "totals")
    assert pointers.swap([Swap("view", view, None, "v0")])
    assert not pointers.swap([Swap("table", view, None, "t0")])
    assert not pointers.swap([Swap("view", ORDERS, None, "v0")])
    assert pointers.get("view", view) == "v0"
    assert pointers.get("table", view) is None
    assert pointers.names("view", ("shop",)) == [view]
    assert pointers.names("table", ("shop",)) == [ORDERS]
    with pytest.raises(AlreadyExists):
        pointers.rename("view", view, ORDERS)
    with pytest.raises(NotFound):
        pointers.drop("table", view)
    pointers.drop("view", view)
    assert pointers.swap([Swap("table", view, None, "t0")])


def test_renames(pointers: SqlPointers) -> None:
    with pytest.raises(NotFound, match="namespace"):
        pointers.rename("table", ORDERS, Name(("no",), "orders"))
    with pytest.raises(NotFound, match="table"):
        pointers.rename("table", ITEMS, Name(("shop",), "other"))
    with pytest.raises(AlreadyExists):
        pointers.rename("table", ORDERS, ORDERS)
    pointers.create_namespace(("archive", "old"), {})
    pointers.rename("table", ORDERS, Name(("archive", "old"), "Orders"))
    assert pointers.get("table", ORDERS) is None
    assert pointers.get("table", Name(("archive", "old"), "Orders")) == "m0"


# Namespaces


def test_namespaces_with_their_parents(pointers: SqlPointers, url: str) -> None:
    pointers.create_namespace(("a", "b", "c"), {})
    assert pointers.namespaces() == [("a",), ("a", "b"), ("a", "b", "c"), ("shop",)]
    assert pointers.namespace(("a",)) == {}
    for taken in (("shop",), ("a", "b"), ("a", "b", "c")):
        with pytest.raises(AlreadyExists):
            pointers.create_namespace(taken, {})
    assert sorted(
        rows(url, "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties")
    ) == [
        ("a.b.c", "exists", "true"),
        ("shop", "exists", "true"),
        ("shop", "owner", "me"),
    ]
    for missing in (("b",), ("a", "c"), ("A",), ()):
        with pytest.raises(NotFound):
            pointers.namespace(missing)
        with pytest.raises(NotFound):
            pointers.names("table", missing)


def test_properties_of_a_namespace(pointers: SqlPointers) -> None:
    assert pointers.namespace(("shop",)) == {"owner": "me"}
    pointers.change_namespace(("shop",), {"a": "1", "Owner": "you"}, ["owner", "not there"])
    assert pointers.namespace(("shop",)) == {"a": "1", "Owner": "you"}
    pointers.change_namespace(("shop",), {"a": "2"}, ["Owner"])
    pointers.change_namespace(("shop",), {}, ["a", "exists"])
    assert pointers.namespace(("shop",)) == {}
    pointers.create_namespace(("x", "y"), {})
    pointers.change_namespace(("x",), {"k": "v"}, [])
    pointers.drop_namespace(("x", "y"))
    assert pointers.namespace(("x",)) == {"k": "v"}
    with pytest.raises(NotFound):
        pointers.change_namespace(("no",), {"k": "v"}, [])
    with pytest.raises(InvalidInput, match="themselves"):
        pointers.create_namespace(("z",), {"exists": "false"})


def test_the_last_property_takes_no_namespace_of_pyiceberg_with_it(pointers: SqlPointers, url: str) -> None:
    run(url, "INSERT INTO iceberg_namespace_properties VALUES ('lakeplane', 'peer', 'k', 'v')")
    pointers.change_namespace(("peer",), {}, ["k"])
    assert pointers.namespace(("peer",)) == {}


def test_only_an_empty_namespace_is_dropped(pointers: SqlPointers) -> None:
    pointers.create_namespace(("shop2",), {})
    pointers.create_namespace(("parent", "child"), {})
    for full in (("shop",), ("parent",)):
        with pytest.raises(NamespaceNotEmpty):
            pointers.drop_namespace(full)
    assert pointers.namespace(("shop",)) == {"owner": "me"}
    pointers.drop("table", ORDERS)
    pointers.drop_namespace(("shop",))
    assert pointers.namespaces() == [("parent",), ("parent", "child"), ("shop2",)]
    with pytest.raises(NotFound):
        pointers.drop_namespace(("shop",))
    with pytest.raises(NotFound):
        pointers.swap([Swap("table", ORDERS, None, "m0")])


def test_catalogs_in_one_database_do_not_see_each_other(
    pointers: SqlPointers, url: str, opened: Callable[..., SqlPointers], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        other = opened(url, catalog_name="Lakeplane")
        assert other.namespaces() == []
    assert "but 'lakeplane'" in caplog.text
    other.create_namespace(("shop",), {})
    assert other.swap([Swap("table", ORDERS, None, "other")])
    other.drop("table", ORDERS)
    other.drop_namespace(("shop",))
    assert pointers.get("table", ORDERS) == "m0"
    assert pointers.namespace(("shop",)) == {"owner": "me"}


# Names

TWINS = [
    "orders",
    "Orders",
    "ORDERS",
    "order_",
    "order%",
    "orderss",
    "o'rders",
    'o"rders',
    "o`rders",
    "ordérs",
]
TWINS += [
    "orde\u0301rs",
    "ß",
    "ss",
    "\u017fs",
    "表",
    "💧",
    "a\\b",
    "a b",
    "--",
    "; DROP TABLE iceberg_tables",
    ":x",
    "%s",
]
TWINS += ["%(x)s", "?", "a!_b", "NULL", "\u0131", "i"]


def test_names_that_look_like_others_are_others(pointers: SqlPointers) -> None:
    names = [Name(("shop",), each) for each in TWINS if each != "orders"]
    for name in names:
        assert pointers.get("table", name) is None, name
        pointers.create_namespace((name.name,), {name.name: name.name})
        assert pointers.swap([Swap("table", name, None, f"at {name.name}")]), name
    assert pointers.names("table", ("shop",)) == sorted([*names, ORDERS])
    assert pointers.namespaces() == sorted([(name.name,) for name in names] + [("shop",)])
    for name in names:
        assert pointers.namespace((name.name,)) == {name.name: name.name}
        assert pointers.get("table", name) == f"at {name.name}"
        assert not pointers.swap([Swap("table", name, f"AT {name.name}", "x")])
        pointers.rename("table", name, Name((name.name,), name.name))
    assert pointers.names("table", ("shop",)) == [ORDERS]
    for name in names:
        pointers.drop("table", Name((name.name,), name.name))
        pointers.drop_namespace((name.name,))
    assert pointers.namespaces() == [("shop",)]


def test_a_namespace_is_no_prefix_or_pattern(pointers: SqlPointers) -> None:
    """A drop of `test` took the tables of `test2` along (lakekeeper #921)."""
    for each in (("test2",), ("aXb", "in"), ("test2", "test"), ("a%", "in")):
        pointers.create_namespace(each, {})
    for missing in (("test",), ("a_b",), ("a_",), ("%",), ("a%b",)):
        with pytest.raises(NotFound):
            pointers.namespace(missing)
        pointers.create_namespace(missing, {})
        pointers.drop_namespace(missing)


def test_files_that_names_stand_for_are_found_by_their_very_text(pointers: SqlPointers) -> None:
    for name, at in (("a", "s3://b/m_1.json"), ("b", "s3://b/M_1.json"), ("c", "s3://b/it's.json")):
        assert pointers.swap([Swap("table", Name(("shop",), name), None, at)])
    asked = ["s3://b/m_1.json", "s3://b/it's.json", "s3://b/mX1.json", "s3://b/m%", *map(str, range(1200))]
    assert pointers.named(asked) == {"s3://b/m_1.json", "s3://b/it's.json"}
    assert pointers.named([]) == set()


def test_names_that_would_be_two_in_the_database_are_refused(pointers: SqlPointers) -> None:
    for name in ("a.b", "", ".", "a."):
        with pytest.raises(InvalidInput, match="part of a namespace"):
            pointers.create_namespace((name,), {})
        with pytest.raises(InvalidInput):
            pointers.get("table", Name(("shop", name), "t"))
    for text in ("x" * 256, "a\0b", "\ud800"):
        with pytest.raises(InvalidInput):
            pointers.create_namespace((text,), {})
        with pytest.raises(InvalidInput):
            pointers.swap([Swap("table", Name(("shop",), text), None, "m")])
    for text in ("a\0b", "\ud800"):
        with contextlib.suppress(InvalidInput):
            assert pointers.get("table", Name(("shop",), text)) is None
    with pytest.raises(InvalidInput, match="1001 characters"):
        pointers.swap([Swap("table", ORDERS, "m0", "x" * 1001)])
    with pytest.raises(InvalidInput, match="value of 'k'"):
        pointers.create_namespace(("fine",), {"k": "x" * 1001})
    assert pointers.swap([Swap("table", Name(("shop",), "表" * 255), None, "x" * 1000)])


parts = st.sampled_from(["a", "A", "b", "a_", "a%", "aX"])
namespaces = st.lists(parts, min_size=1, max_size=3).map(tuple)
names = st.builds(Name, namespaces, parts)
kinds = st.sampled_from(["table", "view"])
locations = st.sampled_from([None, "1", "2"])
swaps = st.builds(Swap, kinds, names, locations, st.sampled_from(["1", "2"]))
properties = st.dictionaries(parts, parts, max_size=2)
steps = st.one_of(
    st.tuples(st.just("create_namespace"), namespaces, properties),
    st.tuples(st.just("change_namespace"), namespaces, properties, st.lists(parts, max_size=2)),
    st.tuples(st.just("drop_namespace"), namespaces),
    st.tuples(st.just("namespace"), namespaces),
    st.tuples(st.just("names"), kinds, namespaces),
    st.tuples(
        st.just("swap"),
        st.lists(swaps, max_size=2, unique_by=lambda s: s.name).map(
            lambda s: sorted(s, key=lambda s: s.name)
        ),
    ),
    st.tuples(st.just("rename"), kinds, names, names),
    st.tuples(st.just("drop"), kinds, names),
)


def outcome(pointers: Pointers, step: tuple[Any, ...]) -> object:
    try:
        return getattr(pointers, step[0])(*step[1:])
    except CatalogError as problem:
        return type(problem)


@given(st.lists(steps, max_size=30))
def test_any_history_is_that_of_the_memory_catalog(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[Any, ...]]
) -> None:
    model = MemoryPointers()
    with contextlib.closing(SqlPointers(f"sqlite:///{tmp_path_factory.mktemp('sql')}/c.db")) as pointers:
        for step in history:
            assert outcome(pointers, step) == outcome(model, step), step
            assert pointers.namespaces() == model.namespaces()


# Many writers


def climb(url: str, writer: int, moves: int) -> list[tuple[str, str]]:
    """Move one pointer until it has been moved often enough, and tell each move."""
    with contextlib.closing(SqlPointers(url)) as pointers:
        return _climb(pointers, writer, moves)


def _climb(pointers: SqlPointers, writer: int, moves: int) -> list[tuple[str, str]]:
    done: list[tuple[str, str]] = []
    while len(done) < moves:
        now = pointers.get("table", ORDERS)
        assert now is not None
        new = f"{writer}-{len(done)}"
        if pointers.swap([Swap("table", ORDERS, now, new)]):
            done.append((now, new))
    return done


def check_history(done: list[tuple[str, str]], last: str | None) -> None:
    """Every acknowledged move is in the one history exactly once."""
    after = dict(done)
    assert len(after) == len(done)
    at, steps = "m0", 0
    while at in after:
        at, steps = after[at], steps + 1
    assert (at, steps) == (last, len(done))


def test_eight_processes_lose_no_swap(pointers: SqlPointers, url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        found = pool.starmap(climb, [(url, writer, 50) for writer in range(8)])
    check_history([move for moves in found for move in moves], pointers.get("table", ORDERS))


def test_eight_threads_share_one_catalog(pointers: SqlPointers) -> None:
    found: list[list[tuple[str, str]]] = []
    threads = [
        threading.Thread(target=lambda writer=writer: found.append(_climb(pointers, writer, 20)))
        for writer in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    check_history([move for moves in found for move in moves], pointers.get("table", ORDERS))


def test_a_fork_shares_no_connection(pointers: SqlPointers) -> None:
    """A connection that a child inherits breaks the locks of SQLite, and a server's session ends with it."""
    stop = threading.Event()
    mine: list[tuple[str, str]] = []

    def work() -> None:
        while not stop.is_set():
            mine.extend(_climb_once(pointers, f"parent-{len(mine)}"))

    thread = threading.Thread(target=work)
    thread.start()
    reports = []
    try:
        for child in range(6):
            reading, writing = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process = os.fork()
            if not process:
                text = "failed"
                with contextlib.suppress(BaseException):
                    text = ";".join(f"{a},{b}" for a, b in _climb(pointers, child, 5))
                os.write(writing, text.encode())
                os._exit(0)
            os.close(writing)
            reports.append((process, reading))
    finally:
        time.sleep(0.2)
        stop.set()
        thread.join()
    for process, reading in reports:
        with os.fdopen(reading) as pipe:
            mine += [(a, b) for a, b in (move.split(",") for move in pipe.read().split(";"))]
        os.waitpid(process, 0)
    check_history(mine, pointers.get("table", ORDERS))


def open_files() -> set[str]:
    """What the file descriptors of this process lead to, besides pipes."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(each.readlink()))
    return {each for each in found if not each.startswith("pipe")}


def test_at_a_fork_no_connection_is_open(url: str, opened: Callable[..., SqlPointers]) -> None:
    before = open_files()
    pointers = opened(url)
    pointers.create_namespace(("shop",), {})
    assert {each for each in open_files() - before if "/proc/" not in each}
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        left = sorted(each for each in open_files() - before if "/proc/" not in each)
        os.write(writing, repr(left).encode())
        os._exit(0)
    os.waitpid(process, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "[]"
    assert pointers.namespaces() == [("shop",)]


def _climb_once(pointers: SqlPointers, new: str) -> list[tuple[str, str]]:
    now = pointers.get("table", ORDERS)
    assert now is not None
    return [(now, new)] if pointers.swap([Swap("table", ORDERS, now, new)]) else []


def move_pairs(url: str, writer: int, moves: int) -> int:
    """Move two pointers together, named in either order."""
    done = 0
    with contextlib.closing(SqlPointers(url)) as pointers:
        while done < moves:
            pair = [(name, pointers.get("table", name)) for name in (ORDERS, ITEMS)]
            new = f"{writer}-{done}"
            order = pair if writer % 2 else pair[::-1]
            done += pointers.swap([Swap("table", name, now, new) for name, now in order])
    return done


def test_commits_to_two_tables_stay_together(pointers: SqlPointers, url: str) -> None:
    assert pointers.swap([Swap("table", ITEMS, None, "m0")])
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.starmap(move_pairs, [(url, writer, 25) for writer in range(4)]) == [25] * 4
    assert pointers.get("table", ORDERS) == pointers.get("table", ITEMS)


def make(url: str, writer: int) -> tuple[int, int]:
    """Make the tables of the catalog, a namespace and a table at the same moment as others do."""
    with contextlib.closing(SqlPointers(url)) as pointers:
        made = 0
        with contextlib.suppress(AlreadyExists):
            pointers.create_namespace(("shop",), {"owner": str(writer)})
            made = 1
        return made, pointers.swap([Swap("table", ORDERS, None, str(writer))])


def test_of_many_that_begin_at_once_one_makes_the_table(url: str, opened: Callable[..., SqlPointers]) -> None:
    with multiprocessing.get_context("spawn").Pool(6) as pool:
        found = pool.starmap(make, [(url, writer) for writer in range(6)])
    assert [sum(column) for column in zip(*found, strict=True)] == [1, 1]
    pointers = opened(url)
    assert pointers.get("table", ORDERS) == str([made for _, made in found].index(True))
    assert pointers.namespace(("shop",)) == {"owner": str([made for made, _ in found].index(1))}


def use_and_drop(url: str, writer: int) -> str:
    """Make tables in a namespace that others drop all the time."""
    with contextlib.closing(SqlPointers(url)) as pointers:
        name = Name(("busy",), f"t{writer}")
        for _ in range(30):
            with contextlib.suppress(AlreadyExists):
                pointers.create_namespace(("busy",), {"k": "v"})
            try:
                if pointers.swap([Swap("table", name, None, "m")]):
                    if pointers.namespace(("busy",)) != {"k": "v"}:
                        return "the namespace was dropped under a table"
                    pointers.drop("table", name)
            except NotFound:
                pass
            with contextlib.suppress(NotFound, NamespaceNotEmpty):
                pointers.drop_namespace(("busy",))
    return ""


def test_no_namespace_is_dropped_while_a_table_is_made_in_it(pointers: SqlPointers, url: str) -> None:
    pointers.close()
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.starmap(use_and_drop, [(url, writer) for writer in range(4)]) == [""] * 4


def test_properties_that_are_set_at_once_are_all_kept(pointers: SqlPointers) -> None:
    def work(writer: int) -> None:
        for step in range(10):
            pointers.change_namespace(("shop",), {f"{writer}": str(step), "both": str(writer)}, [])

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = pointers.namespace(("shop",))
    assert {key: found[key] for key in "0123"} == dict.fromkeys("0123", "9")


# When the database fails


def test_a_failure_before_commit_is_told_as_unknown(pointers: SqlPointers) -> None:
    engine = pointers._database.engine()

    def fail(_connection: object) -> None:
        raise MemoryError

    event.listen(engine, "commit", fail)
    with pytest.raises(OutcomeUnknown):
        pointers.swap([Swap("table", ORDERS, "m0", "m1")])
    event.remove(engine, "commit", fail)
    assert pointers.get("table", ORDERS) == "m0"
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1")])


def test_a_failure_after_commit_is_told_as_unknown(
    pointers: SqlPointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect = pointers._database.engine().dialect
    commit = dialect.do_commit

    def fail(connection: Any) -> None:
        commit(connection)
        raise dialect.loaded_dbapi.OperationalError("the server closed the connection")

    for work in (
        lambda: pointers.swap([Swap("table", ORDERS, "m0", "m1")]),
        lambda: pointers.rename("table", ORDERS, ITEMS),
        lambda: pointers.drop("table", ITEMS),
        lambda: pointers.create_namespace(("new",), {}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(dialect, "do_commit", fail)
            with pytest.raises(OutcomeUnknown, match="closed the connection"):
                work()
    assert pointers.names("table", ("shop",)) == []
    assert pointers.namespaces() == [("new",), ("shop",)]


def test_locks_that_others_hold_are_waited_for_and_given_up(
    pointers: SqlPointers, url: str, opened: Callable[..., SqlPointers]
) -> None:
    assert pointers.get("table", ORDERS) == "m0"
    impatient = opened(url, timeout=1)
    assert impatient.get("table", ORDERS) == "m0"
    engine = create_engine(url)
    with engine.connect() as other:
        if url.startswith("sqlite"):
            other.exec_driver_sql("BEGIN IMMEDIATE")
        other.exec_driver_sql("UPDATE iceberg_tables SET previous_metadata_location = 'x'")
        began = time.monotonic()
        with pytest.raises(CatalogUnavailable, match="locked by others for 1 s"):
            impatient.swap([Swap("table", ORDERS, "m0", "m1")])
        assert 0.5 < time.monotonic() - began < 10
        assert impatient.get("table", ORDERS) == "m0"
        other.rollback()
    engine.dispose()
    assert impatient.swap([Swap("table", ORDERS, "m0", "m1")])


def test_a_commit_that_sqlite_refuses_has_changed_nothing(
    tmp_path: Path, opened: Callable[..., SqlPointers]
) -> None:
    path = tmp_path / "catalog.db"
    with contextlib.closing(sqlite3.connect(path)) as reader:
        reader.execute(JAVA_V0)
        reader.execute(JAVA_PROPERTIES)
        reader.execute("INSERT INTO iceberg_tables VALUES ('lakeplane', 'shop', 'orders', 'm0', NULL)")
        reader.commit()
        # Holds on to the journal that lets no writer commit beside a reader.
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        pointers = opened(f"sqlite:///{path}", timeout=0.3)
        with pytest.raises(CatalogUnavailable, match="locked"):
            pointers.swap([Swap("table", ORDERS, "m0", "m1")])
        assert pointers.get("table", ORDERS) == "m0"
        reader.rollback()
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1")])


def trigger(code: str, when: str) -> tuple[str, str]:
    deferred = "DEFERRABLE INITIALLY DEFERRED" if "AFTER" in when else ""
    body = f"BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '{code}'; END"
    function = f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
    return function, f"CREATE {when} ON iceberg_tables {deferred} FOR EACH ROW EXECUTE FUNCTION fail()"


@pytest.mark.parametrize("when", ["TRIGGER fail BEFORE UPDATE", "CONSTRAINT TRIGGER fail AFTER UPDATE"])
@pytest.mark.parametrize(
    ("code", "before", "at_commit"),
    [
        ("40001", False, False),
        ("40P01", False, False),
        ("40003", CatalogUnavailable, OutcomeUnknown),
        ("P0001", CatalogUnavailable, OutcomeUnknown),
    ],
)
def test_what_postgres_says_at_a_statement_and_at_commit(
    *,
    postgres_server: postgres.Server,
    opened: Callable[..., SqlPointers],
    when: str,
    code: str,
    before: object,
    at_commit: object,
) -> None:
    url = postgres_server.new_database()
    pointers = opened(url)
    pointers.create_namespace(("shop",), {})
    assert pointers.swap([Swap("table", ORDERS, None, "m0")])
    run(url, *trigger(code, when))
    try:
        found: object = pointers.swap([Swap("table", ORDERS, "m0", "m1")])
    except LakeplaneError as problem:
        found = type(problem)
    assert found == (at_commit if "AFTER" in when else before)
    assert pointers.get("table", ORDERS) == "m0"


NEVER = re.compile(rb"(?!)")


class Proxy:
    """Stands between a client and a server, and cuts the line at certain words of the client."""

    def __init__(self, port: int) -> None:
        self._server = port
        self.word = NEVER
        self.deliver = True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._carry, args=(source, target, source is client), daemon=True
                    ).start()

    def _carry(self, source: socket.socket, target: socket.socket, watched: bool) -> None:  # noqa: FBT001
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if watched and self.word.search(data):
                    # Nothing of the answer may pass.
                    source.shutdown(socket.SHUT_RDWR)
                    if self.deliver:
                        target.sendall(data)
                        time.sleep(0.2)
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listening.close()


@pytest.mark.parametrize(
    ("word", "deliver", "error", "now"),
    [
        (rb"COMMIT(?!TED)", True, OutcomeUnknown, "m1"),
        (rb"COMMIT(?!TED)", False, OutcomeUnknown, "m0"),
        (b"UPDATE iceberg_tables", True, CatalogUnavailable, "m0"),
        (b"UPDATE iceberg_tables", False, CatalogUnavailable, "m0"),
    ],
)
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_lost_connection(
    *,
    request: pytest.FixtureRequest,
    opened: Callable[..., SqlPointers],
    kind: str,
    word: bytes,
    deliver: bool,
    error: type[LakeplaneError],
    now: str,
) -> None:
    server: postgres.Server = request.getfixturevalue(f"{kind}_server")
    url = server.new_database()
    with contextlib.closing(Proxy(server.port)) as proxy:
        proxied = make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        pointers = opened(proxied)
        pointers.create_namespace(("shop",), {})
        assert pointers.swap([Swap("table", ORDERS, None, "m0")])
        proxy.word, proxy.deliver = re.compile(word), deliver
        with pytest.raises(error):
            pointers.swap([Swap("table", ORDERS, "m0", "m1")])
        proxy.word = NEVER
        assert pointers.get("table", ORDERS) == opened(url).get("table", ORDERS) == now
        assert pointers.swap([Swap("table", ORDERS, now, "m2")])


def test_a_server_that_came_back_is_used_again(
    postgres_server: postgres.Server, opened: Callable[..., SqlPointers]
) -> None:
    url = postgres_server.new_database()
    pointers = opened(url)
    pointers.create_namespace(("shop",), {})
    run(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND datname = current_database()",
    )
    assert pointers.swap([Swap("table", ORDERS, None, "m0")])


# The old schema, and what other programs make


def test_a_catalog_of_the_old_schema(url: str, opened: Callable[..., SqlPointers]) -> None:
    run(url, JAVA_V0, JAVA_PROPERTIES)
    run(url, "INSERT INTO iceberg_tables VALUES ('lakeplane', 'shop', 'orders', 'm0', NULL)")
    pointers, other = opened(url), opened(url)
    assert pointers.namespaces() == [("shop",)]
    assert pointers.swap([Swap("table", ORDERS, "m0", "m1"), Swap("table", ITEMS, None, "i0")])
    assert pointers.names("view", ("shop",)) == []
    view = Name(("shop",), "totals")
    assert pointers.get("view", view) is None
    with pytest.raises(CatalogCannot, match="upgrade"):
        pointers.swap([Swap("view", view, None, "v0")])
    pointers.rename("table", ITEMS, Name(("shop",), "things"))
    other.upgrade()
    other.upgrade()
    assert other.swap([Swap("view", view, None, "v0")])
    assert pointers.get("table", view) is None
    assert pointers.get("view", view) == "v0"
    assert pointers.names("table", ("shop",)) == [ORDERS, Name(("shop",), "things")]
    assert pointers.swap([Swap("table", ORDERS, "m1", "m2")])
    pointers.drop("table", Name(("shop",), "things"))


def test_tables_of_mysql_that_take_case_twins_for_one(
    mariadb_server: postgres.Server, opened: Callable[..., SqlPointers]
) -> None:
    url = mariadb_server.new_database()
    run(url, JAVA_V0.replace("255", "190"), JAVA_PROPERTIES.replace("255", "190"))
    pointers = opened(url)
    pointers.create_namespace(("shop",), {})
    assert pointers.swap([Swap("table", ORDERS, None, "m0")])
    twin = Name(("shop",), "Orders")
    assert pointers.get("table", twin) is None
    assert not pointers.swap([Swap("table", twin, None, "m0")])
    assert not pointers.swap([Swap("table", twin, "m0", "m1")])
    assert not pointers.swap([Swap("table", ORDERS, "M0", "m1")])
    with pytest.raises(NotFound):
        pointers.drop("table", twin)
    with pytest.raises(NotFound):
        pointers.namespace(("Shop",))
    pointers.rename("table", ORDERS, twin)
    assert pointers.get("table", twin) == "m0"


def test_tables_that_somebody_else_is_to_make(url: str, opened: Callable[..., SqlPointers]) -> None:
    careful = opened(url, create_tables=False)
    with pytest.raises(CatalogUnavailable, match="has no iceberg_tables and iceberg_namespace_properties"):
        careful.namespaces()
    opened(url).create_namespace(("shop",), {})
    assert careful.namespaces() == [("shop",)]


def test_rows_that_no_name_reaches_hurt_nobody(pointers: SqlPointers, url: str) -> None:
    for row in ("'', 'root', 'x'", "'odd..one', 't', 'x'", "'shop', 'empty', NULL"):
        run(url, f"INSERT INTO iceberg_tables VALUES ('lakeplane', {row}, NULL, NULL)")  # noqa: S608
    assert pointers.namespaces() == [("shop",)]
    assert pointers.names("table", ("shop",)) == [ORDERS]
    assert pointers.get("table", Name(("shop",), "empty")) is None
    assert not pointers.swap([Swap("table", Name(("shop",), "empty"), None, "m0")])


def test_statements_for_mysql() -> None:
    dialect = mysql.dialect()
    made = str(CreateTable(TABLES).compile(dialect=dialect))
    assert "catalog_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL" in made
    condition = str(same((TABLES.c.table_name, "t")).compile(dialect=dialect))
    column = "iceberg_tables.table_name"
    assert condition.startswith(
        f"({column} = %s AND CAST(CAST({column} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
    )
    assert str(plain(TABLES.c.table_name).compile(dialect=dialect)).endswith("COLLATE utf8mb4_bin")


# Urls and their secrets


def test_a_password_is_never_told(
    postgres_server: postgres.Server, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    secret = "hunter2/§%"  # noqa: S105
    base = make_url(postgres_server.url)
    urls = [
        base.set(password=secret),
        base.set(password=secret, port=1),
        base.set(password=secret, database="no such"),
        base.set(password=None, query={"password": secret}),
        base.set(password=secret, query={"sslmode": "none such"}),
        base.set(password=secret, query={"no_such_option": secret}),
    ]
    texts = [url.render_as_string(hide_password=False) for url in urls]
    texts += [
        f"mysql+nodriver://me:{secret}@host/db",
        f"postgresql://me:{secret}@host:port/db",
        f"me:{secret}",
    ]
    told = []
    with caplog.at_level(logging.DEBUG):
        for text in texts:
            with pytest.raises(LakeplaneError) as caught:
                pointers = SqlPointers(text, timeout=2)
                told.append(repr(pointers))
                with pytest.raises(InvalidInput, match="do not travel"):
                    pickle.dumps(pointers)
                pointers.namespaces()
            told += [str(caught.value), repr(caught.value)]
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert told
    assert not [text for text in [*told, caplog.text] if "hunter2" in text]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "oracle://h/d", "sqlite://", "sqlite:///:memory:", "sqlite+aiosqlite:///x.db", "a://:b"],
)
def test_urls_that_are_no_catalog(url: str) -> None:
    with pytest.raises(InvalidInput):
        SqlPointers(url)


def test_a_relative_path_is_that_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., SqlPointers]
) -> None:
    monkeypatch.chdir(tmp_path)
    pointers = opened("sqlite:///here.db")
    monkeypatch.chdir("/")
    pointers.create_namespace(("shop",), {})
    assert (tmp_path / "here.db").is_file()
    assert rows(f"sqlite:///{tmp_path}/here.db", "PRAGMA journal_mode") == [("wal",)]


def test_a_file_that_is_no_database(tmp_path: Path, opened: Callable[..., SqlPointers]) -> None:
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be read as one" * 20)
    with pytest.raises(CatalogUnavailable, match="not a database"):
        opened(f"sqlite:///{tmp_path}/text.db").namespaces()
    with pytest.raises(CatalogUnavailable, match="unable to open"):
        opened(f"sqlite:///{tmp_path}/no/such/folder.db").namespaces()
