from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeplane.errors import InvalidMetadata
from lakeplane.paimon.binary_row import encode_row
from lakeplane.paimon.sections import key_ranks, sections
from lakeplane.paimon.types import parse_type

INT, TEXT = parse_type("INT", ""), parse_type("STRING", "")
KEYS = st.tuples(st.integers(-3, 6), st.sampled_from(["", "a", "b", "aaaaaaaaaaaa", "é"]))


def rows(keys: Sequence[Any], *types: Any) -> pa.Array:
    return pa.array([encode_row(types, key, reserve_null=True) for key in keys], pa.binary())


@given(st.lists(st.tuples(st.integers(0, 2), KEYS, KEYS), max_size=12))
def test_sections_are_what_ranges_that_touch_make(files: list[tuple[int, Any, Any]]) -> None:
    """Against the plain way: files belong together if there is a chain of overlaps between them."""
    files = [(group, min(one, two, key=order), max(one, two, key=order)) for group, one, two in files]
    groups = np.array([group for group, _, _ in files], np.int64)
    first, last = (
        pa.chunked_array([rows(ends, INT, TEXT)])
        for ends in ([low for _, low, _ in files], [high for _, _, high in files])
    )
    found = sections(groups, first, last, [INT, TEXT], "x").tolist()
    together = [{number} for number in range(len(files))]
    for one, (group, low, high) in enumerate(files):
        for other, (their_group, their_low, their_high) in enumerate(files):
            overlap = order(low) <= order(their_high) and order(their_low) <= order(high)
            if group == their_group and overlap:
                union = together[one] | together[other]
                for number in union:
                    together[number] = union
    for one in range(len(files)):
        for other in range(len(files)):
            assert (found[one] == found[other]) == (other in together[one])


def order(key: tuple[int, str]) -> tuple[int, bytes]:
    return key[0], key[1].encode()


def test_keys_are_in_the_order_of_java() -> None:
    for text, ascending in (
        ("DOUBLE", [None, -math.inf, -1.5, -0.0, 0.0, 1.0, math.inf, math.nan]),
        ("FLOAT", [None, -2.0, 3.5, math.nan]),
        ("STRING", [None, "", "Z", "a", "aa", "é", "\U0001f600"]),
        ("BYTES", [None, b"", b"\x00", b"\x7f", b"\xff"]),
        (
            "DECIMAL(38, 2)",
            [None, *map(decimal.Decimal, ("-99999999999999999999.00", "-0.01", "0.00", "5.10"))],
        ),
        ("BOOLEAN", [None, False, True]),
        ("TIMESTAMP(9)", [None, -1, 0, 10**18]),
        ("TIME(3)", [0, 1000]),
        ("TINYINT", [-128, -1, 0, 127]),
    ):
        type_ = parse_type(text, "")
        found = key_ranks(rows([(each,) for each in ascending], type_), [type_], "x").tolist()
        assert found == list(range(len(ascending))), text
        assert (
            key_ranks(rows([(each,) for each in ascending[::-1]], type_), [type_], "x").tolist()
            == found[::-1]
        )


def test_keys_that_are_broken_are_refused() -> None:
    key = pa.chunked_array([rows([(2, "a")], INT, TEXT)])
    less = pa.chunked_array([rows([(1, "a")], INT, TEXT)])
    with pytest.raises(InvalidMetadata, match="snapshot 3: the first key of a file comes after"):
        sections(np.zeros(1, np.int64), key, less, [INT, TEXT], "snapshot 3")
    with pytest.raises(InvalidMetadata, match="snapshot 3"):
        sections(np.zeros(1, np.int64), key, key, [INT], "snapshot 3")
