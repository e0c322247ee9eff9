"""MERGE as users write it: clause by clause, and then all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakeplane.spark.merge import Clause, Merging, check

if TYPE_CHECKING:
    from lakeplane.receipt import Commit

Run = Callable[[Merging], "Commit"]


class Merge:
    """A MERGE that is being put together; ``execute`` runs it.

    Clauses of one kind are tried in the order in which they were added: the first whose condition holds
    decides about a row. Conditions and values are SQL, columns of Spark, or plain values; in SQL the table is
    called ``t`` and the source ``s``, unless the MERGE was begun with other names. The value ``DEFAULT`` is
    the ``write-default`` of the column.
    """

    def __init__(self, merging: Merging, run: Run) -> None:
        self._merging = merging
        self._run = run

    def when_matched_update(self, set: Mapping[str, Any] | None = None, condition: Any = None) -> Merge:  # noqa: A002 - its name in SQL
        """Update rows that meet a source row: all columns by name from the source, or those of ``set``."""
        return self._with(Clause("matched", "update", condition, set))

    def when_matched_delete(self, condition: Any = None) -> Merge:
        """Delete rows that meet a source row."""
        return self._with(Clause("matched", "delete", condition))

    def when_not_matched_insert(
        self, values: Mapping[str, Any] | None = None, condition: Any = None
    ) -> Merge:
        """Insert source rows that no row meets: all columns by name, or those of ``values``.

        Columns that are not given take their ``write-default``, or null.
        """
        return self._with(Clause("not matched", "insert", condition, values))

    def when_not_matched_by_source_update(self, set: Mapping[str, Any], condition: Any = None) -> Merge:  # noqa: A002
        """Update rows that meet no source row."""
        return self._with(Clause("not matched by source", "update", condition, set))

    def when_not_matched_by_source_delete(self, condition: Any = None) -> Merge:
        """Delete rows that meet no source row."""
        return self._with(Clause("not matched by source", "delete", condition))

    def with_schema_evolution(self) -> Merge:
        """Add the columns to the table that only the source has, and widen types until its values fit.

        Rows that are updated from a source that lacks some of the columns keep what they have there.
        """
        return Merge(self._merging._replace(evolves=True), self._run)

    def execute(self) -> Commit:
        """Run it, and publish what it does. If no row is touched, no snapshot is made."""
        check(self._merging)
        return self._run(self._merging)

    def _with(self, clause: Clause) -> Merge:
        merging = self._merging._replace(clauses=(*self._merging.clauses, clause))
        return Merge(merging, self._run)
