"""The codecs of Puffin: one frame of LZ4 or Zstandard that tells the size of its content.

That size is held against what a blob may unpack to before any memory is taken for it, and the libraries hold
it against what really comes out. pyarrow reads LZ4 frames, but writes them without the size; so they are put
together here, from blocks that it compresses.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import zstandard

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

LZ4: Final = "lz4"
ZSTD: Final = "zstd"

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SIZED: Final = 0x08
_LZ4_FLAGS: Final = 0x68  # version 1, blocks that stand alone, the size of the content
_LZ4_BLOCK_CODE: Final = 0x70  # blocks of at most 4 MiB
_LZ4_BLOCK_BYTES: Final = 4 << 20
_LZ4_STORED: Final = 1 << 31
_LZ4_SIZE_OFFSET: Final = 6
_LZ4_SIZE_END: Final = 14

_WINDOW_BYTES: Final = 1 << 27
_ZSTD_EMPTY_BYTES: Final = 32
"""More than any frame without content takes."""


def unpack(codec: str | None, data: bytes, allowed: int) -> bytes:
    """The content of a blob, which may not be larger than what is allowed."""
    match codec:
        case None:
            return data
        case "lz4":
            return _unpack_lz4(data, allowed)
        case "zstd":
            return _unpack_zstd(data, allowed)
        case _:
            raise InvalidMetadata(f"is packed with {codec!r:.40}, and the spec has lz4 and zstd only")


def pack(codec: str | None, data: bytes) -> bytes:
    """A blob of this content."""
    match codec:
        case None:
            return data
        case "lz4":
            return _pack_lz4(data)
        case "zstd":
            return zstandard.ZstdCompressor(write_checksum=True).compress(data)
        case _:
            raise InvalidInput(f"{codec!r} is no codec of Puffin", hint="There are lz4, zstd and None")


def _unpack_lz4(data: bytes, allowed: int) -> bytes:
    if data[:4] != _LZ4_MAGIC or len(data) < _LZ4_SIZE_END:
        raise InvalidMetadata("is no frame of LZ4")
    if not data[4] & _LZ4_SIZED:
        raise InvalidMetadata("is a frame of LZ4 that does not tell the size of its content")
    size = _within(int.from_bytes(data[_LZ4_SIZE_OFFSET:_LZ4_SIZE_END], "little"), allowed)
    try:
        content: bytes = pa.Codec("lz4").decompress(data, size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise InvalidMetadata(f"broken LZ4: {error}") from None
    return content


def _unpack_zstd(data: bytes, allowed: int) -> bytes:
    try:
        told = zstandard.get_frame_parameters(data).content_size
        if told == zstandard.CONTENTSIZE_UNKNOWN:
            raise InvalidMetadata("is a frame of Zstandard that does not tell the size of its content")
        size = _within(told, allowed)
        unpacking = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        if not size:  # decompress() believes that without a look at the rest
            return _nothing(unpacking.decompressobj(), data)
        return unpacking.decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InvalidMetadata(f"broken Zstandard: {error}") from None


def _nothing(unpacking: zstandard.ZstdDecompressionObj, data: bytes) -> bytes:
    if (
        len(data) > _ZSTD_EMPTY_BYTES
        or unpacking.decompress(data)
        or not unpacking.eof
        or unpacking.unused_data
    ):
        raise InvalidMetadata("broken Zstandard: a frame without content is followed by something")
    return b""


def _within(size: int, allowed: int) -> int:
    if size > allowed:
        problem = f"unpacks to {size} bytes, more than the {allowed} it may"
        raise LimitExceeded(problem, hint="Raise the limits if the file is honest")
    return size


def _pack_lz4(data: bytes) -> bytes:
    descriptor = bytes([_LZ4_FLAGS, _LZ4_BLOCK_CODE]) + len(data).to_bytes(8, "little")
    parts = [_LZ4_MAGIC, descriptor, bytes([xxh32_short(descriptor) >> 8 & 0xFF])]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        block = data[start : start + _LZ4_BLOCK_BYTES]
        packed: bytes = pa.Codec("lz4_raw").compress(block, asbytes=True)
        if len(packed) < len(block):
            parts += [len(packed).to_bytes(4, "little"), packed]
        else:
            parts += [(len(block) | _LZ4_STORED).to_bytes(4, "little"), block]
    return b"".join([*parts, bytes(4)])


_MASK: Final = 0xFFFF_FFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_XXH32_STRIPE: Final = 16


def xxh32_short(data: bytes) -> int:
    """The hash xxHash32, seed 0, of less than 16 bytes: the descriptor of an LZ4 frame has a byte of it."""
    assert len(data) < _XXH32_STRIPE
    _, prime2, prime3, prime4, prime5 = _PRIMES
    value = prime5 + len(data)
    words = len(data) & ~3
    for start in range(0, words, 4):
        value = value + int.from_bytes(data[start : start + 4], "little") * prime3 & _MASK
        value = (value << 17 | value >> 15) * prime4 & _MASK
    for byte in data[words:]:
        value = value + byte * prime5 & _MASK
        value = (value << 11 | value >> 21) * _PRIMES[0] & _MASK
    value = (value ^ value >> 15) * prime2 & _MASK
    value = (value ^ value >> 13) * prime3 & _MASK
    return value ^ value >> 16
