"""The tables of a campaign from a database: one query for each, and nothing is written there.

An address may hold a password. It is used to connect and then forgotten: no message, log or setting has it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from tensorucb.checks import check_text, shown
from tensorucb.errors import FileFormatError, InputError, MissingExtraError, TensorUCBError
from tensorucb.store._address import masked

if TYPE_CHECKING:
    import polars as pl

_KINDS = ("postgresql", "sqlite", "duckdb")
_Run = Callable[[str], "pl.DataFrame"]


def _kind(address: str) -> str:
    return address.partition(":")[0].partition("+")[0].lower()


def is_database(data: Any) -> bool:
    """Whether a campaign's data are in a database, by their address."""
    return isinstance(data, str) and ":" in data and _kind(data) in _KINDS


def read_database(address: str, wanted: Sequence[str], queries: Any) -> dict[str, pl.DataFrame]:
    """The tables that are ``wanted``: by a query, or the database's table of that name, or of the other usual one."""
    import polars as pl
    from polars import selectors

    from tensorucb.campaign._tables import check_tables
    from tensorucb.data._plain import NAMES

    asked = check_tables("queries", queries, "a mapping of tables to queries", wanted)
    for name, query in asked.items():
        check_text(f"queries[{name!r}]", query, longest=100_000)
    try:
        with _duckdb(address) if _kind(address) == "duckdb" else _sqlalchemy(address) as (run, present):
            for name in wanted:
                table = next((other for other in NAMES.get(name, (name,)) if other in present), None)
                if name not in asked and table is not None:
                    asked[name] = f"select * from {table}"
            return {name: run(query).cast({selectors.decimal(): pl.Float64}) for name, query in asked.items()}
    except TensorUCBError:
        raise
    except Exception as error:  # of some driver, and its text may repeat the address
        cause = getattr(error, "orig", None) or error
        reason = type(cause).__name__
        first = (str(cause).strip().splitlines() or [""])[0]
        secret = "@" in address and any(part in first for part in address.split("//", 1)[-1].split("@")[0].split(":"))
        said = reason if secret else f"{reason}: {shown(first, 200)[1:-1]}"
        named = masked(address) if "://" in address else shown(address, 400)
        raise FileFormatError(
            f"cannot read {named}: {said}. Check the address, the queries and the rights there."
        ) from None


@contextmanager
def _duckdb(address: str) -> Iterator[tuple[_Run, set[str]]]:
    """How to run a query, and the names of all tables."""
    if importlib.util.find_spec("duckdb") is None:
        raise MissingExtraError(
            "duckdb: needs the package duckdb, which is not installed. Install it with `pip install duckdb`, or write "
            "the tables as Parquet files."
        )
    import duckdb  # type: ignore[import-not-found, unused-ignore]

    with closing(duckdb.connect(_path(address), read_only=True)) as connection:
        rows = connection.execute("select table_name from information_schema.tables").fetchall()
        yield lambda query: connection.execute(query).pl(), {str(row[0]) for row in rows}


@contextmanager
def _sqlalchemy(address: str) -> Iterator[tuple[_Run, set[str]]]:
    import polars as pl
    import sqlalchemy

    options = {}
    if _kind(address) == "sqlite":
        url = f"sqlite:///file:{_path(address)}?mode=ro&uri=true"
    else:
        if importlib.util.find_spec("psycopg") is None:
            raise MissingExtraError("PostgreSQL needs psycopg: install it with `pip install 'tensorucb[postgres]'`.")
        url = "postgresql+psycopg://" + address.partition("://")[2]
        options = {"postgresql_readonly": True}
    # Without a pool, which would keep the connection.
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, execution_options=options)
    with engine.connect() as connection:
        inspector = sqlalchemy.inspect(connection)
        names = {*inspector.get_table_names(), *inspector.get_view_names()}
        yield lambda query: pl.read_database(query, connection, infer_schema_length=None), names


def _path(address: str) -> str:
    """The file of an address such as duckdb:file.db or sqlite:///file.db."""
    rest = address.partition(":")[2]
    path = rest[3:] if rest.startswith("///") else rest
    if not path or path.startswith("//") or "?" in path or "#" in path:
        raise InputError("must name the file of a database, such as sqlite:shop.db.", argument="data")
    return path
