"""The codecs of blocks. What unpacks does so within a number of bytes that it may give at most."""

from __future__ import annotations

import bz2
import lzma
import threading
import zlib
from collections.abc import Callable
from typing import Final

import deflate
import pyarrow as pa
import zstandard

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded

Unpack = Callable[[memoryview, int], bytes]
"""From a block and the bytes it may unpack to, to the bytes that it unpacks to."""
Pack = Callable[[bytes | memoryview], bytes]
"""From the records of a block to the block. Several threads may do it at once."""

_GUESS: Final = 1 << 16
_CHECKSUM: Final = 4
_DEFLATE_LEVEL: Final = 4
"""With libdeflate, manifests get less than one percent larger by it than at level 6, in a tenth less time."""
_STEP: Final = 1 << 20
_per_thread = threading.local()


def unpacker(codec: str) -> Unpack:
    """What unpacks the blocks of one file, one after the other."""
    match codec:
        case "null":
            return _stored
        case "deflate":
            return _Inflate()
        case "zstandard":
            return _unpack_zstandard
        case "snappy":
            return _unpack_snappy
        case "bzip2":
            return _unpack_bzip2
        case "xz":
            return _unpack_xz
        case _:
            raise InvalidMetadata(
                f"is packed with {codec}, which lakeplane does not know", field="avro.codec"
            )


def packer(codec: str, level: int | None) -> tuple[str, Pack]:
    """The name of a codec in the file, and what packs with it."""
    match codec:
        case "null" | "uncompressed":
            return "null", bytes
        case "deflate" | "gzip":
            strength = _DEFLATE_LEVEL if level is None else _within(level, 0, 12)
            return "deflate", lambda data: bytes(deflate.deflate_compress(data, strength))
        case "zstandard" | "zstd":
            return "zstandard", _zstandard_packer(3 if level is None else _within(level, -131_072, 22))
        case "snappy":
            return "snappy", _pack_snappy
        case _:
            raise InvalidInput(f"{codec!r} is no codec", hint="There are deflate, zstd, snappy and null")


def _zstandard_packer(level: int) -> Pack:
    per_thread = threading.local()  # one shared between threads crashes

    def pack(data: bytes | memoryview) -> bytes:
        packing = getattr(per_thread, "packing", None)
        if packing is None:
            packing = per_thread.packing = zstandard.ZstdCompressor(level=level)
        return bytes(packing.compress(data))

    return pack


def _within(level: int, low: int, high: int) -> int:
    if not low <= level <= high:
        raise InvalidInput(f"the compression level {level} is not between {low} and {high}")
    return level


def _stored(data: memoryview, allowed: int) -> bytes:
    if len(data) > allowed:
        raise _too_large(allowed)
    return bytes(data)


class _Inflate:
    """Deflate without a frame, by libdeflate, which has to know how much comes out.

    The block before is a good guess, as writers cut blocks at a size. Where the guess is wrong, zlib does it:
    it is slower, and can stop at a limit.
    """

    def __init__(self) -> None:
        self.guess = 0

    def __call__(self, data: memoryview, allowed: int) -> bytes:
        guess = (
            max(self.guess, _GUESS, 8 * len(data))
            if len(data) > _GUESS >> 6
            else max(self.guess, _GUESS >> 4)
        )
        try:
            # Into no bytes at all, libdeflate unpacks whatever there is without a complaint.
            found = bytes(deflate.deflate_decompress(data, max(1, min(guess, allowed))))
        except deflate.DeflateError:
            found = self._slowly(data, allowed)
        if len(found) > allowed:
            raise _too_large(allowed)
        self.guess = len(found) + (len(found) >> 2)
        return found

    def _slowly(self, data: memoryview, allowed: int) -> bytes:
        inflate = zlib.decompressobj(wbits=-15)
        parts: list[bytes] = []
        size, feed = 0, bytes(data)
        try:
            while feed and not inflate.eof:
                parts.append(inflate.decompress(feed, _STEP))
                size, feed = size + len(parts[-1]), inflate.unconsumed_tail
                if size > allowed:
                    raise _too_large(allowed)
            parts.append(inflate.flush())
        except zlib.error as error:
            raise InvalidMetadata(f"broken deflate: {error}") from None
        if not inflate.eof:
            raise InvalidMetadata("broken deflate: it ends too early")
        return b"".join(parts)


def _unpack_zstandard(data: memoryview, allowed: int) -> bytes:
    """Read frame by frame and in steps: Java writes no content size, and what a frame says is not trusted.

    A frame that is cut off gives what there is of it; whoever reads the rows then finds too few.
    """
    unpacking = getattr(_per_thread, "zstandard", None)  # one shared between threads crashes
    if unpacking is None:
        unpacking = _per_thread.zstandard = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    parts: list[bytes] = []
    size = 0
    try:
        with unpacking.stream_reader(data, read_across_frames=True) as stream:
            while part := stream.read(_STEP):
                size += len(part)
                if size > allowed:
                    raise _too_large(allowed)
                parts.append(part)
    except zstandard.ZstdError as error:
        raise InvalidMetadata(f"broken zstandard: {error}") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unpack_snappy(data: memoryview, allowed: int) -> bytes:
    size = _snappy_size(data)
    if size > allowed:
        raise _too_large(allowed)
    packed, checksum = data[:-_CHECKSUM], bytes(data[-_CHECKSUM:])
    try:
        found = pa.Codec("snappy").decompress(bytes(packed), size).to_pybytes()
    except (OSError, pa.ArrowException) as error:
        raise InvalidMetadata(f"broken snappy: {error}") from None
    if deflate.crc32(found).to_bytes(_CHECKSUM, "big") != checksum:
        raise InvalidMetadata("broken snappy: the checksum is that of other bytes")
    return bytes(found)


def _snappy_size(data: memoryview) -> int:
    size = 0
    for place, byte in enumerate(data[: max(0, min(5, len(data) - _CHECKSUM))]):
        size |= (byte & 127) << 7 * place
        if byte < 1 << 7:
            return size
    raise InvalidMetadata("broken snappy: no size")


def _pack_snappy(data: bytes | memoryview) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + deflate.crc32(data).to_bytes(_CHECKSUM, "big")


def _unpack_bzip2(data: memoryview, allowed: int) -> bytes:
    return _in_steps(bz2.BZ2Decompressor(), data, allowed, "bzip2")


def _unpack_xz(data: memoryview, allowed: int) -> bytes:
    return _in_steps(lzma.LZMADecompressor(memlimit=1 << 27), data, allowed, "xz")


def _in_steps(
    unpacking: bz2.BZ2Decompressor | lzma.LZMADecompressor, data: memoryview, allowed: int, codec: str
) -> bytes:
    try:
        found = unpacking.decompress(data, allowed + 1)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InvalidMetadata(f"broken {codec}: {error}") from None
    if len(found) > allowed:
        raise _too_large(allowed)
    if not unpacking.eof:
        raise InvalidMetadata(f"broken {codec}: it ends too early")
    return found


def _too_large(allowed: int) -> LimitExceeded:
    return LimitExceeded(
        f"unpacks to more than the {allowed} bytes it may", hint="Raise the limits if the file is honest"
    )
