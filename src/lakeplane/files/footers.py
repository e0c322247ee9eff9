"""What footers of Parquet files tell about their columns, as manifests hold it.

Footers are read from the last bytes of files, by any writer. Bounds are taken only where they certainly
hold: every row group with values must have some, in an order that is the one of the type. What Arrow's
reader does not trust (minima of old writers that compared bytes as signed, those of INT96), it does not give.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from lakeplane.errors import InvalidMetadata
from lakeplane.files.parquet_schema import (
    REPEATED,
    REPETITION,
    Element,
    footer_of,
    match_elements,
    read_schema,
)
from lakeplane.files.stored_bounds import BoundRule, bound_rule, bounds_array
from lakeplane.iceberg.manifest_schema import FILE_COLUMNS
from lakeplane.iceberg.metrics import ColumnFacts, metrics_columns
from lakeplane.iceberg.metrics_modes import COUNTS, NONE, MetricsMode
from lakeplane.model.schema import Schema
from lakeplane.model.types import FLOATS, VARIANT, Field, Geometry, is_nested


class FooterFacts(NamedTuple):
    """What the footers of some files tell."""

    record_counts: pa.Array
    split_offsets: pa.Array
    """Where the row groups begin."""
    columns: list[ColumnFacts]


class _Leaf(NamedTuple):
    """A column of files that are all laid out alike."""

    column: int
    field_id: int
    counts: bool
    """Whether its values are counted; not those of the parts of a variant."""
    rule: BoundRule | None
    """How its stored bounds become values; None for a column without bounds."""
    is_floating: bool
    is_shape: bool
    """Whether it has a box in the place of bounds."""


class _Layout(NamedTuple):
    head: bytes
    """How footers of such files begin: all bytes up to the end of the schema."""
    leaves: list[_Leaf]


class _Column(NamedTuple):
    """The facts about one column, file by file."""

    sizes: list[int | None]
    values: list[int | None]
    nulls: list[int | None]
    nans: list[int | None]
    lower: list[Any]
    upper: list[Any]


def parquet_metrics(
    tails: Sequence[bytes],
    schema: Schema,
    modes: Mapping[int, MetricsMode],
    *,
    counted: Mapping[int, ColumnFacts] | None = None,
    sources: Sequence[str] = (),
) -> pa.Table:
    """The columns of manifests that follow from footers, with one row for each file.

    These are ``record_count``, ``split_offsets`` and the six maps of metrics.

    Args:
        tails: The last bytes of each file, with its whole footer (``parquet_schema.footer_length``); the
            whole file will do.
        schema: The schema of the table. Columns are found by their ids, in files without ids by name.
        modes: How much is kept of each column (``metrics_modes``).
        counted: What the writer has counted itself, by field id: values that are NaN, which footers do not
            tell, and nulls, where they do not.
        sources: The files, for errors.
    """
    facts = parquet_facts(tails, schema, modes, sources=sources)
    known = counted or {}
    complete = [_completed(each, known.get(each.field_id)) for each in facts.columns]
    columns = {
        "record_count": facts.record_counts,
        **metrics_columns(complete, schema, modes),
        "split_offsets": facts.split_offsets,
    }
    if not complete:
        empty = {name: pa.nulls(len(tails), FILE_COLUMNS.field(name).type) for name in columns}
        columns = {**empty, "record_count": facts.record_counts, "split_offsets": facts.split_offsets}
    return pa.table(columns)


def _completed(told: ColumnFacts, counted: ColumnFacts | None) -> ColumnFacts:
    if counted is None:
        return told
    nulls = counted.nulls if told.nulls is None or told.nulls.null_count else told.nulls
    return told._replace(nulls=nulls, nans=counted.nans)


def parquet_facts(
    tails: Sequence[bytes],
    schema: Schema,
    modes: Mapping[int, MetricsMode],
    *,
    sources: Sequence[str] = (),
) -> FooterFacts:
    """What the footers of files tell; see ``parquet_metrics``."""
    rows: list[int] = []
    splits: list[list[int] | None] = []
    columns: dict[int, _Column] = {}
    layouts: list[_Layout] = []
    for place, tail in enumerate(tails):
        source = sources[place] if place < len(sources) else None
        footer = footer_of(tail, source)
        layout = _layout(layouts, footer, schema, modes, source)
        metadata = _read_metadata(tail, source)
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        rows.append(metadata.num_rows)
        splits.append(_splits(groups) if metadata.num_columns else None)
        tells_nan = bool(_NAN_IS_THE_MAXIMUM.match(metadata.created_by or ""))
        for leaf in layout.leaves:
            chunks = [group.column(leaf.column) for group in groups]
            column = _add(columns, place, leaf, chunks)
            if leaf.is_shape:
                column.lower[place], column.upper[place] = _box(chunks)
            elif leaf.is_floating and tells_nan:
                column.nans[place] = _no_nans(chunks)
        for column in columns.values():
            if len(column.sizes) <= place:
                _fill(column, place + 1)
    found = [
        ColumnFacts(
            field_id,
            pa.array(column.sizes, pa.int64()),
            pa.array(column.values, pa.int64()),
            pa.array(column.nulls, pa.int64()),
            pa.array(column.nans, pa.int64()),
            lower=_bounds(schema, field_id, column.lower),
            upper=_bounds(schema, field_id, column.upper),
        )
        for field_id, column in columns.items()
    ]
    return FooterFacts(
        pa.array(rows, pa.int64()), pa.array(splits, FILE_COLUMNS.field("split_offsets").type), found
    )


def _read_metadata(tail: bytes, source: str | None) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415 - not everybody who imports this reads footers

    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as error:
        raise InvalidMetadata(f"the footer cannot be read: {error}", source=source) from None


def _splits(groups: Sequence[Any]) -> list[int] | None:
    starts = sorted(map(_start, groups))
    return starts or None


def _start(group: Any) -> int:
    chunk = group.column(0)
    data: int = chunk.data_page_offset
    dictionary = chunk.dictionary_page_offset
    # Some writers store 0 for "there is none".
    return dictionary if dictionary and dictionary < data else data


# Layouts: most files of a table are laid out alike


def _layout(
    layouts: list[_Layout],
    footer: bytes,
    schema: Schema,
    modes: Mapping[int, MetricsMode],
    source: str | None,
) -> _Layout:
    for layout in layouts:
        if footer.startswith(layout.head):
            return layout
    stored = read_schema(footer, source)
    layout = _Layout(footer[: stored.end], list(_leaves(stored.root, schema, modes)))
    layouts.insert(0, layout)
    return layout


def _leaves(root: Element, schema: Schema, modes: Mapping[int, MetricsMode]) -> Iterator[_Leaf]:
    matched = match_elements(root, schema)
    index = 0

    def visit(element: Element, variant: Field | None, *, repeated: bool) -> Iterator[_Leaf]:
        nonlocal index
        field = matched.get(element.place)
        variant = field if field is not None and field.type is VARIANT else variant
        repeated = repeated or element.number(REPETITION) == REPEATED
        for child in element.children:
            yield from visit(child, variant, repeated=repeated)
        if element.children:
            return
        if variant is not None and modes.get(variant.id, NONE) is not NONE:
            counts = element.name == "metadata"
            yield _Leaf(index, variant.id, counts, rule=None, is_floating=False, is_shape=False)
        elif field is not None and not is_nested(field.type) and modes.get(field.id, NONE) is not NONE:
            bounded = not repeated and modes[field.id] is not COUNTS
            yield _Leaf(
                index,
                field.id,
                counts=True,
                rule=bound_rule(element, field.type) if bounded else None,
                is_floating=field.type in FLOATS,
                # The box of a geography may go around the earth the other way.
                is_shape=bounded and isinstance(field.type, Geometry),
            )
        index += 1

    for child in root.children:
        yield from visit(child, None, repeated=False)


# Columns


def _fill(column: _Column, length: int) -> None:
    """Nothing is known of the column in the files up to here."""
    for facts in column:
        facts.extend([None] * (length - len(facts)))


def _add(columns: dict[int, _Column], place: int, leaf: _Leaf, chunks: Sequence[Any]) -> _Column:
    column = columns.get(leaf.field_id)
    if column is None:
        column = columns[leaf.field_id] = _Column([], [], [], [], [], [])
    if len(column.sizes) <= place:
        _fill(column, place)
        for facts in column:
            facts.append(None)
    if len(chunks) == 1:
        _add_only(column, place, leaf, chunks[0])
    else:
        _add_all(column, place, leaf, chunks)
    return column


def _add_only(column: _Column, place: int, leaf: _Leaf, chunk: Any) -> None:
    """Take the facts of the only row group, as most files have."""
    column.sizes[place] = (column.sizes[place] or 0) + chunk.total_compressed_size
    if not leaf.counts:
        return
    column.values[place] = chunk.num_values
    statistics = chunk.statistics
    if statistics is None:
        return
    if statistics.has_null_count:
        column.nulls[place] = statistics.null_count
    rule = leaf.rule
    if rule is not None and statistics.has_min_max:
        lower, upper = statistics.min_raw, statistics.max_raw
        column.lower[place] = lower if rule.lower is None else rule.lower(lower)
        column.upper[place] = upper if rule.upper is None else rule.upper(upper)


def _add_all(column: _Column, place: int, leaf: _Leaf, chunks: Sequence[Any]) -> None:
    column.sizes[place] = (column.sizes[place] or 0) + sum(chunk.total_compressed_size for chunk in chunks)
    if not leaf.counts:
        return
    column.values[place] = sum(chunk.num_values for chunk in chunks)
    statistics = [chunk.statistics for chunk in chunks]
    nulls = [each.null_count if each is not None and each.has_null_count else None for each in statistics]
    known = [each for each in nulls if each is not None]
    if len(known) == len(nulls):
        column.nulls[place] = sum(known)
    if leaf.rule is not None:
        full = [
            each
            for each, chunk, none in zip(statistics, chunks, nulls, strict=True)
            if none != chunk.num_values
        ]
        column.lower[place], column.upper[place] = _merged(leaf.rule, full)


def _merged(rule: BoundRule, statistics: Sequence[Any]) -> tuple[Any, Any]:
    """The bounds of all row groups with values together; None unless each of them has some."""
    if not statistics or not all(each is not None and each.has_min_max for each in statistics):
        return None, None
    lower = [each.min_raw for each in statistics]
    upper = [each.max_raw for each in statistics]
    if rule.lower is not None:
        lower = list(map(rule.lower, lower))
    if rule.upper is not None:
        upper = list(map(rule.upper, upper))
    return _extreme(min, lower), _extreme(max, upper)


_NAN_IS_THE_MAXIMUM: Final = re.compile(r"parquet-mr version 1\.1[67]\.")
"""Writers to which NaN is above all numbers: where their maximum is a number, there is no NaN."""


def _no_nans(chunks: Sequence[Any]) -> int | None:
    """None of the values is NaN, or nobody knows."""
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None:
            return None
        is_empty = statistics.has_null_count and statistics.null_count == chunk.num_values
        # Only NaN differs from itself.
        is_known = statistics.has_min_max and statistics.max_raw == statistics.max_raw
        if not is_empty and not is_known:
            return None
    return 0


def _box(chunks: Sequence[Any]) -> tuple[Any, Any]:
    """The corners of the box around all shapes; None unless each row group with values tells of its own."""
    boxes = []
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
            continue
        shapes = getattr(chunk, "geo_statistics", None)
        if shapes is None:
            return None, None
        box = (shapes.xmin, shapes.ymin, shapes.xmax, shapes.ymax)
        if any(each is None or not math.isfinite(each) for each in box) or box[0] > box[2] or box[1] > box[3]:
            return None, None
        boxes.append(box)
    if not boxes:
        return None, None
    left, low, right, high = zip(*boxes, strict=True)
    return {"x": min(left), "y": min(low)}, {"x": max(right), "y": max(high)}


def _extreme(choose: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    # NaN has no place in an order: with one, nothing is known.
    broken = any(each is None for each in values)
    unordered = next((each for each in values if each != each), None)  # noqa: PLR0124 - only NaN differs from itself
    return None if broken else choose(values) if unordered is None else unordered


def _bounds(schema: Schema, field_id: int, values: list[Any]) -> pa.Array | None:
    if all(each is None for each in values):
        return None
    type_ = schema.field(field_id).type
    return pa.array(values, _CORNER) if isinstance(type_, Geometry) else bounds_array(type_, values)


_CORNER: Final = pa.struct([("x", pa.float64()), ("y", pa.float64())])
