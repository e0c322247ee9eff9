"""Checks of catalogs: namespaces."""

from __future__ import annotations

import uuid
from typing import Final

from lakeplane.catalog.catalog import Catalog
from lakeplane.catalog.names import Name, Namespace
from lakeplane.errors import AlreadyExists, NamespaceNotEmpty, NotFound
from lakeplane.testing.catalog_subject import (
    Ability,
    Check,
    Subject,
    a_namespace,
    a_table,
    a_view,
    raises,
    refused,
)


def makes_namespaces(subject: Subject) -> None:
    """A namespace is there once it was made, for others too; and only then."""
    catalog, other = subject.connect(), subject.connect()
    missing: Namespace = (f"check{uuid.uuid4().hex}",)
    raises(NotFound, lambda: catalog.namespace(missing))
    assert missing not in catalog.namespaces()
    catalog.create_namespace(missing, {})
    for each in (catalog, other):
        assert missing in each.namespaces()
        assert isinstance(dict(each.namespace(missing)), dict)
        assert each.names("table", missing) == []


def makes_a_namespace_once(subject: Subject) -> None:
    """Making it again is refused, and does not touch its properties."""
    catalog = subject.connect()
    keeps = subject.can(Ability.NAMESPACE_PROPERTIES)
    namespace: Namespace = (f"check{uuid.uuid4().hex}",)
    catalog.create_namespace(namespace, {"owner": "ann"} if keeps else {})
    raises(AlreadyExists, lambda: catalog.create_namespace(namespace, {}))
    if keeps:
        raises(AlreadyExists, lambda: catalog.create_namespace(namespace, {"owner": "bob"}))
        assert catalog.namespace(namespace).get("owner") == "ann"


def keeps_properties_of_namespaces(subject: Subject) -> None:
    """Properties are set, replaced and removed, each alone, and those of one namespace only."""
    catalog = subject.connect()
    namespace, twin = (f"check{uuid.uuid4().hex}",), a_namespace(catalog)
    if not subject.can(Ability.NAMESPACE_PROPERTIES):
        refused(lambda: catalog.create_namespace(namespace, {"a": "1"}))
        refused(lambda: catalog.change_namespace(twin, {"a": "1"}))
        return
    catalog.create_namespace(namespace, {"a": "1", "odd ' % \" ü": "value ' % _ é"})
    assert _given(catalog, namespace) == {"a": "1", "odd ' % \" ü": "value ' % _ é"}
    catalog.change_namespace(namespace, {"b": "2", "a": "3"})
    assert _given(catalog, namespace) == {"a": "3", "b": "2", "odd ' % \" ü": "value ' % _ é"}
    catalog.change_namespace(namespace, {"c": ""}, ["a", "never set"])
    assert _given(catalog, namespace) == {"b": "2", "c": "", "odd ' % \" ü": "value ' % _ é"}
    catalog.change_namespace(namespace, {}, ["b", "c", "odd ' % \" ü"])
    assert _given(catalog, namespace) == {}
    assert namespace in catalog.namespaces(), "a namespace without properties is a namespace"
    assert _given(catalog, twin) == {}


def _given(catalog: Catalog, namespace: Namespace) -> dict[str, str]:
    """The properties without those that a catalog adds on its own."""
    added = {"location", "owner", "created_at", "last_modified_time", "exists"}
    return {key: value for key, value in catalog.namespace(namespace).items() if key not in added}


def knows_missing_namespaces(subject: Subject) -> None:
    """Everything that is asked of a namespace that does not exist says so."""
    catalog = subject.connect()
    missing: Namespace = (f"check{uuid.uuid4().hex}",)
    raises(NotFound, lambda: catalog.namespace(missing))
    raises(NotFound, lambda: catalog.namespaces(missing))
    raises(NotFound, lambda: catalog.drop_namespace(missing))
    raises(NotFound, lambda: catalog.names("table", missing))
    raises(NotFound, lambda: catalog.load("table", Name(missing, "t")))
    if subject.can(Ability.NAMESPACE_PROPERTIES):
        raises(NotFound, lambda: catalog.change_namespace(missing, {"a": "1"}))
        raises(NotFound, lambda: catalog.change_namespace(missing, {}, ["a"]))
    if subject.can(Ability.VIEWS):
        raises(NotFound, lambda: catalog.names("view", missing))
        raises(NotFound, lambda: catalog.load("view", Name(missing, "v")))
    assert missing not in catalog.namespaces(), "asking must not make it"


def drops_namespaces(subject: Subject) -> None:
    """An empty one goes, once, and can be made anew, without what it had before."""
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    if subject.can(Ability.NAMESPACE_PROPERTIES):
        catalog.change_namespace(namespace, {"a": "1"})
    catalog.drop_namespace(namespace)
    assert namespace not in catalog.namespaces()
    raises(NotFound, lambda: catalog.namespace(namespace))
    raises(NotFound, lambda: catalog.drop_namespace(namespace))
    catalog.create_namespace(namespace, {})
    assert namespace in catalog.namespaces()
    assert "a" not in catalog.namespace(namespace)


def keeps_namespaces_that_hold_something(subject: Subject) -> None:
    """A namespace with a table or view in it is not dropped; once that is gone, it is."""
    catalog = subject.connect()
    namespace = a_namespace(catalog)
    name = Name(namespace, "held")
    a_table(catalog, name)
    raises(NamespaceNotEmpty, lambda: catalog.drop_namespace(namespace))
    assert catalog.load("table", name).name == name
    catalog.drop("table", name)
    if subject.can(Ability.VIEWS):
        a_view(catalog, name)
        raises(NamespaceNotEmpty, lambda: catalog.drop_namespace(namespace))
        catalog.drop("view", name)
    catalog.drop_namespace(namespace)
    assert namespace not in catalog.namespaces()


def nests_namespaces(subject: Subject) -> None:
    """Each level lists what is directly in it; a parent goes after its children."""
    catalog = subject.connect()
    top = a_namespace(catalog)
    if not subject.can(Ability.NESTED):
        refused(lambda: catalog.create_namespace((*top, "inner"), {}))
        return
    for child in ("b", "a", "c"):
        catalog.create_namespace((*top, child), {})
    catalog.create_namespace((*top, "a", "deep"), {})
    assert catalog.namespaces(top) == [(*top, "a"), (*top, "b"), (*top, "c")]
    assert catalog.namespaces((*top, "a")) == [(*top, "a", "deep")]
    assert catalog.namespaces((*top, "b")) == []
    assert top in catalog.namespaces()
    assert all(len(each) == 1 for each in catalog.namespaces()), "only the outermost level"
    raises(NamespaceNotEmpty, lambda: catalog.drop_namespace(top))
    raises(NamespaceNotEmpty, lambda: catalog.drop_namespace((*top, "a")))
    a_table(catalog, Name((*top, "a", "deep"), "t"))
    assert catalog.names("table", (*top, "a")) == []
    assert catalog.names("table", (*top, "a", "deep")) == [Name((*top, "a", "deep"), "t")]
    raises(NamespaceNotEmpty, lambda: catalog.drop_namespace((*top, "a", "deep")))
    catalog.drop("table", Name((*top, "a", "deep"), "t"))
    for path in (("a", "deep"), ("a",), ("b",), ("c",), ()):
        catalog.drop_namespace((*top, *path))
    assert top not in catalog.namespaces()


def keeps_nested_properties_apart(subject: Subject) -> None:
    """A namespace does not inherit, and namespaces of the same last name are different ones."""
    catalog = subject.connect()
    one, two = a_namespace(catalog), a_namespace(catalog)
    if not (subject.can(Ability.NESTED) and subject.can(Ability.NAMESPACE_PROPERTIES)):
        return
    catalog.change_namespace(one, {"of": "one"})
    catalog.create_namespace((*one, "same"), {"in": "one"})
    catalog.create_namespace((*two, "same"), {"in": "two"})
    assert _given(catalog, (*one, "same")) == {"in": "one"}
    assert _given(catalog, (*two, "same")) == {"in": "two"}
    assert _given(catalog, one) == {"of": "one"}


def tells_prefixes_apart(subject: Subject) -> None:
    """``ab`` is not in ``a``, nor is ``a_b`` a pattern: dropping and listing go by whole names."""
    catalog = subject.connect()
    stem = f"check{uuid.uuid4().hex}"
    names = [stem, f"{stem}b", f"{stem}_b", f"{stem}xb"]
    for each in names:
        catalog.create_namespace((each,), {})
    a_table(catalog, Name((f"{stem}b",), "t"))
    a_table(catalog, Name((f"{stem}xb",), "t"))
    assert catalog.names("table", (stem,)) == []
    assert catalog.names("table", (f"{stem}_b",)) == []
    if subject.can(Ability.NESTED):
        catalog.create_namespace((f"{stem}b", "inner"), {})
        assert catalog.namespaces((stem,)) == []
        catalog.create_namespace((f"{stem}xb", "inner"), {})
        assert catalog.namespaces((f"{stem}_b",)) == []
    catalog.drop_namespace((stem,))
    catalog.drop_namespace((f"{stem}_b",))
    there = catalog.namespaces()
    assert [(each,) in there for each in names] == [False, True, False, True]
    assert catalog.load("table", Name((f"{stem}b",), "t")).name == Name((f"{stem}b",), "t")


def lists_many_namespaces(subject: Subject) -> None:
    """All of them, sorted, each once; more than fit on a page of a server."""
    catalog = subject.connect()
    stem = f"check{uuid.uuid4().hex}"
    made = [(f"{stem}{number:03}",) for number in range(30)]
    for namespace in reversed(made):
        catalog.create_namespace(namespace, {})
    found = catalog.namespaces()
    assert found == sorted(found)
    assert [each for each in found if each[0].startswith(stem)] == made


def refuses_the_root_as_a_namespace(subject: Subject) -> None:
    """The root is there already and stays; tables do not lie in it."""
    catalog = subject.connect()
    refused(lambda: catalog.create_namespace((), {}))
    refused(lambda: catalog.drop_namespace(()))
    refused(lambda: catalog.load("table", Name((), f"check{uuid.uuid4().hex}")))


NAMESPACE_CHECKS: Final[tuple[Check, ...]] = (
    makes_namespaces,
    makes_a_namespace_once,
    keeps_properties_of_namespaces,
    knows_missing_namespaces,
    drops_namespaces,
    keeps_namespaces_that_hold_something,
    nests_namespaces,
    keeps_nested_properties_apart,
    tells_prefixes_apart,
    lists_many_namespaces,
    refuses_the_root_as_a_namespace,
)
