from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("s3_server.py")
BUCKETS = ("lake", "other", "with.dots")

KEY, SECRET, TOKEN = "AKIACANARY", "canary/secret+key==", "canary-session-token%2F="


@dataclass(frozen=True)
class S3:
    url: str

    def options(self, **more: str) -> dict[str, str]:
        return s3_options(self.url, **more)


def s3_options(url: str, **more: str) -> dict[str, str]:
    return {
        "s3.endpoint": url,
        "s3.region": "eu-central-1",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.session-token": TOKEN,
        "s3.path-style-access": "true",
        **{f"store.{name.replace('_', '-')}": value for name, value in more.items()},
    }


@contextlib.contextmanager
def running_s3() -> Iterator[S3]:
    """A server that speaks S3's protocol, on loopback."""
    python = os.environ.get("LAKEPLANE_ORACLES", "")
    if not python or not Path(python).is_file():
        pytest.fail(f"LAKEPLANE_ORACLES is {python!r}, not a program: run `make test`", pytrace=False)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [python, "-E", "-s", str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        if not port:
            errors.seek(0)
            pytest.fail(f"the S3 server did not start:\n{errors.read()}", pytrace=False)
        for bucket in BUCKETS:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT")
            urllib.request.urlopen(request).close()  # noqa: S310
        try:
            yield S3(f"http://127.0.0.1:{port}")
        finally:
            server.stdin.close()
            server.wait(10)
