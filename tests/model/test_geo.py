from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidInput, InvalidMetadata, LimitExceeded
from lakeplane.model import geo
from lakeplane.model.geo import Point

# Text; then ISO WKB little endian, ISO WKB big endian, and EWKB little endian, as GEOS 3.14.1 (by shapely
# 2.2.0) writes them.
VECTORS = [
    (
        "POINT (30 10)",
        "01010000000000000000003e400000000000002440",
        "0000000001403e0000000000004024000000000000",
        "01010000000000000000003e400000000000002440",
    ),
    (
        "POINT Z (1 2 3)",
        "01e9030000000000000000f03f00000000000000400000000000000840",
        "00000003e93ff000000000000040000000000000004008000000000000",
        "0101000080000000000000f03f00000000000000400000000000000840",
    ),
    (
        "POINT M (1 2 4)",
        "01d1070000000000000000f03f00000000000000400000000000001040",
        "00000007d13ff000000000000040000000000000004010000000000000",
        "0101000040000000000000f03f00000000000000400000000000001040",
    ),
    (
        "POINT ZM (1 2 3 4)",
        "01b90b0000000000000000f03f000000000000004000000000000008400000000000001040",
        "0000000bb93ff0000000000000400000000000000040080000000000004010000000000000",
        "01010000c0000000000000f03f000000000000004000000000000008400000000000001040",
    ),
    (
        "POINT EMPTY",
        "0101000000000000000000f87f000000000000f87f",
        "00000000017ff80000000000007ff8000000000000",
        "0101000000000000000000f87f000000000000f87f",
    ),
    (
        "LINESTRING (30 10, 10 30, 40 40)",
        (
            "0102000000030000000000000000003e40000000000000244000000000000024400000000000003e4000000000"
            "000044400000000000004440"
        ),
        (
            "000000000200000003403e00000000000040240000000000004024000000000000403e00000000000040440000"
            "000000004044000000000000"
        ),
        (
            "0102000000030000000000000000003e40000000000000244000000000000024400000000000003e4000000000"
            "000044400000000000004440"
        ),
    ),
    (
        "LINESTRING EMPTY",
        "010200000000000000",
        "000000000200000000",
        "010200000000000000",
    ),
    (
        "LINESTRING M (1 2 3, 4 5 6)",
        (
            "01d207000002000000000000000000f03f00000000000000400000000000000840000000000000104000000000"
            "000014400000000000001840"
        ),
        (
            "00000007d2000000023ff000000000000040000000000000004008000000000000401000000000000040140000"
            "000000004018000000000000"
        ),
        (
            "010200004002000000000000000000f03f00000000000000400000000000000840000000000000104000000000"
            "000014400000000000001840"
        ),
    ),
    (
        "POLYGON ((35 10, 45 45, 15 40, 10 20, 35 10), (20 30, 35 35, 30 20, 20 30))",
        (
            "010300000002000000050000000000000000804140000000000000244000000000008046400000000000804640"
            "0000000000002e4000000000000044400000000000002440000000000000344000000000008041400000000000"
            "0024400400000000000000000034400000000000003e4000000000008041400000000000804140000000000000"
            "3e40000000000000344000000000000034400000000000003e40"
        ),
        (
            "000000000300000002000000054041800000000000402400000000000040468000000000004046800000000000"
            "402e00000000000040440000000000004024000000000000403400000000000040418000000000004024000000"
            "000000000000044034000000000000403e00000000000040418000000000004041800000000000403e00000000"
            "000040340000000000004034000000000000403e000000000000"
        ),
        (
            "010300000002000000050000000000000000804140000000000000244000000000008046400000000000804640"
            "0000000000002e4000000000000044400000000000002440000000000000344000000000008041400000000000"
            "0024400400000000000000000034400000000000003e4000000000008041400000000000804140000000000000"
            "3e40000000000000344000000000000034400000000000003e40"
        ),
    ),
    (
        "POLYGON EMPTY",
        "010300000000000000",
        "000000000300000000",
        "010300000000000000",
    ),
    (
        "MULTIPOINT ((10 40), (40 30), (20 20), (30 10))",
        (
            "010400000004000000010100000000000000000024400000000000004440010100000000000000000044400000"
            "000000003e4001010000000000000000003440000000000000344001010000000000000000003e400000000000"
            "002440"
        ),
        (
            "00000000040000000400000000014024000000000000404400000000000000000000014044000000000000403e"
            "0000000000000000000001403400000000000040340000000000000000000001403e0000000000004024000000"
            "000000"
        ),
        (
            "010400000004000000010100000000000000000024400000000000004440010100000000000000000044400000"
            "000000003e4001010000000000000000003440000000000000344001010000000000000000003e400000000000"
            "002440"
        ),
    ),
    (
        "MULTIPOINT (EMPTY, (1 2))",
        (
            "0104000000020000000101000000000000000000f87f000000000000f87f0101000000000000000000f03f0000"
            "000000000040"
        ),
        (
            "00000000040000000200000000017ff80000000000007ff800000000000000000000013ff00000000000004000"
            "000000000000"
        ),
        (
            "0104000000020000000101000000000000000000f87f000000000000f87f0101000000000000000000f03f0000"
            "000000000040"
        ),
    ),
    (
        "MULTILINESTRING ((10 10, 20 20), (40 40, 30 30))",
        (
            "010500000002000000010200000002000000000000000000244000000000000024400000000000003440000000"
            "0000003440010200000002000000000000000000444000000000000044400000000000003e400000000000003e"
            "40"
        ),
        (
            "000000000500000002000000000200000002402400000000000040240000000000004034000000000000403400"
            "000000000000000000020000000240440000000000004044000000000000403e000000000000403e0000000000"
            "00"
        ),
        (
            "010500000002000000010200000002000000000000000000244000000000000024400000000000003440000000"
            "0000003440010200000002000000000000000000444000000000000044400000000000003e400000000000003e"
            "40"
        ),
    ),
    (
        "MULTIPOLYGON (((30 20, 45 40, 10 40, 30 20)), ((15 5, 40 10, 10 20, 5 10, 15 5)))",
        (
            "010600000002000000010300000001000000040000000000000000003e40000000000000344000000000008046"
            "400000000000004440000000000000244000000000000044400000000000003e40000000000000344001030000"
            "0001000000050000000000000000002e4000000000000014400000000000004440000000000000244000000000"
            "000024400000000000003440000000000000144000000000000024400000000000002e400000000000001440"
        ),
        (
            "00000000060000000200000000030000000100000004403e000000000000403400000000000040468000000000"
            "00404400000000000040240000000000004044000000000000403e000000000000403400000000000000000000"
            "030000000100000005402e00000000000040140000000000004044000000000000402400000000000040240000"
            "00000000403400000000000040140000000000004024000000000000402e0000000000004014000000000000"
        ),
        (
            "010600000002000000010300000001000000040000000000000000003e40000000000000344000000000008046"
            "400000000000004440000000000000244000000000000044400000000000003e40000000000000344001030000"
            "0001000000050000000000000000002e4000000000000014400000000000004440000000000000244000000000"
            "000024400000000000003440000000000000144000000000000024400000000000002e400000000000001440"
        ),
    ),
    (
        "GEOMETRYCOLLECTION (POINT (40 10), LINESTRING (10 10, 20 20))",
        (
            "010700000002000000010100000000000000000044400000000000002440010200000002000000000000000000"
            "2440000000000000244000000000000034400000000000003440"
        ),
        (
            "000000000700000002000000000140440000000000004024000000000000000000000200000002402400000000"
            "0000402400000000000040340000000000004034000000000000"
        ),
        (
            "010700000002000000010100000000000000000044400000000000002440010200000002000000000000000000"
            "2440000000000000244000000000000034400000000000003440"
        ),
    ),
    (
        "GEOMETRYCOLLECTION EMPTY",
        "010700000000000000",
        "000000000700000000",
        "010700000000000000",
    ),
    (
        "GEOMETRYCOLLECTION Z (POINT Z (1 2 3), POLYGON Z ((0 0 1, 1 0 1, 1 1 1, 0 0 1)))",
        (
            "01ef0300000200000001e9030000000000000000f03f0000000000000040000000000000084001eb0300000100"
            "00000400000000000000000000000000000000000000000000000000f03f000000000000f03f00000000000000"
            "00000000000000f03f000000000000f03f000000000000f03f000000000000f03f000000000000000000000000"
            "00000000000000000000f03f"
        ),
        (
            "00000003ef0000000200000003e93ff00000000000004000000000000000400800000000000000000003eb0000"
            "000100000004000000000000000000000000000000003ff00000000000003ff000000000000000000000000000"
            "003ff00000000000003ff00000000000003ff00000000000003ff0000000000000000000000000000000000000"
            "000000003ff0000000000000"
        ),
        (
            "0107000080020000000101000080000000000000f03f0000000000000040000000000000084001030000800100"
            "00000400000000000000000000000000000000000000000000000000f03f000000000000f03f00000000000000"
            "00000000000000f03f000000000000f03f000000000000f03f000000000000f03f000000000000000000000000"
            "00000000000000000000f03f"
        ),
    ),
    (
        "POINT (-71.064544 42.28787)",
        "0101000000cb49287d21c451c0f0bf95ecd8244540",
        "0000000001c051c4217d2849cb404524d8ec95bff0",
        "0101000000cb49287d21c451c0f0bf95ecd8244540",
    ),
    (
        "POINT (1e+300 -0.5)",
        "01010000009c7500883ce4377e000000000000e0bf",
        "00000000017e37e43c8800759cbfe0000000000000",
        "01010000009c7500883ce4377e000000000000e0bf",
    ),
]


@pytest.mark.parametrize(("text", "little", "big", "extended"), VECTORS)
def test_features_are_written_and_read_as_geos_does(text: str, little: str, big: str, extended: str) -> None:
    assert geo.wkt_to_wkb(text).hex() == little
    for raw in (little, big, extended):
        assert geo.wkb_to_wkt(bytes.fromhex(raw)) == text
        geo.check_wkb(bytes.fromhex(raw))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("point(30 10)", "POINT (30 10)"),
        ("POINTZ(1 2 3)", "POINT Z (1 2 3)"),
        ("pointzm (1 2 3 4)", "POINT ZM (1 2 3 4)"),
        ("LineStringM(1 2 3,4 5 6)", "LINESTRING M (1 2 3, 4 5 6)"),
        ("MULTIPOINT (10 40, 40 30)", "MULTIPOINT ((10 40), (40 30))"),
        ("MULTIPOINT M EMPTY", "MULTIPOINT M EMPTY"),
        ("\n POINT\t( 1.50 -2e3 )", "POINT (1.5 -2000)"),
        ("POINT (.5 5.)", "POINT (0.5 5)"),
        ("POINT (1 nan)", "POINT (1 NaN)"),
        ("POINT (-inf Infinity)", "POINT (-Inf Inf)"),
        ("POINT (NaN NaN)", "POINT EMPTY"),
        ("POINT (-0.0 1e15)", "POINT (-0 1000000000000000.0)"),
        ("POLYGON (EMPTY, (0 0, 1 1))", "POLYGON (EMPTY, (0 0, 1 1))"),
        ("MULTIPOLYGON (EMPTY)", "MULTIPOLYGON (EMPTY)"),
        (
            "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION EMPTY, POINT M (1 2 3))",
            "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION EMPTY, POINT M (1 2 3))",
        ),
    ],
)
def test_other_spellings_are_read(text: str, canonical: str) -> None:
    raw = geo.wkt_to_wkb(text)
    assert geo.wkb_to_wkt(raw) == canonical
    assert geo.wkt_to_wkb(canonical) == raw


@pytest.mark.parametrize(
    "text",
    [
        *("", "POINT", "POINT ()", "POINT (1)", "POINT (1 2 3)", "POINT (1 2, 3 4)", "POINT Z (1 2)"),
        *("POINT (1 2", "POINT (1 2))", "POINT (1 2) x", "POINT (1,2)", "POINT (1_0 2)", "POINT (a b)"),
        *(
            "CIRCLE (1 2)",
            "SRID=4326;POINT (1 2)",
            "POINT Q (1 2)",
            "POLYGON (1 2, 3 4)",
            "LINESTRING (1 2,)",
        ),
        *(
            "MULTIPOINT ((1 2)",
            "MULTILINESTRING (1 2)",
            "GEOMETRYCOLLECTION (1 2)",
            "POINT ZZ (1 2)",
            "POINTMZ (1 2)",
        ),
        "GEOMETRYCOLLECTION (" * 40 + "POINT EMPTY" + ")" * 40,
    ],
)
def test_what_is_no_text_of_a_feature_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not well-known text"):
        geo.wkt_to_wkb(text)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "too early"),
        ("02", "no byte order"),
        ("0101", "too early"),
        ("0100000000", "type code 0"),
        ("0108000000", "type code 8"),
        ("01a10f0000", "type code 4001"),
        ("01e9030080" + "00" * 24, "type code"),  # Z twice: by the ISO code and by the flag
        ("0101000020e6100000" + "00" * 16, "spatial reference id"),
        ("0101000000" + "00" * 15, "before its 1 coordinates"),
        ("0101000000" + "00" * 17, "1 bytes after the end"),
        ("0102000000ffffffff", "before its 4294967295 coordinates"),
        ("0103000000ffffffff", "before its 4294967295 parts"),
        ("010300000001000000ffffffff", "coordinates"),
        ("0107000000ffffff7f", "parts"),
        ("010400000001000000" + "010200000000000000", "a MULTIPOINT with a LINESTRING"),
        ("010400000001000000" + "01e9030000" + "00" * 24, "a MULTIPOINT with a POINT Z"),
    ],
)
def test_what_is_no_wkb_is_refused(raw: str, reason: str) -> None:
    with pytest.raises(InvalidMetadata, match=reason):
        geo.wkb_to_wkt(bytes.fromhex(raw))


def test_nesting_is_limited() -> None:
    level = bytes.fromhex("010700000001000000")
    point = geo.wkt_to_wkb("POINT (1 2)")
    geo.check_wkb(level * geo.MAX_DEPTH + point)
    with pytest.raises(LimitExceeded):
        geo.check_wkb(level * (geo.MAX_DEPTH + 1) + point)
    with pytest.raises(LimitExceeded):
        geo.check_wkb(level * 100_000)


# Random features, as text


def _numbers(width: int) -> st.SearchStrategy[str]:
    number = st.floats(allow_nan=False).map(lambda number: "Inf" if number == math.inf else repr(number))
    return st.lists(
        number.map(lambda text: text.replace("-inf", "-Inf")), min_size=width, max_size=width
    ).map(" ".join)


def _list(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(item, max_size=3).map(lambda items: f"({', '.join(items)})" if items else "EMPTY")


@st.composite
def features(draw: st.DrawFn) -> str:
    mark, width = draw(st.sampled_from([("", 2), (" Z", 3), (" M", 3), (" ZM", 4)]))
    point = _numbers(width)
    line = _list(point)
    polygon = _list(line)
    shapes = {
        "POINT": point.map(lambda text: f"({text})"),
        "LINESTRING": line,
        "POLYGON": polygon,
        "MULTIPOINT": _list(point.map(lambda text: f"({text})")),
        "MULTILINESTRING": _list(line),
        "MULTIPOLYGON": _list(polygon),
    }
    shapes["GEOMETRYCOLLECTION"] = _list(
        st.sampled_from(sorted(shapes)).flatmap(
            lambda name: shapes[name].map(lambda body: f"{name}{mark} {body}")
        )
    )
    name = draw(st.sampled_from(sorted(shapes)))
    return f"{name}{mark} {draw(shapes[name])}"


@given(features())
def test_features_survive_text_and_binary(text: str) -> None:
    raw = geo.wkt_to_wkb(text)
    again = geo.wkb_to_wkt(raw)
    assert geo.wkt_to_wkb(again) == raw
    assert again.split("(")[0] == text.split("(", maxsplit=1)[0]


@given(features(), st.data())
def test_broken_features_are_refused_in_order(text: str, data: st.DataObject) -> None:
    raw = bytearray(geo.wkt_to_wkb(text))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for cut in (bytes(raw), bytes(raw[: data.draw(st.integers(0, len(raw)))])):
        try:
            geo.wkb_to_wkt(cut)
        except InvalidMetadata:
            continue


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for read in (geo.wkb_to_wkt, geo.bounding_points, geo.point_from_bytes):
        try:
            read(raw)
        except InvalidMetadata:
            continue


@given(st.text(alphabet="POINTZM(), 0123.-eLSRG", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, f"POINT {text}", f"LINESTRING ({text})"):
        try:
            geo.wkt_to_wkb(candidate)
        except InvalidInput:
            continue


# Bounds

X, Y, Z, M = "0000000000002440", "0000000000002a40", "0000000000002e40", "0000000000003440"
NAN = "000000000000f87f"


@pytest.mark.parametrize(
    ("point", "raw"),
    [
        # The vectors of TestConversions and of TestGeospatialBound (Java)
        (Point(10.0, 13.0), X + Y),
        (Point(10.0, 13.0, 15.0), X + Y + Z),
        (Point(10.0, 13.0, None, 20.0), X + Y + NAN + M),
        (Point(10.0, 13.0, 15.0, 20.0), X + Y + Z + M),
    ],
)
def test_bounds_are_written_and_read_as_java_does(point: Point, raw: str) -> None:
    assert geo.point_to_bytes(point).hex() == raw
    assert geo.point_from_bytes(bytes.fromhex(raw)) == point


def test_nan_in_a_bound_means_not_set() -> None:
    assert geo.point_from_bytes(bytes.fromhex(X + Y + NAN)) == Point(10.0, 13.0)
    assert geo.point_from_bytes(bytes.fromhex(X + Y + Z + NAN)) == Point(10.0, 13.0, 15.0)
    for raw in (NAN + Y, X + NAN):
        with pytest.raises(InvalidMetadata, match="NaN"):
            geo.point_from_bytes(bytes.fromhex(raw))
    for point in (Point(math.nan, 1.0), Point(1.0, math.nan)):
        with pytest.raises(InvalidInput, match="x and y"):
            geo.point_to_bytes(point)


@pytest.mark.parametrize("size", [0, 8, 15, 17, 31, 33, 40])
def test_bounds_of_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(InvalidMetadata, match=f"not {size}"):
        geo.point_from_bytes(bytes(size))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("POINT (30 10)", (Point(30, 10), Point(30, 10))),
        ("LINESTRING (30 10, 10 30, 40 40)", (Point(10, 10), Point(40, 40))),
        ("LINESTRING Z (3 1 9, 1 3 7)", (Point(1, 1, 7), Point(3, 3, 9))),
        ("LINESTRING M (3 1 9, 1 3 7)", (Point(1, 1, None, 7), Point(3, 3, None, 9))),
        ("POINT ZM (1 2 3 4)", (Point(1, 2, 3, 4), Point(1, 2, 3, 4))),
        ("POLYGON ((0 0, 9 0, 9 9, 0 0), (-1 1, 2 2, 1 1))", (Point(-1, 0), Point(9, 9))),
        ("MULTIPOINT (EMPTY, (1 2))", (Point(1, 2), Point(1, 2))),
        # The spec: POINT (1 NaN) counts for X and not for Y; a dimension of nothing but NaN is left out.
        ("MULTIPOINT ((1 NaN), (2 5))", (Point(1, 5), Point(2, 5))),
        ("LINESTRING Z (1 1 NaN, 2 2 NaN)", (Point(1, 1), Point(2, 2))),
        ("LINESTRING ZM (1 1 NaN 4, 2 2 7 NaN)", (Point(1, 1, 7, 4), Point(2, 2, 7, 4))),
        ("GEOMETRYCOLLECTION (POINT (1 2), POINT Z (3 4 5))", (Point(1, 2, 5), Point(3, 4, 5))),
        ("POINT (Inf 1)", (Point(math.inf, 1), Point(math.inf, 1))),
        ("POINT EMPTY", None),
        ("POINT (1 NaN)", None),
        ("GEOMETRYCOLLECTION (POLYGON EMPTY)", None),
    ],
)
def test_the_box_around_a_feature(text: str, box: tuple[Point, Point] | None) -> None:
    assert geo.bounding_points(geo.wkt_to_wkb(text)) == box


@given(st.lists(st.tuples(*[st.floats(width=32, allow_nan=False)] * 4), min_size=1, max_size=5))
def test_the_box_holds_every_corner(corners: list[tuple[float, float, float, float]]) -> None:
    body = b"".join(struct.pack("<4d", *corner) for corner in corners)
    box = geo.bounding_points(struct.pack("<BII", 1, 3002, len(corners)) + body)
    assert box is not None
    low, high = box
    for at, (lower, upper) in enumerate([(low.x, high.x), (low.y, high.y), (low.z, high.z), (low.m, high.m)]):
        assert (lower, upper) == (min(c[at] for c in corners), max(c[at] for c in corners))
