"""Tables as they come: dirty rows, amounts, days and time zones, frames, databases, columns of any usual name."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from campaign.worlds import small_campaign
from tensorucb import create_campaign
from tensorucb.campaign import read_campaign_data
from tensorucb.errors import FileFormatError, InputError, MissingExtraError
from tensorucb.policies import HighDegree

EDGES = {"source": ["ann", "ann", "bob", "cid"], "target": ["bob", "cid", "cid", "dan"]}
PRODUCTS = {"product": ["tea", "soap", "jam"], "kind": ["food", "home", "food"], "price": [3.5, 2.0, 4.0]}
USERS = {"user": ["dan", "cid", "bob", "ann"], "age": [38, 45, 24, 31], "cost": [4.0, 3.0, 2.0, 1.0]}
ACTIONS = {"user": ["ann", "bob", "cid"], "item": ["tea", "tea", "soap"], "time": [10, 20, 30]}
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()


def test_a_dirty_file_is_told_as_far_as_it_can_be(tmp_path):
    campaign = small_campaign(clock=lambda: NOON, window="7d")
    ask = campaign.ask("tea", 4)
    a, b, c, d, e = campaign.graph.ids[:5].tolist()
    lines = [
        "\ufeffCustomer ID;Date;note",
        f"{a};2026-11-17;",
        "",
        f"{b};2026-11-18 09:30:00;fine",
        f"{c};soon;bad date",
        f";{NOON};nobody",
        "guest;2026-11-18;unknown",
        f"{a};2026-11-17;again",
        f"{d};1794920400;",
        f"{e};2026-11-18",
        f'{e};2026-11-18;"two\nlines"',
    ]
    (tmp_path / "told.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = campaign.tell(ask.id, tmp_path / "told.csv")
    assert (report.accepted, report.duplicates, report.unknown, report.outside_window) == (4, 1, 1, 0)
    assert {(entry.reason, entry.count, entry.first_lines) for entry in report.left_out} == {
        ("Date is not a time in seconds or such as 2026-05-31T12:00", 1, (5,)),
        ("wrong number of fields", 1, (10,)),
        ("Customer ID is empty", 1, (6,)),
        ("a user who is not in the network", 1, (7,)),
        ("told before", 1, (8,)),
    }
    assert report.remarks[:2] == (
        "begins with a byte order mark, which is skipped",
        "fields are separated by semicolons",
    )
    assert "count" in report.remarks[2]
    assert campaign.tell(ask.id, tmp_path / "told.csv").accepted == 0
    with pytest.raises(InputError, match="4 of 9 rows cannot be used"):
        campaign.tell(ask.id, tmp_path / "told.csv", max_left_out=0.4)


def test_names_of_columns_are_remembered(tmp_path):
    log = pl.DataFrame(ACTIONS).rename({"user": "buyer", "item": "thing", "time": "at"})
    names = {"actions": {"user": "buyer", "item": "thing", "time": "at"}}
    data = read_campaign_data({"edges": pl.DataFrame(EDGES), "actions": log}, columns=names)
    campaign = create_campaign("c", data=data, policy=HighDegree(), storage="memory://", clock=lambda: 100.0)
    ask = campaign.ask("tea", 1)
    assert campaign.tell_log({"buyer": ["bob"], "thing": ["tea"], "at": [101.0]}).accepted == 1
    # Other names are no mistake: the usual ones are still known, and given ones count more.
    assert campaign.tell(ask.id, {"user": ["cid"], "time": [102.0]}).accepted == 1
    assert campaign.tell(ask.id, {"who": ["cid"], "at": [103.0]}, columns={"user": "who"}).accepted == 1


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (["€12.99", "€5", "€1,299.00"], [12.99, 5.0, 1299.0]),
        (["1.299,00", "12,99", "5"], [1299.0, 12.99, 5.0]),
        (["$1,299.00", "$12.99", "7"], [1299.0, 12.99, 7.0]),
        (["12,99 EUR", "1 299,50 EUR", "3 EUR"], [12.99, 1299.5, 3.0]),
        (["1,299", "12", "2,000,000"], [1299.0, 12.0, 2_000_000.0]),
    ],
)
def test_amounts_as_they_are_written(tmp_path, written, numbers):
    frame = pl.DataFrame({"user": ["ann", "bob", "cid"], "cost": written})
    frame.write_csv(tmp_path / "users.csv")
    data = read_campaign_data(edges=pl.DataFrame(EDGES), users=tmp_path / "users.csv")
    assert data.costs[:3].tolist() == pytest.approx(numbers)
    assert any("cost is read" in line and written[0] in line for line in data.report)
    frame.rename({"cost": "fee"}).write_csv(tmp_path / "users.csv")
    data = read_campaign_data(edges=pl.DataFrame(EDGES), users=tmp_path / "users.csv")
    assert any("fee (number)" in line for line in data.report)


@pytest.mark.parametrize(
    "days",
    [
        ["2026-11-17", "2026-11-16", "2026-11-24", "2026-11-25"],
        [date(2026, 11, 17), date(2026, 11, 16), date(2026, 11, 24), date(2026, 11, 25)],
        pl.Series(["2026-11-17", "2026-11-16", "2026-11-24", "2026-11-25"]).str.to_date(),
    ],
    ids=["texts", "dates", "polars"],
)
def test_a_date_counts_for_its_whole_day(days):
    """Contacted at noon for seven days: that day and the seventh after it count, those around them do not."""
    campaign = small_campaign(clock=lambda: NOON, window="7d")
    ask = campaign.ask("tea", 2)
    users = campaign.graph.ids[:4].tolist()
    report = campaign.tell(ask.id, {"user": users, "time": days})
    assert (report.accepted, report.outside_window) == (4, 2)
    assert "dates without a time: 4; each counts for its whole day (UTC)" in report.remarks[0]
    assert campaign.tell(ask.id, {"user": users, "time": days}).duplicates == 4


def test_a_date_finds_its_round_in_a_log():
    campaign = small_campaign(clock=lambda: NOON, window="7d")
    ask = campaign.ask("tea", 2)
    rows = {"user": [ask.seeds[0]] * 3, "item": ["tea"] * 3, "time": ["2026-11-16", "2026-11-17", "2026-11-24"]}
    report = campaign.tell_log(rows)
    assert (report.accepted, report.other, report.outside_window) == (2, 1, 0)


def test_the_zone_of_a_campaign_is_that_of_days_and_plain_times(tmp_path):
    """At 23:30 in UTC it is half past midnight in Berlin, so that the contact day is the next one there."""
    late = datetime(2026, 11, 17, 23, 30, tzinfo=UTC).timestamp()
    told = {"user": ["person-001", "person-002", "person-003"]}
    told["time"] = ["2026-11-17", "2026-11-18 00:45", "2026-11-17T23:45Z"]
    for zone, outside in (("Europe/Berlin", 1), ("UTC", 0)):
        campaign = small_campaign(clock=lambda: late, window="1d", timezone=zone)
        ask = campaign.ask("tea", 2)
        assert campaign.tell(ask.id, told).outside_window == outside
    with pytest.raises(InputError, match="timezone must be the name of a time zone"):
        small_campaign(timezone="Mars/Base")
    pl.DataFrame({**ACTIONS, "time": ["2026-07-01 12:00"] * 3}).write_csv(tmp_path / "actions.csv")
    files = {"edges": pl.DataFrame(EDGES), "actions": tmp_path / "actions.csv"}
    summer = read_campaign_data(files, timezone="Europe/Berlin")
    assert summer.timezone == "Europe/Berlin"
    created = create_campaign("c", data=summer, policy=HighDegree(), storage="memory://")
    assert created.settings["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_frames_are_aligned_by_id(frame):
    tables = {"edges": EDGES, "actions": ACTIONS, "products": PRODUCTS, "users": USERS}
    data = {name: frame(table) for name, table in tables.items()}
    campaign = create_campaign("c", data=data, policy=HighDegree(), storage="memory://")
    assert campaign.graph.ids.tolist() == ["ann", "bob", "cid", "dan"]
    assert campaign.costs.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert campaign.products() == ("tea", "soap", "jam")
    alone = create_campaign(
        "d", graph=campaign.graph, products=frame(PRODUCTS), policy=HighDegree(), storage="memory://"
    )
    assert alone.products() == ("tea", "soap", "jam")
    alone.add_products(["milk"], pl.DataFrame({"kind": ["food"], "price": [1.0]}))
    assert alone.products()[-1] == "milk"
    with pytest.raises(InputError, match="data names the table 'sales'"):
        create_campaign("e", data={"sales": frame(EDGES)}, storage="memory://")


def _database(path):
    connection = sqlite3.connect(path)
    connection.execute("create table follows (leader text, fan text)")
    connection.executemany("insert into follows values (?, ?)", list(zip(*EDGES.values(), strict=True)))
    connection.execute("create table users (user text, age int, cost real)")
    connection.executemany("insert into users values (?, ?, ?)", list(zip(*USERS.values(), strict=True)))
    connection.commit()
    connection.close()


def test_tables_from_a_database(tmp_path):
    _database(tmp_path / "shop.db")
    queries = {"edges": "select leader as source, fan as target from follows"}
    data = read_campaign_data(f"sqlite:{tmp_path}/shop.db", queries=queries)
    assert (data.graph.n_edges, data.costs.tolist()) == (4, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InputError, match="needs an edge list"):
        read_campaign_data(f"sqlite:{tmp_path}/shop.db")
    with pytest.raises(FileFormatError, match="no such table"):
        read_campaign_data(f"sqlite:{tmp_path}/shop.db", queries={"edges": "select * from elsewhere"})
    with pytest.raises(FileFormatError, match="readonly"):
        read_campaign_data(f"sqlite:{tmp_path}/shop.db", queries={"edges": "delete from users"})
    with pytest.raises(FileFormatError, match="cannot read"):
        read_campaign_data(f"sqlite:{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(InputError, match="are for a database"):
        read_campaign_data(tmp_path, queries=queries)


def test_a_password_is_never_said(tmp_path, monkeypatch):
    address = "postgresql://mia:tops3cret@127.0.0.1:1/shop"
    with pytest.raises(FileFormatError) as caught:
        read_campaign_data(address, queries={"edges": "select 1"})
    said = str(caught.value)
    assert "tops3cret" not in said
    assert "127.0.0.1" in said
    assert caught.value.__cause__ is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install duckdb"):
        read_campaign_data("duckdb:shop.db")


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("followee", "follower"), "ann influences bob"),
        (("from", "to"), "ann influences bob"),
        (("Influencer", "Follower"), "ann influences bob"),
        (("follower", "followee"), "bob influences ann"),
    ],
)
def test_usual_names_of_an_edge_and_its_direction_in_words(tmp_path, names, first):
    (tmp_path / "edges.csv").write_text(f"{names[0]},{names[1]}\nann,bob\n")
    assert f"For example, {first}." in read_campaign_data(tmp_path).report[0]


def test_all_columns_that_are_missing_or_could_be_several_in_one_message(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\n")
    (tmp_path / "actions.csv").write_text("person,sku,item_id,when\nann,a,b,1\n")
    with pytest.raises(FileFormatError) as caught:
        read_campaign_data(tmp_path)
    said = str(caught.value)
    assert "has no column user (or user_id" in said
    assert "could mean several columns by item: sku, item_id" in said
    assert "has no column time (or timestamp" in said
    assert all(f"columns={{'actions': {{'{field}': 'NAME'}}}}" in said for field in ("user", "item", "time"))


def test_tables_come_from_postgresql_and_nothing_is_written_there(postgres_url):
    import psycopg

    plain = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("create schema if not exists shop")
        connection.execute("create table shop.follows (followee text, follower text)")
        connection.execute("insert into shop.follows values ('ann', 'bob'), ('ann', 'cid'), ('bob', 'cid')")
        connection.execute("create table shop.items (product text, price numeric(8, 2))")
        connection.execute("insert into shop.items values ('tea', 12.99), ('soap', 3.50)")
        try:
            queries = {"edges": "select * from shop.follows", "products": "select * from shop.items"}
            data = read_campaign_data(plain, queries=queries)
            assert data.graph.n_edges == 3
            assert "ann influences bob" in "\n".join(data.report)
            with create_campaign("spring", data=data, storage="memory://") as campaign:
                assert campaign.ask("tea", k=1).seeds == ("ann",)
            with pytest.raises(FileFormatError, match="read-only transaction"):
                read_campaign_data(plain, queries={"edges": "delete from shop.follows returning *"})
            assert connection.execute("select count(*) from shop.follows").fetchone() == (3,)
        finally:
            connection.execute("drop schema shop cascade")
