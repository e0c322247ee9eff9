"""Puffin files, against those that Java wrote, and against bytes that lie."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.iceberg.puffin import (
    TAIL_BYTES,
    NewBlob,
    PuffinBlob,
    PuffinLimits,
    blob_bytes,
    footer_length,
    read_footer,
    write_puffin,
)
from lakeplane.iceberg.puffin_codecs import pack, unpack, xxh32_short
from lakeplane.model.records import write

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = "s3://lake/orders/stats.puffin"
FIRST = b"abcdefghi"
SECOND = "some blob \0 binary data \U0001f92f that is not very very very very very very long, is it?".encode()
CREATED_BY = {"created-by": "Test 1234"}
CODECS = [None, "lz4", "zstd"]


def sample(codec: str | None = None) -> list[NewBlob]:
    """The two blobs of the sample files of Java's tests."""
    first = NewBlob(type="some-blob", data=FIRST, fields=(1,), snapshot_id=2, sequence_number=1, codec=codec)
    second = NewBlob(
        type="some-other-blob", data=SECOND, fields=(2,), snapshot_id=2, sequence_number=1, codec=codec
    )
    return [first, second]


def contents(data: bytes, source: str = SOURCE) -> list[bytes]:
    return [blob_bytes(data, blob, source=source) for blob in read_footer(data, source=source).blobs]


def puffin(footer: object, blobs: bytes = b"", *, flags: int = 0, payload: bytes | None = None) -> bytes:
    """A file of any footer, put together by hand."""
    payload = json.dumps(footer).encode() if payload is None else payload
    return b"PFA1" + blobs + b"PFA1" + payload + struct.pack("<iI", len(payload), flags) + b"PFA1"


def blob_of(length: int, codec: str | None, offset: int = 4, **more: Any) -> dict[str, Any]:
    known = {
        "type": "x",
        "fields": [1],
        "snapshot-id": 1,
        "sequence-number": 1,
        "offset": offset,
        "length": length,
    }
    return known | ({} if codec is None else {"compression-codec": codec}) | more


def packed_blob(packed: bytes, codec: str | None) -> bytes:
    """A file with one blob, of just these bytes."""
    return puffin({"blobs": [blob_of(len(packed), codec)]}, packed)


GOLDEN = ["iceberg-rust/puffin/java-generated", "pyiceberg/table/puffin/v1"]


@pytest.mark.parametrize("folder", GOLDEN)
def test_an_empty_file_of_java_is_read_and_written(vectors: Path, folder: str) -> None:
    data = (vectors / folder / "empty-puffin-uncompressed.bin").read_bytes()
    assert read_footer(data, source=SOURCE).blobs == ()
    assert write_puffin([], {}).data == data
    assert footer_length(data, source=SOURCE) == 28


@pytest.mark.parametrize("folder", GOLDEN)
def test_a_file_of_java_is_written_byte_for_byte(vectors: Path, folder: str) -> None:
    data = (vectors / folder / "sample-metric-data-uncompressed.bin").read_bytes()
    assert contents(data) == [FIRST, SECOND]
    file = write_puffin(sample(), CREATED_BY)
    assert file.data == data
    assert file.footer == read_footer(data, source=SOURCE)


@pytest.mark.parametrize("folder", GOLDEN)
def test_a_file_of_java_with_zstandard_is_read(vectors: Path, folder: str) -> None:
    data = (vectors / folder / "sample-metric-data-compressed-zstd.bin").read_bytes()
    footer = read_footer(data, source=SOURCE)
    assert footer.properties == CREATED_BY
    assert [blob.compression_codec for blob in footer.blobs] == ["zstd", "zstd"]
    assert [(blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) for blob in footer.blobs] == [
        ("some-blob", (1,), 2, 1),
        ("some-other-blob", (2,), 2, 1),
    ]
    assert contents(data) == [FIRST, SECOND]


def test_a_packed_footer_is_written_byte_for_byte_as_java_does() -> None:
    data = write_puffin([], {}, compress_footer=True).data
    assert len(data) == 55
    assert (
        hashlib.sha256(data).hexdigest() == "01c328024dc951f64cd3a3af74c2853e037dd2ec5bed9006e3ceedf651434129"
    )
    assert read_footer(data, source=SOURCE).blobs == ()


def test_a_frame_of_lz4_that_java_made_is_read() -> None:
    frame = bytes.fromhex(
        "04224d1868705300000000000000933f000000ff1e736f6d6520626c6f6220002062696e617279206461746120"
        "f09fa4af2074686174206973206e6f742076657279050007c06c6f6e672c2069732069743f00000000"
    )
    assert contents(packed_blob(frame, "lz4")) == [SECOND]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compress_footer", [False, True])
def test_what_was_written_is_read(codec: str | None, compress_footer: bool) -> None:  # noqa: FBT001
    file = write_puffin(sample(codec), CREATED_BY, compress_footer=compress_footer)
    assert read_footer(file.data, source=SOURCE) == file.footer
    assert footer_length(file.data, source=SOURCE) == file.footer_length
    assert contents(file.data) == [FIRST, SECOND]
    assert [blob.compression_codec for blob in file.footer.blobs] == [codec, codec]
    assert write_puffin(sample(codec), CREATED_BY, compress_footer=compress_footer) == file


def test_who_wrote_a_file_is_in_it() -> None:
    assert read_footer(write_puffin([]).data, source=SOURCE).properties == {"created-by": "lakeplane"}


@pytest.mark.parametrize("compress_footer", [False, True])
def test_a_file_is_read_by_ranges(compress_footer: bool) -> None:  # noqa: FBT001
    file = write_puffin(sample("zstd"), compress_footer=compress_footer)
    size = len(file.data)
    length = footer_length(file.data[-TAIL_BYTES:], source=SOURCE, file_size=size)
    for more in (0, 1, 50):
        assert read_footer(file.data[-length - more :], source=SOURCE, file_size=size) == file.footer
    with pytest.raises(InvalidInput, match=f"takes {length} bytes, and {length - 1} are given"):
        read_footer(file.data[1 - length :], source=SOURCE, file_size=size)
    second = file.footer.blobs[1]
    end = second.offset + second.length
    for start in (0, 5, second.offset):
        assert blob_bytes(file.data[start:end], second, source=SOURCE, start=start) == SECOND
        with pytest.raises(InvalidMetadata, match="not among those"):
            blob_bytes(file.data[start : end - 1], second, source=SOURCE, start=start)
    with pytest.raises(InvalidMetadata, match="not among those"):
        blob_bytes(file.data[second.offset + 1 :], second, source=SOURCE, start=second.offset + 1)


def test_what_is_unknown_in_a_footer_is_kept() -> None:
    document = {
        "blobs": [blob_of(0, None, properties={"ndv": "7"}, color={"deep": [1, None]})],
        "properties": {"created-by": "Trino version 381"},
        "later": [True],
    }
    footer = read_footer(puffin(document), source=SOURCE)
    assert footer.blobs[0].properties == {"ndv": "7"}
    assert write(footer) == document


def test_every_flag_that_is_not_known_is_refused() -> None:
    for bit in range(1, 32):
        data = puffin({"blobs": []}, flags=1 << bit)
        with pytest.raises(InvalidMetadata, match=f"flags in its footer .* {1 << bit:#010x}"):
            read_footer(data, source=SOURCE)


WHOLE = write_puffin(sample(), CREATED_BY).data
BROKEN = {
    "nothing": b"",
    "the magic only": b"PFA1",
    "a tail only": bytes(8) + b"PFA1",
    "another magic at the start": b"PFA2" + WHOLE[4:],
    "another magic at the end": WHOLE[:-4] + b"PFA2",
    "another magic before the payload": WHOLE.replace(b'PFA1{"', b'PFA2{"'),
    "a footer and no magic before it": puffin({"blobs": []})[4:],
    "a footer of negative size": WHOLE[:-12] + struct.pack("<iI", -1, 0) + b"PFA1",
    "a footer larger than the file": WHOLE[:-12] + struct.pack("<iI", len(WHOLE) - 15, 0) + b"PFA1",
    "a footer as large as four gigabytes": WHOLE[:-12] + b"\xff\xff\xff\xff" + bytes(4) + b"PFA1",
    "no JSON": puffin(None, payload=b"{"),
    "an empty footer": puffin(None, payload=b""),
    "an array": puffin([]),
    "no UTF-8": puffin(None, payload=b'{"blobs":[],"properties":{"a":"\xff"}}'),
    "no blobs": puffin({}),
    "blobs that are null": puffin({"blobs": None}),
    "a blob without a type": puffin({"blobs": [{"fields": []}]}),
    "a field that is no number": puffin({"blobs": [blob_of(0, None, fields=["1"])]}),
    "a property that is no string": puffin({"blobs": [], "properties": {"a": 1}}),
    "a blob that starts in the magic": puffin({"blobs": [blob_of(1, None, offset=3)]}),
    "a blob of negative offset": puffin({"blobs": [blob_of(5, None, offset=-1)]}),
    "a blob of negative length": puffin({"blobs": [blob_of(-1, None, offset=5)]}, b"12345"),
    "a blob that ends in the footer": puffin({"blobs": [blob_of(6, None)]}, b"12345"),
    "a blob beyond the file": puffin({"blobs": [blob_of(1, None, offset=2**62)]}),
    "an offset beyond 64 bits": puffin({"blobs": [blob_of(1, None, offset=2**63)]}),
    "a packed footer that is none": puffin({"blobs": []}, flags=1),
    "a footer that is packed and does not say so": puffin(None, payload=pack("lz4", b'{"blobs":[]}')),
    "a footer packed with gzip": puffin(None, payload=gzip.compress(b'{"blobs":[]}')),
    "JSON that is too deep": puffin(
        None, payload=b'{"blobs":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
    "JSON that is too deep to keep": puffin(
        None, payload=b'{"blobs":[],"x":' + b"[" * 200 + b"]" * 200 + b"}"
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_source(name: str) -> None:
    with pytest.raises(InvalidMetadata, match=f"^{SOURCE}: "):
        read_footer(BROKEN[name], source=SOURCE)


def lz4_frame(content: bytes, size: int | None) -> bytes:
    """A frame with one stored block, which tells any size of its content, or none."""
    flags = bytes([0x60 if size is None else 0x68, 0x70])
    descriptor = flags + (b"" if size is None else struct.pack("<Q", size))
    block = struct.pack("<I", len(content) | 1 << 31) + content if content else b""
    return b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32_short(descriptor) >> 8 & 255]) + block + bytes(4)


def zstd_frame(content: bytes, size: int | None) -> bytes:
    """A frame with one stored block, which tells any size of its content, or none."""
    header = b"\x00\x58" if size is None else b"\xe0" + struct.pack("<Q", size)
    return b"\x28\xb5\x2f\xfd" + header + (len(content) << 3 | 1).to_bytes(3, "little") + content


FRAMES = {"lz4": lz4_frame, "zstd": zstd_frame}


@pytest.mark.parametrize("codec", FRAMES)
def test_a_frame_must_tell_the_size_of_its_content_and_nothing_else(codec: str) -> None:
    frame, whole = FRAMES[codec], FRAMES[codec](FIRST, len(FIRST))
    assert contents(packed_blob(whole, codec)) == [FIRST]
    assert contents(packed_blob(frame(b"", 0), codec)) == [b""]
    for broken in (
        frame(FIRST, None),
        frame(FIRST, len(FIRST) - 1),
        frame(FIRST, len(FIRST) + 1),
        frame(FIRST, 0),
        frame(b"", 0) + b"\0",
        frame(b"", 0)[:-1],
        b"",
        whole + b"\0",
        whole + whole,
        FIRST,
        pack("zstd" if codec == "lz4" else "lz4", FIRST),
    ):
        with pytest.raises(InvalidMetadata, match=f"^{SOURCE}: the x at 4: "):
            contents(packed_blob(broken, codec))


@pytest.mark.parametrize("codec", FRAMES)
def test_a_frame_that_was_cut_is_noticed_wherever_it_ends(codec: str) -> None:
    frame = pack(codec, SECOND * 3)
    for end in range(len(frame)):
        with pytest.raises(InvalidMetadata, match=f"^{SOURCE}: the x at 4: "):
            contents(packed_blob(frame[:end], codec))


def test_a_codec_that_the_spec_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match=f"^{SOURCE}: the x at 4: is packed with 'snappy'"):
        contents(packed_blob(FIRST, "snappy"))
    with pytest.raises(InvalidInput, match="'snappy' is no codec"):
        write_puffin(sample("snappy"))


@pytest.mark.parametrize("codec", FRAMES)
def test_a_blob_that_claims_to_be_huge_takes_no_memory(codec: str) -> None:
    data = packed_blob(FRAMES[codec](FIRST, 2**40), codec)
    tracemalloc.start()
    taken = pa.total_allocated_bytes()
    with pytest.raises(LimitExceeded, match=f"^{SOURCE}: the x at 4: unpacks to {2**40} bytes"):
        contents(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    assert pa.total_allocated_bytes() == taken
    tracemalloc.stop()


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    data = packed_blob(bomb, "zstd")
    tracemalloc.start()
    with pytest.raises(LimitExceeded, match="unpacks to 67108864 bytes"):
        contents(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    blob = read_footer(data, source=SOURCE).blobs[0]
    limits = PuffinLimits(free_bytes=64 << 20)
    assert len(blob_bytes(data, blob, source=SOURCE, limits=limits)) == 64 << 20


def test_a_frame_that_holds_more_than_it_tells_is_stopped() -> None:
    content = bytes(1 << 20)
    whole = zstandard.ZstdCompressor(level=1).compress(content)
    assert zstandard.get_frame_parameters(whole).content_size == len(content)
    at = whole.index(struct.pack("<I", len(content)))
    liar = whole[:at] + struct.pack("<I", 1000) + whole[at + 4 :]
    with pytest.raises(InvalidMetadata):
        contents(packed_blob(liar, "zstd"))


def test_a_footer_and_blobs_have_limits() -> None:
    data = write_puffin(sample()).data
    with pytest.raises(LimitExceeded, match="footer takes"):
        read_footer(data, source=SOURCE, limits=PuffinLimits(footer_bytes=100))
    with pytest.raises(LimitExceeded, match="more than 1 entries"):
        read_footer(data, source=SOURCE, limits=PuffinLimits(blobs=1))
    second = read_footer(data, source=SOURCE).blobs[1]
    with pytest.raises(LimitExceeded, match="takes 83 bytes"):
        blob_bytes(data, second, source=SOURCE, limits=PuffinLimits(blob_bytes=82))
    many = [NewBlob(type="x", data=b"", fields=(), snapshot_id=1, sequence_number=1)] * 100
    packed = write_puffin(many, compress_footer=True).data
    with pytest.raises(LimitExceeded, match=f"^{SOURCE}: footer: unpacks to"):
        read_footer(packed, source=SOURCE, limits=PuffinLimits(footer_bytes=2000))


def test_a_range_beyond_the_bytes_is_refused_whatever_the_footer_says() -> None:
    for offset, length in ((-1, 1), (0, -1), (5, 5), (2**62, 2**62)):
        blob = PuffinBlob(type="x", fields=(), snapshot_id=1, sequence_number=1, offset=offset, length=length)
        with pytest.raises(InvalidMetadata, match="not among those"):
            blob_bytes(b"123456789", blob, source=SOURCE)


def test_the_hash_in_the_header_of_lz4_is_xxhash() -> None:
    for data, value in ((b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)):
        assert xxh32_short(data) == value


SIZES = st.sampled_from([0, 1, 12, 1000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1])


@pytest.mark.parametrize("codec", FRAMES)
@given(st.one_of(st.binary(max_size=300), SIZES.map(bytes), SIZES.map(lambda n: b"lake" * (n // 4))))
def test_any_content_comes_back_and_other_readers_agree(codec: str, content: bytes) -> None:
    packed = pack(codec, content)
    assert unpack(codec, packed, len(content)) == content
    with pa.CompressedInputStream(pa.BufferReader(packed), codec) as stream:
        assert stream.read() == content
    if content:
        with pytest.raises(LimitExceeded):
            unpack(codec, packed, len(content) - 1)


FILES = [
    write_puffin(sample(codec), CREATED_BY, compress_footer=compress).data
    for codec in CODECS
    for compress in (False, True)
]


@given(st.sampled_from(FILES), st.data())
def test_changed_files_are_refused_or_read_and_nothing_else(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, len(changed) - 1))
        match draw.draw(st.sampled_from(["flip", "set", "cut", "insert", "end"])):
            case "flip":
                changed[place] ^= 1 << draw.draw(st.integers(0, 7))
            case "set":
                changed[place] = draw.draw(st.integers(0, 255))
            case "cut":
                del changed[place : place + draw.draw(st.integers(1, 8))]
            case "insert":
                changed[place:place] = draw.draw(st.binary(min_size=1, max_size=8))
            case _:
                del changed[place + 1 :]
        if not changed:
            break
    try:
        found = contents(bytes(changed))
    except InvalidMetadata as error:
        assert error.source == SOURCE  # noqa: PT017
    else:
        assert all(isinstance(each, bytes) for each in found)


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
def test_random_footers_and_files_are_refused(payload: bytes, flags: int) -> None:
    for data in (payload, b"PFA1" + payload + b"PFA1", puffin(None, payload=payload, flags=flags)):
        with pytest.raises(InvalidMetadata, match=f"^{SOURCE}: "):
            contents(data)
