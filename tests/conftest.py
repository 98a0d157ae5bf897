"""Fixtures that several rooms share: a real PostgreSQL on loopback, of its own user, stopped at the end; a browser."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from service.browser import chromium

pytest.register_assert_rewrite("store.contract")

# A busy machine must not fail a test: neither an example nor the making of examples has a time limit.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_INSTALLED = Path("/usr/lib/postgresql")


def _binaries() -> Path | None:
    """The folder of the newest PostgreSQL."""
    found = [path.parent for path in _INSTALLED.glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_postgres(*command: str) -> None:
    """Run a command as the user that may own a cluster: PostgreSQL refuses root."""
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        identity = {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid, "extra_groups": []}
    # The server would hold a pipe open after pg_ctl has ended: its words go to a file.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, cwd="/", timeout=120, **identity)
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


class PostgresServer:
    """A real server with the durability of a real one, which tests may stop, freeze and kill."""

    def __init__(self, binaries: Path, home: Path) -> None:
        self._control = str(binaries / "pg_ctl")
        self._home = home
        self._data, port = home / "data", _free_port()
        _as_postgres(
            *(str(binaries / "initdb"), "-D", str(self._data), "-A", "trust", "-U", "test"),
            *("-E", "UTF8", "--locale=C", "-N"),
        )
        self._options = f"-c fsync=on -c listen_addresses=127.0.0.1 -p {port} -k {home} -c max_connections=100"
        self.url = f"postgresql://test@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        log = str(self._home / "log")
        _as_postgres(self._control, "-D", str(self._data), "-w", "-l", log, "-o", self._options, "start")

    def stop(self, mode: str = "fast") -> None:
        """``immediate`` ends the server as a crash would, but for the signal."""
        _as_postgres(self._control, "-D", str(self._data), "-w", "-m", mode, "stop")

    def processes(self) -> list[int]:
        """The server's first process, and its children."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def kill(self) -> None:
        """SIGKILL for all of its processes; the first one is stopped before, so that it starts no others."""
        os.kill(self.processes()[0], signal.SIGSTOP)
        processes = self.processes()
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while any(_alive(process) for process in processes):
            time.sleep(0.01)
        # Nobody may have waited for the dead process yet, and a new server would take it for a living one.
        for left in (self._data / "postmaster.pid", *self._home.glob(".s.PGSQL.*")):
            left.unlink()


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that lives as long as the session."""
    folder = _binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="tensorucb-postgres-"))
    if os.geteuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("there is no user 'postgres' to run the server as")
        os.chown(home, owner.pw_uid, owner.pw_gid)
    try:
        server = PostgresServer(folder, home)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of an empty database there."""
    return postgres_server.url


@contextmanager
def _schema(url: str) -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"{url}?options=-csearch_path%3D{name}"
    # A connection of its own: the server may have been killed in between.
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def fresh_postgres_url(postgres_url: str) -> Iterator[str]:
    """A schema of its own in that database, dropped after the test."""
    with _schema(postgres_url) as url:
        yield url


@pytest.fixture(scope="class")
def class_postgres_url(postgres_url: str) -> Iterator[str]:
    """The same, shared by the tests of a class."""
    with _schema(postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium: a process has one at a time. Each test has windows of its own."""
    with chromium() as found:
        yield found
