"""Columns without others inside, made what a table says they are: nothing is lost, or it is an error.

The one exception is the rounding of 64-bit floats to 32 bits, as everywhere in Python; a number that is too
large for them is an error, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from lakeplane.errors import InvalidInput
from lakeplane.files.nested_arrays import all_null
from lakeplane.model.arrow_schema import EXTENSION_METADATA, EXTENSION_NAME, from_arrow
from lakeplane.model.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    FLOATS,
    INT,
    INTEGERS,
    STRING,
    TIME,
    TIMESTAMPS,
    UNKNOWN,
    UUID,
    ZONED,
    Decimal,
    Fixed,
    Geography,
    Geometry,
    Type,
)

Convert: TypeAlias = Callable[[pa.Array], pa.Array]

_UUID_BYTES: Final = 16
_UUID_DIGITS: Final = 32
_NO_DIGIT: Final = 255
_INTEGER_DIGITS: Final = 20

_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
for _text, _start in (("0123456789", 0), ("abcdef", 10), ("ABCDEF", 10)):
    for _place, _mark in enumerate(_text):
        _DIGITS[ord(_mark)] = _start + _place


def converter(type_: Type, source: pa.Field, arrow: pa.DataType, place: str) -> Convert:
    """What makes arrays of a type's Arrow type from those of another one.

    Args:
        type_: The type of the table; it has no fields inside.
        source: The column that is given, with its metadata.
        arrow: The Arrow type that arrays shall have.
        place: The column, for errors.
    """
    found = _bare(source.type)
    if found == arrow and not isinstance(source.type, pa.BaseExtensionType | pa.DictionaryType):
        _check_shapes(type_, source, place)
        return _as_it_is
    if kinds.is_null(found):
        return lambda array: all_null(arrow, len(array))
    if type_ is UNKNOWN:
        return lambda array: _all_null(array, place)
    if not _accepts(type_, source.type, found):
        raise _refusal(type_, source.type, found, place)
    _check_shapes(type_, source, place)
    change = _change(type_, found, arrow, place)

    def convert(array: pa.Array) -> pa.Array:
        try:
            return change(_plain(array))
        except pa.ArrowException as error:
            raise _loss(type_, source.type, error, place) from None

    return convert


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _all_null(array: pa.Array, place: str) -> pa.Array:
    if array.null_count < len(array):
        hint = "Give the column a type first, or leave it out"
        raise InvalidInput("holds values, and the column is of type unknown", field=place, hint=hint)
    return pa.nulls(len(array))


def _bare(found: pa.DataType) -> pa.DataType:
    """What a type holds, without what Arrow wraps it in."""
    while True:
        match found:
            case pa.BaseExtensionType():
                found = found.storage_type
            case pa.DictionaryType() | pa.RunEndEncodedType():
                found = found.value_type
            case _:
                return found


def _plain(array: pa.Array) -> pa.Array:
    while True:
        match array:
            case pa.ExtensionArray():
                array = array.storage
            case pa.DictionaryArray():
                array = array.dictionary_decode()
            case pa.RunEndEncodedArray():
                array = pc.run_end_decode(array)
            case _:
                return array


def is_text(found: pa.DataType) -> bool:
    """Whether an Arrow type holds text, in any layout."""
    return bool(kinds.is_string(found) or kinds.is_large_string(found) or kinds.is_string_view(found))


def is_bytes(found: pa.DataType) -> bool:
    """Whether an Arrow type holds bytes, in any layout."""
    return bool(
        kinds.is_binary(found)
        or kinds.is_large_binary(found)
        or kinds.is_binary_view(found)
        or kinds.is_fixed_size_binary(found)
    )


def _accepts(type_: Type, given: pa.DataType, found: pa.DataType) -> bool:
    """Whether there are values of one type that the other one can hold."""
    if type_ is BOOLEAN:
        bool8 = isinstance(given, pa.BaseExtensionType) and given.extension_name == "arrow.bool8"
        return bool8 or bool(kinds.is_boolean(found))
    if type_ in INTEGERS or type_ in FLOATS:
        return bool(kinds.is_integer(found) or kinds.is_floating(found))
    if isinstance(type_, Decimal):
        return bool(kinds.is_decimal(found) or kinds.is_integer(found))
    if type_ in (DATE, TIME) or type_ in TIMESTAMPS:
        return _accepts_time(type_, found)
    if type_ is STRING:
        return is_text(found)
    shape = isinstance(type_, Geometry | Geography)
    width = type_.length if isinstance(type_, Fixed) else _UUID_BYTES if type_ is UUID else None
    if kinds.is_fixed_size_binary(found):
        return width is None or found.byte_width == width
    return is_bytes(found) or (is_text(found) and not shape)


def _accepts_time(type_: Type, found: pa.DataType) -> bool:
    if type_ is DATE:
        return bool(kinds.is_date(found))
    if type_ is TIME:
        return bool(kinds.is_time(found))
    if kinds.is_timestamp(found):
        return (found.tz is not None) == (type_ in ZONED)
    return bool(kinds.is_date32(found)) and type_ not in ZONED


def _refusal(type_: Type, given: pa.DataType, found: pa.DataType, place: str) -> InvalidInput:
    hint = f"Cast it to what a {type_} is in Arrow, or change the type of the column"
    if type_ in TIMESTAMPS and kinds.is_timestamp(found):
        hint = (
            "Give the time zone it is in: pyarrow.compute.assume_timezone"
            if type_ in ZONED
            else "Take the zone away: pyarrow.compute.local_timestamp"
        )
    elif isinstance(type_, Fixed) and kinds.is_fixed_size_binary(found):
        hint = f"Values of {type_} have {type_.length} bytes"
    elif is_text(found):
        hint = "Parse the texts first: pyarrow.compute.cast, or strptime"
    return InvalidInput(f"{given} cannot become {type_}", field=place, hint=hint)


def _loss(type_: Type, given: pa.DataType, error: Exception, place: str) -> InvalidInput:
    hint = "Correct the values, or change the type of the column"
    if type_ in TIMESTAMPS or type_ in (TIME, DATE):
        hint = "Round the values first: pyarrow.compute.floor_temporal, or cast with safe=False"
    elif isinstance(type_, Decimal):
        hint = "Round the values first: pyarrow.compute.round, or give the column more digits"
    elif type_ is INT:
        hint = "Change the type of the column to long, or correct the values"
    problem = f"values of {given} do not fit {type_}: {str(error).splitlines()[0]}"
    return InvalidInput(problem, field=place, hint=hint)


def _change(type_: Type, found: pa.DataType, arrow: pa.DataType, place: str) -> Convert:
    if type_ is UUID:
        uuids = _uuids_of_text if is_text(found) else _fixed
        return lambda array: pa.ExtensionArray.from_storage(arrow, uuids(array, _UUID_BYTES, place))
    if isinstance(type_, Fixed):
        length = type_.length
        return lambda array: _fixed(array, length, place)
    if type_ is FLOAT and kinds.is_float64(found):
        return lambda array: _rounded(array, place)
    if type_ in FLOATS and kinds.is_float16(found):
        return lambda array: array.cast(pa.float32()).cast(arrow)
    if isinstance(type_, Decimal) and kinds.is_integer(found):
        wide = pa.decimal128(_INTEGER_DIGITS, 0)
        return lambda array: array.cast(wide).cast(pa.decimal128(38, type_.scale)).cast(arrow)
    if type_ is INT and kinds.is_floating(found):
        return lambda array: array.cast(pa.int64()).cast(arrow)
    if kinds.is_fixed_size_binary(found) or (is_text(found) and type_ is not STRING):
        return lambda array: array.cast(pa.binary()).cast(arrow)
    return lambda array: array.cast(arrow)


def _rounded(array: pa.Array, place: str) -> pa.Array:
    found = array.cast(pa.float32())
    too_large = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(array)))
    if pc.any(too_large).as_py():
        hint = "Change the type of the column to double"
        raise InvalidInput("a number is too large for a float", field=place, hint=hint)
    return found


def _fixed(array: pa.Array, length: int, place: str) -> pa.Array:
    """Bytes that all have a length; null where there are none."""
    if kinds.is_fixed_size_binary(array.type):
        return array
    raw = array.cast(pa.large_binary())
    sizes = pc.unique(pc.binary_length(raw).drop_null()).to_pylist()
    if sizes not in ([], [length]):
        wrong = next(size for size in sizes if size != length)
        hint = f"Each of them must have {length}"
        raise InvalidInput(f"a value has {wrong} bytes", field=place, hint=hint)
    return raw.cast(pa.binary()).cast(pa.binary(length))


def _uuids_of_text(array: pa.Array, length: int, place: str) -> pa.Array:
    """The bytes of UUIDs that are written with hexadecimal digits, with dashes or without."""
    texts = pc.replace_substring(array.cast(pa.large_string()), "-", "")
    raw = texts.cast(pa.large_binary())
    sizes = pc.unique(pc.binary_length(raw).drop_null()).to_pylist()
    valid = np.asarray(raw.is_valid())
    some = raw.drop_null()
    digits = _DIGITS[:0]
    fits = sizes in ([], [2 * length])
    if fits and sizes:
        ends = np.frombuffer(some.buffers()[1], np.int64)[some.offset : some.offset + len(some) + 1]
        digits = _DIGITS[np.frombuffer(some.buffers()[2], np.uint8)[ends[0] : ends[-1]]]
        fits = not bool((digits == _NO_DIGIT).any())
    if not fits:
        hint = "Write them as f79c3e09-677c-4bbd-a479-3f349cb785e7"
        raise InvalidInput("a text is no UUID", field=place, hint=hint)
    stored = np.zeros((len(array), length), np.uint8)
    if sizes:
        pairs = digits.reshape(-1, length, 2)
        stored[valid] = pairs[:, :, 0] << 4 | pairs[:, :, 1]
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.binary(length), len(array), [validity, pa.py_buffer(stored)])


def _check_shapes(type_: Type, source: pa.Field, place: str) -> None:
    """Refuse shapes of another reference system, or with other edges: their numbers mean other places.

    Where a frame says nothing of it, as most do, the shapes are what the column wants.
    """
    if not isinstance(type_, Geometry | Geography):
        return
    metadata: Mapping[bytes, bytes] = source.metadata or {}
    if isinstance(source.type, pa.BaseExtensionType):
        said = bytes(getattr(source.type, "__arrow_ext_serialize__", bytes)())
    else:
        said = metadata.get(EXTENSION_METADATA, b"") if EXTENSION_NAME in metadata else b""
    if b'"crs"' not in said and b'"edges"' not in said:
        return
    given = from_arrow(pa.schema([source.with_name("shape")])).fields[0].type
    if isinstance(given, Geometry | Geography) and given != type_:
        hint = "Convert the shapes to the reference system of the column"
        raise InvalidInput(f"holds {given}, the column is of type {type_}", field=place, hint=hint)
