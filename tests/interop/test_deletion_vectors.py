"""Puffin files of ours and the deletion vectors in them, as PyIceberg reads them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from lakeplane.iceberg.deletion_vectors import write_vectors
from lakeplane.iceberg.puffin import NewBlob, write_puffin
from lakeplane.model.records import write
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20_260_101


def test_pyiceberg_reads_the_positions_and_the_blobs_that_were_written(tmp_path: Path) -> None:
    source = random.Random(SEED)
    deleted = {
        "s3://lake/one.parquet": [0],
        "s3://lake/sparse.parquet": sorted(source.sample(range(10_000_000), 3000)),
        "s3://lake/dense.parquet": sorted(source.sample(range(100_000, 140_000), 20_000)),
        "s3://lake/runs.parquet": [*range(5, 300_000), *range(400_000, 400_100)],
        "s3://lake/beyond 32 bits é.parquet": [7, 2**32 - 1, *range(2**32, 2**32 + 5000)],
    }
    vectors, entries = write_vectors({path: BitMap64(positions) for path, positions in deleted.items()})
    contents = [b"sketch", b"", source.randbytes(5000), bytes(100_000)]
    sketches = write_puffin(
        [
            NewBlob(
                type="apache-datasketches-theta-v1",
                data=content,
                fields=(number, 2),
                snapshot_id=2**62,
                sequence_number=3,
                codec=codec,
                properties={"ndv": str(number)},
            )
            for number, content in enumerate(contents)
            for codec in (None, "zstd")
        ],
        {"created-by": "lakeplane 1"},
    )
    paths = [tmp_path / "vectors.puffin", tmp_path / "sketches.puffin"]
    for path, file in zip(paths, (vectors, sketches), strict=True):
        path.write_bytes(file.data)
    of_vectors, of_sketches = ask("pyiceberg_puffin", [str(path) for path in paths])

    assert of_vectors["positions"] == deleted
    assert [(blob["offset"], blob["length"]) for blob, _ in of_vectors["blobs"]] == [
        (entry.offset, entry.size) for entry in entries
    ]
    assert of_sketches["properties"] == {"created-by": "lakeplane 1"}
    assert [bytes.fromhex(content) for _, content in of_sketches["blobs"]] == [
        content for content in contents for _ in range(2)
    ]
    known = [
        {name: value for name, value in blob.items() if value is not None} for blob, _ in of_sketches["blobs"]
    ]
    assert known == [write(blob) for blob in sketches.footer.blobs]
