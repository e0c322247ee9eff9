"""JSON objects of the specs as immutable values that lose nothing.

A ``Record`` declares the fields that its spec knows; msgspec checks and converts them at C speed. Fields
that it does not know are kept in ``unknown`` and written back, so that a table made by a newer writer
survives a read-modify-write.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from lakeplane.errors import InvalidMetadata
from lakeplane.model.frozen import EMPTY, FrozenDict, freeze, thaw

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Strings: TypeAlias = FrozenDict[str, str]

_ONLY_STRINGS = frozenset({str})
_UNKNOWN = "(unknown)"  # no field of any spec is called that

R = TypeVar("R", bound="Record")


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,
):
    """A JSON object with kebab-case names; ``None`` stands for an absent field.

    A default is not written, and so it is ``None``; a field that is always written gets it by a factory.

    Tables hold tens of thousands of them, and values cannot form cycles: the collector does not watch them.
    """

    unknown: FrozenDict[str, Any] = msgspec.field(default=EMPTY, name=_UNKNOWN)


class _Shape(NamedTuple):
    """What msgspec does not tell: which names a record knows, and which of its fields hold records."""

    names: frozenset[str]
    nested: tuple[tuple[str, str], ...]


@functools.cache
def _shape(kind: type[Record]) -> _Shape:
    fields = msgspec.structs.fields(kind)
    names = frozenset(field.encode_name for field in fields) - {_UNKNOWN}
    nested = tuple((field.name, field.encode_name) for field in fields if _holds_records(field.type))
    return _Shape(names, nested)


def _holds_records(annotation: object) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return True
    return any(_holds_records(argument) for argument in typing.get_args(annotation))


def read(kind: type[R], raw: object, where: str) -> R:
    """Check and convert one JSON object; ``where`` names it in errors."""
    record: R = _convert(kind, raw, where)
    return _with_unknown(record, raw)


def read_all(kind: type[R], raw: object, where: str) -> tuple[R, ...]:
    """Check and convert an array of JSON objects."""
    records: tuple[R, ...] = _convert(tuple[kind, ...], raw, where)  # type: ignore[valid-type]
    shape = _shape(kind)
    assert isinstance(raw, Sequence)
    if not shape.nested and all(map(shape.names.issuperset, raw)):
        return records
    return tuple(_with_unknown(record, item) for record, item in zip(records, raw, strict=True))


def write(record: Record) -> dict[str, Any]:
    """Turn a record into its JSON object; absent fields are left out, unknown ones put back."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    document.pop(_UNKNOWN, None)
    for name, key in _shape(type(record)).nested:
        if key in document:
            document[key] = _write_nested(getattr(record, name))
    document = {key: list(value) if type(value) is tuple else value for key, value in document.items()}
    return {**document, **thaw(record.unknown)} if record.unknown else document


def _write_nested(value: Any) -> Any:
    return write(value) if isinstance(value, Record) else [_write_nested(item) for item in value]


def write_all(records: Sequence[Record]) -> list[dict[str, Any]] | msgspec.Raw:
    """Turn records of one kind into a JSON array, as text right away if they hold only what is known."""
    is_plain = all(record.unknown is EMPTY for record in records)
    if is_plain and not any(_shape(kind).nested for kind in set(map(type, records))):
        return msgspec.Raw(msgspec.json.encode(records))
    return list(map(write, records))


def _convert(kind: Any, raw: object, where: str) -> Any:
    try:
        return msgspec.convert(raw, kind, dec_hook=_freeze_strings)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at ")
        place = where + path.strip("`").removeprefix("$")
        raise InvalidMetadata(problem, field=place) from None


def _freeze_strings(_kind: object, raw: object) -> object:
    """Convert what is declared ``Strings``: the only kind of field that msgspec does not know itself."""
    if not isinstance(raw, dict):
        message = f"Expected `object`, got `{type(raw).__name__}`"
        raise TypeError(message)
    if not _ONLY_STRINGS.issuperset(map(type, raw.values())):
        key, value = next(item for item in raw.items() if type(item[1]) is not str)
        message = f"Expected a map of strings, got `{value!r:.80}` for `{key}`"
        raise ValueError(message)
    return FrozenDict(raw)


def _with_unknown(record: R, raw: Any) -> R:
    shape = _shape(type(record))
    changes: dict[str, Any] = {}
    if not shape.names.issuperset(raw):
        changes["unknown"] = freeze({key: raw[key] for key in raw if key not in shape.names})
    for name, key in shape.nested:
        if raw.get(key) is not None:
            changes[name] = _nested_with_unknown(getattr(record, name), raw[key])
    return msgspec.structs.replace(record, **changes) if changes else record


def _nested_with_unknown(value: Any, raw: Any) -> Any:
    if isinstance(value, Record):
        return _with_unknown(value, raw)
    return tuple(_nested_with_unknown(item, each) for item, each in zip(value, raw, strict=True))
