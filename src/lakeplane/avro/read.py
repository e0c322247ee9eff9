"""Reading Avro files: all of a file, or the columns that are picked, as Arrow."""

from __future__ import annotations

import atexit
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

import msgspec
import pyarrow as pa

from lakeplane.avro import rows
from lakeplane.avro.container import Block, Header, naming, parse_header, unpack_blocks
from lakeplane.avro.fit import fit
from lakeplane.avro.limits import DEFAULT_LIMITS, Limits
from lakeplane.avro.schema import parse_schema, weight
from lakeplane.avro.selection import Pick, Selection, select
from lakeplane.errors import InvalidMetadata

__all__ = [
    "DEFAULT_LIMITS",
    "AvroFile",
    "Engine",
    "Header",
    "Limits",
    "Pick",
    "read_avro",
    "read_avro_files",
    "read_header",
]

Engine = Literal["wasm", "rows"]
"""How files are decoded and encoded: by generated code, or in plain Python."""

_ENGINE: Final[Engine] = "wasm" if find_spec("wasmtime") and sys.byteorder == "little" else "rows"


_MOST_CODE: Final = 3_000
"""Code for heavier schemas takes seconds to compile, and then minutes: plain Python reads those."""


class Decoder(Protocol):
    """Takes the columns of a selection out of blocks."""

    @property
    def selection(self) -> Selection:
        """What is decoded."""
        ...

    def __call__(self, blocks: Iterable[Block], size: int) -> tuple[int, list[Any]]:
        """The number of rows, and the columns; how much they may take depends on the file's ``size``."""
        ...


class AvroFile(msgspec.Struct, frozen=True):
    """What a file holds."""

    schema: dict[str, Any] | list[Any]
    """The writer's schema as JSON; a list where the rows are a union of null and a record."""
    metadata: Mapping[str, bytes]
    """What the file carries besides its rows, without what is Avro's own."""
    codec: str
    table: pa.Table
    """One row for each record."""


def read_header(data: bytes | memoryview, *, source: str, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Read what a file says about itself, without its rows."""
    with naming(source):
        return parse_header(memoryview(data), limits)


def read_avro(
    data: bytes | memoryview,
    picks: Sequence[Pick] | None = None,
    *,
    source: str,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine | None = None,
) -> AvroFile:
    """Read the columns that are picked, or all fields of the rows under their names.

    Whatever is wrong with the file is an ``InvalidMetadata`` that names it as ``source``; more than is
    accepted of one file is a ``LimitExceeded``.
    """
    view = memoryview(data)
    with naming(source):
        header = parse_header(view, limits)
        chosen = None if picks is None else tuple(picks)
        decoder = _decoder(header.schema_text, chosen, limits, engine or _ENGINE)
        count, arrays = decoder(unpack_blocks(view, header, limits), len(view))
        table = _table(decoder.selection, count, arrays)
    return AvroFile(header.schema, MappingProxyType(dict(header.metadata)), header.codec, table)


def read_avro_files(
    files: Sequence[tuple[bytes, str]],
    picks: Sequence[Pick],
    *,
    limits: Limits = DEFAULT_LIMITS,
    engine: Engine | None = None,
) -> list[AvroFile]:
    """Read the same columns of files that are given with their sources: many small ones cost little more."""
    headers = [(data, source, read_header(data, source=source, limits=limits)) for data, source in files]
    found: list[AvroFile] = []
    for _, alike in itertools.groupby(headers, lambda each: each[2].schema_text):
        several = list(alike)
        try:
            found += list(_read_together([(data, at) for data, _, at in several], picks, limits, engine))
        except InvalidMetadata:
            # One by one, so that the error names the file that is broken, or it was too much at once.
            found += [
                read_avro(data, picks, source=source, limits=limits, engine=engine)
                for data, source, _ in several
            ]
    return found


def _read_together(
    files: Sequence[tuple[bytes, Header]], picks: Sequence[Pick], limits: Limits, engine: Engine | None
) -> Iterator[AvroFile]:
    """Read files of one schema as if they were one."""
    rows = [0] * len(files)

    def blocks() -> Iterator[Block]:
        for number, (data, header) in enumerate(files):
            for block in unpack_blocks(memoryview(data), header, limits):
                rows[number] += block.rows
                yield block

    decoder = _decoder(files[0][1].schema_text, tuple(picks), limits, engine or _ENGINE)
    count, arrays = decoder(blocks(), sum(len(data) for data, _ in files))
    table = _table(decoder.selection, count, arrays)
    starts = itertools.accumulate(rows, initial=0)
    for start, length, (_, header) in zip(starts, rows, files, strict=False):
        metadata = MappingProxyType(dict(header.metadata))
        yield AvroFile(header.schema, metadata, header.codec, table.slice(start, length))


@lru_cache(maxsize=32)
def _decoder(schema: bytes, picks: tuple[Pick, ...] | None, limits: Limits, engine: Engine) -> Decoder:
    root = parse_schema(msgspec.json.decode(schema), limits)
    selection = select(root, picks)
    if engine == "rows" or weight(root) > _MOST_CODE:
        return rows.Decoder(selection, limits)
    from lakeplane.avro import wasm  # noqa: PLC0415  # there may be none

    return wasm.Decoder(selection, limits)


# What wasmtime holds must go while its modules are still there.
atexit.register(_decoder.cache_clear)


def _table(selection: Selection, count: int, arrays: Sequence[Any]) -> pa.Table:
    found = []
    for result in selection.results:
        field = result.field
        if result.column is None:
            found.append(pa.nulls(count, field.type))
        else:
            found.append(fit(arrays[result.column], field.type, field.name))
    schema = pa.schema([result.field for result in selection.results])
    if not found:
        return pa.table({"": pa.nulls(count)}).select([])
    return pa.Table.from_arrays(found, schema=schema)
