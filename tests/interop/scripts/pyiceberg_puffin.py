"""What PyIceberg reads in Puffin files.

The question is a list of paths; the answer, for each file, is its properties, the hex of its blobs, and the
positions of its deletion vectors by data file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile


def answer(path: str) -> dict[str, Any]:
    """Read one file."""
    file = PuffinFile(Path(path).read_bytes())
    blobs = file.footer.blobs
    vectors = all(blob.type == "deletion-vector-v1" for blob in blobs)
    return {
        "properties": file.footer.properties,
        "blobs": [[blob.model_dump(by_alias=True), file.get_blob_payload(blob).hex()] for blob in blobs],
        "positions": {
            vector.referenced_data_file: vector.to_vector().to_pylist()
            for vector in (deletion_vectors_from_puffin_file(file) if vectors else [])
        },
    }


json.dump([answer(path) for path in json.load(sys.stdin)], sys.stdout)
