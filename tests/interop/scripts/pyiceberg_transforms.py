"""Transforms of PyIceberg on many values.

The question is a list of objects with a type, a transform, and values as text (bytes in hex); the answer, for
each, is the list of the results as text.
"""

from __future__ import annotations

import decimal
import json
import sys
import uuid
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField


def type_of(text: str) -> IcebergType:
    """The type of a type string, through a field, which is where PyIceberg parses it."""
    raw = {"id": 1, "name": "x", "type": text, "required": False}
    return TypeAdapter(NestedField).validate_python(raw).field_type


def value_of(type_: str, text: str) -> Any:
    """A value in PyIceberg's own form."""
    if type_ == "binary":
        return bytes.fromhex(text)
    if type_ == "uuid":
        return uuid.UUID(text)
    if type_.startswith("decimal"):
        return decimal.Decimal(text)
    return text if type_ == "string" else int(text)


def answer(question: dict[str, Any]) -> list[str]:
    """The results of one transform."""
    transform = parse_transform(question["transform"]).transform(type_of(question["type"]))
    results = [transform(value_of(question["type"], text)) for text in question["values"]]
    return [each.hex() if isinstance(each, bytes) else str(each) for each in results]


json.dump([answer(each) for each in json.load(sys.stdin)], sys.stdout)
