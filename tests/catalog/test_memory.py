"""The pointers in memory keep the contract of pointers."""

from __future__ import annotations

import threading

import pytest

from lakeplane.catalog.memory import MemoryPointers
from lakeplane.catalog.names import Name
from lakeplane.catalog.pointers import Swap
from lakeplane.errors import AlreadyExists, NamespaceNotEmpty, NotFound

A, B, V = Name(("n",), "a"), Name(("n",), "b"), Name(("n",), "v")


def pointers() -> MemoryPointers:
    made = MemoryPointers()
    made.create_namespace(("n",), {})
    assert made.swap([Swap("table", A, None, "a1"), Swap("view", V, None, "v1")])
    return made


@pytest.mark.parametrize(
    "lost",
    [
        Swap("table", B, "b1", "b2"),
        Swap("table", A, None, "a2"),
        Swap("table", A, "a0", "a2"),
        Swap("view", A, None, "a2"),
        Swap("view", A, "a1", "a2"),
        Swap("table", V, None, "v2"),
        Swap("table", V, "v1", "v2"),
    ],
    ids=str,
)
def test_swaps_happen_together_or_not_at_all(lost: Swap) -> None:
    made = pointers()
    other = Swap("table", Name(("n",), "c"), None, "c1")
    for swaps in ([other, lost], [lost, other]):
        assert not made.swap(swaps)
        assert made.get("table", other.name) is None
        assert (made.get("table", A), made.get("view", V), made.get("table", B)) == ("a1", "v1", None)


def test_a_swap_into_a_missing_namespace_changes_nothing() -> None:
    made = pointers()
    with pytest.raises(NotFound):
        made.swap([Swap("table", A, "a1", "a2"), Swap("table", Name(("m",), "a"), None, "m1")])
    assert made.get("table", A) == "a1"


def test_a_rename_needs_a_free_name_in_a_namespace_that_is_there() -> None:
    made = pointers()
    for new, error in ((V, AlreadyExists), (A, AlreadyExists), (Name(("m",), "a"), NotFound)):
        with pytest.raises(error):
            made.rename("table", A, new)
    for kind, old in (("view", A), ("table", V), ("table", B)):
        with pytest.raises(NotFound):
            made.rename(kind, old, Name(("n",), "free"))  # type: ignore[arg-type]
    made.rename("table", A, B)
    assert (made.get("table", A), made.get("table", B)) == (None, "a1")


def test_implied_parents_are_namespaces() -> None:
    made = MemoryPointers()
    made.create_namespace(("a", "b", "c"), {"x": "1"})
    assert made.namespaces() == [("a",), ("a", "b"), ("a", "b", "c")]
    assert made.namespace(("a", "b")) == {}
    with pytest.raises(NamespaceNotEmpty):
        made.drop_namespace(("a",))
    with pytest.raises(AlreadyExists):
        made.create_namespace(("a", "b"), {})
    made.change_namespace(("a",), {"y": "2"}, [])
    made.drop_namespace(("a", "b", "c"))
    assert made.namespaces() == [("a",)]


def test_what_is_dropped_is_of_its_kind() -> None:
    made = pointers()
    for kind, name in (("view", A), ("table", V), ("table", B)):
        with pytest.raises(NotFound):
            made.drop(kind, name)  # type: ignore[arg-type]
    with pytest.raises(NamespaceNotEmpty):
        made.drop_namespace(("n",))
    made.drop("table", A)
    made.drop("view", V)
    made.drop_namespace(("n",))
    assert made.namespaces() == []


def test_of_many_threads_one_swaps() -> None:
    made = pointers()
    barrier, won = threading.Barrier(8), []

    def swap(me: int) -> None:
        for turn in range(50):
            barrier.wait()
            expected = made.get("table", A)
            barrier.wait()
            if made.swap([Swap("table", A, expected, f"{turn}-{me}")]):
                won.append(turn)

    threads = [threading.Thread(target=swap, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == list(range(50))
