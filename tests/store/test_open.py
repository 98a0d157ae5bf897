import importlib.util
import os
import subprocess
import sys

import pytest

from store.content import content, fill
from tensorucb.errors import InputError, MissingExtraError, StateError, StoreError
from tensorucb.store import MemoryStore, SQLStore, open_store


def test_relative_and_absolute_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///my store%20.db") as store:
        assert isinstance(store, SQLStore)
        with store.write() as session:
            fill(session)
            before = content(session)
        assert store.url == f"sqlite:///{tmp_path}/my store%20.db"
        monkeypatch.chdir("/")
        with store.read() as view, open_store(store.url) as again, again.read() as other:
            assert content(view) == content(other) == before
    assert [path.name for path in tmp_path.iterdir()] == ["my store%20.db"]


def test_a_store_in_memory_is_found_by_its_url_as_long_as_it_lives():
    first, second = open_store("memory://"), open_store("memory://")
    assert isinstance(first, MemoryStore)
    with first.write() as session:
        fill(session)
    assert open_store(first.url) is first
    with second.read() as view:
        assert view.campaigns() == []
    url = first.url
    del first, session
    with open_store(url).read() as view:
        assert view.campaigns() == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("campaigns.db", "sqlite:///file.db"),
        (None, "None"),
        ("mysql://host/db", "'mysql://'"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://file.db", "names no file"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///a.db?mode=ro", "options"),
    ],
)
def test_a_wrong_url_is_named(url, message):
    with pytest.raises(InputError, match=message):
        open_store(url)


def test_a_timeout_must_be_positive(tmp_path):
    with pytest.raises(InputError, match="timeout"):
        open_store("memory://", timeout=0)


def test_a_missing_psycopg_is_one_friendly_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tensorucb\[postgres\]") as raised:
        open_store("postgresql://localhost/x")
    assert "\n" not in str(raised.value)


def test_a_missing_folder_or_file(tmp_path):
    with pytest.raises(StoreError, match="does not exist; create it"):
        open_store(f"sqlite:///{tmp_path}/absent/store.db")
    with pytest.raises(StoreError, match="is a directory"):
        open_store(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreError, match="there is no store at"):
        open_store(f"sqlite:///{tmp_path}/store.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_says_so(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.close()
    store.close()
    for use in (store.read, store.write):
        with pytest.raises(StateError, match="closed"), use():
            pass


def test_a_current_schema_loads_no_more_than_it_needs(tmp_path):
    open_store(f"sqlite:///{tmp_path}/store.db").close()
    code = (
        "import sys; from tensorucb.store import open_store; assert 'sqlalchemy' not in sys.modules; "
        f"open_store('sqlite:///{tmp_path}/store.db').close(); "
        "assert 'sqlalchemy' in sys.modules and 'psycopg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_memory_store_leaves_no_file_behind(tmp_path):
    code = (
        "import os; from tensorucb.store import MemoryStore\n"
        "first, second = MemoryStore(), MemoryStore()\n"
        "assert len(os.listdir(os.environ['TMPDIR'])) == 2\n"
        "if os.fork() == 0: raise SystemExit\n"
        "os.wait(); del first\n"
        "assert len(os.listdir(os.environ['TMPDIR'])) == 1\n"
        "with second.write() as session: session.insert_campaign('spring', {}, 0.0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
