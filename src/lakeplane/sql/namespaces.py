"""Namespaces: CREATE, ALTER, DROP, DESCRIBE, and USE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakeplane.catalog.names import show
from lakeplane.errors import AlreadyExists, CatalogCannot, NamespaceNotEmpty, NotFound
from lakeplane.sql.statement import Run, properties_in, property_keys
from lakeplane.sql.words import Parts, Words

if TYPE_CHECKING:
    from lakeplane.catalog.names import Namespace
    from lakeplane.lake import Lake
    from lakeplane.spark.frames import DataFrame

KINDS: Final = ("NAMESPACE", "DATABASE", "SCHEMA")


def missing(run: Run, namespace: Namespace) -> NotFound:
    """The error for a namespace that is not there."""
    known = ", ".join(run.lake.namespaces()) or "none"
    return NotFound(f"there is no namespace {show(namespace)}", hint=f"There is {known}")


class CreateNamespace(NamedTuple):
    """``CREATE NAMESPACE``."""

    name: Parts
    properties: dict[str, str]
    if_not_exists: bool

    def run(self, run: Run) -> None:
        """Make it."""
        namespace = run.scope.in_namespace(self.name)
        try:
            run.lake.create_namespace(namespace, self.properties)
        except AlreadyExists:
            if not self.if_not_exists:
                raise


def create_namespace(words: Words) -> CreateNamespace:
    """Read what follows ``CREATE NAMESPACE``."""
    if_not_exists = words.skip_if_not_exists()
    name = words.parts("the name of a namespace")
    properties: dict[str, str] = {}
    while not words.is_done():
        if words.skip("COMMENT"):
            properties["comment"] = words.string()
        elif words.skip("LOCATION"):
            properties["location"] = words.string()
        elif words.skip("WITH", "PROPERTIES") or words.skip("WITH", "DBPROPERTIES"):
            properties |= properties_in(words)
        else:
            words.unknown(("COMMENT 'text'", "LOCATION 'place'", "WITH PROPERTIES (...)"))
    return CreateNamespace(name, properties, if_not_exists)


class AlterNamespace(NamedTuple):
    """``ALTER NAMESPACE``."""

    name: Parts
    updates: dict[str, str]
    removals: tuple[str, ...]

    def run(self, run: Run) -> DataFrame | None:
        """Change its properties."""
        namespace = run.scope.in_namespace(self.name)
        if not run.scope.has_namespace(namespace):
            return _to_spark(run, self.name)
        run.lake.change_namespace(namespace, self.updates, self.removals)
        return None


def alter_namespace(words: Words) -> AlterNamespace:
    """Read what follows ``ALTER NAMESPACE``."""
    name = words.parts("the name of a namespace")
    updates: dict[str, str] = {}
    removals: tuple[str, ...] = ()
    if words.skip("SET", "LOCATION"):
        updates = {"location": words.string()}
    elif words.skip("SET", "PROPERTIES") or words.skip("SET", "DBPROPERTIES"):
        updates = properties_in(words)
    elif words.skip("UNSET", "PROPERTIES") or words.skip("UNSET", "DBPROPERTIES"):
        words.skip_if_exists()
        removals = property_keys(words)
    else:
        words.unknown(("SET PROPERTIES (...)", "UNSET PROPERTIES (...)", "SET LOCATION 'place'"))
    words.end()
    return AlterNamespace(name, updates, removals)


class DropNamespace(NamedTuple):
    """``DROP NAMESPACE``."""

    name: Parts
    if_exists: bool
    cascade: bool

    def run(self, run: Run) -> DataFrame | None:
        """Remove it; with CASCADE, the names of all that is in it first."""
        namespace = run.scope.in_namespace(self.name)
        if not run.scope.has_namespace(namespace):
            return None if self.if_exists else _to_spark(run, self.name)
        if self.cascade:
            _empty(run.lake, namespace)
        try:
            run.lake.drop_namespace(namespace)
        except NamespaceNotEmpty as full:
            hint = "Write DROP NAMESPACE ... CASCADE to drop all that is in it"
            raise NamespaceNotEmpty(full.problem, source=full.source, hint=hint) from None
        if run.front.namespace[: len(namespace)] == namespace:
            run.front.namespace = ()
        return None


def _empty(lake: Lake, namespace: Namespace) -> None:
    from lakeplane.catalog.names import parse_namespace  # noqa: PLC0415

    for inner in lake.namespaces(namespace):
        found = parse_namespace(inner)
        whole = found if found[: len(namespace)] == namespace else (*namespace, *found)
        _empty(lake, whole)
        lake.drop_namespace(whole)
    for table in lake.tables(namespace):
        lake.drop_table(table)
    try:
        views = lake.views(namespace)
    except CatalogCannot:
        return
    for view in views:
        lake.drop_view(view)


def drop_namespace(words: Words) -> DropNamespace:
    """Read what follows ``DROP NAMESPACE``."""
    if_exists = words.skip_if_exists()
    name = words.parts("the name of a namespace")
    cascade = words.skip("CASCADE")
    if not cascade:
        words.skip("RESTRICT")
    words.end("After the name, CASCADE is supported")
    return DropNamespace(name, if_exists, cascade)


class DescribeNamespace(NamedTuple):
    """``DESCRIBE NAMESPACE``."""

    name: Parts
    extended: bool

    def run(self, run: Run) -> DataFrame:
        """Tell its properties, as Spark does."""
        namespace = run.scope.in_namespace(self.name)
        if not run.scope.has_namespace(namespace):
            return _to_spark(run, self.name)
        properties = dict(run.lake.namespace(namespace))
        rows = [["Catalog Name", run.lake.name], ["Namespace Name", show(namespace)]]
        for key, shown in (("comment", "Comment"), ("location", "Location"), ("owner", "Owner")):
            if key in properties:
                rows.append([shown, properties.pop(key)])
        if self.extended:
            pairs = ", ".join(f"({key},{value})" for key, value in sorted(properties.items()))
            rows.append(["Properties", f"({pairs})" if pairs else ""])
        return run.answer("info_name STRING, info_value STRING", rows)


def describe_namespace(words: Words) -> DescribeNamespace:
    """Read what follows ``DESCRIBE NAMESPACE``."""
    extended = words.skip("EXTENDED")
    name = words.parts("the name of a namespace")
    words.end()
    return DescribeNamespace(name, extended)


class Use(NamedTuple):
    """``USE``."""

    name: Parts

    def run(self, run: Run) -> DataFrame | None:
        """Look for short names in another namespace from now on."""
        namespace = run.scope.in_namespace(self.name)
        if run.scope.has_namespace(namespace):
            run.front.namespace = namespace
            return None
        answer = _to_spark(run, self.name)
        run.front.namespace = ()
        return answer


def use(words: Words) -> Use:
    """Read what follows ``USE``."""
    for kind in (*KINDS, "CATALOG"):
        if words.token.word == kind and words.peek().kind in ("word", "quoted"):
            words.at += 1
            break
    name = words.parts("the name of a namespace")
    words.end()
    return Use(name)


def _to_spark(run: Run, name: Parts) -> DataFrame:
    """A namespace that is not the lake's may be one of Spark's own catalog."""
    from lakeplane.spark.statements import has_database  # noqa: PLC0415 - brings pyspark

    if run.scope.is_ours(name) or not has_database(run.session, show(name)):
        raise missing(run, run.scope.in_namespace(name))
    return run.to_spark()
