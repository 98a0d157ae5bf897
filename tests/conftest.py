"""Fixtures that several rooms share: a real PostgreSQL on loopback, of its own user, stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("store.contract")

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


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of an empty PostgreSQL database; the server lives as long as the session."""
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
    data, port = home / "data", _free_port()
    try:
        _as_postgres(
            str(folder / "initdb"), "-D", str(data), "-A", "trust", "-U", "test", "-E", "UTF8", "--locale=C", "-N"
        )
        # The tests kill clients, never the machine under the server.
        options = f"-c fsync=off -c listen_addresses=127.0.0.1 -p {port} -k {home} -c max_connections=100"
        _as_postgres(str(folder / "pg_ctl"), "-D", str(data), "-w", "-l", str(home / "log"), "-o", options, "start")
        try:
            yield f"postgresql://test@127.0.0.1:{port}/postgres"
        finally:
            _as_postgres(str(folder / "pg_ctl"), "-D", str(data), "-w", "-m", "fast", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _schema(url: str) -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{url}?options=-csearch_path%3D{name}"
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
