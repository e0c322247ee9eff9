"""Partitions as names of directories, and back, exactly.

Spark's own directories lose what a partition is: null, the empty string and a certain text become one. So
rows are parted by one column of ours. Its texts hold the values of all partition fields in letters that no
file system and no object store gives a meaning to, readable where they can be:

=================  ======================================================================================
``2026-01-31__7``  a date and a bucket: values are parted by ``__``
``_null``          null
``_empty``         a text or bytes of no length
``red_20wine``     bytes of a text other than letters, digits, ``.`` and ``-`` as ``_`` and two hex digits
``EU_h0123...``    behind a name with capitals the start of its hash, since some file systems ignore case
``_long-0123...``  the hash alone, where a name would be too long: the values are read back from the file
=================  ======================================================================================

A date from the years 1 to 9999 is written as one, all other times as their numbers; bytes in hex.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakeplane.iceberg.manifest_schema import arrow_type
from lakeplane.model.types import (
    BOOLEAN,
    DATE,
    FLOATS,
    INTEGERS,
    MAX_DECIMAL_PRECISION,
    MICROS,
    NANOS,
    STRING,
    TIME,
    UNKNOWN,
    UUID,
    Decimal,
    Field,
    Fixed,
    Type,
)
from lakeplane.spark.assign import refusal
from lakeplane.spark.transforms import micros_sql

LONGEST: Final = 150
"""Longer names are replaced by their hashes: file systems end at 255 bytes."""

_NULL: Final = "_null"
_EMPTY: Final = "_empty"
_LONG: Final = "_long-"
_TOKENS: Final = re.compile(r"__|_null|_empty|_h[0-9a-f]{16}|_[0-9A-F]{2}|[^_]+")
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


def name_sql(values: Sequence[tuple[str, Type, str]]) -> str:
    """SQL of the name of a partition, from SQL, type and name of each of its values."""
    parts = [f"coalesce({_text(sql, type_, place)}, '{_NULL}')" for sql, type_, place in values]
    return f"concat_ws('__', {', '.join(parts)})" if len(parts) > 1 else parts[0]


def short_sql(name: str) -> str:
    """SQL of the directory of a partition, from the column with its name."""
    hashed = f"concat({name}, '_h', left(sha2({name}, 256), 16))"
    long = f"concat('{_LONG}', sha2({name}, 256))"
    return f"IF(length({name}) > {LONGEST}, {long}, IF({name} = lower({name}), {name}, {hashed}))"


def _text(sql: str, type_: Type, place: str) -> str:
    if type_ is STRING:
        # Spark's strings can hold bytes that are no text; they would all have the same name.
        valid = f"IF(NOT is_valid_utf8({sql}), {refusal(place, 'a value is not UTF-8')}, {sql})"
        encoded = f"replace(replace(replace(url_encode({valid}), '_', '%5F'), '*', '%2A'), '+', '%20')"
        return f"IF({sql} = '', '{_EMPTY}', replace({encoded}, '%', '_'))"
    if type_ is UNKNOWN:
        return "CAST(NULL AS STRING)"
    if _is_bytes(type_):
        return f"IF(octet_length({sql}) = 0, '{_EMPTY}', lower(hex({sql})))"
    if type_ is DATE:
        far = f"concat('d', CAST(unix_date({sql}) AS STRING))"
        return f"IF(year({sql}) BETWEEN 1 AND 9999, CAST({sql} AS STRING), {far})"
    if type_ in MICROS:
        return f"CAST({micros_sql(sql, type_)} AS STRING)"
    return f"CAST({sql} AS STRING)"


def _is_bytes(type_: Type) -> bool:
    return not isinstance(type_, Decimal) and (
        type_ is UUID or isinstance(type_, Fixed) or str(type_) == "binary"
    )


def values_of(name: str, types: Sequence[Type]) -> list[Any] | None:
    """The values in a name, one for each type; None if only the files tell.

    Times are numbers, bytes are ``bytes``: what ``partition_array`` takes.
    """
    if name.startswith(_LONG):
        return None
    parts: list[list[str]] = [[]]
    end = 0
    for found in _TOKENS.finditer(name):
        assert found.start() == end, name
        end = found.end()
        if found[0] == "__":
            parts.append([])
        elif not found[0].startswith("_h"):
            parts[-1].append(found[0])
    assert end == len(name), name
    assert len(parts) == len(types), name
    return [_value(part, type_) for part, type_ in zip(parts, types, strict=True)]


def _value(tokens: list[str], type_: Type) -> Any:
    if tokens == [_NULL]:
        return None
    raw = b"".join(
        b"" if each == _EMPTY else bytes.fromhex(each[1:]) if each.startswith("_") else each.encode()
        for each in tokens
    )
    if type_ is STRING:
        return raw.decode()
    plain = raw.decode()
    if _is_bytes(type_):
        return bytes.fromhex(plain)
    if type_ is BOOLEAN:
        return plain == "true"
    if type_ in FLOATS:
        return float(plain)
    if isinstance(type_, Decimal):
        return decimal.Decimal(plain)
    if type_ is DATE:
        far = plain.startswith("d")
        return int(plain[1:]) if far else dt.date.fromisoformat(plain).toordinal() - _EPOCH
    return int(plain)


def partition_array(values: Sequence[Any], type_: Type) -> pa.Array:
    """Values of a partition field as a column, in the Arrow type in which manifests hold them."""
    arrow = arrow_type(Field(1, "value", type_))
    if type_ in FLOATS:
        numbers = np.array([0.0 if each is None else each for each in values], arrow.to_pandas_dtype())
        return pa.array(numbers, arrow, mask=np.array([each is None for each in values], np.bool_))
    if isinstance(type_, Decimal):
        # Numbers that were rounded down can have one digit more than their type.
        wide = pa.array(values, pa.decimal128(MAX_DECIMAL_PRECISION, type_.scale))
        return pa.Array.from_buffers(arrow, len(wide), wide.buffers(), wide.null_count)
    if type_ is DATE:
        return pa.array(values, pa.int32()).view(arrow)
    if type_ is TIME or type_ in MICROS or type_ in NANOS:
        return pa.array(values, pa.int64()).view(arrow)
    if type_ in INTEGERS:
        return pa.array(values, arrow)
    return pa.array(values, arrow)
