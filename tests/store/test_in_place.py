"""A SQLite file that is deleted or replaced while a store is open: refused at once, and nothing is acknowledged."""

import os
import shutil
import subprocess
import sys
import threading

import pytest

from campaign.worlds import small_campaign
from store.content import content, fill
from tensorucb.errors import StoreError
from tensorucb.store import open_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def _url(path):
    return f"sqlite:///{path}"


def _refuses(store):
    """Reading and writing are refused, from this thread and from one that needs a connection of its own."""
    found = []

    def attempt():
        for begin in (store.read, store.write):
            try:
                with begin() as session:
                    session.campaigns()
            except StoreError as error:
                found.append(str(error))

    attempt()
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.purge()
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return len(found) == 4 and all("deleted or replaced" in text for text in found)


def _deleted(path):
    path.unlink()


def _replaced(path):
    with open_store(_url(path.with_name("other.db"))) as other, other.write() as session:
        fill(session)
    os.replace(path.with_name("other.db"), path)


def _restored(path):
    """A backup that is moved over the file, as a careful administrator does."""
    backup = shutil.copy(path, path.with_name("backup.db"))
    os.replace(backup, path)


def _log_deleted(path):
    path.with_name(f"{path.name}-wal").unlink()


def _index_deleted(path):
    path.with_name(f"{path.name}-shm").unlink()


@pytest.mark.parametrize("harm", [_deleted, _replaced, _restored, _log_deleted, _index_deleted])
def test_a_file_that_is_gone_is_noticed_by_the_next_call(path, harm):
    with open_store(_url(path)) as store:
        with store.write() as session:
            fill(session)
        harm(path)
        names = sorted(entry.name for entry in path.parent.iterdir())
        assert _refuses(store)
        # No new file is made where the old one was.
        assert sorted(entry.name for entry in path.parent.iterdir()) == names


def test_a_file_that_goes_during_a_write_is_not_acknowledged(path):
    def write_and_lose(store):
        with store.write() as session:
            fill(session)
            path.unlink()

    with open_store(_url(path)) as store, pytest.raises(StoreError, match="deleted or replaced"):
        write_and_lose(store)


def test_a_file_that_is_put_back_is_used_again(path):
    with open_store(_url(path)) as store:
        with store.write() as session:
            fill(session)
            before = content(session)
        path.rename(path.with_name("aside.db"))
        assert _refuses(store)
        path.with_name("aside.db").rename(path)
        with store.read() as session:
            assert content(session) == before


def test_a_link_that_leads_elsewhere_is_noticed(path, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with open_store(_url(tmp_path / name / "real.db")) as store, store.write() as session:
            fill(session)
    path.symlink_to(tmp_path / "first" / "real.db")
    with open_store(_url(path)) as store:
        with store.read() as session:
            assert session.campaigns()
        assert (tmp_path / "first" / "real.db-wal").exists()
        path.unlink()
        path.symlink_to(tmp_path / "second" / "real.db")
        assert _refuses(store)


def test_a_relative_path_means_the_directory_in_which_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///store.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with store.write() as session:
            fill(session)
        (tmp_path / "store.db").unlink()
        assert _refuses(store)


def test_a_store_that_is_only_read_is_looked_at_too(path):
    with open_store(_url(path)) as store, store.write() as session:
        fill(session)
    with open_store(_url(path), read_only=True) as store:
        with store.read() as session:
            assert session.campaigns()
        path.unlink()
        with pytest.raises(StoreError, match="deleted or replaced"), store.read():
            pass


def test_others_may_come_and_go(path):
    """Processes that open and close the store leave its files in place, also after somebody was forgotten."""
    script = f"from tensorucb.store import open_store\nwith open_store({_url(path)!r}).read() as s: s.campaigns()"
    campaign = small_campaign(_url(path))
    campaign.ask("tea", 2)
    assert campaign.forget("person-001").bytes_absent
    subprocess.run([sys.executable, "-c", script], check=True)
    assert path.with_name(f"{path.name}-wal").exists()
    assert campaign.ask("tea", 2).number == 2
    campaign.disconnect()
    # The last one to close it removes the log; whoever opens it next makes a new one.
    assert not path.with_name(f"{path.name}-wal").exists()
    with open_store(_url(path)) as store, store.read() as session:
        assert session.campaigns()
