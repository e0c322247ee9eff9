"""JSON files of a table, gzipped or not, read with limits: what lies in storage is not trusted."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

T = TypeVar("T")

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 1 << 20
_STEP: Final = 1 << 14


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is accepted of one file. Real metadata stays far below; bombs do not."""

    size: int = 1 << 30
    """Bytes after decompression."""
    ratio: int = 500
    """Bytes after decompression for each byte before; the first megabyte is free."""
    items: int = 2_000_000
    """Entries of any one list or object at the top of the document."""


DEFAULT_LIMITS: Final = Limits()


def decode(
    data: bytes,
    convert: Callable[[Mapping[str, Any]], T],
    *,
    source: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> T:
    """Read a JSON object and convert it; errors name the source."""
    try:
        return convert(_load(data, limits))
    except RecursionError:
        raise LimitExceeded("nested too deep", source=source) from None
    except InvalidMetadata as error:
        raise type(error)(error.problem, source=source, field=error.field, hint=error.hint) from None
    except InvalidInput as error:
        raise InvalidMetadata(error.problem, source=source, field=error.field, hint=error.hint) from None


def encode(document: dict[str, Any], *, compress: bool = False) -> bytes:
    """Write a JSON object; the same object always gives the same bytes."""
    text = msgspec.json.encode(document)
    return gzip.compress(text, mtime=0) if compress else text


def _load(data: bytes, limits: Limits) -> dict[str, Any]:
    if data.startswith(_GZIP_MAGIC):
        data = _decompress(data, limits)
    if data.startswith(_ZSTD_MAGIC):
        hint = "The spec has gzip only: unpack it, and set write.metadata.compression-codec to gzip or none"
        raise InvalidMetadata("compressed with zstandard", hint=hint)
    if len(data) > limits.size:
        raise LimitExceeded(f"larger than {limits.size} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMetadata(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidMetadata("not a JSON object")
    for key, value in document.items():
        if isinstance(value, dict | list) and len(value) > limits.items:
            raise LimitExceeded(f"has more than {limits.items} entries", field=key)
    return document


def _decompress(data: bytes, limits: Limits) -> bytes:
    allowed = min(limits.size, _CHUNK + limits.ratio * len(data))
    parts: list[bytes] = []
    size = offset = 0
    while offset < len(data):
        inflate = zlib.decompressobj(wbits=31)
        feed = b""
        while True:
            if not feed:
                # In small steps: what follows the end of a member is copied, and there may be many members.
                feed = data[offset : offset + _STEP]
                offset += len(feed)
            try:
                part = inflate.decompress(feed, _CHUNK)
            except zlib.error as error:
                raise InvalidMetadata(f"broken gzip: {error}") from None
            feed = inflate.unconsumed_tail
            size += len(part)
            if size > allowed:
                problem = f"decompresses to more than {allowed} bytes"
                raise LimitExceeded(problem, hint="Raise the limits if the file is honest")
            parts.append(part)
            if inflate.eof:
                break
            if not part and not feed and offset >= len(data):
                raise InvalidMetadata("broken gzip: it ends too early")
        offset -= len(inflate.unused_data)
    return b"".join(parts)
