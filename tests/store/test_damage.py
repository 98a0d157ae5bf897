"""Files that are foreign, damaged, full, locked or not to be written: one clear error, and a clean next start."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from store.content import ROUND, Responses, content, edges, fill, nodes
from tensorucb.errors import FileFormatError, StoreError, TensorUCBError
from tensorucb.store import open_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def _url(path):
    return f"sqlite:///{path}"


def _filled(path):
    """A small store on disk, closed; its content."""
    with open_store(_url(path)) as store, store.write() as session:
        number = fill(session)
        session.add_responses(number, 1, edges(*((9, i, 1, i, f"x{i}") for i in range(500))), 3)
        found = content(session)
    return found


def _read(path):
    with open_store(_url(path)) as store, store.read() as view:
        return content(view)


@pytest.mark.parametrize(
    "junk", [b"a,b\n1,2\n" * 100, bytes(4096), b"SQLite format 3\0" + b"\xff" * 5000, b"x"], ids=len
)
def test_a_foreign_file_is_refused_and_left_alone(path, junk):
    path.write_bytes(junk)
    with pytest.raises(FileFormatError, match="not a tensorucb store"):
        open_store(_url(path))
    assert path.read_bytes() == junk
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_database_of_another_program_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match=r"another program .*bookmarks"):
        open_store(_url(path))
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    assert _read(path) == []


def test_a_truncated_file_is_one_clear_error(path):
    _filled(path)
    whole = path.read_bytes()
    for length in (1, 99, 100, 4096, 5000, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="damaged"):
            _read(path)
        for extra in path.parent.glob("store.db-*"):
            extra.unlink()


def test_any_damaged_byte_loads_or_is_one_clear_error(path):
    _filled(path)
    whole = path.read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(80):
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 1, 20])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            _read(path)
        except TensorUCBError:
            refused += 1
        for extra in path.parent.glob("store.db-*"):
            extra.unlink()
    assert refused > 10


def test_a_damaged_log_loses_the_last_writes_or_is_one_clear_error(path, tmp_path):
    """A copy of the three files taken while the store is open, with its log cut: an earlier state, never a mixture."""
    states = []
    with open_store(_url(path)) as store:
        with store.write() as session:
            number = fill(session)
            states.append(content(session))
        for i in range(5):
            with store.write() as session:
                session.append_event(number, "x", None, {"i": i}, 0.0)
                states.append(content(session))
        log = path.with_name("store.db-wal").read_bytes()
        main = path.read_bytes()
    for cut in range(0, 60_000, 6000):
        copy = tmp_path / f"copy{cut}.db"
        copy.write_bytes(main)
        copy.with_name(f"{copy.name}-wal").write_bytes(log[: len(log) - cut])
        assert _read(copy) in [[], *states]


def test_a_full_disk_writes_nothing_and_the_next_start_is_clean(path):
    before = _filled(path)
    with open_store(_url(path)) as store:
        with store._engine.connect() as connection:  # the pool hands this connection out again
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 3}")
        with pytest.raises(StoreError, match="no space left"), store.write() as session:
            session.put_blob(1, "large", os.urandom(200_000))
        with store.read() as view:
            assert content(view) == before
        with store.write() as session:
            session.append_event(1, "small", None, {}, 0.0)
    with open_store(_url(path)) as store, store.write() as session:
        session.put_blob(1, "large", os.urandom(200_000))
        assert [event.kind for event in session.events(1)] == ["ask", "note", "small"]


def _append(path):
    with open_store(_url(path)) as store, store.write() as session:
        session.append_event(1, "x", None, {}, 0.0)


def _as_nobody(work):
    """Run in a child that is not root, for whom the file's permissions count."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_a_read_only_file_is_a_clear_error(folder_mode):
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "store.db"
        before = _filled(path)
        path.chmod(0o444)
        folder.chmod(folder_mode)

        def work():
            with pytest.raises(StoreError, match="permissions"):
                _append(path)

        _as_nobody(work)
        folder.chmod(0o755)
        path.chmod(0o644)
        assert _read(path) == before
    finally:
        shutil.rmtree(folder)


def _backup(folder, *, live=False):
    """A closed store in the folder, or a copy taken while it was open; its content."""
    path = folder / "store.db"
    found = _filled(path)
    if live:
        with open_store(_url(path)) as store:
            with store.write() as session:
                session.append_event(1, "late", None, {}, 0.0)
                found = content(session)
            for name in ("store.db", "store.db-wal"):
                shutil.copy(folder / name, folder / f"copy-{name}")
        for name in ("store.db", "store.db-wal"):
            (folder / f"copy-{name}").rename(folder / name)
    return path, found


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_backup_that_may_not_be_written_can_be_read():
    folder = Path(tempfile.mkdtemp())
    try:
        path, before = _backup(folder)
        path.chmod(0o444)
        folder.chmod(0o555)

        def work():
            for _ in range(2):
                assert _read(path) == before

        _as_nobody(work)
        assert [entry.name for entry in folder.iterdir()] == ["store.db"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_backup_with_a_log_is_read_whole_or_is_one_clear_error():
    """Taken while the store was open: never without its last writes."""
    folder = Path(tempfile.mkdtemp())
    try:
        path, before = _backup(folder, live=True)
        for entry in folder.iterdir():
            entry.chmod(0o444)
        folder.chmod(0o555)

        def work():
            with pytest.raises(StoreError, match="copy it and the files beside it"):
                _read(path)

        _as_nobody(work)
        folder.chmod(0o755)
        assert _read(path) == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_backup_on_a_read_only_file_system_can_be_read(tmp_path):
    path, before = _backup(tmp_path)
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from store.content import content\n"
        "from tensorucb.store import open_store\n"
        "with open_store(sys.argv[1], create=False) as store, store.read() as view: print(content(view))"
    )
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'
    tests = str(Path(__file__).parents[1])
    command = ["unshare", "-m", "sh", "-c", mount, str(tmp_path), sys.executable, "-c", script, _url(path), tests]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.returncode in (1, 77) and "Traceback" not in done.stderr:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr(before)
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.parametrize("existing", [None, 0o644, 0o640])
def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(path, existing):
    mask = os.umask(0o022)
    try:
        if existing is not None:
            path.touch()
            path.chmod(existing)
        with open_store(_url(path)) as store:
            with store.write() as session:
                fill(session)
            modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
    finally:
        os.umask(mask)
    assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), existing or 0o600)


def test_a_store_locked_too_long_is_a_clear_error(path):
    before = _filled(path)
    with open_store(_url(path)) as holder, open_store(_url(path), timeout=0.2) as store, holder.write():
        with pytest.raises(StoreError, match=r"locked by others for 0.2 s"), store.write():
            pass
        with store.read() as view:
            assert content(view) == before
    with open_store(_url(path), timeout=0.2) as store, store.write() as session:
        session.append_event(1, "x", None, {}, 0.0)


def test_a_postgresql_locked_too_long_is_a_clear_error(fresh_postgres_url):
    with open_store(fresh_postgres_url) as holder, open_store(fresh_postgres_url, timeout=0.2) as store:
        with holder.write(), pytest.raises(StoreError, match=r"locked by others for 0.2 s"), store.write():
            pass
        with store.write() as session:
            fill(session)


def test_purge_leaves_no_byte_of_what_was_deleted(path):
    secret = "m4ry-w4s-h3re"
    with open_store(_url(path)) as store:
        with store.write() as session:
            number = fill(session)
            session.add_users(number, [secret])
            session.put_blob(number, "features", secret.encode() * 2000)
            seq = session.append_event(number, "tell", 1, {"user": secret}, 0.0)
            rows = edges(*((4, i, 1, 0, f"{secret}-{i}") for i in range(300)))
            session.add_responses(number, 1, rows, seq)
        assert any(secret.encode() in file.read_bytes() for file in path.parent.iterdir())
        with store.write() as session:
            assert session.erase_user(number, 4) == 300
            session.replace_event_payload(number, seq, {})
            session.delete_blobs(number, ["features"])
            left = content(session)
        store.purge()
        files = list(path.parent.iterdir())
        assert {file.name for file in files} >= {"store.db", "store.db-wal"}
        assert [file.name for file in files if secret.encode() in file.read_bytes()] == []
        with store.read() as view:
            assert content(view) == left


def test_a_deleted_campaign_leaves_no_byte_once_purged(path):
    secret = "m4ry-w4s-h3re"
    with open_store(_url(path)) as store:
        with store.write() as session:
            fill(session, "kept")
            number = session.insert_campaign(f"name {secret}", {"note": secret}, 0.0).campaign
            session.add_users(number, [secret])
            session.put_blob(number, f"blob {secret}", secret.encode() * 2000)
            seq = session.append_event(number, "tell", 1, {"user": secret}, 0.0)
            session.put_round(number, replace(ROUND, id=f"round {secret}", request_id=secret))
            by_edge = edges(*((50, i, 1, 0, f"{secret}-{i}") for i in range(300)))
            session.add_responses(number, 1, Responses.joined([by_edge, nodes((50, 1.0, f"node {secret}"))]), seq)
        with store.write() as session:
            session.delete_campaign(number)
            left = content(session)
        store.purge()
        assert [file.name for file in path.parent.iterdir() if secret.encode() in file.read_bytes()] == []
        with store.read() as view:
            assert content(view) == left
    assert [record.name for record, *_ in left] == ["kept"]


def test_purge_says_when_a_reader_stands_in_its_way(path):
    _filled(path)
    with open_store(_url(path), timeout=0.2) as store:
        with store.read():
            with store.write() as session:
                session.append_event(1, "x", None, {}, 0.0)
            with pytest.raises(StoreError, match="somebody reads"):
                store.purge()
        store.purge()


def test_a_postgresql_table_holds_no_byte_of_what_was_deleted(fresh_postgres_url):
    with open_store(fresh_postgres_url) as store:
        with store.write() as session:
            number = fill(session)
            rows = edges(*((50, i, 1, 0, f"event {i}") for i in range(5000)))
            session.add_responses(number, 1, rows, 3)
        with store.write() as session:
            session.erase_user(number, 50)
        size = "SELECT pg_relation_size('tensorucb_event_id')"
        with store._engine.connect() as connection:
            assert connection.exec_driver_sql(size).scalar_one() > 100_000
        store.purge()
        with store._engine.connect() as connection:
            assert connection.exec_driver_sql(size).scalar_one() <= 8192
