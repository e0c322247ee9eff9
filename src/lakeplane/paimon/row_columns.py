"""Many rows at once: from a column of rows as bytes to columns of values, and back.

``binary_row`` tells how a row is laid out and reads them one by one. Here a field of all rows is taken out
with a few array operations, and only the fields that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeplane.avro import cells
from lakeplane.avro.columns import bitmap, wide_decimals
from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.model.expressions.physical import Mask, plain, to_mask
from lakeplane.model.types import Decimal
from lakeplane.paimon.binary_row import (
    ARITY_BYTES,
    COMPACT_DIGITS,
    COMPACT_PRECISION,
    HEAD_BITS,
    INLINE,
    INLINE_MARK,
    NANOS_PER_MILLI,
    PLAIN,
    SLOT,
    WIDE_DECIMAL,
    head_bytes,
    reserved_bytes,
)
from lakeplane.paimon.types import (
    MICRO_DIGITS,
    DataType,
    Kind,
    Simple,
    Time,
    Timestamp,
    is_bytes,
    is_text,
)

Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_NUMBERS: Final[dict[Simple, pa.DataType]] = {
    Simple.BOOLEAN: pa.bool_(),
    Simple.TINYINT: pa.int8(),
    Simple.SMALLINT: pa.int16(),
    Simple.INT: pa.int32(),
    Simple.BIGINT: pa.int64(),
    Simple.FLOAT: pa.float32(),
    Simple.DOUBLE: pa.float64(),
    Simple.DATE: pa.date32(),
}
_HALF: Final = 32
_DAY_MILLIS: Final = 86_400_000
_MOST_MILLIS: Final = (2**63 - 1) // 1000 - 1
_MOST_MILLIS_AS_NANOS: Final = (2**63 - 1) // NANOS_PER_MILLI - 1


def arrow_type(kind: Kind) -> pa.DataType | None:
    """What a column of a kind is here; None for kinds that have no place in rows."""
    match kind:
        case Simple() if kind in _NUMBERS:
            return _NUMBERS[kind]
        case Time():
            return pa.time32("ms")
        case Decimal(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case Timestamp(precision=precision, zoned=zoned):
            return pa.timestamp("ns" if precision > MICRO_DIGITS else "us", "UTC" if zoned else None)
        case _ if is_text(kind):
            return pa.string()
        case _ if is_bytes(kind):
            return pa.binary()
        case _:
            return None


class RowColumn:
    """A column of rows, of which fields can be taken.

    Rows that are null, broken, or have another number of fields are not ``usable``: their fields are null.
    """

    def __init__(self, rows: pa.Array | pa.ChunkedArray, types: Sequence[DataType]) -> None:
        """Look at the outline of each row.

        Args:
            rows: Rows as bytes.
            types: What their fields are.
        """
        raw = plain(rows)
        self.types = tuple(types)
        self.count = len(raw)
        self._bytes, self._starts, self._lengths = _parts(raw)
        self._fixed = head_bytes(len(types)) + SLOT * len(types)
        self.usable: Mask = self._lengths >= ARITY_BYTES + self._fixed
        arity = self._read(self._starts, ">i4", self.usable)
        self.usable &= arity == len(types)

    def require(self, source: str, field: str) -> RowColumn:
        """Refuse a column in which a row is not usable."""
        if not self.usable.all():
            number = int(np.flatnonzero(~self.usable)[0])
            problem = f"row {number} is broken, or has not {len(self.types)} fields"
            raise InvalidMetadata(problem, source=source, field=field)
        return self

    def column(self, position: int) -> pa.Array | None:
        """The values of a field; None for types whose values have no place in rows.

        Texts come as they are, also if they are cut within a character: as binary.
        """
        kind = self.types[position].kind
        wanted = arrow_type(kind)
        if wanted is None:
            return None
        present = self.usable & ~self._nulls(position)
        at = self._starts + ARITY_BYTES + head_bytes(len(self.types)) + SLOT * position
        match kind:
            case Simple() if kind in PLAIN:
                return self._numbers(at, present, kind, wanted)
            case Time():
                millis = self._read(at, "<i4", present)
                present &= (millis >= 0) & (millis < _DAY_MILLIS)
                return pa.array(millis, pa.int32(), mask=~present).view(pa.time32("ms"))
            case Decimal(precision=precision):
                values = (
                    self._compact(at, present) if precision <= COMPACT_DIGITS else self._wide(at, present)
                )
                return pa.Array.from_buffers(wanted, self.count, [bitmap(values[1]), values[0]])
            case Timestamp():
                return self._timestamps(at, present, kind, wanted)
            case _:
                return self._texts(at, present)

    def _nulls(self, position: int) -> Mask:
        bit = position + HEAD_BITS
        head = self._read(self._starts + ARITY_BYTES + bit // 8, "u1", self.usable)
        found: Mask = (head & np.uint8(1 << bit % 8)) != 0
        return found

    def _read(self, at: Longs, kind: str, where: Mask) -> npt.NDArray[Any]:
        """The numbers at some places, 0 where there is none."""
        dtype = np.dtype(kind)
        found = np.zeros(self.count, dtype)
        if where.any():
            words = np.ndarray((len(self._bytes) - dtype.itemsize + 1,), dtype, self._bytes, strides=(1,))
            found[where] = words[at[where]]
        return found

    def _numbers(self, at: Longs, present: Mask, kind: Simple, wanted: pa.DataType) -> pa.Array:
        values = self._read(at, "u1" if kind is Simple.BOOLEAN else f"<{_NUMPY[kind]}", present)
        if kind is Simple.BOOLEAN:
            return pa.array(values != 0, mask=~present)
        found = pa.array(values, mask=~present)
        return found.view(wanted) if kind is Simple.DATE else found

    def _compact(self, at: Longs, present: Mask) -> tuple[pa.Buffer, Mask]:
        whole = self._read(at, "<i8", present)
        halves = np.stack([whole, whole >> 63], axis=1)
        return pa.py_buffer(np.ascontiguousarray(halves)), present

    def _wide(self, at: Longs, present: Mask) -> tuple[pa.Buffer, Mask]:
        starts, lengths, inside = self._spans(at, present)
        inside &= (lengths <= WIDE_DECIMAL) & (lengths > 0)
        values = wide_decimals(self._bytes, np.where(inside, starts, 0), np.where(inside, lengths, 0), "row")
        return values, inside

    def _spans(self, at: Longs, present: Mask) -> tuple[Longs, Longs, Mask]:
        """Where the parts behind the slots lie, and which of them lie in their row."""
        slots = self._read(at, "<i8", present)
        offsets, lengths = slots >> _HALF, slots & (2**_HALF - 1)
        inside = present & (offsets >= 0) & (offsets + lengths <= self._lengths - ARITY_BYTES)
        return self._starts + ARITY_BYTES + offsets, lengths, inside

    def _timestamps(self, at: Longs, present: Mask, kind: Timestamp, wanted: pa.DataType) -> pa.Array:
        nano = kind.precision > MICRO_DIGITS
        if kind.precision <= COMPACT_PRECISION:
            millis, rest = self._read(at, "<i8", present), np.zeros(self.count, np.int64)
        else:
            slots = self._read(at, "<i8", present)
            offsets, rest = slots >> _HALF, slots & (2**_HALF - 1)
            present &= (offsets >= 0) & (offsets + SLOT <= self._lengths - ARITY_BYTES)
            present &= rest < NANOS_PER_MILLI
            millis = self._read(self._starts + ARITY_BYTES + offsets, "<i8", present)
        most = _MOST_MILLIS_AS_NANOS if nano else _MOST_MILLIS
        present &= (millis <= most) & (millis >= -most)
        millis = np.where(present, millis, 0)
        values = millis * NANOS_PER_MILLI + rest if nano else millis * 1000 + rest // 1000
        return pa.array(values, pa.int64(), mask=~present).view(wanted)

    def _texts(self, at: Longs, present: Mask) -> pa.Array:
        marks = self._read(at + INLINE, "u1", present)
        inline = (marks & INLINE_MARK) != 0
        starts, lengths, inside = self._spans(at, present & ~inline)
        short = (marks & ~np.uint8(INLINE_MARK)).astype(np.int64)
        inside |= present & inline & (short <= INLINE)
        starts, lengths = np.where(inline, at, starts), np.where(inline, short, lengths)
        lengths = np.where(inside, lengths, 0)
        offsets = np.zeros(self.count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        cells.spans(self._bytes, np.where(inside, starts, 0), lengths).put(out, offsets[:-1])
        buffers = [bitmap(inside), pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_binary(), self.count, buffers)


_NUMPY: Final[dict[Simple, str]] = {
    Simple.TINYINT: "i1",
    Simple.SMALLINT: "i2",
    Simple.INT: "i4",
    Simple.DATE: "i4",
    Simple.BIGINT: "i8",
    Simple.FLOAT: "f4",
    Simple.DOUBLE: "f8",
}


def _parts(raw: pa.Array) -> tuple[Bytes, Longs, Longs]:
    """The bytes, and where each value starts and how long it is; null has the length -1."""
    raw = raw.cast(pa.large_binary())
    _, offsets, data = raw.buffers()
    places = np.frombuffer(offsets, np.int64, len(raw) + 1, raw.offset * 8)
    lengths = np.diff(places)
    if raw.null_count:
        lengths[raw.is_null().to_numpy(zero_copy_only=False)] = -1
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return bytes_, places[:-1], lengths


def read_values(rows: pa.Array | pa.ChunkedArray, types: Sequence[DataType], source: str) -> list[pa.Array]:
    """All fields of rows that have to be right, as partitions and keys have to."""
    found = RowColumn(rows, types).require(source, "row")
    columns = []
    for position, type_ in enumerate(types):
        column = found.column(position)
        if column is None:
            raise InvalidMetadata(f"a {type_} has no place in rows", source=source, field=str(position))
        nulls = int((found.usable & found._nulls(position)).sum())  # noqa: SLF001  # its own room
        if column.null_count != nulls:
            raise InvalidMetadata(f"a {type_} is broken", source=source, field=str(position))
        columns.append(_as_text(column, source, position) if is_text(type_.kind) else column)
    return columns


def _as_text(column: pa.Array, source: str, position: int) -> pa.Array:
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise InvalidMetadata(f"a text is broken: {error}", source=source, field=str(position)) from None


# From columns to rows.


def write_rows(
    types: Sequence[DataType], columns: Sequence[pa.Array | pa.ChunkedArray], *, reserve_null: bool
) -> pa.Array:
    """Rows of the values in columns, of the Arrow types that ``arrow_type`` gives or any that fit them.

    What ``reserve_null`` decides is told in ``binary_row.encode_row``.
    """
    count = len(columns[0]) if columns else 0
    fixed = head_bytes(len(types)) + SLOT * len(types)
    parts = [_part(type_, plain(column), reserve_null) for type_, column in zip(types, columns, strict=True)]
    lengths = np.full(count, ARITY_BYTES + fixed, np.int64)
    for part in parts:
        lengths += part.sizes
    ends = np.cumsum(lengths)
    starts = ends - lengths
    out = np.zeros(int(ends[-1]) if count else 0, np.uint8)
    _put(out, starts, np.full(count, len(types), ">i4"))
    behind = np.full(count, fixed, np.int64)
    for position, part in enumerate(parts):
        bit = position + HEAD_BITS
        out[(starts + ARITY_BYTES + bit // 8)[part.nulls]] |= np.uint8(1 << bit % 8)
        slots = np.where(part.sizes > 0, behind << _HALF, 0) | part.slots
        _put(out, starts + ARITY_BYTES + head_bytes(len(types)) + SLOT * position, slots.astype("<i8"))
        if part.cells is not None:
            has = part.sizes > 0
            part.cells.put(out, np.where(has, starts + ARITY_BYTES + behind, 0)[part.chosen])
        behind += part.sizes
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)


class _Part:
    """A field of all rows: its slots, without the offsets, and what lies behind the slots."""

    def __init__(self, nulls: Mask, slots: Longs, sizes: Longs | None = None) -> None:
        self.nulls = nulls
        self.slots = slots
        self.sizes = np.zeros(len(nulls), np.int64) if sizes is None else sizes
        self.chosen = np.flatnonzero(self.sizes > 0)
        self.cells: cells.Cells | None = None


def _put(out: Bytes, at: Longs, values: npt.NDArray[Any]) -> None:
    if len(at):
        words = np.ndarray((len(out) - values.dtype.itemsize + 1,), values.dtype, out, strides=(1,))
        words[at] = values


def _part(type_: DataType, column: pa.Array, reserve_null: bool) -> _Part:  # noqa: FBT001
    kind = type_.kind
    wanted = arrow_type(kind)
    nulls = to_mask(column.is_null())
    if wanted is None:
        if column.null_count < len(column):
            raise InvalidInput(f"a {type_} has no place in rows")
        return _Part(nulls, np.zeros(len(column), np.int64))
    try:
        if is_text(kind) or is_bytes(kind):
            return _text_part(column.cast(pa.large_binary()), nulls)
        column = column if column.type == wanted else column.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidInput(f"a column of Arrow type {column.type} is no {type_}", hint=str(error)) from None
    sizes = np.full(len(column), reserved_bytes(kind), np.int64)
    if not reserve_null:
        sizes[nulls] = 0
    match kind:
        case Decimal(precision=precision):
            return _decimal_part(column, nulls, sizes, compact=precision <= COMPACT_DIGITS)
        case Timestamp():
            return _timestamp_part(column, kind, nulls, sizes)
        case _:
            return _Part(nulls, _slots(column, kind, nulls))


def _slots(column: pa.Array, kind: Kind, nulls: Mask) -> Longs:
    """The slots of values that fit them."""
    if kind is Simple.BOOLEAN:
        return to_mask(column).astype(np.int64)
    if kind in (Simple.FLOAT, Simple.DOUBLE):
        values = column.fill_null(0).to_numpy()
        bits: Longs = (
            values.view(np.uint32).astype(np.int64) if kind is Simple.FLOAT else values.view(np.int64)
        )
        return np.where(nulls, 0, bits)
    width = column.type.bit_width
    plain_column = column.view(pa.int32()) if width == _HALF else column
    whole: Longs = plain_column.fill_null(0).to_numpy().astype(np.int64)
    return whole if width == 2 * _HALF else whole & (2**width - 1)


def _text_part(column: pa.Array, nulls: Mask) -> _Part:
    data, starts, lengths = _parts(column)
    lengths = np.where(nulls, 0, lengths)
    long = lengths > INLINE
    short = ~nulls & ~long
    slots = np.where(long, lengths, 0)
    inline = np.zeros((len(lengths), SLOT), np.uint8)
    at = np.flatnonzero(short)
    cells.spans(data, starts[at], lengths[at]).put(inline.reshape(-1), at * SLOT)
    inline[at, INLINE] = INLINE_MARK | lengths[at].astype(np.uint8)
    slots = np.where(short, inline.view("<i8")[:, 0], slots)
    sizes = np.where(long, (lengths + SLOT - 1) // SLOT * SLOT, 0)
    part = _Part(nulls, slots, sizes)
    part.cells = cells.spans(data, starts[part.chosen], lengths[part.chosen])
    return part


def _decimal_part(column: pa.Array, nulls: Mask, sizes: Longs, *, compact: bool) -> _Part:
    raw = np.frombuffer(column.buffers()[1], np.uint8, 16 * len(column), 16 * column.offset).reshape(-1, 16)
    if compact:
        return _Part(nulls, np.where(nulls, 0, raw.view("<i8")[:, 0]))
    # What repeats the sign in front is left out, as Java's BigInteger does.
    big = np.ascontiguousarray(raw[:, ::-1])
    sign = np.where(big[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    redundant = (big[:, :-1] == sign) & ((big[:, 1:] & 0x80) == (sign & 0x80))
    skipped = np.cumprod(redundant, axis=1).sum(axis=1)
    lengths = np.where(nulls, 0, WIDE_DECIMAL - skipped)
    part = _Part(nulls, lengths, sizes)
    rows = np.flatnonzero(sizes > 0)
    starts = rows * WIDE_DECIMAL + skipped[rows]
    part.cells = cells.spans(big.reshape(-1), starts, lengths[rows])
    return part


def _timestamp_part(column: pa.Array, kind: Timestamp, nulls: Mask, sizes: Longs) -> _Part:
    values = column.view(pa.int64()).fill_null(0).to_numpy()
    unit = NANOS_PER_MILLI if kind.precision > MICRO_DIGITS else 1000
    millis, rest = np.divmod(values, unit)
    if kind.precision <= COMPACT_PRECISION:
        if rest[~nulls].any():
            raise InvalidInput(f"a time has more digits than {kind} has")
        return _Part(nulls, np.where(nulls, 0, millis))
    part = _Part(nulls, np.where(nulls, 0, rest * (NANOS_PER_MILLI // unit)), sizes)
    whole = np.where(nulls, 0, millis)[part.chosen].astype("<i8")
    part.cells = cells.words(whole)
    return part
