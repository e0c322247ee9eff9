"""Rows of Avro files as Polars or PyIceberg read them, and files as Polars writes them."""

from __future__ import annotations

import base64
import io
import json
import sys
from typing import Any

import polars as pl
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO


def by_polars(path: str) -> list[Any]:
    """All rows of a file."""
    with open(path, "rb") as file:  # noqa: PTH123  # an oracle's script
        return list(pl.read_avro(io.BytesIO(file.read())).rows())


def by_pyiceberg(path: str) -> list[Any]:
    """All rows of a file with the ids of Iceberg."""
    with AvroFile(PyArrowFileIO().new_input(path)) as rows:
        return [[row[position] for position in range(len(row))] for row in rows]


def written(codec: Any) -> str:
    """A file of 2,000 rows, in base 64."""
    out = io.BytesIO()
    frame = pl.DataFrame({"n": range(2000), "t": [f"row {row % 7}" for row in range(2000)]})
    frame.write_avro(out, compression=codec, name="row")
    return base64.b64encode(out.getvalue()).decode()


def main() -> None:
    """Answer one question."""
    question = json.load(sys.stdin)
    answer: Any
    match question:
        case {"read": path, "by": "polars"}:
            answer = by_polars(path)
        case {"read": path, "by": "pyiceberg"}:
            answer = by_pyiceberg(path)
        case {"write": codec}:
            answer = written(codec)
    json.dump(answer, sys.stdout)


main()
