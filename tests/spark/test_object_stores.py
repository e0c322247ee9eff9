"""Tables in buckets, by Spark's own client of S3, against a server that speaks its protocol."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from tests.interop import peers
from tests.interop.maven import Jar, jars
from tests.spark.programs import answer_of
from tests.storage.s3 import KEY, SECRET, running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator

SDK = "${aws-java-sdk-v2.version}"


@functools.cache
def client_jars() -> Path:
    """Hadoop's client for S3 of the release that this Spark brings, and what it needs of Amazon's."""
    [found] = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    hadoop = found.stem.removeprefix("hadoop-client-api-")
    streams = Jar(
        "software.amazon.s3.analyticsaccelerator",
        "analyticsaccelerator-s3",
        "${amazon-s3-analyticsaccelerator-s3.version}",
        alone=True,
    )
    wanted = (
        Jar("org.apache.hadoop", "hadoop-aws", hadoop, alone=True),
        *(Jar("software.amazon.awssdk", name, SDK) for name in ("s3", "s3-transfer-manager", "sts")),
        streams,
    )
    return jars("hadoop-aws", wanted, parent=Jar("org.apache.hadoop", "hadoop-project", hadoop))


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Any]]:
    with running_s3() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }.items():
            patch.setenv(name, value)
        yield {**answer_of("s3a_tables", server.url, client_jars(), "lake", seconds=600), "url": server.url}


@pytest.mark.parametrize("kind", ["native", "hashed", "lists", "uuids"])
def test_rows_in_buckets_are_there_once(answers: dict[str, Any], kind: str) -> None:
    wanted = {kind: (1000, 1000), f"{kind}, more": (2000, 1000), f"{kind}, overwritten": (100, 100)}
    for name, rows in wanted.items():
        found = answers[name]
        assert (found["rows"], found["distinct"]) == rows
        assert found["lost"] == []
        if kind in ("native", "hashed"):
            # Spark has taken away what failed attempts have written.
            assert found["unknown"] == []
    assert answers[f"{kind}, filtered"] == 10


def test_others_read_them(answers: dict[str, Any]) -> None:
    options = {"s3.endpoint": answers["url"], "s3.region": "eu-central-1"}
    places = [
        (answers[f"{kind}, overwritten"]["metadata"], True, options) for kind in ("native", "lists", "uuids")
    ]
    for found in peers.ask("pyiceberg_static_tables", places):
        assert found["rows"] == list(range(100))
