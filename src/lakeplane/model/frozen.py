"""A dictionary that cannot change, so that values made of dictionaries are values."""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeVar

from lakeplane.errors import LimitExceeded

MAX_DEPTH: Final = 100
"""How deep a value may be nested that is kept without being understood."""

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A read-only, hashable ``dict``; ``{**frozen, key: value}`` makes a changed copy."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        message = "a FrozenDict cannot be changed: make a new dict from it"
        raise TypeError(message)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenDict, (dict(self),)


EMPTY: Final[FrozenDict[str, Any]] = FrozenDict()
"""The empty mapping, shared."""


def freeze(value: object, depth: int = MAX_DEPTH) -> Any:
    """Make a JSON value immutable all the way down: objects to ``FrozenDict``, arrays to tuples.

    What is kept must also be written, compared and shown, from deeper in a program than it was read: so the
    limit is far below that of the interpreter, and does not depend on the caller.
    """
    if depth < 0:
        raise LimitExceeded("nested too deep")
    match value:
        case dict():
            return FrozenDict({key: freeze(item, depth - 1) for key, item in value.items()})
        case list() | tuple():
            return tuple(freeze(item, depth - 1) for item in value)
        case _:
            return value


def thaw(value: object) -> Any:
    """Turn a frozen JSON value back into plain dicts and lists."""
    match value:
        case dict():
            return {key: thaw(item) for key, item in value.items()}
        case list() | tuple():
            return [thaw(item) for item in value]
        case _:
            return value
