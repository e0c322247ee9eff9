"""Vectors that lie, with checksums that fit: ``python -m tests.iceberg.fuzz_vectors SEED ROUNDS``.

Each is refused with an error that names its source, or read to the very positions that plain Python reads.
"""

from __future__ import annotations

import json
import random
import resource
import struct
import sys
import zlib

from lakeplane.errors import InvalidMetadata
from lakeplane.iceberg.deletion_vectors import read_vector
from tests.iceberg import plain_roaring as plain

SOURCE = "fuzz"
WORDS = (0, 1, 2, 255, 4095, 4096, 12346, 12347, 32767, 32768, 65535)


def seeds(source: random.Random) -> list[bytes]:
    """Small bitmaps of every kind, where a change has a good chance to hit what matters."""
    arrays = [source.sample(range(2**20), source.randrange(1, 20)) for _ in range(4)]
    runs = [list(range(start, start + 40)) for start in (5, 70_000, 140_000, 210_000, 2**32 + 7)]
    mixed = [each for run in runs for each in run] + arrays[0]
    half = lambda _: source.random() < 0.5  # noqa: E731
    return [
        *(plain.encode(each) for each in arrays),
        plain.encode([each for run in runs for each in run], plain.always),
        plain.encode(mixed, half),
        plain.encode([*source.sample(range(65_536), 5000), 2**33 + 1], half),
        plain.bitmaps((0, plain.bitmap([])), (1, plain.bitmap([3], plain.always))),
    ]


def changed(bitmaps: bytes, source: random.Random) -> bytes:
    """The bitmaps with a few bits, bytes or words changed, cut out or put in; most often near the start."""
    data = bytearray(bitmaps)
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        place = source.randrange(min(len(data), source.choice((24, 80, len(data)))) or 1)
        match source.randrange(7):
            case 0 | 1 if data:
                data[place % len(data)] ^= 1 << source.randrange(8)
            case 2 if data:
                data[place % len(data)] = source.randrange(256)
            case 3:
                data[place : place + 2] = struct.pack("<H", source.choice(WORDS))
            case 4:
                del data[place : place + source.randrange(1, 9)]
            case 5:
                data[place:place] = source.randbytes(source.randrange(1, 9))
            case _:
                data[place : place + 8] = source.randbytes(8)
    return bytes(data)


def framed(bitmaps: bytes) -> bytes:
    content = bytes.fromhex("d1d33964") + bitmaps
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def positions_in(bitmaps: bytes) -> list[int] | None:
    """The positions, or none if they are refused as they should be."""
    try:
        return list(read_vector(framed(bitmaps), source=SOURCE))
    except InvalidMetadata as error:
        if error.source != SOURCE:
            raise
        return None


def peak_kilobytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(seed: int, rounds: int) -> dict[str, int]:
    """Try it, and count what was read, what was refused, and how much memory it took."""
    source = random.Random(seed)
    whole = seeds(source)
    start = peak_kilobytes()
    counts = {"read": 0, "refused": 0}
    for number in range(rounds):
        random_bytes = number % 20 == 0
        bitmaps = (
            source.randbytes(source.randrange(64)) if random_bytes else changed(source.choice(whole), source)
        )
        positions = positions_in(bitmaps)
        if positions is not None:
            assert positions == plain.decode(bitmaps), bitmaps.hex()
        counts["refused" if positions is None else "read"] += 1
    return {**counts, "grown_kilobytes": peak_kilobytes() - start}


if __name__ == "__main__":
    json.dump(main(int(sys.argv[1]), int(sys.argv[2])), sys.stdout)
