"""PyIceberg's single values and transforms, and mmh3's hashes.

The question is a list of [type string, hex of the binary value, [transforms]]; the answer, for each, is the
hex that PyIceberg encodes the decoded value to, and the results of the transforms in their own types.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField

types: dict[str, IcebergType] = {}


def type_of(text: str) -> IcebergType:
    """The type of a type string, through a field, which is where PyIceberg parses it."""
    if text not in types:
        adapter = TypeAdapter(NestedField)
        types[text] = adapter.validate_python(
            {"id": 1, "name": "x", "type": text, "required": False}
        ).field_type
    return types[text]


def answer(text: str, encoded: str, transforms: list[str]) -> list[Any]:
    """Decode, encode again, and transform."""
    kind = type_of(text)
    value = from_bytes(kind, bytes.fromhex(encoded))
    results = []
    for name in transforms:
        transform = parse_transform(name)
        result = transform.transform(kind)(value)
        results.append(to_bytes(transform.result_type(kind), result).hex())
    return [to_bytes(kind, value).hex(), results]


json.dump([answer(*each) for each in json.load(sys.stdin)], sys.stdout)
