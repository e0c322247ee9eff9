"""A clock that stands still until somebody sleeps, and a table to work on."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

from lakeplane.catalog.catalog import Change
from lakeplane.catalog.names import Name
from lakeplane.catalog.rest import RestCatalog
from lakeplane.catalog.rest_options import World
from lakeplane.testing.catalog_subject import a_table, append, table_of
from tests.catalog.rest_server import RestServer, rest_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = Name(("shop",), "orders")


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def world(self) -> World:
        return World(lambda: self.time, lambda: self.time, self.sleep, random.Random(7))


class Setup:
    """A server, and one way to it."""

    def __init__(self, server: RestServer) -> None:
        self.server = server
        self.clock = Clock()
        self.opened: list[RestCatalog] = []

    def connect(self, **options: Any) -> RestCatalog:
        self.opened.append(RestCatalog(self.server.uri, options, world=self.clock.world()))
        return self.opened[-1]

    def with_table(self, **options: Any) -> RestCatalog:
        """A catalog that has ``shop.orders``; what it took to make it is forgotten."""
        catalog = self.connect(**options)
        catalog.create_namespace(ORDERS.namespace, {})
        a_table(catalog, ORDERS)
        self.server.seen.clear()
        return catalog


def appending(catalog: RestCatalog) -> tuple[Change, int]:
    """A change that adds a snapshot, and its id."""
    requirements, updates, snapshot_id = append(table_of(catalog, ORDERS))
    return Change("table", ORDERS, requirements, updates), snapshot_id


@contextlib.contextmanager
def a_setup() -> Iterator[Setup]:
    with rest_server() as server:
        setup = Setup(server)
        try:
            yield setup
        finally:
            for catalog in setup.opened:
                catalog.close()
