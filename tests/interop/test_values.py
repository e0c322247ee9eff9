"""Single values and transforms agree with PyIceberg, value by value."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

from lakeplane.model import transforms
from lakeplane.model.types import parse_type
from lakeplane.model.value_bytes import from_bytes, to_bytes
from tests.interop.peers import ask

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20_260_101
ROUNDS = 60
TIMES = ["bucket[16]", "year", "month", "day", "hour", "identity"]

MAKERS: dict[str, tuple[Callable[[random.Random], Any], list[str]]] = {
    "boolean": (lambda r: r.random() < 0.5, ["identity"]),
    "int": (lambda r: r.randrange(-(2**31) + 100, 2**31), ["bucket[7]", "truncate[10]", "identity"]),
    "long": (lambda r: r.randrange(-(2**63) + 100, 2**63), ["bucket[100]", "truncate[10]", "identity"]),
    "float": (lambda r: float(r.randrange(-(2**20), 2**20)) / 8, ["identity"]),
    "double": (lambda r: r.uniform(-1e300, 1e300), ["identity"]),
    "decimal(9,2)": (
        lambda r: Number(r.randrange(-(10**9) + 1000, 10**9)).scaleb(-2),
        ["bucket[16]", "truncate[50]", "identity"],
    ),
    "decimal(38,10)": (
        lambda r: Number(r.randrange(-(10**20), 10**20)).scaleb(-10),
        ["bucket[16]", "identity"],
    ),
    "date": (
        lambda r: r.randrange(-700_000, 2_900_000),
        ["bucket[16]", "year", "month", "day", "identity"],
    ),
    "time": (lambda r: r.randrange(86_400_000_000), ["bucket[16]", "identity"]),
    "timestamp": (lambda r: r.randrange(-(6 * 10**16), 2 * 10**17), TIMES),
    "timestamptz": (lambda r: r.randrange(-(6 * 10**16), 2 * 10**17), TIMES),
    "timestamp_ns": (lambda r: r.randrange(-(9 * 10**18), 9 * 10**18), TIMES),
    "timestamptz_ns": (lambda r: r.randrange(-(9 * 10**18), 9 * 10**18), TIMES),
    "string": (
        lambda r: "".join(r.choice("aZ é☃𝄞\0") for _ in range(r.randrange(9))),
        ["bucket[16]", "truncate[3]", "identity"],
    ),
    "uuid": (lambda r: uuid.UUID(int=r.getrandbits(128)), ["bucket[16]", "identity"]),
    "fixed[5]": (lambda r: r.randbytes(5), ["bucket[16]", "identity"]),
    "binary": (lambda r: r.randbytes(r.randrange(9)), ["bucket[16]", "truncate[3]", "identity"]),
}


def test_values_and_transforms_agree_with_pyiceberg() -> None:
    source = random.Random(SEED)
    values = [(text, make(source)) for text, (make, _) in MAKERS.items() for _ in range(ROUNDS)]
    questions = [[text, to_bytes(parse_type(text), value).hex(), MAKERS[text][1]] for text, value in values]
    answers = ask("pyiceberg_values", questions)
    for (text, value), (_, sent, names), (encoded, results) in zip(values, questions, answers, strict=True):
        kind = parse_type(text)
        assert encoded == sent, (text, value)
        assert from_bytes(kind, bytes.fromhex(encoded)) == value, text
        for name, theirs in zip(names, results, strict=True):
            transform = transforms.parse_transform(name)
            ours = transforms.apply(transform, kind, value)
            result = to_bytes(transforms.result_type(transform, kind), ours)
            assert result.hex() == theirs, (name, text, value, ours)
