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
    └── RequirementFailed       the table is no longer what the change was made for

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


class RequirementFailed(LakeplaneError):
    """The table is no longer what the change was made for: reload it and try again."""
