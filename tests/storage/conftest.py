from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeplane.model.location import Location, parse_location
from tests.storage.fake_server import FakeServer, fake_server
from tests.storage.s3 import S3, running_s3


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A server that speaks S3's protocol, on loopback."""
    with running_s3() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_credentials_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is one: for tests that write thousands of files, each synced."""
    memory = Path("/dev/shm")  # noqa: S108
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def lake(tmp_path: Path) -> Location:
    return parse_location(str(tmp_path / "lake"))


@pytest.fixture
def s3_folder() -> Location:
    return parse_location(f"s3://lake/{uuid.uuid4().hex}")
