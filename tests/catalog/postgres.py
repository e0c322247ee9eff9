"""Throw-away database servers for tests, from the packages of Debian: PostgreSQL, and MariaDB for MySQL.

A server listens on a free port of the loopback, never runs as root, and dies with the test process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PASSWORD = "s3cret/w0rd@!"  # noqa: S105 - of a server that lives for seconds
PATIENCE_SECONDS = 60

_counter = itertools.count()


class CannotStart(Exception):
    """There is no server, and this is why."""


class Server(NamedTuple):
    url: str
    port: int

    def new_database(self) -> str:
        """The URL of an empty database; on PostgreSQL a schema will do, which is made and removed faster."""
        name = f"test_{os.getpid()}_{next(_counter)}"
        url = make_url(self.url)
        schema = url.get_backend_name() == "postgresql"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE {'SCHEMA' if schema else 'DATABASE'} {name}")
        engine.dispose()
        own = url.set(query={"options": f"-csearch_path={name}"}) if schema else url.set(database=name)
        return own.render_as_string(hide_password=False)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_user(user: str, group: str) -> list[str]:
    if os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--pdeathsig=QUIT"]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotStart(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _install(*packages: str) -> None:
    if os.getuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)


def _program(find: Callable[[], list[Path]], *packages: str) -> Path:
    found = find()
    if not found:
        _install(*packages)
        found = find()
    if not found:
        raise CannotStart(f"{' and '.join(packages)} are not installed, and cannot be installed here")
    return found[-1]


def _user(*names: str) -> str:
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise CannotStart(f"there is no user {' or '.join(names)} to run the server")


@contextlib.contextmanager
def _home(user: str) -> Iterator[Path]:
    # Not in pytest's folder, which only its own user may enter.
    folder = Path(tempfile.mkdtemp(prefix="lakeplane-server-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, user, user if user != "nobody" else "nogroup")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _serving(command: list[str], folder: Path, url: URL, end: signal.Signals) -> Iterator[None]:
    with (folder.parent / f"{folder.name}.log").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    log = Path(output.name)
    try:
        engine = create_engine(url)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with engine.connect():
                    break
            except SQLAlchemyError as problem:
                if process.poll() is not None or time.monotonic() > until:
                    raise CannotStart(f"{command[-1]}: {problem}\n{log.read_text()[-1000:]}") from None
                time.sleep(0.1)
        engine.dispose()
        yield
    finally:
        process.send_signal(end)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.unlink()


@contextlib.contextmanager
def postgres() -> Iterator[Server]:
    """A PostgreSQL server."""
    initdb = _program(lambda: sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), "postgresql")
    user = _user("postgres") if os.getuid() == 0 else ""
    with _home(user) as folder:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        run, data = _as_user(user, user), folder / "data"
        making = ["-D", str(data), "-U", "tester", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
        _run([*run, str(initdb), *making, "--locale=C.UTF-8", "--no-sync"], folder)
        port = _free_port()
        url = URL.create("postgresql+psycopg", "tester", PASSWORD, "127.0.0.1", port, "postgres")
        serving = ["-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1", "-c", "fsync=off"]
        # Killed, it would leave its shared memory behind.
        with _serving([*run, str(initdb.with_name("postgres")), *serving], folder, url, signal.SIGQUIT):
            yield Server(url.render_as_string(hide_password=False), port)


@contextlib.contextmanager
def mariadb() -> Iterator[Server]:
    """A MariaDB server."""
    if find_spec("pymysql") is None:
        raise CannotStart("PyMySQL is not installed")
    needed = (Path("/usr/bin/my_print_defaults"), Path("/usr/sbin/mariadbd"))
    program = _program(
        lambda: list(needed) if all(path.exists() for path in needed) else [],
        "mariadb-server-core",
        "mariadb-client-core",
    )
    user = _user("nobody") if os.getuid() == 0 else ""
    with _home(user) as folder:
        run = _as_user(user, "nogroup")
        data = f"--datadir={folder / 'data'}"
        making = ["--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        _run([*run, "mariadb-install-db", *making], folder)
        port = _free_port()
        url = URL.create("mysql+pymysql", "root", None, "127.0.0.1", port, "mysql")
        serving = ["--no-defaults", data, f"--socket={folder / 'socket'}", f"--port={port}"]
        with _serving(
            [*run, str(program), *serving, "--bind-address=127.0.0.1"], folder, url, signal.SIGKILL
        ):
            yield Server(url.render_as_string(hide_password=False), port)
