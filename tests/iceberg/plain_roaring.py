"""The portable format of Roaring in plain Python, written from its specification, to compare with."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable

ARRAY_MAX = 4096
Runs = Callable[[list[int]], bool]
"""Whether a container with these values is written as runs."""


def never(_values: list[int]) -> bool:
    return False


def always(_values: list[int]) -> bool:
    return True


def runs_of(values: list[int]) -> list[tuple[int, int]]:
    """First value and length minus one of each run."""
    found: list[list[int]] = []
    for value in values:
        if found and value == sum(found[-1]) + 1:
            found[-1][1] += 1
        else:
            found.append([value, 0])
    return [(start, more) for start, more in found]


def container(values: list[int], *, as_runs: bool) -> bytes:
    if as_runs:
        runs = runs_of(values)
        return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)
    if len(values) <= ARRAY_MAX:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value // 8] |= 1 << value % 8
    return bytes(bits)


def split(values: Iterable[int], bits: int) -> dict[int, list[int]]:
    parts = defaultdict(list)
    for value in sorted(values):
        parts[value >> bits].append(value & (1 << bits) - 1)
    return parts


def bitmap(values: Iterable[int], runs: Runs = never) -> bytes:
    """A 32-bit bitmap."""
    parts = split(values, 16)
    marks = [runs(each) for each in parts.values()]
    bodies = [container(each, as_runs=mark) for each, mark in zip(parts.values(), marks, strict=True)]
    heads = b"".join(struct.pack("<HH", key, len(each) - 1) for key, each in parts.items())
    if any(marks):
        flags = sum(mark << place for place, mark in enumerate(marks))
        start = struct.pack("<HH", 12347, len(parts) - 1) + flags.to_bytes((len(parts) + 7) // 8, "little")
        with_offsets = len(parts) >= 4
    else:
        start = struct.pack("<II", 12346, len(parts))
        with_offsets = True
    place = len(start) + len(heads) + (4 * len(parts) if with_offsets else 0)
    offsets = b""
    for body in bodies if with_offsets else []:
        offsets += struct.pack("<I", place)
        place += len(body)
    return start + heads + offsets + b"".join(bodies)


def bitmaps(*parts: tuple[int, bytes]) -> bytes:
    """A 64-bit bitmap, of keys and 32-bit bitmaps."""
    return struct.pack("<Q", len(parts)) + b"".join(struct.pack("<I", key) + body for key, body in parts)


def encode(positions: Iterable[int], runs: Runs = never) -> bytes:
    return bitmaps(*((key, bitmap(values, runs)) for key, values in split(positions, 32).items()))


class Reader:
    """Takes the parts of a bitmap one by one, and fails on what is not there or in no order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, kind: str) -> tuple[int, ...]:
        found = struct.unpack_from("<" + kind, self.data, self.place)
        self.place += struct.calcsize("<" + kind)
        return found

    def container(self, cardinality: int, *, is_run: bool) -> list[int]:
        if is_run:
            (count,) = self.take("H")
            runs = [self.take("HH") for _ in range(count)]
            return [value for start, more in runs for value in range(start, start + more + 1)]
        if cardinality <= ARRAY_MAX:
            return list(self.take(f"{cardinality}H"))
        (raw,) = struct.unpack_from("<8192s", self.data, self.place)
        self.place += len(raw)
        bits = f"{int.from_bytes(raw, 'little'):b}"[::-1]
        return [value for value, bit in enumerate(bits) if bit == "1"]

    def bitmap(self) -> list[int]:
        (cookie,) = self.take("I")
        if cookie == 12346:
            (count,) = self.take("I")
            marks = [False] * count
        else:
            assert cookie & 0xFFFF == 12347
            count = (cookie >> 16) + 1
            flags = self.take(f"{(count + 7) // 8}B")
            marks = [bool(flags[place // 8] >> place % 8 & 1) for place in range(count)]
        heads = [self.take("HH") for _ in range(count)]
        if cookie == 12346 or count >= 4:
            self.take(f"{count}I")
        values = []
        for (key, less), is_run in zip(heads, marks, strict=True):
            values += [key << 16 | value for value in self.container(less + 1, is_run=is_run)]
        return values


def decode(data: bytes) -> list[int]:
    """The positions in ascending order; anything else than that is an error."""
    reader = Reader(data)
    (count,) = reader.take("Q")
    positions = []
    for _ in range(count):
        (key,) = reader.take("I")
        positions += [key << 32 | value for value in reader.bitmap()]
    assert reader.place == len(data)
    assert positions == sorted(set(positions))
    return positions
