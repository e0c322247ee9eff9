from __future__ import annotations

import bz2
import io
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.avro.container import MAGIC, pack_file, read_long, write_long
from lakeplane.avro.limits import Limits
from lakeplane.avro.read import Engine, read_avro, read_header
from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from tests.avro.kinds import LONG, read_by_fastavro

ENGINES: tuple[Engine, ...] = ("wasm", "rows")
SOURCE = "s3://bucket/manifest.avro"
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", "string"]},
        {"name": "m", "type": {"type": "map", "values": "double"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
    ],
}
ROWS: list[dict[str, Any]] = [
    {
        "n": row * 1000,
        "t": None if row % 2 else f"row {row}",
        "m": {"k": row / 2},
        "d": Decimal(row),
        "e": "AB"[row % 2],
    }
    for row in range(12)
]
NUMBERS = b'{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}'
NULLS = b'{"type":"record","name":"r","fields":[{"name":"n","type":"null"}]}'
LISTS = b'{"type":"record","name":"r","fields":[{"name":"n","type":{"type":"array","items":"%s"}}]}'
BYTES = b'{"type":"record","name":"r","fields":[{"name":"n","type":"bytes"}]}'


def written_by_fastavro(codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, ROWS, codec=codec, sync_interval=60, metadata={"kind": "test"})
    return out.getvalue()


def refused(data: bytes, engine: Engine, limits: Limits | None = None) -> InvalidMetadata:
    """The error that a file ends in, which has to name it."""
    with pytest.raises(InvalidMetadata) as caught:
        read_avro(data, source=SOURCE, engine=engine, limits=limits or Limits())
    assert caught.value.source == SOURCE
    return caught.value


def one_block(schema: bytes, count: int, records: bytes, codec: str = "null") -> bytes:
    return pack_file(schema, {}, codec, [(count, records)])


# Honest files


def test_what_fastavro_tells_of_a_file() -> None:
    data = written_by_fastavro()
    header = read_header(data, source=SOURCE)
    assert header.metadata["kind"] == b"test"
    assert header.codec == "null"
    assert isinstance(header.schema, dict)
    assert header.schema["fields"] == SCHEMA["fields"]
    assert [row["n"] for row in read_by_fastavro(data)] == read_avro(data, source=SOURCE).table[
        "n"
    ].to_pylist()


def test_maps_in_blocks_that_tell_their_size() -> None:
    # The specification: a negative count is followed by the bytes of the block, and then by as many entries.
    data = written_by_fastavro()
    fields = dict(fastavro.reader(io.BytesIO(data)).metadata)
    body = b""
    for key, value in fields.items():
        entry = write_long(len(key)) + key.encode() + write_long(len(value.encode())) + value.encode()
        body += write_long(-1) + write_long(len(entry)) + entry
    head = MAGIC + body + write_long(0)
    plain = read_header(data, source=SOURCE)
    again = read_header(head + data[plain.blocks_at - 16 :], source=SOURCE)
    assert (again.metadata, again.schema, again.sync) == (plain.metadata, plain.schema, plain.sync)
    found = read_avro(head + data[plain.blocks_at - 16 :], source=SOURCE)
    assert found.table.equals(read_avro(data, source=SOURCE).table)


@given(LONG)
def test_numbers_are_those_of_fastavro(number: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, number)
    assert write_long(number) == out.getvalue()
    assert read_long(memoryview(out.getvalue()), 0) == (number, len(out.getvalue()))


def test_a_file_is_framed_as_fastavro_reads_it() -> None:
    data = pack_file(NUMBERS, {"kind": b"test"}, "null", [(2, b"\x02\x04"), (0, b""), (1, b"\x06")])
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert reader.metadata["kind"] == "test"


def test_the_marker_tells_contents_apart_and_nothing_else() -> None:
    def marker(*blocks: tuple[int, bytes], **metadata: bytes) -> bytes:
        return read_header(pack_file(NUMBERS, metadata, "null", blocks), source=SOURCE).sync

    assert marker((1, b"\x02")) == marker((1, b"\x02"))
    assert (
        len({marker((1, b"\x02")), marker((1, b"\x04")), marker((2, b"\x02")), marker(a=b""), marker()}) == 5
    )


def test_properties_of_avro_itself_are_not_to_be_set() -> None:
    for name in ("avro.schema", "avro.codec", "avro.other"):
        with pytest.raises(InvalidInput, match=name):
            pack_file(NUMBERS, {name: b"x"}, "null", [])


# Broken files


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_that_are_cut_off_anywhere(codec: str, engine: Engine) -> None:
    data = written_by_fastavro(codec)
    whole = read_avro(data, source=SOURCE).table
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 2
    ends = {blocks[0].offset: 0}
    for block in blocks:
        ends[block.offset + block.size] = ends[block.offset] + block.num_records
    assert ends[len(data)] == len(ROWS)
    for length in range(len(data)):
        if length in ends:  # where a block ends, Avro has no way to tell that more is missing
            found = read_avro(data[:length], source=SOURCE, engine=engine).table
            assert found.equals(whole.slice(0, ends[length]))
        else:
            refused(data[:length], engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_files_with_a_wrong_byte_anywhere(engine: Engine) -> None:
    data = written_by_fastavro("deflate")
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[at] ^= flip
            try:
                read_avro(bytes(broken), source=SOURCE, engine=engine).table.validate(full=True)
            except InvalidMetadata as error:
                assert error.source == SOURCE  # noqa: PT017  # most bytes are wrong, and some are just other values


@given(noise=st.binary(max_size=200), engine=st.sampled_from(ENGINES))
def test_noise_in_place_of_records(noise: bytes, engine: Engine) -> None:
    data = written_by_fastavro()
    header = read_header(data, source=SOURCE)
    for rest in (noise, write_long(len(noise) // 4) + write_long(len(noise)) + noise + header.sync):
        try:
            read_avro(data[: header.blocks_at] + rest, source=SOURCE, engine=engine).table.validate(full=True)
        except InvalidMetadata as error:
            assert error.source == SOURCE  # noqa: PT017  # noise may be records


@given(noise=st.binary(max_size=100))
def test_noise_in_place_of_a_header(noise: bytes) -> None:
    for data in (noise, MAGIC + noise):
        with pytest.raises(InvalidMetadata):
            read_header(data, source=SOURCE)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_marker_that_is_not_that_of_the_file(engine: Engine) -> None:
    data = bytearray(written_by_fastavro())
    data[-1] ^= 1
    error = refused(bytes(data), engine)
    assert "the marker after it" in error.problem
    assert error.field is not None
    assert error.field.startswith("block ")


@pytest.mark.parametrize("engine", ENGINES)
def test_negative_lengths(engine: Engine) -> None:
    data = written_by_fastavro()
    header = read_header(data, source=SOURCE)
    head = data[: header.blocks_at]
    assert "negative" in refused(head + write_long(-1) + write_long(0) + header.sync, engine).problem
    assert "negative" in refused(head + write_long(0) + write_long(-1) + header.sync, engine).problem
    refused(one_block(BYTES, 1, write_long(-1)), engine)
    refused(one_block(BYTES, 1, write_long(-(2**63))), engine)
    refused(one_block(LISTS % b"long", 1, write_long(-(2**63)) + write_long(0) + b"\0"), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_of_more_than_ten_bytes(engine: Engine) -> None:
    refused(one_block(NUMBERS, 1, b"\xff" * 10 + b"\x01"), engine)
    refused(one_block(NUMBERS, 1, b"\x80" * 50), engine)
    refused(MAGIC + b"\xff" * 20, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_with_more_or_fewer_rows_than_they_say(engine: Engine) -> None:
    assert read_avro(one_block(NUMBERS, 2, b"\x02\x04"), source=SOURCE, engine=engine).table.num_rows == 2
    refused(one_block(NUMBERS, 3, b"\x02\x04"), engine)
    refused(one_block(NUMBERS, 1, b"\x02\x04"), engine)
    refused(one_block(NUMBERS, 0, b"\x02"), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_zstandard_that_is_cut_off_leaves_too_few_rows(engine: Engine) -> None:
    records = b"\x02\x04\x06\x08" * 1000
    packed = zstandard.ZstdCompressor().compress(records)
    assert read_avro(one_block(NUMBERS, 4000, packed, "zstandard"), source=SOURCE).table.num_rows == 4000
    for length in range(len(packed)):
        refused(one_block(NUMBERS, 4000, packed[:length], "zstandard"), engine)


def test_headers_that_are_broken() -> None:
    for schema in (b"", b"{", b"3", b'"long"', b"\xff", b'{"type": "record"}'):
        refused(pack_file(schema, {}, "null", []), "rows")
    assert "lz4" in refused(pack_file(NUMBERS, {}, "lz4", []), "rows").problem
    assert "does not start with" in refused(b"PAR1" + bytes(100), "rows").problem
    refused(b"", "rows")


# Files that are made to hurt


BOMB = 128 << 20


def _deflated(size: int) -> bytes:
    """So many zeros; the same part again and again, which is faster than to pack all of it."""
    packing = zlib.compressobj(9, wbits=-15)
    packing.compress(bytes(1 << 16))
    packing.flush(zlib.Z_FULL_FLUSH)
    part = packing.compress(bytes(1 << 16)) + packing.flush(zlib.Z_FULL_FLUSH)
    return part * (size >> 16) + packing.flush()


BOMBS: dict[str, Callable[[int], bytes]] = {
    "deflate": _deflated,
    "zstandard": lambda size: zstandard.ZstdCompressor().compress(bytes(size)),
    "bzip2": lambda size: bz2.compress(bytes(size)),
    "xz": lambda size: lzma.compress(bytes(size), preset=0),
    "snappy": lambda _: b"\xff\xff\xff\xff\x0f" + bytes(50),
}

HURTING = """
import resource, sys, time
from lakeplane.avro.read import read_avro
from lakeplane.errors import LimitExceeded

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

data = sys.stdin.buffer.read()
before, start = peak(), time.process_time()
try:
    read_avro(data, source="bomb", engine="rows")
except LimitExceeded as error:
    assert error.source == "bomb"
    print(peak() - before, time.process_time() - start)
"""


@pytest.mark.parametrize("codec", BOMBS)
def test_bombs_are_refused_before_they_fill_the_memory(codec: str) -> None:
    data = one_block(NUMBERS, BOMB, BOMBS[codec](BOMB), codec)
    assert len(data) < 300_000
    done = subprocess.run([sys.executable, "-c", HURTING], input=data, capture_output=True, check=True)
    megabytes, seconds = map(float, done.stdout.split())
    # What this file may unpack to, once in parts and once together, and the libraries.
    allowed = 16 + 100 * len(data) / 2**20
    assert megabytes < 32 + 2 * allowed < 100
    assert seconds < 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2", "xz", "snappy"])
def test_bombs_name_their_file_and_the_limit(codec: str, engine: Engine) -> None:
    data = one_block(NUMBERS, 2 << 20, BOMBS[codec](2 << 20), codec)
    error = refused(data, engine, Limits(free_bytes=1 << 20, ratio=1))
    assert isinstance(error, LimitExceeded)
    assert error.hint == "Raise the limits if the file is honest"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_allowance_is_that_of_the_file_and_not_of_each_block(engine: Engine) -> None:
    block = (1 << 16, _deflated(1 << 16))
    limits = Limits(free_bytes=1 << 18, ratio=1)
    honest = pack_file(NUMBERS, {}, "deflate", [block] * 4)
    assert read_avro(honest, source=SOURCE, engine=engine, limits=limits).table.num_rows == 1 << 18
    error = refused(pack_file(NUMBERS, {}, "deflate", [block] * 6), engine, limits)
    assert isinstance(error, LimitExceeded)
    assert error.field is not None
    assert error.field.startswith(("block 4", "block 5"))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_and_items_without_bytes(engine: Engine) -> None:
    refused(one_block(NULLS, 2**40, b""), engine)
    refused(one_block(NULLS, 2**62, b""), engine)
    refused(pack_file(NULLS, {}, "null", [(900_000, b"")] * 3), engine)
    refused(one_block(LISTS % b"null", 1, write_long(2**40) + b"\0"), engine)
    many = (write_long(900_000)) * 3 + b"\0"
    refused(one_block(LISTS % b"null", 1, many), engine)
    assert read_avro(one_block(NULLS, 1000, b""), source=SOURCE, engine=engine).table.num_rows == 1000


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_and_lengths_past_the_end(engine: Engine) -> None:
    for count in (2**20, 2**31, 2**40, 2**62):
        refused(one_block(LISTS % b"long", 1, write_long(count) + b"\0\0"), engine)
        refused(one_block(BYTES, 1, write_long(count)), engine)
        refused(one_block(NUMBERS, count, b"\x02"), engine)
        refused(MAGIC + write_long(count) + b"\0" * 50, engine)
        refused(MAGIC + write_long(1) + write_long(count), engine)


def test_headers_that_are_too_large() -> None:
    data = pack_file(NUMBERS, {"a": bytes(5000)}, "null", [])
    assert read_header(data, source=SOURCE).metadata["a"] == bytes(5000)
    with pytest.raises(LimitExceeded, match="larger than 4000 bytes") as caught:
        read_header(data, source=SOURCE, limits=Limits(header_bytes=4000))
    assert caught.value.source == SOURCE


def test_schemas_nested_without_end() -> None:
    for text in (
        b"[" * 100_000,
        b'{"type":' * 100_000,
        b'{"type":"array","items":' * 90 + b'"int"' + b"}" * 90,
    ):
        refused(pack_file(text, {}, "null", []), "rows")


@pytest.mark.parametrize("engine", ENGINES)
def test_more_rows_than_a_file_may_have(engine: Engine) -> None:
    error = refused(pack_file(NUMBERS, {}, "null", [(6, b"\x02" * 6)] * 2), engine, Limits(rows=10))
    assert isinstance(error, LimitExceeded)
