import re
import sqlite3

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

import tensorucb.store._sql as schema
from store.content import fill
from tensorucb.errors import FileFormatError, StoreError
from tensorucb.store import open_store
from tensorucb.store._tables import SCHEMA, VERSION_TABLE, metadata


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def _sqlite_schema(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: re.sub(r"\s+", " ", sql) for name, sql in rows if name not in (VERSION_TABLE, "sqlite_sequence")}


def test_the_newest_migration_is_the_schema_of_this_release():
    config = Config()
    config.set_main_option("script_location", "tensorucb.store:migrations")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [SCHEMA]
    numbers = sorted(revision.revision for revision in script.walk_revisions())
    assert numbers == [f"{i:04d}" for i in range(1, len(numbers) + 1)]


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
                for name in metadata.tables
            }

    def _unique(made, name):
        return [{**constraint, "unique": True} for constraint in made.get_unique_constraints(name)]

    found = keys(f"sqlite:///{path}")
    assert found == keys(fresh_postgres_url)
    assert sum(len(indexes) for _, indexes in found.values()) == 9


def test_a_current_schema_runs_no_migration(path, monkeypatch):
    open_store(f"sqlite:///{path}").close()
    monkeypatch.setattr(schema, "_upgrade", lambda connection: pytest.fail("migrated again"))
    open_store(f"sqlite:///{path}").close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_upgrade_that_fails_leaves_nothing(kind, path, request, monkeypatch):
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    whole = schema._upgrade

    def half(connection):
        whole(connection)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(schema, "_upgrade", half)
        with pytest.raises(ZeroDivisionError):
            open_store(url)
    if kind == "sqlite":
        assert _sqlite_schema(path) == {}
    with open_store(url) as store, store.write() as session:
        fill(session)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_newer_schema_is_refused(kind, path, request):
    url = f"sqlite:///{path}" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    with open_store(url) as store, store._engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer release .*9999.*upgrade tensorucb"):
        open_store(url)


def test_a_schema_without_a_number_is_damage(path):
    with open_store(f"sqlite:///{path}") as store, store._engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = 'first'")
    with pytest.raises(FileFormatError, match="'first'"):
        open_store(f"sqlite:///{path}")
