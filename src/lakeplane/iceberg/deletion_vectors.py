"""Deletion vectors in Puffin files: which data file each is of, and where its blob lies.

The blob itself is that of ``model.roaring``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from lakeplane.errors import InvalidInput, InvalidMetadata
from lakeplane.iceberg.puffin import CREATED_BY, Footer, NewBlob, PuffinBlob, PuffinFile, write_puffin
from lakeplane.model.frozen import EMPTY
from lakeplane.model.records import Strings
from lakeplane.model.roaring import (
    DEFAULT_LIMITS,
    MAX_POSITION,
    VectorLimits,
    merged,
    positions_of,
    read_vector,
    vector_from,
    write_vector,
)

if TYPE_CHECKING:
    from pyroaring import BitMap64

__all__ = [
    "DEFAULT_LIMITS",
    "MAX_POSITION",
    "VECTOR_TYPE",
    "VectorEntry",
    "VectorLimits",
    "check_entry",
    "merged",
    "positions_of",
    "read_vector",
    "vector_entries",
    "vector_from",
    "vector_of",
    "write_vector",
    "write_vectors",
]

VECTOR_TYPE: Final = "deletion-vector-v1"

_ROW_POSITION: Final = 2**31 - 3
"""The id of the metadata column with the position of a row."""
_INHERITED: Final = -1
_DATA_FILE: Final = "referenced-data-file"
_CARDINALITY: Final = "cardinality"


class VectorEntry(NamedTuple):
    """What a manifest tells of a vector: its data file, where the blob lies, how many rows are deleted."""

    data_file: str
    offset: int
    size: int
    cardinality: int


def write_vectors(
    vectors: Mapping[str, BitMap64], properties: Mapping[str, str] = CREATED_BY
) -> tuple[PuffinFile, tuple[VectorEntry, ...]]:
    """A Puffin file with the vectors of data files; and what manifests tell of them, in the same order."""
    file = write_puffin([_blob(path, vector) for path, vector in vectors.items()], properties)
    return file, vector_entries(file.footer, source="a new file of deletion vectors")


def _blob(path: str, vector: BitMap64) -> NewBlob:
    if not vector:
        raise InvalidInput("a deletion vector without a position", source=path, hint="Leave the file out")
    return NewBlob(
        type=VECTOR_TYPE,
        data=write_vector(vector),
        fields=(_ROW_POSITION,),
        snapshot_id=_INHERITED,
        sequence_number=_INHERITED,
        properties={_DATA_FILE: path, _CARDINALITY: str(len(vector))},
    )


def vector_entries(footer: Footer, *, source: str) -> tuple[VectorEntry, ...]:
    """The deletion vectors of a file, as its footer tells; its other blobs are passed over."""
    return tuple(
        _entry(blob, source, f"blobs[{number}]")
        for number, blob in enumerate(footer.blobs)
        if blob.type == VECTOR_TYPE
    )


def _entry(blob: PuffinBlob, source: str, place: str) -> VectorEntry:
    properties: Strings = blob.properties or EMPTY
    data_file, cardinality = properties.get(_DATA_FILE), properties.get(_CARDINALITY, "")
    if blob.compression_codec is not None:
        raise InvalidMetadata("a deletion vector may not be compressed", source=source, field=place)
    if not data_file:
        raise InvalidMetadata(f"a deletion vector without {_DATA_FILE}", source=source, field=place)
    if not (cardinality.isascii() and cardinality.isdecimal() and len(cardinality) < len(str(sys.maxsize))):
        raise InvalidMetadata(f"the {_CARDINALITY} is {cardinality!r:.40}", source=source, field=place)
    return VectorEntry(data_file, blob.offset, blob.length, int(cardinality))


def check_entry(footer: Footer, entry: VectorEntry, *, source: str) -> None:
    """Refuse what a manifest tells of a vector, if the footer of its file does not tell the same."""
    for found in vector_entries(footer, source=source):
        if found.offset == entry.offset:
            if found != entry:
                problem = f"the manifest tells of {tuple(entry)}, and the footer of {tuple(found)}"
                raise InvalidMetadata(problem, source=source)
            return
    raise InvalidMetadata(f"the footer tells of no deletion vector at {entry.offset}", source=source)


def vector_of(
    data: bytes, entry: VectorEntry, *, source: str, start: int = 0, limits: VectorLimits = DEFAULT_LIMITS
) -> BitMap64:
    """The vector that a manifest tells of, from bytes of its file that begin at ``start``."""
    begin = entry.offset - start
    if begin < 0 or entry.size < 0 or begin + entry.size > len(data):
        given = f"{start} to {start + len(data)}"
        problem = f"{entry.size} bytes from {entry.offset} on are not among those from {given}"
        raise InvalidMetadata(problem, source=source)
    blob = data[begin : begin + entry.size]
    return read_vector(blob, source=source, expected_cardinality=entry.cardinality, limits=limits)
