"""Iceberg's own REST server, from its test fixtures: a server of the protocol that is not ours.

Maven brings its JARs once, into the cache of test resources. The server keeps its catalog in SQLite and its
tables in a folder, listens on a free port, and dies with the test process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.fetch_vectors import cache_directory
from tools.find_java import NoJava, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 60
MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
ICEBERG = "1.11.0"
JARS = (
    ("org.apache.iceberg", "iceberg-open-api", ICEBERG, "test-fixtures"),
    ("org.apache.iceberg", "iceberg-core", ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-core", ICEBERG, "tests"),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.2", ""),
    ("org.eclipse.jetty.compression", "jetty-compression-server", "12.1.2", ""),
    ("org.eclipse.jetty.compression", "jetty-compression-gzip", "12.1.2", ""),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    ("org.apache.hadoop", "hadoop-client-api", "3.4.1", ""),
    ("org.apache.hadoop", "hadoop-client-runtime", "3.4.1", ""),
    ("org.slf4j", "slf4j-simple", "2.0.17", ""),
)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
REPOSITORY = Path(__file__).resolve().parents[2]


@functools.cache
def jars() -> Path:
    """The folder of the server's JARs; it appears whole or not at all."""
    pom = _pom()
    target = cache_directory() / f"rest-fixture-{hashlib.sha256(pom.encode()).hexdigest()[:12]}"
    if target.exists():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("NOT TESTED against Iceberg's own REST server: there is no mvn to bring it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="partial-") as partial:
        Path(partial, "pom.xml").write_text(pom, encoding="utf-8")
        command = [maven, "-q", "-B", "-f", f"{partial}/pom.xml", COPY, f"-DoutputDirectory={partial}/jars"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            pytest.fail(f"Maven could not bring Iceberg's REST server:\n{done.stdout[-2000:]}")
        with contextlib.suppress(OSError):  # another process was faster
            Path(partial, "jars").rename(target)
    return target


def _pom() -> str:
    parts = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        + (f"<classifier>{classifier}</classifier>" if classifier else "")
        + "</dependency>"
        for group, name, version, classifier in JARS
    ]
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lakeplane</groupId><artifactId>rest-fixture</artifactId><version>1</version>"
        f"<dependencies>{''.join(parts)}</dependencies></project>"
    )


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
    command = ["sh", "-c", script, str(java), "-Xmx512m", "-cp", f"{jars()}/*", MAIN_CLASS]
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
