"""Deletion vectors, against Java's own, against plain Python, and against bytes that lie."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.iceberg.deletion_vectors import (
    MAX_POSITION,
    VectorEntry,
    VectorLimits,
    check_entry,
    merged,
    positions_of,
    read_vector,
    vector_entries,
    vector_from,
    vector_of,
    write_vector,
    write_vectors,
)
from lakeplane.iceberg.puffin import Footer, NewBlob, PuffinBlob, blob_bytes, read_footer, write_puffin
from lakeplane.model.frozen import FrozenDict
from tests.house.source import ROOT
from tests.iceberg import plain_roaring as plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

SOURCE = "s3://lake/orders/deletes.puffin"
KEY = 1 << 32
CONTAINER = 1 << 16

# The files of Java's TestBitmapPositionDeleteIndex: what it puts in, and what comes out.
JAVA = {
    "empty": ([], 20, "934731946f34f526bfa6b0d19c5144c189773a5f3f783f79891a8e990e9fe2ed"),
    "small alternating values": (
        [1, 3, 5, 7, 9],
        50,
        "c8237ab02ae9715deaf351114962ffc73fdfea63d8e74b7815de4e6f40993112",
    ),
    "small and large values": (
        [100, 101, 2**31 + 99, 2**31 + 100],
        56,
        "45561868f486e4ebdba263e6ab5478f3eb52d372998883939fd64d385a68bf0e",
    ),
    "all types of containers": (
        [
            *(5, 7),
            *range(CONTAINER + 1, CONTAINER + 1000),
            *range(2 * CONTAINER + 1, 3 * CONTAINER - 1),
            *(KEY + 10, KEY + 20),
            *range(KEY + CONTAINER + 10, KEY + CONTAINER + 500),
            *range(KEY + 2 * CONTAINER + 1, KEY + 3 * CONTAINER - 1),
        ],
        94,
        "98f569f1e0dfe39d38b83c8b3c852d3ba1e7fd8179bb4da19dc94f5318ec70ae",
    ),
}


def framed(bitmaps: bytes, magic: bytes = bytes.fromhex("d1d33964")) -> bytes:
    content = magic + bitmaps
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def positions_in(blob: bytes, **options: Any) -> list[int]:
    return list(read_vector(blob, source=SOURCE, **options))


@pytest.mark.parametrize("name", JAVA)
def test_vectors_are_written_byte_for_byte_as_java_writes_them(name: str) -> None:
    positions, size, digest = JAVA[name]
    blob = write_vector(BitMap64(positions))
    assert len(blob) == size
    assert hashlib.sha256(blob).hexdigest() == digest
    assert positions_in(blob, expected_cardinality=len(positions)) == positions


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("64mapempty", []),
        ("64map32bitvals", list(range(10))),
        ("64mapspreadvals", [KEY * key + value for key in range(10) for value in range(10)]),
    ],
)
def test_the_examples_of_the_roaring_project_are_read(vectors: Path, name: str, positions: list[int]) -> None:
    bitmaps = (vectors / f"pyiceberg/table/bitmaps/{name}.bin").read_bytes()
    assert positions_in(framed(bitmaps)) == positions
    assert positions_in(write_vector(BitMap64(positions))) == positions
    assert plain.encode(positions) == bitmaps


def test_the_example_with_keys_that_java_cannot_hold_is_refused(vectors: Path) -> None:
    bitmaps = (vectors / "pyiceberg/table/bitmaps/64maphighvals.bin").read_bytes()
    with pytest.raises(InvalidMetadata, match=r"deletes\.puffin: .*the largest is 2147483646"):
        positions_in(framed(bitmaps))


@st.composite
def stretches(draw: st.DrawFn) -> list[int]:
    """Positions of one kind somewhere: scattered, a run, or so dense that a bitset is the smallest."""
    start = draw(st.one_of(st.integers(0, 200_000), st.integers(0, 4 * KEY), st.integers(0, MAX_POSITION)))
    match draw(st.sampled_from(["scattered", "run", "dense"])):
        case "scattered":
            found = [start + each for each in draw(st.lists(st.integers(0, 300_000), max_size=40))]
        case "run":
            found = list(range(start, start + draw(st.sampled_from([1, 2, 3, 100, 5000, 66_000]))))
        case _:
            source = random.Random(draw(st.integers(0, 2**32)))
            found = source.sample(range(start, start + 9000), 6000)
    return [each for each in found if each <= MAX_POSITION]


position_sets = st.lists(stretches(), max_size=3).map(lambda parts: {each for part in parts for each in part})


@given(position_sets)
def test_any_positions_come_back(positions: set[int]) -> None:
    vector = BitMap64(positions)
    blob = write_vector(vector)
    assert positions_in(blob, expected_cardinality=len(positions)) == sorted(positions)
    assert plain.decode(blob[8:-4]) == sorted(positions)
    assert framed(blob[8:-4]) == blob
    assert len(blob) <= len(framed(plain.encode(positions)))


@settings(max_examples=40)
@given(position_sets, st.randoms(use_true_random=False))
def test_containers_of_any_kind_are_read(positions: set[int], source: random.Random) -> None:
    some: list[Callable[[list[int]], bool]] = [plain.never, plain.always, lambda _: source.random() < 0.5]
    for runs in some:
        assert positions_in(framed(plain.encode(positions, runs))) == sorted(positions)


def test_keys_without_positions_are_read_as_java_writes_them() -> None:
    """Java writes a bitmap for each key up to the largest, be it empty."""
    bitmaps = plain.bitmaps((0, plain.bitmap([])), (1, plain.bitmap([])), (2, plain.bitmap([7])))
    assert positions_in(framed(bitmaps)) == [2 * KEY + 7]


def test_the_largest_key_of_java_is_read() -> None:
    assert positions_in(framed(plain.bitmaps((2**31 - 2, plain.bitmap([5]))))) == [(2**31 - 2) * KEY + 5]


def test_runs_are_found_and_what_is_written_stays_as_it_was_given() -> None:
    vector = BitMap64(list(range(5000)), optimize=False)
    before = vector.serialize()
    assert len(write_vector(vector)) < 50 < len(before)
    assert vector.serialize() == before


@pytest.mark.parametrize("count", [4095, 4096, 4097])
def test_an_array_becomes_a_bitset_at_the_same_size_for_all(count: int) -> None:
    positions = list(range(0, 2 * count, 2))
    assert framed(plain.encode(positions)) == write_vector(BitMap64(positions))
    assert positions_in(framed(plain.encode(positions))) == positions


def test_positions_that_java_cannot_hold_are_not_written() -> None:
    assert positions_in(write_vector(BitMap64([MAX_POSITION]))) == [MAX_POSITION]
    with pytest.raises(InvalidInput, match="larger than"):
        write_vector(BitMap64([MAX_POSITION + 1]))


GOOD = plain.encode([1, 3, 5])


def plain_bitmap(*containers: tuple[int, int, bytes], count: int | None = None) -> bytes:
    heads = b"".join(struct.pack("<HH", key, cardinality - 1) for key, cardinality, _ in containers)
    start = struct.pack("<II", 12346, len(containers) if count is None else count)
    return start + heads + bytes(4 * len(containers)) + b"".join(body for _, _, body in containers)


def run_bitmap(*runs: tuple[int, int]) -> bytes:
    body = struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs)
    return struct.pack("<IBHH", 12347, 1, 0, 0) + body


def halves(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


BROKEN = {
    "empty": b"",
    "too short": framed(GOOD)[:19],
    "too short for its length": framed(GOOD)[:-1],
    "followed by something": framed(GOOD) + b"\0",
    "another magic": framed(GOOD, bytes.fromhex("d1d33965")),
    "a changed position": framed(GOOD)[:-5] + b"\x01" + framed(GOOD)[-4:],
    "a length that is negative in Java": b"\xff" + framed(GOOD)[1:],
    "bytes after the bitmaps": framed(GOOD + b"\0"),
    "a count that is too large": framed(struct.pack("<Q", 2) + GOOD[8:]),
    "a count that is too small": framed(struct.pack("<Q", 0) + GOOD[8:]),
    "a bitmap without an end": framed(GOOD[:-1]),
    "a key and no bitmap": framed(GOOD[:12]),
    "half a key": framed(GOOD[:10]),
    "keys that descend": framed(plain.bitmaps((1, plain.bitmap([1])), (0, plain.bitmap([1])))),
    "a key twice": framed(plain.bitmaps((1, plain.bitmap([1])), (1, plain.bitmap([2])))),
    "a key that is too large": framed(plain.bitmaps((2**31 - 1, plain.bitmap([1])))),
    "a negative key": framed(plain.bitmaps((2**32 - 1, plain.bitmap([1])))),
    "no cookie": framed(plain.bitmaps((0, struct.pack("<II", 12345, 0)))),
    "a cookie of runs without them": framed(plain.bitmaps((0, struct.pack("<I", 12347)))),
    "more containers than there are keys": framed(plain.bitmaps((0, plain_bitmap(count=65_537)))),
    "more containers than bytes": framed(plain.bitmaps((0, plain_bitmap(count=65_536)))),
    "containers that descend": framed(plain.bitmaps((0, plain_bitmap((1, 1, halves(1)), (0, 1, halves(1)))))),
    "a container twice": framed(plain.bitmaps((0, plain_bitmap((1, 1, halves(1)), (1, 1, halves(2)))))),
    "an array that is too short": framed(plain.bitmaps((0, plain_bitmap((0, 3, halves(1, 2)))))),
    "an array that descends": framed(plain.bitmaps((0, plain_bitmap((0, 2, halves(2, 1)))))),
    "an array with a value twice": framed(plain.bitmaps((0, plain_bitmap((0, 2, halves(1, 1)))))),
    "a bitset that is too short": framed(plain.bitmaps((0, plain_bitmap((0, 65_536, b"\xff" * 8191))))),
    "a bitset of other size": framed(plain.bitmaps((0, plain_bitmap((0, 65_535, b"\xff" * 8192))))),
    "no runs": framed(plain.bitmaps((0, run_bitmap()))),
    "runs that descend": framed(plain.bitmaps((0, run_bitmap((9, 1), (1, 1))))),
    "runs that overlap": framed(plain.bitmaps((0, run_bitmap((1, 5), (3, 5))))),
    "a run beyond the container": framed(plain.bitmaps((0, run_bitmap((65_000, 1000))))),
    "fewer runs than told": framed(plain.bitmaps((0, run_bitmap((1, 1))[:-4]))),
    "no number of runs": framed(plain.bitmaps((0, run_bitmap()[:-1]))),
}


@pytest.mark.parametrize("name", ["keys that descend", "a key twice", "a negative key"])
def test_keys_in_a_wrong_order_are_named(name: str) -> None:
    with pytest.raises(InvalidMetadata, match=r"the key \d+ follows"):
        positions_in(BROKEN[name])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_vector_is_refused_with_its_source(name: str) -> None:
    with pytest.raises(InvalidMetadata, match=rf"^{SOURCE}: .*deletion vector"):
        positions_in(BROKEN[name])


def test_what_the_broken_vectors_are_made_of_is_whole() -> None:
    whole = plain_bitmap((0, 2, halves(1, 2)), (1, 65_536, b"\xff" * 8192))
    assert (
        len(positions_in(framed(plain.bitmaps((0, whole), (1, run_bitmap((1, 5), (9, 1)))))))
        == 2 + 65_536 + 8
    )


def test_another_number_of_positions_than_the_manifest_tells_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match="has 3 positions, and should have 4"):
        positions_in(framed(GOOD), expected_cardinality=4)


def test_a_vector_of_too_many_bytes_or_containers_is_refused() -> None:
    limits = VectorLimits(size=1000, keys=3, containers=2)
    with pytest.raises(LimitExceeded, match="more than 1000"):
        positions_in(bytes(1001), limits=limits)
    assert len(positions_in(framed(plain.encode([0, CONTAINER])), limits=limits)) == 2
    for positions in ([0, CONTAINER, 2 * CONTAINER], [0, CONTAINER, KEY]):
        with pytest.raises(LimitExceeded, match=f"^{SOURCE}: .*it has 3 containers"):
            positions_in(framed(plain.encode(positions)), limits=limits)
    for count, bitmaps in ((4, plain.bitmap([]) * 4), (2**64 - 1, b"")):
        with pytest.raises(LimitExceeded, match=f"^{SOURCE}: .*it has {count} bitmaps"):
            positions_in(framed(struct.pack("<Q", count) + bitmaps), limits=limits)


def test_a_run_of_billions_is_not_made_into_numbers() -> None:
    everything = struct.pack("<HH", 12347, 65_535) + b"\xff" * 8192
    everything += b"".join(struct.pack("<HH", key, 65_535) for key in range(65_536)) + bytes(4 * 65_536)
    everything += struct.pack("<HHH", 1, 0, 65_535) * 65_536
    vector = read_vector(framed(plain.bitmaps((0, everything))), source=SOURCE)
    assert len(vector) == KEY
    with pytest.raises(LimitExceeded, match="4294967296 positions"):
        positions_of(vector)


@pytest.mark.parametrize(
    "positions",
    [
        np.array([9, 3, 3, KEY + 1]),
        np.array([9, 3, KEY + 1], np.uint64),
        np.array([9, 0, 3, 0, KEY + 1, 0])[[0, 2, 4]][::-1],
        pa.array([9, 3, KEY + 1, 9]),
        pa.array([0, 9, 3, KEY + 1, 9])[1:],
        pa.chunked_array([[9, 3], [], [KEY + 1]]),
    ],
)
def test_arrays_of_positions_become_vectors(positions: Any) -> None:
    vector = vector_from(positions)
    assert list(vector) == [3, 9, KEY + 1]
    found = positions_of(vector)
    assert found.dtype == np.int64
    assert found.tolist() == [3, 9, KEY + 1]


def test_no_positions_are_an_empty_vector() -> None:
    for nothing in (np.array([], np.int64), pa.array([], pa.int64()), pa.chunked_array([], pa.int64())):
        assert not vector_from(nothing)
    assert positions_of(BitMap64()).tolist() == []


@pytest.mark.parametrize(
    ("positions", "problem"),
    [
        (np.array([-1, 1]), "from 0 to"),
        (np.array([MAX_POSITION + 1]), "from 0 to"),
        (np.array([2**64 - 1], np.uint64), "from 0 to"),
        (np.array([1.0]), "not float64"),
        (np.array([True]), "not bool"),
        (pa.array([1, None]), "null"),
        (pa.array(["1"]), "not string"),
        (pa.array([1.5]), "not double"),
    ],
)
def test_arrays_of_anything_else_are_refused(positions: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        vector_from(positions)


@given(st.lists(position_sets, max_size=3))
def test_a_merged_vector_has_the_positions_of_all(sets: list[set[int]]) -> None:
    vectors = [BitMap64(each) for each in sets]
    assert list(merged(vectors)) == sorted(set[int]().union(*sets))
    assert [set(each) for each in vectors] == sets


DELETED = {"s3://lake/a.parquet": BitMap64([1, 5]), "s3://lake/b c.parquet": BitMap64(range(100_000))}


def test_a_file_of_vectors_is_as_the_spec_says() -> None:
    file, entries = write_vectors(DELETED)
    footer = read_footer(file.data, source=SOURCE)
    assert footer == file.footer
    assert footer.properties == {"created-by": "lakeplane"}
    for blob, entry, (path, vector) in zip(footer.blobs, entries, DELETED.items(), strict=True):
        assert entry == VectorEntry(path, blob.offset, blob.length, len(vector))
        assert blob.type == "deletion-vector-v1"
        assert blob.properties == {"referenced-data-file": path, "cardinality": str(len(vector))}
        assert (blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (-1, -1, None)
        assert blob.fields == (2147483645,)  # the column _pos, as Java does
        assert blob_bytes(file.data, blob, source=SOURCE) == write_vector(vector)
        assert plain.decode(file.data[entry.offset + 8 : entry.offset + entry.size - 4]) == list(vector)


def test_a_vector_is_read_without_the_footer_from_any_range_that_holds_it() -> None:
    file, entries = write_vectors(DELETED)
    for entry in entries:
        for start in (0, entry.offset - 1, entry.offset):
            data = file.data[start : entry.offset + entry.size]
            assert vector_of(data, entry, source=SOURCE, start=start) == DELETED[entry.data_file]
        for start, end in ((entry.offset + 1, None), (0, entry.offset + entry.size - 1)):
            with pytest.raises(InvalidMetadata, match="not among those"):
                vector_of(file.data[start:end], entry, source=SOURCE, start=start)
        with pytest.raises(InvalidMetadata, match="should have 3"):
            vector_of(file.data, entry._replace(cardinality=3), source=SOURCE)
        with pytest.raises(InvalidMetadata):
            vector_of(file.data, entry._replace(size=-1), source=SOURCE)


def test_a_vector_without_positions_is_not_written() -> None:
    with pytest.raises(InvalidInput, match=r"a\.parquet: a deletion vector without a position"):
        write_vectors({"a.parquet": BitMap64()})


def test_a_manifest_and_the_footer_must_tell_the_same() -> None:
    file, entries = write_vectors(DELETED)
    first, second = entries
    for entry in entries:
        check_entry(file.footer, entry, source=SOURCE)
    for changed in (
        first._replace(data_file="s3://lake/c.parquet"),
        first._replace(size=first.size - 1),
        first._replace(cardinality=3),
        second._replace(offset=first.offset),
    ):
        with pytest.raises(InvalidMetadata, match="the footer of"):
            check_entry(file.footer, changed, source=SOURCE)
    with pytest.raises(InvalidMetadata, match="no deletion vector at 5"):
        check_entry(file.footer, first._replace(offset=5), source=SOURCE)


def dv_blob(properties: dict[str, str] | None, codec: str | None = None) -> PuffinBlob:
    return PuffinBlob(
        type="deletion-vector-v1",
        fields=(),
        snapshot_id=-1,
        sequence_number=-1,
        offset=4,
        length=30,
        compression_codec=codec,
        properties=None if properties is None else FrozenDict(properties),
    )


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (dv_blob(None), "without referenced-data-file"),
        (dv_blob({"cardinality": "1"}), "without referenced-data-file"),
        (dv_blob({"referenced-data-file": "a"}), "cardinality is ''"),
        (dv_blob({"referenced-data-file": "a", "cardinality": "-1"}), "cardinality is '-1'"),
        (dv_blob({"referenced-data-file": "a", "cardinality": "\u0661"}), "cardinality is"),
        (dv_blob({"referenced-data-file": "a", "cardinality": "9" * 5000}), "cardinality is"),
        (dv_blob({"referenced-data-file": "a", "cardinality": "1"}, "zstd"), "may not be compressed"),
    ],
)
def test_a_footer_that_breaks_the_rules_for_vectors_is_refused(blob: PuffinBlob, problem: str) -> None:
    with pytest.raises(InvalidMetadata, match=rf"{SOURCE}: blobs\[0\]: .*{problem}"):
        vector_entries(Footer(blobs=(blob,)), source=SOURCE)


def test_blobs_of_other_types_are_passed_over() -> None:
    sketch = NewBlob(
        type="apache-datasketches-theta-v1", data=b"x", fields=(1,), snapshot_id=1, sequence_number=1
    )
    assert vector_entries(write_puffin([sketch]).footer, source=SOURCE) == ()


def fuzz(seed: int, rounds: int) -> dict[str, int]:
    """Run the fuzz in a process of its own, where a crash is seen for what it is."""
    command = [sys.executable, "-m", "tests.iceberg.fuzz_vectors", str(seed), str(rounds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"seed {seed}, status {done.returncode}:\n{done.stderr}"
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def test_hostile_vectors_are_refused_or_read_rightly_and_never_crash() -> None:
    counts = fuzz(random.SystemRandom().randrange(2**32), 4000)
    assert counts["read"] > 100
    assert counts["refused"] > 1000
    assert counts["grown_kilobytes"] < 200_000


@given(st.sampled_from([framed(GOOD), write_vector(BitMap64(JAVA["all types of containers"][0]))]), st.data())
def test_a_flipped_bit_is_noticed_wherever_it_is(blob: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    flipped = bytes(each ^ (1 << bit % 8 if place == bit // 8 else 0) for place, each in enumerate(blob))
    with pytest.raises(InvalidMetadata, match=SOURCE):
        positions_in(flipped)


def every_cut(blob: bytes) -> Iterable[bytes]:
    return (blob[:end] for end in range(len(blob)))


def test_a_vector_that_was_cut_is_noticed_wherever_it_ends() -> None:
    bitmaps = plain.encode([1, 2, 3, 70_000, 80_000, KEY + 1], plain.always)
    for cut in (*every_cut(framed(bitmaps)), *map(framed, every_cut(bitmaps))):
        with pytest.raises(InvalidMetadata, match=SOURCE):
            positions_in(cut)
