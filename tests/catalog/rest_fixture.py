"""Iceberg's own REST server, from its test fixtures: a server of the protocol that is not ours.

Maven brings its JARs once, into the cache of test resources. The server keeps its catalog in SQLite and its
tables in a folder, listens on a free port, and dies with the test process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.maven import Jar, jars
from tools.find_java import NoJava, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 60
MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
ICEBERG = "1.11.0"
JARS = (
    Jar("org.apache.iceberg", "iceberg-open-api", ICEBERG, "test-fixtures"),
    Jar("org.apache.iceberg", "iceberg-core", ICEBERG),
    Jar("org.apache.iceberg", "iceberg-core", ICEBERG, "tests"),
    Jar("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.2"),
    Jar("org.eclipse.jetty.compression", "jetty-compression-server", "12.1.2"),
    Jar("org.eclipse.jetty.compression", "jetty-compression-gzip", "12.1.2"),
    Jar("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    Jar("org.apache.hadoop", "hadoop-client-api", "3.4.1"),
    Jar("org.apache.hadoop", "hadoop-client-runtime", "3.4.1"),
    Jar("org.slf4j", "slf4j-simple", "2.0.17"),
)
REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def running_server(folder: Path, **properties: str) -> Iterator[str]:
    """The address of a server whose catalog and tables are in a folder; properties are the catalog's."""
    try:
        java = find_java(os.environ, REPOSITORY / ".venv" / "java") / "bin" / "java"
    except NoJava as error:
        pytest.fail(str(error))
    port = _free_port()
    settings = {
        "warehouse": str(folder / "wh"),
        "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000&journal_mode=WAL",
        "rest.port": str(port),
        **properties,
    }
    named = {f"CATALOG_{key.upper().replace('-', '__').replace('.', '_')}": settings[key] for key in settings}
    log = folder / "server.log"
    # The shell waits for the end of its input, which comes when this process ends, however it ends.
    script = '"$0" "$@" & server=$!; cat >/dev/null; kill -9 $server'
    command = [
        "sh",
        "-c",
        script,
        str(java),
        "-Xmx512m",
        "-cp",
        f"{jars('rest-fixture', JARS)}/*",
        MAIN_CLASS,
    ]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env={**os.environ, **named}
        ) as shell,
    ):
        try:
            _wait(f"http://127.0.0.1:{port}/v1/config", shell, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            assert shell.stdin is not None
            shell.stdin.close()
            shell.wait(PATIENCE_SECONDS)


def _wait(url: str, shell: subprocess.Popen[bytes], log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends and shell.poll() is None:
        try:
            with direct.open(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"Iceberg's REST server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
