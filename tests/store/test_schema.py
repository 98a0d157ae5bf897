import hashlib
import re
import sqlite3
import zlib
from contextlib import closing

import pytest
import sqlalchemy as sa

from store.content import edges, fill
from tensorucb.errors import StoreError

# private: the making of the tables is watched, and stopped half-way; what is in the files, batches too, has a mark; how
# SQLite looks for rows
from tensorucb.store import _protocol, _session, _tables, open_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def _sqlite_schema(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: re.sub(r"\s+", " ", sql) for name, sql in rows if name != "sqlite_sequence"}


def test_both_databases_have_the_same_keys_and_indexes(path, fresh_postgres_url):
    def keys(url):
        with open_store(url) as store, store._engine.connect() as connection:
            made = sa.inspect(connection)
            return {
                name: (
                    made.get_pk_constraint(name)["constrained_columns"],
                    {
                        (index["name"], tuple(index["column_names"]), bool(index["unique"]))
                        for index in (*made.get_indexes(name), *_unique(made, name))
                    },
                )
                for name in _tables.metadata.tables
            }

    def _unique(made, name):
        return [{**constraint, "unique": True} for constraint in made.get_unique_constraints(name)]

    found = keys(f"sqlite:///{path}")
    assert found == keys(fresh_postgres_url)
    assert sum(len(indexes) for _, indexes in found.values()) == 5


def test_tables_that_are_there_are_not_made_again(path, monkeypatch):
    open_store(f"sqlite:///{path}").close()
    monkeypatch.setattr(_tables.metadata, "create_all", lambda connection, checkfirst: pytest.fail("made again"))
    open_store(f"sqlite:///{path}").close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_tables_that_could_not_be_made_leave_nothing(kind, path, request, monkeypatch):
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    whole = _tables.metadata.create_all

    def half(connection, checkfirst):
        whole(connection, checkfirst=checkfirst)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(_tables.metadata, "create_all", half)
        with pytest.raises(ZeroDivisionError):
            open_store(url)
    if kind == "sqlite":
        assert _sqlite_schema(path) == {}
    with open_store(url) as store, store.write() as session:
        fill(session)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        ("UPDATE tensorucb_layout SET mark = '0001'", "its layout is 0001"),
        ("DELETE FROM tensorucb_layout", "its layout is older"),
        ("DROP TABLE tensorucb_layout", "its layout is older"),
    ],
)
def test_a_store_of_another_layout_is_refused_and_left_as_it_is(kind, earlier, said, path, request):
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    with open_store(url) as store, store._engine.begin() as connection:
        connection.exec_driver_sql(earlier)
    bytes_before = path.read_bytes() if kind == "sqlite" else b""
    for read_only in (False, True):
        with pytest.raises(StoreError, match=rf"another version of tensorucb \({said}, .*version that made it"):
            open_store(url, read_only=read_only)
    assert not bytes_before or path.read_bytes() == bytes_before


def test_other_tables_have_another_mark(path):
    """Whoever changes the tables, or how batches are packed, gives a new mark, and writes the new digest here."""
    open_store(f"sqlite:///{path}").close()
    batch = edges((1, 2, 1, 0.5, "first"), (3, 4, 0, 0.25, None))
    content = f"{sorted(_sqlite_schema(path).items())} {zlib.decompress(_protocol.pack(batch)).hex()}"
    assert (_tables.LAYOUT, hashlib.sha256(content.encode()).hexdigest()[:16]) == ("2026-11-19.2", "61cb254642f557d1")


@pytest.mark.parametrize("statement", ["_EVENTS", "_ROUNDS", "_RESPONSES", "_EVENT_IDS", "_DIGESTS", "_EXPLANATION"])
def test_rows_of_a_round_are_found_without_reading_all_of_the_campaign(path, statement):
    open_store(f"sqlite:///{path}").close()
    values = {"campaign": 1, "first": 1, "last": 1}
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {getattr(_session, statement)}", values).fetchall()
    assert len(plan) == 1  # no sorting
    assert re.search(r"\(campaign=\? AND (round|seq|number)>\? AND \1<\?\)", plan[0][3]), plan
