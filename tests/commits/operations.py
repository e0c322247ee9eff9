"""Every way to change something, as a function of a lake that has what ``worlds.populate`` put into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow.compute as pc

from lakeplane.iceberg.changes import (
    Append,
    Change,
    DeleteFiles,
    Overwrite,
    RowDelta,
)
from lakeplane.iceberg.cherrypick import Cherrypick
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.lake import Lake
from lakeplane.model.expressions.parse import parse_predicate
from tests.commits.worlds import (
    BASE,
    EVENTS,
    HEAD,
    NEXT,
    ORDERS,
    STAGED,
    STAGED_FILES,
    ChangeOf,
    World,
    append,
    change_files,
    deletes_of,
    live,
    rows_of,
)


class Operation(NamedTuple):
    name: str
    run: Callable[[Lake, World], object]
    needs_pointers: bool = False
    deletes_files: bool = False
    is_typical: bool = False


def _evolve(lake: Lake, _: World) -> None:
    with lake.table("shop.orders").evolve() as change:
        change.add_column("currency", "STRING")
        change.rename_column("note", "remark")
        change.add_partition_field("days(at)")
        change.sort_by("id DESC NULLS LAST")
        change.set_properties(seen="yes")


def _set_property(table: str, **properties: str) -> Callable[[Lake, World], None]:
    def run(lake: Lake, _: World) -> None:
        with lake.table(table).evolve() as change:
            change.set_properties(properties)

    return run


def _compress(lake: Lake, _: World) -> None:
    for turn in ("gzip", "none"):
        with lake.table("shop.items").evolve() as change:
            change.set_properties({"write.metadata.compression-codec": turn})


def _transaction(lake: Lake, _: World) -> None:
    with lake.transaction() as work:
        work.evolve("shop.orders").add_column("extra", "STRING")
        work.evolve("shop.items").add_column("extra", "STRING")


def _cherrypick(lake: Lake, _: World) -> None:
    lake.table("shop.orders").cherrypick(STAGED)


def _roll_back_in_time(lake: Lake, _: World) -> None:
    orders = lake.table("shop.orders")
    orders.rollback(before_ms=orders.metadata.snapshot(HEAD).timestamp_ms)


def _append(lake: Lake, _: World) -> None:
    append(lake._catalog, ORDERS, 105)


def _files(plan: ChangeOf) -> Callable[[Lake, World], None]:
    def run(lake: Lake, world: World) -> None:
        change_files(lake, world, EVENTS, 301, plan)

    return run


def _append_files(table: TableMetadata, _: Reading) -> Change:
    return Append(files=(rows_of(table, "new.parquet", "x"), rows_of(table, "more.parquet", "y")))


def _overwrite_files(table: TableMetadata, reading: Reading) -> Change:
    files = live(table, reading)
    return Overwrite(
        files=(rows_of(table, "new.parquet", "x"),),
        where=parse_predicate("p = 'x'", table.schema),
        remove=files.filter(pc.match_substring(files["file_path"], "202.parquet")),
        isolation="serializable",
        validate_from=table.current_snapshot_id,
    )


def _delete_files(table: TableMetadata, _: Reading) -> Change:
    return DeleteFiles(where=parse_predicate("p = 'x'", table.schema))


def _change_rows(table: TableMetadata, reading: Reading) -> Change:
    files = live(table, reading)
    [wanted, other] = (
        files.filter(pc.match_substring(files["file_path"], f"{number}.parquet")) for number in (201, 202)
    )
    return RowDelta(
        files=(rows_of(table, "new.parquet", "x"),),
        deletes=(deletes_of(table, "deletes.parquet", wanted),),
        deletes_from=wanted,
        remove=other,
        isolation="serializable",
        validate_from=table.current_snapshot_id,
    )


OPERATIONS = (
    Operation(
        "create a table", lambda lake, _: lake.create_table("shop.fresh", "id BIGINT"), is_typical=True
    ),
    Operation("create a view", lambda lake, _: lake.create_view("shop.recent", "SELECT 1 AS a", "a INT")),
    Operation(
        "create a namespace", lambda lake, _: lake.create_namespace("new", {"a": "b"}), is_typical=True
    ),
    Operation(
        "change a namespace", lambda lake, _: lake.change_namespace("shop", {"city": "Oslo"}, ["owner"])
    ),
    Operation("drop a namespace", lambda lake, _: lake.drop_namespace("bare")),
    Operation("evolve", _evolve, is_typical=True),
    Operation("set a property", _set_property("shop.orders", seen="yes")),
    Operation(
        "delete after commit", _set_property("shop.loose", turn="5"), deletes_files=True, is_typical=True
    ),
    Operation("append", _append),
    Operation("append files", _files(_append_files), is_typical=True),
    Operation("overwrite files", _files(_overwrite_files), is_typical=True),
    Operation("delete files", _files(_delete_files)),
    Operation("change rows", _files(_change_rows), is_typical=True),
    Operation("cherry-pick files", _files(lambda _, __: Cherrypick(snapshot_id=STAGED_FILES))),
    Operation("create a branch", lambda lake, _: lake.table("shop.orders").create_branch("b", NEXT)),
    Operation("create a tag", lambda lake, _: lake.table("shop.orders").create_tag("t", HEAD)),
    Operation(
        "replace a tag", lambda lake, _: lake.table("shop.orders").create_tag("first", HEAD, replace=True)
    ),
    Operation("drop a tag", lambda lake, _: lake.table("shop.orders").drop_ref("first")),
    Operation(
        "set retention",
        lambda lake, _: lake.table("shop.orders").set_retention("old", min_snapshots_to_keep=2),
    ),
    Operation("roll back", lambda lake, _: lake.table("shop.orders").rollback(BASE)),
    Operation("roll back in time", _roll_back_in_time),
    Operation("fast-forward", lambda lake, _: lake.table("shop.orders").fast_forward("old", HEAD)),
    Operation(
        "set the current snapshot", lambda lake, _: lake.table("shop.orders").set_current_snapshot(BASE)
    ),
    Operation("cherry-pick", _cherrypick),
    Operation(
        "replace a view",
        lambda lake, _: lake.create_view("shop.totals", "SELECT 2 AS id", "id BIGINT", replace=True),
        is_typical=True,
    ),
    Operation(
        "register",
        lambda lake, world: lake.register_table(
            "shop.found", str(world.root / "shop/found/metadata/saved.metadata.json")
        ),
        is_typical=True,
    ),
    Operation(
        "drop a table", lambda lake, _: lake.drop_table("shop.items"), deletes_files=True, is_typical=True
    ),
    Operation("drop a view", lambda lake, _: lake.drop_view("shop.totals"), deletes_files=True),
    Operation("purge", lambda lake, _: lake.drop_table("shop.items", purge=True), deletes_files=True),
    Operation(
        "rename a table",
        lambda lake, _: lake.rename_table("shop.items", "bare.items"),
        needs_pointers=True,
        is_typical=True,
    ),
    Operation(
        "rename a view", lambda lake, _: lake.rename_view("shop.totals", "shop.sums"), needs_pointers=True
    ),
    Operation("a transaction over two tables", _transaction, needs_pointers=True, is_typical=True),
)
