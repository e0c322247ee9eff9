"""Puffin files: blobs of any kind, and a footer that tells what and where they are.

::

    magic blob … blob  magic payload  size flags magic
                       └ footer ─────────────────────┘

A reader needs the footer only, or not even that where a manifest says where a blob lies. So everything here
works on a piece of a file as well as on a whole one: ``footer_length`` tells from the last ``TAIL_BYTES`` how
many bytes the footer takes, and ``blob_bytes`` cuts a blob out of any range that holds it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.iceberg.puffin_codecs import LZ4, pack, unpack
from lakeplane.model import json_files
from lakeplane.model.frozen import EMPTY, FrozenDict
from lakeplane.model.records import Int, Long, Record, Strings, read, write

MAGIC: Final = b"PFA1"
TAIL_BYTES: Final = 12
"""What the end of every file has: the size of the payload, the flags, the magic."""
CREATED_BY: Final[Strings] = FrozenDict({"created-by": "lakeplane"})

_AROUND: Final = len(MAGIC) + TAIL_BYTES
_PACKED: Final = 1
_GZIP_MAGIC: Final = b"\x1f\x8b"
_TAIL: Final = struct.Struct("<iI4s")
_MAX_INT: Final = 2**31 - 1


class PuffinLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is accepted of one file. Each of them ends in a ``LimitExceeded`` that names the file."""

    footer_bytes: int = 64 << 20
    """The payload of the footer, before and after decompression."""
    blobs: int = 1_000_000
    """Blobs in the file."""
    blob_bytes: int = 1 << 30
    """One blob, before and after decompression."""
    free_bytes: int = 16 << 20
    """What any blob may unpack to, however small it is."""
    ratio: int = 100
    """Bytes after decompression for each byte before, on top of ``free_bytes``."""

    def unpacked(self, size: int) -> int:
        """How many bytes a blob of this size may unpack to."""
        return min(self.blob_bytes, self.free_bytes + self.ratio * size)


DEFAULT_LIMITS: Final = PuffinLimits()


class PuffinBlob(Record, frozen=True, kw_only=True):
    """What the footer tells of one blob."""

    type: str
    fields: tuple[Int, ...]
    snapshot_id: Long
    sequence_number: Long
    offset: Long
    length: Long
    compression_codec: str | None = None
    properties: Strings | None = None


class Footer(Record, frozen=True, kw_only=True):
    """What the footer tells of the file."""

    blobs: tuple[PuffinBlob, ...]
    properties: Strings | None = None


class NewBlob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob that is to be written; the codecs are ``"lz4"`` and ``"zstd"``."""

    type: str
    data: bytes
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    codec: str | None = None
    properties: Mapping[str, str] = EMPTY


class PuffinFile(NamedTuple):
    """A file as it was written, its footer, and how many of its last bytes the footer takes."""

    data: bytes
    footer: Footer
    footer_length: int


def footer_length(
    tail: bytes, *, source: str, file_size: int | None = None, limits: PuffinLimits = DEFAULT_LIMITS
) -> int:
    """How many bytes the footer takes, from the end of a file: its last ``TAIL_BYTES``, or more."""
    if len(tail) < TAIL_BYTES or not tail.endswith(MAGIC):
        raise InvalidMetadata("is no Puffin file: it does not end in PFA1", source=source)
    size: int
    flags: int
    size, flags, _ = _TAIL.unpack(tail[-TAIL_BYTES:])
    if flags & ~_PACKED:
        problem = f"has flags in its footer that lakeplane does not know: {flags & ~_PACKED:#010x}"
        raise InvalidMetadata(problem, source=source, hint="A newer release may read it")
    if size < 0:
        raise InvalidMetadata(f"the size of the footer is {size}", source=source)
    if size > limits.footer_bytes:
        problem = f"the footer takes {size} bytes, more than {limits.footer_bytes}"
        raise LimitExceeded(problem, source=source, hint="Raise the limits if the file is honest")
    if file_size is not None and size + _AROUND + len(MAGIC) > file_size:
        raise InvalidMetadata(f"the footer takes {size} bytes, more than the file has", source=source)
    return size + _AROUND


def read_footer(
    data: bytes, *, source: str, file_size: int | None = None, limits: PuffinLimits = DEFAULT_LIMITS
) -> Footer:
    """Read the footer of a whole file, or with ``file_size`` of as much of its end as the footer takes."""
    whole = file_size is None or len(data) == file_size
    length = footer_length(data, source=source, file_size=len(data) if whole else file_size, limits=limits)
    if len(data) < length:
        raise InvalidInput(f"the footer takes {length} bytes, and {len(data)} are given", source=source)
    start = len(data) - length
    if data[start : start + len(MAGIC)] != MAGIC or (whole and not data.startswith(MAGIC)):
        raise InvalidMetadata("is no Puffin file: a PFA1 is missing", source=source)
    payload = data[start + len(MAGIC) : -TAIL_BYTES]
    if data[-len(MAGIC) - 4] & _PACKED:
        payload = _unpack(
            LZ4, payload, min(limits.footer_bytes, limits.unpacked(len(payload))), source, "footer"
        )
    if payload.startswith(_GZIP_MAGIC):  # which files of metadata may be, and footers may not
        raise InvalidMetadata("the footer is packed with gzip", source=source)
    sizes = json_files.Limits(size=limits.footer_bytes, items=limits.blobs)
    footer = json_files.decode(payload, _footer, source=source, limits=sizes)
    end = (file_size or len(data)) - length
    for number, blob in enumerate(footer.blobs):
        if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > end:
            problem = f"{blob.length} bytes from {blob.offset} on are not between the start and the footer"
            raise InvalidMetadata(problem, source=source, field=f"blobs[{number}]")
    return footer


def _footer(document: Mapping[str, object]) -> Footer:
    return read(Footer, document, "")


def blob_bytes(
    data: bytes, blob: PuffinBlob, *, source: str, start: int = 0, limits: PuffinLimits = DEFAULT_LIMITS
) -> bytes:
    """The content of a blob, from the bytes of its file; ``start`` is where in the file they begin."""
    place = f"the {blob.type:.80} at {blob.offset}"
    begin = blob.offset - start
    if begin < 0 or blob.length < 0 or begin + blob.length > len(data):
        problem = f"its {blob.length} bytes are not among those from {start} to {start + len(data)}"
        raise InvalidMetadata(problem, source=source, field=place)
    if blob.length > limits.blob_bytes:
        problem = f"takes {blob.length} bytes, more than {limits.blob_bytes}"
        raise LimitExceeded(
            problem, source=source, field=place, hint="Raise the limits if the file is honest"
        )
    packed = data[begin : begin + blob.length]
    return _unpack(blob.compression_codec, packed, limits.unpacked(blob.length), source, place)


def _unpack(codec: str | None, data: bytes, allowed: int, source: str, place: str) -> bytes:
    try:
        return unpack(codec, data, allowed)
    except InvalidMetadata as error:
        raise type(error)(error.problem, source=source, field=place, hint=error.hint) from None


def write_puffin(
    blobs: Iterable[NewBlob], properties: Mapping[str, str] = CREATED_BY, *, compress_footer: bool = False
) -> PuffinFile:
    """Write a file; the same blobs always give the same bytes."""
    parts = [MAGIC]
    offset = len(MAGIC)
    written: list[PuffinBlob] = []
    for blob in blobs:
        packed = pack(blob.codec, blob.data)
        written.append(
            PuffinBlob(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=offset,
                length=len(packed),
                compression_codec=blob.codec,
                properties=FrozenDict(blob.properties) or None,
            )
        )
        parts.append(packed)
        offset += len(packed)
    footer = Footer(blobs=tuple(written), properties=FrozenDict(properties) or None)
    payload = json_files.encode(write(footer))
    if compress_footer:
        payload = pack(LZ4, payload)
    if len(payload) > _MAX_INT:
        raise InvalidInput(f"a footer for {len(written)} blobs is too large", hint="Write several files")
    parts += [MAGIC, payload, _TAIL.pack(len(payload), _PACKED if compress_footer else 0, MAGIC)]
    return PuffinFile(b"".join(parts), footer, len(payload) + _AROUND)
