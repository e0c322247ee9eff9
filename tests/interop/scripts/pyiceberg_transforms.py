"""Apply partition transforms: a list of type, transform and values as text; answers each with its results as text."""

import decimal
import json
import sys
import uuid

from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType
from pydantic import TypeAdapter


def value(type_, text):
    if type_ == "string":
        return text
    if type_ == "binary":
        return bytes.fromhex(text)
    if type_ == "uuid":
        return uuid.UUID(text)
    if type_.startswith("decimal"):
        return decimal.Decimal(text)
    return int(text)


def answer(question):
    type_ = TypeAdapter(IcebergType).validate_python(question["type"])
    transform = parse_transform(question["transform"]).transform(type_)
    results = [transform(value(question["type"], text)) for text in question["values"]]
    return [each.hex() if isinstance(each, bytes) else str(each) for each in results]


json.dump([answer(each) for each in json.load(sys.stdin)], sys.stdout)
