from __future__ import annotations

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.iceberg import deletion_vectors as iceberg
from lakeplane.model.roaring import VectorLimits
from lakeplane.paimon.deletion_vectors import VectorRange, bytes_of, vector_of, write_vectors
from tests.iceberg.plain_roaring import Runs, always, bitmap, bitmaps, decode, never
from tests.paimon.stored import stored

POSITIONS = st.sets(st.integers(0, 200_000), min_size=1, max_size=50)


def test_the_vector_that_python_wrote() -> None:
    table = stored("pp21_a_rowid")
    [(path, data)] = table.starting_with("index/").items()
    told = VectorRange("data-1.parquet", 1, 24, 2)
    vector = vector_of(data, told, source=path)
    assert list(vector) == [1, 4]
    assert write_vectors({"data-1.parquet": vector}, bitmap64=False) == (data, (told,))


def test_a_vector_laid_out_by_hand() -> None:
    """One container of an array with the positions 0, 3 and 65535."""
    laid_out = bytes.fromhex("3a300000 01000000 0000 0200 10000000 0000 0300 ffff".replace(" ", ""))
    vector = vector_of(narrow_file(laid_out), VectorRange("f", 1, 4 + len(laid_out)), source="index-1")
    assert list(vector) == [0, 3, 65535]


@given(POSITIONS, st.sampled_from([always, never]))
def test_bitmaps_of_every_kind_of_container_are_read(positions: set[int], runs: Runs) -> None:
    laid_out = bitmap(sorted(positions), runs)
    told = VectorRange("f", 1, 4 + len(laid_out), len(positions))
    assert list(vector_of(narrow_file(laid_out), told, source="index-1")) == sorted(positions)


def narrow_file(laid_out: bytes) -> bytes:
    content = bytes.fromhex("5e43f2d0") + laid_out
    return b"\x01" + len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


@given(st.lists(POSITIONS, max_size=4), st.booleans())
def test_vectors_are_read_as_they_were_written(sets: list[set[int]], wide: bool) -> None:  # noqa: FBT001
    vectors = {f"data-{number}": BitMap64(each) for number, each in enumerate(sets)}
    data, told = write_vectors(vectors, bitmap64=wide)
    assert len(data) == 1 + sum(each.length + (0 if wide else 8) for each in told)
    for each in told:
        assert vector_of(data, each, source="index-1") == vectors[each.data_file]
        begin, end = bytes_of(each)
        assert vector_of(data[begin:end], each, source="index-1", start=begin) == vectors[each.data_file]
        if wide:
            blob = data[each.offset : each.offset + each.length]
            assert blob == iceberg.write_vector(vectors[each.data_file])
        else:
            narrow = data[each.offset + 8 : each.offset + 4 + each.length]
            assert decode(bitmaps((0, narrow))) == sorted(vectors[each.data_file])


def test_a_file_without_vectors_is_only_its_version() -> None:
    assert write_vectors({}, bitmap64=False) == (b"\x01", ())


def test_positions_of_more_than_32_bits_need_wide_vectors() -> None:
    with pytest.raises(InvalidInput, match="bitmap64"):
        write_vectors({"f": BitMap64([2**31])}, bitmap64=False)
    data, [told] = write_vectors({"f": BitMap64([2**31, 2**40])}, bitmap64=True)
    assert list(vector_of(data, told, source="x")) == [2**31, 2**40]
    with pytest.raises(InvalidInput, match="without a position"):
        write_vectors({"f": BitMap64()}, bitmap64=True)


def test_what_is_told_must_be_what_is_there() -> None:
    for wide in (False, True):
        data, [told] = write_vectors({"f": BitMap64([1, 2, 3])}, bitmap64=wide)
        for wrong in (
            told._replace(cardinality=4),
            told._replace(length=told.length + 1),
            told._replace(length=told.length - 1),
            told._replace(length=-1),
            told._replace(offset=2),
            told._replace(offset=0),
            told._replace(offset=10_000),
        ):
            with pytest.raises(InvalidMetadata, match="index-1"):
                vector_of(data, wrong, source="index-1")
        with pytest.raises(InvalidMetadata, match="version"):
            vector_of(b"\x02" + data[1:], told, source="index-1")


@given(st.integers(0, 200), st.integers(0, 255), st.booleans())
def test_a_changed_byte_is_noticed(place: int, byte: int, wide: bool) -> None:  # noqa: FBT001
    vector = BitMap64(range(0, 300, 3))
    data, [told] = write_vectors({"f": vector}, bitmap64=wide)
    changed = bytearray(data)
    changed[place % len(data)] = byte
    with contextlib.suppress(InvalidMetadata):
        assert vector_of(bytes(changed), told, source="index-1") == vector


def test_vectors_are_limited() -> None:
    data, [told] = write_vectors({"f": BitMap64([1, 70_000, 140_000])}, bitmap64=False)
    for limits in (VectorLimits(size=20), VectorLimits(containers=2)):
        with pytest.raises(LimitExceeded, match="index-1"):
            vector_of(data, told, source="index-1", limits=limits)
