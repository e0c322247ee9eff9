from __future__ import annotations

import base64
import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deflate
import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.avro.codecs import packer, unpacker
from lakeplane.avro.read import Engine, read_avro
from lakeplane.avro.write import write_avro
from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model.parallel import in_parallel
from tests.avro.kinds import read_by_fastavro
from tests.interop.peers import ask

ROWS: list[dict[str, Any]] = [{"n": row, "t": f"row {row % 7}"} for row in range(2000)]
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "n", "type": "long", "field-id": 1}, {"name": "t", "type": "string", "field-id": 2}],
}
TABLE = pa.Table.from_pylist(ROWS)
ENGINES: tuple[Engine, ...] = ("wasm", "rows")
BOTH_WAYS = ("null", "deflate", "zstandard", "snappy")
ONLY_READ: dict[str, Callable[[bytes], bytes]] = {"bzip2": bz2.compress, "xz": lzma.compress}
ROOM = 1 << 24


def unpack(codec: str, data: bytes, allowed: int = ROOM) -> bytes:
    return unpacker(codec)(memoryview(data), allowed)


def packed(codec: str, data: bytes) -> bytes:
    if codec in ONLY_READ:
        return ONLY_READ[codec](data)
    return packer(codec, None)[1](data)


# Against other implementations


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_fastavro_packs_is_read(codec: str, engine: Engine) -> None:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, ROWS, codec=codec, sync_interval=500)
    found = read_avro(out.getvalue(), source="x", engine=engine)
    assert found.codec == codec
    assert found.table.to_pylist() == ROWS


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_fastavro_reads_what_is_packed(codec: str) -> None:
    assert read_by_fastavro(write_avro(TABLE, SCHEMA, metadata={}, codec=codec, block_bytes=500)) == ROWS


@pytest.mark.parametrize(
    ("codec", "reader"),
    [("snappy", "polars"), ("deflate", "polars"), ("zstandard", "pyiceberg"), ("deflate", "pyiceberg")],
)
def test_others_read_what_is_packed(tmp_path: Path, codec: str, reader: str) -> None:
    path = tmp_path / "rows.avro"
    path.write_bytes(write_avro(TABLE, SCHEMA, metadata={}, codec=codec, block_bytes=5000))
    assert ask("avro_rows", {"read": str(path), "by": reader}) == [[row["n"], row["t"]] for row in ROWS]


@pytest.mark.parametrize("codec", ["snappy", "deflate"])
def test_what_polars_packs_is_read(codec: str) -> None:
    data = base64.b64decode(ask("avro_rows", {"write": codec}))
    found = read_avro(data, source="x")
    assert found.codec == codec
    assert found.table.to_pylist() == ROWS


@pytest.mark.parametrize("codec", BOTH_WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_packed_is_read_again(codec: str, engine: Engine) -> None:
    data = write_avro(TABLE, SCHEMA, metadata={}, codec=codec, block_bytes=500)
    found = read_avro(data, source="x", engine=engine)
    assert found.codec == codec
    assert found.table.to_pylist() == ROWS


# Each codec by itself


@given(data=st.binary(max_size=3000), times=st.integers(1, 60))
def test_every_codec_gives_back_what_it_was_given(data: bytes, times: int) -> None:
    for codec in (*BOTH_WAYS, *ONLY_READ):
        assert unpack(codec, packed(codec, data * times)) == data * times


def test_names_and_levels() -> None:
    names = {"gzip": "deflate", "zstd": "zstandard", "uncompressed": "null", "snappy": "snappy"}
    for name, stored in names.items():
        assert packer(name, None)[0] == stored
    data = bytes(range(256)) * 100
    for name, level in (("deflate", 0), ("deflate", 12), ("zstd", -7), ("zstd", 22)):
        assert unpack(packer(name, level)[0], packer(name, level)[1](data)) == data
    for name, level in (("deflate", 13), ("deflate", -1), ("zstd", 23)):
        with pytest.raises(InvalidInput, match="compression level"):
            packer(name, level)
    with pytest.raises(InvalidInput, match="'bzip2' is no codec"):
        packer("bzip2", None)
    with pytest.raises(InvalidMetadata, match="lz77"):
        unpacker("lz77")


def test_several_threads_may_pack_at_once() -> None:
    """A compressor of zstandard that two threads use at the same time crashes the process."""
    parts = [bytes([part]) * 50_000 + bytes(range(part)) for part in range(200)]
    for codec in BOTH_WAYS:
        pack = packer(codec, None)[1]
        assert in_parallel(pack, parts, 8) == [pack(part) for part in parts]


def test_deflate_blocks_of_very_different_sizes() -> None:
    """The size of a block is guessed from the one before; wrong guesses must not matter."""
    read = unpacker("deflate")
    for size in (0, 1, 100, 5_000_000, 10, 70_000, 0, 300_000):
        data = b"abc" * size
        assert read(memoryview(packed("deflate", data)), ROOM) == data


def test_deflate_with_the_checksum_that_pyiceberg_leaves_behind() -> None:
    data = b"some rows" * 100
    stray = zlib.compress(data)[2:-1]
    assert unpack("deflate", stray) == data


def test_zstandard_frames_without_a_size_and_several_of_them() -> None:
    # Java writes its frames as a stream, so they do not say how much comes out.
    streaming = zstandard.ZstdCompressor(write_content_size=False)
    first, second = b"a" * 3_000_000, b"second"
    data = streaming.compress(first) + zstandard.ZstdCompressor().compress(second)
    assert unpack("zstandard", data) == first + second


@pytest.mark.parametrize("codec", [*BOTH_WAYS, *ONLY_READ])
def test_a_block_may_fill_its_allowance_and_no_more(codec: str) -> None:
    data = bytes(range(250)) * 1000
    block = packed(codec, data)
    assert unpack(codec, block, len(data)) == data
    for allowed in (len(data) - 1, 1000, 1, 0):
        with pytest.raises(LimitExceeded, match=f"the {allowed} bytes it may"):
            unpack(codec, block, allowed)


@pytest.mark.parametrize("codec", [*(codec for codec in BOTH_WAYS if codec != "null"), *ONLY_READ])
def test_broken_blocks_are_typed_errors(codec: str) -> None:
    data = bytes(range(250)) * 20
    block = packed(codec, data)
    for at in range(len(block)):
        broken = bytearray(block)
        broken[at] ^= 0x55
        try:
            unpack(codec, bytes(broken))
        except InvalidMetadata:
            continue


@pytest.mark.parametrize("codec", ["deflate", "snappy", "bzip2", "xz"])
def test_blocks_that_are_cut_off(codec: str) -> None:
    data = bytes(range(250)) * 20
    block = packed(codec, data)
    for length in range(len(block)):
        try:
            found = unpack(codec, block[:length])
        except InvalidMetadata:
            continue
        # What libraries accept without the end, such as a missing checksum, must still be all of the bytes.
        assert found == data


def test_zstandard_that_is_cut_off_gives_no_other_bytes() -> None:
    data = bytes(range(250)) * 2000
    block = packed("zstandard", data)
    for length in range(len(block)):
        try:
            found = unpack("zstandard", block[:length])
        except InvalidMetadata:
            continue
        assert data.startswith(found)
        assert len(found) < len(data)


def test_snappy_that_lies() -> None:
    honest = packed("snappy", b"hello" * 10)
    with pytest.raises(InvalidMetadata, match="checksum is that of other bytes"):
        unpack("snappy", honest[:-1] + bytes([honest[-1] ^ 1]))
    with pytest.raises(LimitExceeded):
        unpack("snappy", b"\xff\xff\xff\xff\x0f" + honest[1:])
    with pytest.raises(InvalidMetadata, match="no size"):
        unpack("snappy", b"\xff\xff\xff\xff\xff\xff" + bytes(4))
    body = b"\x05\x00a"
    with pytest.raises(InvalidMetadata, match="broken snappy"):
        unpack("snappy", body + deflate.crc32(b"a").to_bytes(4, "big"))
