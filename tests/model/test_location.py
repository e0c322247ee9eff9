"""Locations: what is one place, what is inside another, and what is refused before it is used."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeplane.errors import InvalidLocation
from lakeplane.model.location import Location, parse_location, spellings

ALIKE = [
    ["s3://b/k", "s3a://b/k", "s3n://b/k", "S3://b/k", "s3://b/k/", "s3://b/k//"],
    ["wasb://c@a.example/k", "wasbs://c@a.example/k"],
    ["abfs://c@a.example/k", "abfss://c@a.example/k"],
    ["gs://b/k", "gcs://b/k"],
    [
        "/x/y",
        "/x/y/",
        "/x//y",
        "///x/y",
        "file:/x/y",
        "file:///x/y",
        "file:////x/y",
        "file://localhost/x/y",
        "FILE:/x/y",
    ],
    ["hdfs://nn:8020/x", "hdfs://nn:8020//x/"],
    ["s3://b", "s3://b/", "s3a://b"],
    ["/", "file:/", "file:///"],
]


@pytest.mark.parametrize("texts", ALIKE)
def test_spellings_of_one_place(texts: list[str]) -> None:
    first, *others = map(parse_location, texts)
    for other in others:
        assert other == first
        assert hash(other) == hash(first)
        assert other.contains(first)
        assert first.contains(other)
    assert [str(parse_location(text)) for text in texts] == texts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/k", "s3://b/K"),
        ("s3://b/k", "s3://c/k"),
        ("s3://b/k", "gs://b/k"),
        ("s3://b/k", "/b/k"),
        ("s3://b/a/k", "s3://b/a//k"),
        ("s3://b/a/k", "s3://b//a/k"),
        ("s3://b/a k", "s3://b/a%20k"),
        ("hdfs://n1/x", "hdfs://n2/x"),
        ("abfs://c1@a.example/k", "abfs://c2@a.example/k"),
        ("/x", "/X"),
    ],
)
def test_different_places(one: str, other: str) -> None:
    assert parse_location(one) != parse_location(other)
    assert not parse_location(one).contains(parse_location(other))


def test_every_pair_of_groups_is_different() -> None:
    for group in ALIKE:
        for other in ALIKE:
            assert (parse_location(group[0]) == parse_location(other[-1])) == (group is other)


@pytest.mark.parametrize(
    ("outer", "inner", "inside"),
    [
        ("s3://b/warehouse/test", "s3://b/warehouse/test", True),
        ("s3://b/warehouse/test", "s3a://b/warehouse/test/data/f", True),
        ("s3://b/warehouse/test/", "s3://b/warehouse/test/data/f", True),
        ("s3://b/warehouse/test", "s3://b/warehouse/test2", False),
        ("s3://b/warehouse/test", "s3://b/warehouse/test2/data/f", False),
        ("s3://b/warehouse/test", "s3://b/warehouse", False),
        ("s3://b/warehouse/test", "s3://b2/warehouse/test/f", False),
        ("s3://b", "s3://b/x", True),
        ("s3://b", "s3://b2/x", False),
        ("s3://b/t", "s3://b/t//f", True),
        ("/w/t", "file:///w/t/f", True),
        ("/w/t", "file:/w/t2/f", False),
        ("/", "/w", True),
        ("/w", "/", False),
        ("/w", "s3://w/x", False),
        ("s3://b/t", "s3://b/T/f", False),
    ],
)
def test_containment_goes_by_whole_segments(outer: str, inner: str, inside: bool) -> None:  # noqa: FBT001
    assert parse_location(outer).contains(parse_location(inner)) == inside


REFUSED = {
    "nothing": ["", " ", "/" + "x" * 8192],
    "not from the root": ["data/x", "x", "./x", "../x", "~/x", "s3:b/k", "file:x", "file:", "mailto:a@b"],
    "climbing": [
        *("/w/../etc", "s3://b/t/../../other", "s3://b/..", "/..", "/.", "/w/./x", "s3://b/t/..", "/w/.../x"),
        *("/w/%2e%2e/etc", "/w/%2E%2E/etc", "/w/%2e./x", "/w/.%2E/x", "/w/%2e/x", "s3://b/%2e%2e"),
    ],
    "look-alikes": [
        *("/w/\uff0e\uff0e/x", "/w/\u2024\u2024/x", "/w/\u2025/x", "/w/\ufe52./x", "/w/\uff052e\uff052e/x"),
        *("/w/a\uff0f..\uff0fb", "/w/a\uff3cb", "/w/a\ufe68b", "/w/a\u2100b"),
    ],
    "hidden characters": [
        *(
            "/w/\0",
            "/w/a\nb",
            "/w/a\rb",
            "/w/\x1b[31m",
            "/w/\x7f",
            "/w/\x85",
            "/w/\u2028x",
            "/w/\u202egpj.exe",
        ),
        *("/w/\u2066x", "/w/\u200e\u202ax", "/w/\ufeffx", "/w/\ud800", " /w", "/w ", "/w/x\t", "\u00a0/w"),
    ],
    "encoded NUL": ["/w/a%00b", "s3://b/%00", "/w/%00/x"],
    "backslashes": ["\\w\\x", "/w\\..\\x", "C:\\w", "s3:\\\\b\\k", "\\\\host\\share"],
    "other hosts": ["file://host/x", "//host/share", "file://127.0.0.1/x", "file://LOCALHOST.evil/x"],
    "passwords": ["s3://key:secret@b/k", "hdfs://u:p@nn/x", "s3://:p@b/k", "s3://k:@b/k", "s3://a@b:c@d/k"],
    "odd stores": [
        *("s3://b%2fc/k", "s3://b c/k", "s3://b?x/k", "s3://b#f/k", "s3://b\u0430nk/k", "s3://u%3Ap@b/k"),
    ],
    "link-local": [
        *("http://169.254.169.254/latest/meta-data", "https://169.254.169.254:80/x", "s3://169.254.0.1/k"),
        *(
            "http://169.254.169.254./x",
            "http://2852039166/x",
            "http://0xa9fea9fe/x",
            "http://0xA9.0xFE.0xA9.0xFE/x",
        ),
        *(
            "http://169.254.43518/x",
            "http://169.16689662/x",
            "http://0251.0376.0251.0376/x",
            "http://169.0376.0xa9fe/x",
        ),
        *("http://025177524776/x", "http://u@169.254.169.254/x"),
        *("http://[fe80::1]/x", "http://[fe80::1]:80/x", "http://[febf::1]/x", "http://[fe80::1%25eth0]/x"),
        *("http://[::ffff:169.254.169.254]/x", "http://[::ffff:a9fe:a9fe]/x", "http://[2002:a9fe:a9fe::]/x"),
        *("http://\uff11\uff16\uff19.254.169.254/x", "http://169\u3002254\u3002169\u3002254/x"),
    ],
}


@pytest.mark.parametrize("text", [text for texts in REFUSED.values() for text in texts], ids=ascii)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidLocation):
        parse_location(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/db/table/data/ts_day=2020-01-01/00000-0-abc.parquet",
        "s3://bucket/t/data/city=S%C3%A3o%20Paulo/path=a%2Fb/f.parquet",
        "s3://bucket/t/a b/..x/x../...x/.hidden/a.b",
        "s3://bucket/größe/数据/😀/e\u0301",
        "s3://123456789/k",
        "s3://2852039/k",
        "s3://my.bucket.example/k?versionId=1#frag",
        "http://10.0.0.1:9000/bucket/k",
        "http://127.0.0.1/k",
        "http://[::1]:9000/k",
        "http://169.253.169.254/k",
        "http://999.254.169.254/k",
        "http://1.2.3.4.5/k",
        "http://169.254.169.256/k",
        "abfss://container@account.dfs.core.windows.net/t",
        "hdfs:///wh/db/table",
        "viewfs://cluster/wh",
        "/wh/db/table/data/00000-0.parquet",
        "/" + "x" * 8191,
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_what_honest_writers_produce_is_accepted(text: str) -> None:
    assert str(parse_location(text)) == text


@pytest.mark.parametrize("text", REFUSED["passwords"] + ["s3://u%3Asecret@b/k", "s3://key:secret@b?/k"])
def test_a_refused_password_is_not_shown(text: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        parse_location(text)
    assert "secret" not in str(caught.value)
    assert "key" not in str(caught.value)


# Joining, as in the table of path resolution


@pytest.mark.parametrize(
    ("table", "path", "resolved"),
    [
        ("s3://bucket/db/table", "data/00000-0.parquet", "s3://bucket/db/table/data/00000-0.parquet"),
        ("s3://bucket/db/table", "/data/00000-0.parquet", "s3://bucket/db/table//data/00000-0.parquet"),
        ("/wh/db/table", "data/00000-0.parquet", "/wh/db/table/data/00000-0.parquet"),
        ("s3://bucket", "k", "s3://bucket/k"),
        ("/", "x", "/x"),
        ("file:///", "x", "file:/x"),
        ("hdfs://nn:8020/x/", "y", "hdfs://nn:8020/x/y"),
    ],
)
def test_joining(table: str, path: str, resolved: str) -> None:
    location = parse_location(table) / path
    assert str(location) == resolved
    assert location.scheme == parse_location(table).scheme


@pytest.mark.parametrize(
    "path",
    ["..", "../x", "a/../../x", "%2e%2e/x", "a/./b", "a\\b", "a\0b", "a%00b", "\uff0e\uff0e/x", "x\n"],
)
@pytest.mark.parametrize("table", ["s3://b/db/table", "/wh/db/table"])
def test_a_relative_path_cannot_climb_out(table: str, path: str) -> None:
    with pytest.raises(InvalidLocation):
        parse_location(table) / path


@pytest.mark.parametrize("table", ["s3://b/db/table", "/wh/db/table", "s3://b", "hdfs://nn/x/"])
@pytest.mark.parametrize(
    "path", ["s3://evil/x", "file:///etc/passwd", "//evil/x", "@evil/x", ":80/x", "?q", "#f"]
)
def test_a_relative_path_cannot_change_the_store(table: str, path: str) -> None:
    base = parse_location(table)
    assert base.contains(base / path)


@pytest.mark.parametrize(
    ("text", "parent", "name"),
    [
        ("s3://b/a/k", "s3://b/a", "k"),
        ("s3://b/a", "s3://b", "a"),
        ("/a/b", "/a", "b"),
        ("/a", "/", "a"),
        ("/a/b/", "/a", "b"),
        ("file:///a/b", "file:///a", "b"),
        ("file:///a", "file:///", "a"),
        ("file:/a", "file:/", "a"),
        ("hdfs:///a", "hdfs:///", "a"),
        ("hdfs://nn/a//b", "hdfs://nn/a", "b"),
    ],
)
def test_parents_and_names(text: str, parent: str, name: str) -> None:
    location = parse_location(text)
    assert str(location.parent) == parent
    assert location.name == name
    assert location.parent.contains(location)
    assert location.parent / location.name == location


@pytest.mark.parametrize("text", ["/", "s3://b", "s3://b/", "file:///"])
def test_a_root_has_no_parent(text: str) -> None:
    assert parse_location(text).name == ""
    with pytest.raises(InvalidLocation, match="no parent"):
        _ = parse_location(text).parent


def test_a_location_is_not_its_text() -> None:
    assert parse_location("/x") != "/x"
    assert {parse_location("s3://b/k"), parse_location("s3a://b/k")} == {parse_location("s3n://b/k")}


# Fuzz

TRICKS = [
    "..",
    ".",
    "%2e",
    "%2E",
    "%00",
    "%2f",
    "\\",
    "/",
    "//",
    ":",
    "@",
    "?",
    "#",
    " ",
    "\0",
    "\u202e",
    "\uff0e",
]
HEADS = [
    "",
    "/",
    "s3://",
    "file:",
    "file://",
    "file:///",
    "hdfs://nn",
    "http://[",
    "abfs://c@a/",
    "S3A://b/",
    "a:",
]
TEXTS = st.builds(
    str.__add__,
    st.sampled_from(HEADS),
    st.lists(st.sampled_from([*TRICKS, "a", "b=1", "169.254.169.254", "[::1]"]) | st.text(max_size=3)).map(
        "".join
    ),
)


@given(TEXTS | st.text())
@example("http://[")
@example("s3://[]/x")
def test_any_text_is_a_location_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidLocation):
        location = parse_location(text)
        assert str(location) == text
        assert parse_location(text) == location
        assert location.contains(location)
        assert not {".", "..", "%2e%2e"} & {segment.lower() for segment in location.segments}
        if location.segments:
            assert location.parent.contains(location)
            assert not location.contains(location.parent)


@given(TEXTS, TEXTS | st.text())
def test_a_join_stays_inside(text: str, path: str) -> None:
    with contextlib.suppress(InvalidLocation):
        base = parse_location(text)
        assert base.contains(base / path)


@given(st.integers(0, 2**32 - 1), st.data())
def test_link_local_addresses_are_known_in_every_spelling(value: int, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([value, 0xA9FE0000 | value & 0xFFFF]))
    raw = value.to_bytes(4, "big")
    count = data.draw(st.integers(1, 4))
    numbers = [*raw[: count - 1], int.from_bytes(raw[count - 1 :], "big")]
    spellings: list[Callable[[int], str]] = [str, hex, "0{:o}".format, "0X{:08X}".format]
    spell = st.sampled_from(spellings)
    host = ".".join(data.draw(spell)(number) for number in numbers)
    if ipaddress.IPv4Address(value).is_link_local:
        with pytest.raises(InvalidLocation, match="link-local"):
            parse_location(f"http://{host}/x")
    else:
        assert parse_location(f"http://{host}/x").authority == host


def test_parsing_the_files_of_a_large_table_is_cheap() -> None:
    made = [
        parse_location(f"s3://bucket/db/table/data/day=2024-01-01/part-{number:08}.parquet")
        for number in range(2000)
    ]
    assert len(set(made)) == 2000
    assert isinstance(made[0], Location)


def test_equal_places_are_not_unequal() -> None:
    # `!=` once compared identities, and a table was refused in its own place.
    assert not parse_location("s3://lake/t") != parse_location("s3a://lake/t")  # noqa: SIM202
    assert parse_location("s3://lake/t") != parse_location("s3://lake/u")


@pytest.mark.parametrize(
    "text", ["s3://b/a/m.json", "s3n://b/a/m.json", "/a/m.json", "file:///a//m.json", "gs://b/m"]
)
def test_spellings_are_those_of_the_same_place(text: str) -> None:
    at = parse_location(text)
    assert text in spellings(at)
    assert {parse_location(each) for each in spellings(at)} == {at}


def test_spellings_that_catalogs_hold() -> None:
    assert {"s3://b/m", "s3a://b/m", "s3n://b/m"} <= set(spellings(parse_location("s3a://b/m")))
    assert {"/a/m", "file:/a/m", "file:///a/m"} <= set(spellings(parse_location("file:/a/m")))
