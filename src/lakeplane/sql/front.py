"""The front door of SQL: which statement a text is, and who runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeplane.model.ddl_words import reading
from lakeplane.sql.names import Scope
from lakeplane.sql.select import Query
from lakeplane.sql.words import QUERY_WORDS, Words

if TYPE_CHECKING:
    from lakeplane.catalog.names import Namespace
    from lakeplane.lake import Lake
    from lakeplane.spark.frames import DataFrame


class Front:
    """Runs statements on a lake, and knows the namespace that is in use."""

    def __init__(self, lake: Lake, spark: Any) -> None:
        self.lake = lake
        self.spark = spark
        self.namespace: Namespace = ()

    def run(self, text: str) -> DataFrame:
        from lakeplane.spark.session import find_session
        from lakeplane.spark.statements import is_temporary_view

        session = find_session(self.spark)
        scope = Scope(self.lake, self.namespace, lambda name: is_temporary_view(session, name))
        with reading("SQL"):
            words = Words(text)
            return Query(session, scope).run(words)
