"""F6: whatever two writers do, also one in the middle of the other's work, it equals some serial order.

A plain model does the same. What was acknowledged is there, in the order in which it was; what was refused
left no trace. When one writer works in the middle of the other's commit, the outcome must be that of one of
the two orders.
"""

from __future__ import annotations

import copy
import itertools
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakeplane.catalog.names import parse_name
from lakeplane.errors import LakeplaneError, OutcomeUnknown
from lakeplane.lake import Lake
from lakeplane.table import Table
from lakeplane.testing.faults import FaultStore
from tests.commits.worlds import (
    InTheMiddle,
    World,
    append,
    filesystem_in_memory,
    filesystem_on_disk,
    pointers_in_memory,
    pointers_in_sqlite,
    without_waiting,
)

Step: TypeAlias = tuple[str, ...]
Handles: TypeAlias = dict[str, Table]

TABLES = ("shop.a", "shop.b")
NAMES = ("x", "y", "z")
WRITERS = (0, 1)

_tables, _names = st.sampled_from(TABLES), st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("append"), _tables, st.sampled_from(("main", "main", "x"))),
    st.tuples(st.sampled_from(("add column", "drop column", "set", "unset")), _tables, _names),
    st.tuples(st.just("rename column"), _tables, _names, _names),
    st.tuples(
        st.sampled_from(("branch", "tag", "drop ref", "make current", "fast-forward")), _tables, _names
    ),
    st.tuples(st.just("rename table"), _tables, _tables),
    st.tuples(st.sampled_from(("create table", "create table", "drop table")), _tables),
)
MOMENTS = st.one_of(
    st.tuples(st.just("any"), st.integers(1, 20)), st.tuples(st.just("put"), st.integers(1, 3))
)


class Refused(Exception):
    """The model does not allow it."""


class Model:
    """What there should be: tables as dictionaries, and which of them each writer holds."""

    def __init__(self, *, renames: bool) -> None:
        self.renames = renames
        self.tables: dict[str, dict[str, Any]] = {}
        self.held: list[dict[str, int]] = [{}, {}]
        self.made = 0

    def does(self, writer: int, step: Step, snapshot_id: int) -> bool:
        """Do a step, or refuse it."""
        before = copy.deepcopy(self.tables)
        try:
            self._do(writer, step, snapshot_id)
        except Refused:
            self.tables = before
            return False
        return True

    def holds(self, writer: int, name: str) -> bool:
        """Take hold of a table as it is now."""
        self.held[writer].pop(name, None)
        if name in self.tables:
            self.held[writer][name] = self.tables[name]["made"]
        return name in self.tables

    def _do(self, writer: int, step: Step, snapshot_id: int) -> None:
        match step:
            case ("create table", name):
                _require(name not in self.tables)
                self.made += 1
                self.tables[name] = {
                    "made": self.made,
                    "columns": {"id": 1},
                    "last": 1,
                    "properties": {},
                    "refs": {},
                    "snapshots": {},
                }
            case ("drop table", name):
                self._pop(name)
            case ("rename table", old, new):
                _require(self.renames and old in self.tables and new not in self.tables)
                self.tables[new] = self._pop(old)
            case ("append", name, branch):
                _require(name in self.tables)
                _append(self.tables[name], branch, snapshot_id)
            case (what, name, *rest):
                _require(name in self.tables and self.held[writer].get(name) == self.tables[name]["made"])
                table = self.tables[name]
                if what in ("add column", "drop column", "rename column"):
                    _change_columns(table, what, *rest)
                elif what in ("set", "unset"):
                    table["properties"].pop(rest[0], None)
                    table["properties"].update({rest[0]: str(writer)} if what == "set" else {})
                else:
                    _change_refs(table, what, rest[0])

    def _pop(self, name: str) -> dict[str, Any]:
        _require(name in self.tables)
        return self.tables.pop(name)


def _require(holds: bool) -> None:  # noqa: FBT001
    if not holds:
        raise Refused


def _append(table: dict[str, Any], branch: str, snapshot_id: int) -> None:
    refs = table["refs"]
    kind, parent = refs.get(branch) or ("branch", refs.get("main", ("", None))[1])
    _require(kind == "branch")
    table["snapshots"][snapshot_id] = parent
    refs[branch] = ("branch", snapshot_id)


def _change_columns(table: dict[str, Any], what: str, name: str, new: str = "") -> None:
    columns = table["columns"]
    _require((name in columns) == (what != "add column"))
    match what:
        case "add column":
            table["last"] += 1
            columns[name] = table["last"]
        case "drop column":
            del columns[name]
        case _:
            _require(new == name or new not in columns)
            table["columns"] = {new if key == name else key: number for key, number in columns.items()}


def _change_refs(table: dict[str, Any], what: str, name: str) -> None:
    refs, main = table["refs"], table["refs"].get("main")
    match what:
        case "branch" | "tag":
            _require(main is not None and name not in refs)
            refs[name] = (what, main[1])
        case "drop ref":
            _require(name in refs)
            del refs[name]
        case "make current":
            _require(name in refs)
            refs["main"] = ("branch", refs[name][1])
        case _:
            _require(main is not None)
            at = main[1]
            while name in refs and at is not None and at != refs[name][1]:
                at = table["snapshots"][at]
            _require(at is not None and refs.get(name, ("branch",))[0] == "branch")
            refs[name] = ("branch", main[1])


def does(lake: Lake, handles: Handles, writer: int, step: Step, snapshot_id: int) -> bool:
    """Do a step to the real thing; whether it was acknowledged."""
    try:
        _do(lake, handles, writer, step, snapshot_id)
    except OutcomeUnknown:
        raise
    except (LakeplaneError, KeyError):
        return False
    return True


def _do(lake: Lake, handles: Handles, writer: int, step: Step, snapshot_id: int) -> None:
    match step:
        case ("create table", name):
            lake.create_table(name, "id BIGINT")
        case ("drop table", name):
            lake.drop_table(name)
        case ("rename table", old, new):
            lake.rename_table(old, new)
        case ("append", name, branch):
            append(lake._catalog, parse_name(name), snapshot_id, branch=branch)
        case ("branch" | "tag" | "drop ref" | "make current" | "fast-forward" as what, name, ref):
            table = handles[name]
            {
                "branch": lambda: table.create_branch(ref),
                "tag": lambda: table.create_tag(ref),
                "drop ref": lambda: table.drop_ref(ref),
                "make current": lambda: table.set_current_snapshot(ref),
                "fast-forward": lambda: table.fast_forward(ref, "main"),
            }[what]()
        case (what, name, *rest):
            with handles[name].evolve() as change:
                {
                    "add column": lambda: change.add_column(rest[0], "STRING"),
                    "drop column": lambda: change.drop_column(rest[0]),
                    "rename column": lambda: change.rename_column(rest[0], rest[1]),
                    "set": lambda: change.set_properties({rest[0]: str(writer)}),
                    "unset": lambda: change.remove_properties(rest[0]),
                }[what]()


class Histories(RuleBasedStateMachine):
    """Two writers, a catalog, and the model of it."""

    make: ClassVar[Callable[[Path], World]]

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="lakeplane-history-"))
        self.closing.callback(shutil.rmtree, folder)
        self.world = type(self).make(folder)
        self.closing.callback(getattr(self.world.pointers, "close", lambda: None))
        self.closing.enter_context(without_waiting(self.world.clock))
        self.lake = self.world.lake()
        self.lake.create_namespace("shop")
        self.model = Model(renames=not self.world.is_filesystem)
        self.handles: list[Handles] = [{}, {}]
        self.ids = itertools.count(1)
        self.does(0, ("create table", "shop.a"))
        for writer in WRITERS:
            self.hold(writer, "shop.a")

    def teardown(self) -> None:
        self.closing.close()

    def does(self, writer: int, step: Step) -> None:
        snapshot_id, files = next(self.ids), self.metadata_files()
        done = does(self.lake, self.handles[writer], writer, step, snapshot_id)
        assert done == self.model.does(writer, step, snapshot_id), step
        assert done or self.metadata_files() == files, "what was refused left something"

    def metadata_files(self) -> set[str]:
        return {each for each in self.world.files() if each.endswith("metadata.json")}

    @rule(writer=st.sampled_from(WRITERS), step=STEPS)
    def one_writes(self, writer: int, step: Step) -> None:
        self.does(writer, step)

    @rule(writer=st.sampled_from(WRITERS), name=_tables)
    def hold(self, writer: int, name: str) -> None:
        self.handles[writer].pop(name, None)
        if self.model.holds(writer, name):
            found = self.lake.table(name)
            assert isinstance(found, Table)
            self.handles[writer][name] = found

    # A directory is not dropped in one step: who is overtaken by a commit meanwhile says so, and leaves it;
    # and of two who drop it at once, both may be told that it is gone.

    @rule(steps=st.tuples(STEPS, STEPS), moment=MOMENTS)
    def one_writes_in_the_middle_of_the_other(
        self, steps: tuple[Step, Step], moment: tuple[str, int]
    ) -> None:
        ids = (next(self.ids), next(self.ids))
        answers: dict[int, bool] = {}

        def other() -> None:
            answers[1] = does(self.lake, self.handles[1], 1, steps[1], ids[1])

        store = FaultStore(self.world.store, plan := InTheMiddle(*moment, other), clock=self.world.clock)
        lake = Lake(self.world.catalog(store))
        real = self.handles[0]
        answers[0] = does(lake, {key: _through(lake, real[key]) for key in real}, 0, steps[0], ids[0])
        if plan.nth:
            other()
        possible = []
        is_drop = self.world.is_filesystem and steps[0][0] == "drop table"
        without_effect = is_drop and (not answers[0] or steps[0] == steps[1])
        for order in ((1, 0), (0, 1), *([(1,)] if without_effect else [])):
            model = copy.deepcopy(self.model)
            expected = {writer: model.does(writer, steps[writer], ids[writer]) for writer in order}
            possible.append(model)
            if {**answers, **expected} == answers and model_facts(model) == facts(self.lake):
                self.model = model
                return
        raise AssertionError(
            f"{steps} gave {answers} and {facts(self.lake)}, but one after the other they give "
            f"{[model_facts(each) for each in possible]}"
        )

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        assert facts(self.lake) == model_facts(self.model)


def _through(lake: Lake, table: Table) -> Table:
    """What somebody holds, by another way to the same files."""
    same = copy.copy(table)
    same._catalog = lake._catalog
    return same


def facts(lake: Lake) -> dict[str, Any]:
    """What there is."""
    tables = {name: lake.table(name) for name in lake.tables("shop")}
    return {name: _table_facts(each) for name, each in tables.items() if isinstance(each, Table)}


def _table_facts(table: Table) -> dict[str, Any]:
    numbers = [snapshot.sequence_number for snapshot in table.snapshots]
    assert numbers == sorted(set(numbers)), "commits are numbered in their order"
    times = [snapshot.timestamp_ms for snapshot in table.snapshots]
    assert times == sorted(times)
    return {
        "columns": {field.name: field.id for field in table.schema.fields},
        "last": table.metadata.last_column_id,
        "properties": {key: value for key, value in table.properties.items() if key in NAMES},
        "refs": {name: (ref.type, ref.snapshot_id) for name, ref in table.refs.items()},
        "snapshots": [(each.snapshot_id, each.parent_snapshot_id) for each in table.snapshots],
    }


def model_facts(model: Model) -> dict[str, Any]:
    return {
        name: {
            **{key: table[key] for key in table if key != "made"},
            "snapshots": list(table["snapshots"].items()),
        }
        for name, table in sorted(model.tables.items())
    }


def _machine(make: Callable[[Path], World], *, examples: int, steps: int) -> Any:
    machine = type(make.__name__, (Histories,), {"make": staticmethod(make)})
    case = machine.TestCase  # type: ignore[attr-defined]
    # Without shrinking: a history is short, and to shorten it takes minutes.
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    return case


TestFilesystemInMemory = _machine(filesystem_in_memory, examples=40, steps=25)
TestFilesystemOnDisk = _machine(filesystem_on_disk, examples=6, steps=20)
TestPointersInMemory = _machine(pointers_in_memory, examples=60, steps=25)
TestPointersInSqlite = _machine(pointers_in_sqlite, examples=8, steps=20)
