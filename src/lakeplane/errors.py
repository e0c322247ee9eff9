"""Every error that lakeplane raises on purpose.

::

    LakeplaneError
    ├── InvalidInput            what the caller gave cannot be used
    │   ├── InvalidExpression   a predicate does not parse, or does not fit the schema
    │   ├── InvalidLocation     a path or URI that is refused
    │   └── InvalidChange       a schema, spec, ref or property change that the format forbids
    ├── InvalidMetadata         what is stored breaks its spec
    │   ├── UnsupportedVersion  a format version, newer than this release, or not a version at all
    │   └── LimitExceeded       a stored file is larger, deeper or longer than is accepted
    ├── StorageError            a store did not do what was asked: a failed put has changed nothing
    │   ├── FileMissing         there is no such file
    │   ├── FileExists          a file that must not be there is there
    │   ├── FileChanged         a file is no longer the one that was to be replaced
    │   ├── AccessDenied        the credentials do not allow it, or there are none
    │   ├── NoSpace             the store or a quota is full
    │   └── StoreCannot         this kind of store is not able to do it at all
    ├── CatalogError            a catalog did not do what was asked, and nothing was changed
    │   ├── NotFound            there is no such namespace, table or view
    │   ├── AlreadyExists       the name is taken
    │   ├── NamespaceNotEmpty   the namespace still holds something
    │   ├── CatalogCannot       this kind of catalog is not able to do it at all
    │   ├── CatalogUnavailable  the catalog did not answer, or cannot at the moment
    │   └── CommitConflict      somebody else was faster, and the change fits no more
    ├── OutcomeUnknown          the answer to a write was lost: it may have happened, or may yet happen
    ├── RequirementFailed       the table is no longer what the change was made for
    └── NotSupported            it is allowed by the format, and this release cannot do it

An error says what is wrong, where (``source``: the file or name, ``field``: the place in it), and,
where there is one, what to do next (``hint``).
"""

from __future__ import annotations


class LakeplaneError(Exception):
    """The root of all errors that lakeplane raises on purpose."""

    def __init__(
        self, problem: str, *, source: str | None = None, field: str | None = None, hint: str | None = None
    ) -> None:
        """Say what is wrong, where it is, and what to do next."""
        super().__init__(problem)
        self.problem = problem
        self.source = source
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        place = [part for part in (self.source, self.field) if part]
        text = ": ".join([*place, self.problem])
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword arguments do not survive a process boundary on their own.
        return _revive, (type(self), self.problem, self.source, self.field, self.hint)


def _revive(
    kind: type[LakeplaneError], problem: str, source: str | None, field: str | None, hint: str | None
) -> LakeplaneError:
    return kind(problem, source=source, field=field, hint=hint)


class InvalidInput(LakeplaneError):
    """What the caller gave cannot be used."""


class InvalidExpression(InvalidInput):
    """A predicate does not parse, or does not fit the schema."""


class InvalidLocation(InvalidInput):
    """A path or URI that is refused."""


class InvalidChange(InvalidInput):
    """A schema, partition, ref or property change that the format forbids."""


class InvalidMetadata(LakeplaneError):
    """What is stored breaks its spec."""


class UnsupportedVersion(InvalidMetadata):
    """A format version that this release does not know."""


class LimitExceeded(InvalidMetadata):
    """A stored file is larger, deeper or longer than is accepted."""


class StorageError(LakeplaneError):
    """A store did not do what was asked; a ``put`` that fails so has changed nothing."""


class FileMissing(StorageError):
    """There is no such file."""


class FileExists(StorageError):
    """A file that must not be there is there: somebody else has published it."""


class FileChanged(StorageError):
    """A file is no longer the one that was to be replaced: somebody else has."""


class AccessDenied(StorageError):
    """The credentials do not allow it, or there are none."""


class NoSpace(StorageError):
    """The store or a quota is full; what was begun is cleaned up."""


class StoreCannot(StorageError):
    """This kind of store is not able to do it at all."""


class OutcomeUnknown(LakeplaneError):
    """The answer to a write was lost: it may have happened, or may yet happen. Look before doing anything.

    It is no ``StorageError``, so that nothing that cleans up after a failure takes it for one.
    """


class RequirementFailed(LakeplaneError):
    """The table is no longer what the change was made for: reload it and try again."""


class CatalogError(LakeplaneError):
    """A catalog did not do what was asked, and what it holds was not changed by it."""


class NotFound(CatalogError):
    """There is no such namespace, table or view."""


class AlreadyExists(CatalogError):
    """The name is taken, by a table, a view or a namespace."""


class NamespaceNotEmpty(CatalogError):
    """The namespace still holds tables, views or namespaces."""


class CatalogCannot(CatalogError):
    """This kind of catalog is not able to do it at all."""


class CatalogUnavailable(CatalogError):
    """The catalog did not answer, or answered that it cannot at the moment."""


class CommitConflict(CatalogError):
    """Somebody else changed the table in a way that this change cannot be applied to any more."""


class NotSupported(LakeplaneError):
    """It is allowed by the format, and this release cannot do it: nothing is wrong with the table."""
