"""A flipped bit in a database is found when it is read, or changes nothing that is read."""

import random
import warnings

import pytest
import sqlalchemy as sa

from campaign.worlds import Clock, answers, small_campaign
from store.content import TokenRecord, content, fill
from tensorucb.campaign import DamagedSnapshotWarning, load_campaign
from tensorucb.errors import FileFormatError, StoreError

# private: rows are changed and read in a transaction that is taken back, and read on an engine that is kept: four times
# as quick, so that more bits and every column can be tried
from tensorucb.store import _protocol, _session, _sql, _tables, open_store


def _play(url):
    """A campaign with all that a store can hold."""
    with small_campaign(url, snapshot_every=2) as campaign:
        for number in range(5):
            ask = campaign.ask("tea" if number % 2 else "soap", 4, request_id=f"request-{number}")
            rows = [{**row, "event_id": f"{number}/{i}"} for i, row in enumerate(answers(campaign, ask))]
            campaign.tell(ask.id, rows)
            campaign.tell(ask.id, [{"user": f"person-{number:03d}", "time": 1001.0, "event_id": f"node-{number}"}])
            if number < 4:
                campaign.close(ask.id)
        campaign.sync()


def _all(url):
    """All that can be read of it, the model and the explanations included; snapshots only save time."""
    with load_campaign("spring", storage=url, clock=Clock()) as campaign:
        with campaign.store.read() as session:
            [(record, blobs, *rest)] = content(session)
            names = [name for name, _ in blobs if not name.startswith("snapshot-")]
        asks = campaign.rounds()
        requests = [campaign.ask("tea" if n % 2 else "soap", 4, request_id=f"request-{n}").number for n in range(5)]
        reasons = [repr(campaign.explain(ask.id)) for ask in asks]
        network = campaign.graph.to_frame().rows()
        return record, names, rest, asks, requests, reasons, network, campaign.products(), campaign.model_hash()


def _rows(store):
    """The rows and blobs alone."""
    # As open_store does, on an engine that has its statements ready: four times as quick.
    try:
        with store._clear_errors(), _protocol.damage_named("the store"):
            _sql.make_tables(store._backend, store._engine)
        with store.read() as session:
            return content(session)
    finally:
        store._engine.dispose()


def _flip(path, read, count):
    """How many single flipped bits were refused; all others must change nothing that ``read`` gives."""
    before, whole = read(), path.read_bytes()
    rng = random.Random(count)
    refused = harmless = 0
    for _ in range(count):
        bit = rng.randrange(8 * len(whole))
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            assert read() == before, f"bit {bit} of {len(whole)} bytes went unnoticed"
            harmless += 1
        except (FileFormatError, StoreError):
            refused += 1
        for extra in path.parent.glob(f"{path.name}-*"):
            extra.unlink(missing_ok=True)  # a store that is collected just now removes it too
    print(f"{count} flipped bits: {refused} refused, {harmless} changed nothing, 0 went unnoticed")
    return refused


@pytest.mark.parametrize("count", [100, pytest.param(8000, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found_or_harmless(tmp_path, count):
    url = f"sqlite:///{tmp_path}/c.db"
    _play(url)
    with open_store(url) as store:
        store._engine.dispose()
        # More than a fifth of a file is read; of a hundred bits, chance takes away some.
        assert _flip(tmp_path / "c.db", lambda: _rows(store), count) > 0.15 * count


@pytest.mark.slow
def test_a_flipped_bit_changes_nothing_that_a_campaign_shows(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    _play(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedSnapshotWarning)
        assert _flip(tmp_path / "c.db", lambda: _all(url), 1000) > 150


TABLES = {table.name: table for table in _tables.OWNED}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_changed_or_lost_row_is_found_in_every_table(kind, tmp_path, request):
    url = f"sqlite:///{tmp_path}/c.db" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    with open_store(url) as store:
        with store.write() as session:
            fill(session)
            fill(session, "other")
        changes = [f"DELETE FROM {name} WHERE campaign = 1" for name in TABLES]
        for name, table in TABLES.items():
            for column in table.c:
                other = "'{\"a\": 1}'" if isinstance(column.type, sa.Text | sa.LargeBinary) else "77"
                changes.append(f"UPDATE {name} SET {column.name} = {other} WHERE campaign = 1")
        changes += ["DELETE FROM tensorucb_blob WHERE name = 'graph'"]
        for change in changes:
            with store._engine.connect() as connection:
                transaction = connection.begin()
                if kind == "sqlite":
                    connection.exec_driver_sql("BEGIN")
                try:
                    connection.exec_driver_sql(change.replace("%", "%%"))
                except sa.exc.IntegrityError:
                    transaction.rollback()
                    continue
                view = _session.Session(store._backend, connection, writable=False)
                with pytest.raises(FileFormatError, match="damaged"):
                    print(change, "went unnoticed:", content(view))
                transaction.rollback()
        with store.read() as view:
            assert len(content(view)) == 2


@pytest.mark.parametrize("change", ["round = 7", "round = 'a'", "seq = 7", "place = 7", "place = 'a'"])
def test_an_event_id_that_leads_nowhere_is_damage(tmp_path, change):
    with open_store(f"sqlite:///{tmp_path}/c.db") as store:
        with store.write() as session:
            number = fill(session)
        with store._engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE tensorucb_event_id SET {change}")
        with store.read() as session, pytest.raises(FileFormatError, match="damaged"):
            session.known_event_ids(number, ["e-1"])


@pytest.mark.parametrize("value", ["NULL", "'a'", "0.5", "x'00'"])
@pytest.mark.parametrize("column", ["responses", "event_ids", "explanation"])
def test_a_digest_that_is_no_number_is_damage(tmp_path, column, value):
    """A flipped bit can change the type of a value in SQLite's file, whatever the table allows."""
    with open_store(f"sqlite:///{tmp_path}/c.db") as store:
        with store.write() as session:
            fill(session)
        with store._engine.begin() as connection:
            for change in (
                "CREATE TABLE lax AS SELECT * FROM tensorucb_digest",
                "DROP TABLE tensorucb_digest",
                "ALTER TABLE lax RENAME TO tensorucb_digest",
                f"UPDATE tensorucb_digest SET {column} = {value}",
            ):
                connection.exec_driver_sql(change)
        with store.read() as session, pytest.raises(FileFormatError, match="damaged"):
            content(session)


@pytest.mark.parametrize(
    "change",
    [
        f"{change} WHERE name = '{name}'"
        for name in ("secret", "tokens", "ended-logins")
        for change in (
            "UPDATE tensorucb_blob SET data = x'5b5d'",
            "UPDATE tensorucb_blob SET name = 'other'",
            "DELETE FROM tensorucb_blob",
        )
    ],
)
def test_a_changed_or_lost_row_of_the_service_is_found(tmp_path, change):
    with open_store(f"sqlite:///{tmp_path}/c.db") as store:
        with store.write() as session:
            session.put_token(TokenRecord("ann", "read", "0f", 1.0))
            session.end_login("login", 9.0, 1.0)
        with store._engine.begin() as connection:
            connection.exec_driver_sql(change)
        with store.read() as session, pytest.raises(FileFormatError, match="damaged"):
            print(session.tokens(), session.secret(), session.ended_logins())
