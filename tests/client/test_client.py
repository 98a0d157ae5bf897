"""The client against a real service: the same answers and the same errors as the library gives itself."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from service.serving import serving
from tensorucb import Graph, create_campaign, load_campaign
from tensorucb.client import Client
from tensorucb.errors import InputError, StateError, UnknownIdError
from tensorucb.policies import HighDegree

EDGES = {"ann": ["bob", "cid", "dan", "eve"], "bob": ["cid", "dan", "fay"], "cid": ["ann", "gus"], "dan": ["eve"]}
SOURCES, TARGETS = zip(*[(s, t) for s, targets in EDGES.items() for t in targets], strict=True)
PRODUCTS = {"tea": [1.0, 0.0], "jam": [0.0, 1.0]}
STRATEGIES = {"email": [1.0, 0.0], "call": [0.0, 1.0]}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('service')}/campaigns.db"


@pytest.fixture(scope="module")
def client(storage):
    with serving(storage) as url, Client(url) as client:
        yield client


@pytest.fixture
def campaign(client, storage, request):
    name = re.sub("[^A-Za-z0-9]", "-", request.node.name)
    graph = Graph.from_edges(SOURCES, TARGETS)
    create_campaign(
        name,
        graph=graph,
        products=PRODUCTS,
        strategies=STRATEGIES,
        strategy_costs={"email": 1.0, "call": 5.0},
        policy=HighDegree(),
        ask={"strategies": "all"},
        storage=storage,
    ).disconnect()
    return client.campaign(name)


@pytest.fixture
def own(campaign, storage):
    """The same campaign, opened in the database itself."""
    with load_campaign(campaign.name, storage=storage) as found:
        yield found


def test_a_round_through_the_service_is_the_one_in_the_database(campaign, own):
    ask = campaign.ask("tea", k=2, exclude=["dan"], window="7d", cooldown=timedelta(hours=1))
    assert ask == own.round(ask.id) == campaign.round(ask.id) == campaign.round(1)
    assert ask.seeds == ("ann", "bob")
    assert ask.explain() == own.explain(ask.id)
    assert ask.explain("dan") == own.explain(ask.id, "dan")
    assert ask._repr_html_() == own.round(ask.id)._repr_html_()
    report = campaign.tell(ask.id, [{"source": "ann", "target": "eve", "outcome": 1}])
    assert (report.accepted, report.duplicates) == (1, 0)
    assert campaign.tell(ask.id, {"source": "ann", "target": "eve", "outcome": 1}).duplicates == 1
    assert campaign.progress() == own.progress()
    closed = campaign.close(ask.id, early=True)
    assert closed == own.round(ask.id)
    assert closed.status == "closed"
    assert campaign.rounds() == own.rounds() == campaign.rounds("closed")
    assert campaign.rounds("open") == ()
    assert campaign.status() == own.status()


def test_strategies_previews_and_lists_of_users(campaign, own):
    found = campaign.preview("jam", 2, strategies="all", per_user=True)
    assert found == own.preview("jam", 2, strategies="all", per_user=True)
    changed = campaign.preview("jam", strategies="all", per_user=True, users={"ann": "call", "dan": "email"})
    assert changed.seeds == ("ann", "dan")
    assert changed.difference <= 0.0
    ask = campaign.ask("jam", strategies="all", per_user=True, users={"ann": "call", "dan": "email"})
    assert dict(zip(ask.seeds, ask.strategies, strict=True)) == {"ann": "call", "dan": "email"}
    assert ask.cost == 6.0
    assert campaign.cancel(ask.id).status == "cancelled"


@pytest.mark.parametrize("form", ["rows", "columns", "polars", "pandas", "arrow", "csv", "ndjson", "parquet"])
def test_responses_in_every_form(campaign, form, tmp_path):
    ask = campaign.ask("tea", k=2)
    columns = {"buyer": ["eve", "fay", "a guest"], "time": [ask.opened + 60.0, ask.opened + 61.0, ask.opened + 62.0]}
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "r.csv")
    frame.write_ndjson(tmp_path / "r.ndjson")
    frame.write_parquet(tmp_path / "r.parquet")
    given = {
        "rows": frame.to_dicts(),
        "columns": {name: np.array(values) for name, values in columns.items()},
        "polars": frame,
        "pandas": pd.DataFrame(columns),
        "arrow": pa.table(columns),
        **{suffix: tmp_path / f"r.{suffix}" for suffix in ("csv", "ndjson", "parquet")},
    }[form]
    report = campaign.tell(ask.id, given, max_left_out=1.0, columns={"user": "buyer"})
    assert (report.accepted, report.unknown) == (2, 1)


def test_a_short_frame_starts_no_process_and_a_strange_one_is_sent_as_it_is(campaign, own, monkeypatch):
    started = []
    monkeypatch.setattr(
        subprocess, "run", lambda *given, real=subprocess.run, **more: started.append(1) or real(*given, **more)
    )
    ask = campaign.ask("tea", k=2)
    rows = {"user": ["eve", "fay", "a guest"], "time": [ask.opened + 60.0, ask.opened + 61.0, float("nan")]}
    frames = {
        "text": pl.DataFrame(rows),
        "many": pl.concat([pl.DataFrame(rows)] * 2_000),
        "infinite": pl.DataFrame({**rows, "amount": [1.0, None, float("inf")]}),
        "moments": pl.DataFrame(rows).with_columns((pl.col("time").fill_nan(None) * 1e6).cast(pl.Datetime("us"))),
        "none": pl.DataFrame({"user": [], "time": []}, schema={"user": pl.String, "time": pl.Float64}),
    }
    processes = {}
    for name, frame in frames.items():
        before = len(started)
        told = campaign.tell(ask.id, frame, max_left_out=1.0)
        processes[name] = len(started) - before
        # The same rows told in this process: all are there already, and the same ones are left out.
        again = own.tell(ask.id, frame, max_left_out=1.0)
        assert (again.accepted, again.duplicates) == (0, told.accepted + told.duplicates)
        assert again.unknown == told.unknown
        assert [e for e in again.left_out if e.malformed] == [e for e in told.left_out if e.malformed]
    assert processes == {"text": 0, "many": 1, "infinite": 1, "moments": 1, "none": 1}


def test_a_log_history_and_growth(campaign, own, tmp_path):
    ask = campaign.ask("tea", k=1)
    log = {"user": ["eve", "fay"], "item": ["tea", "jam"], "time": [ask.opened + 60, ask.opened + 70]}
    report = campaign.tell_log(log)
    assert (report.accepted, report.other) == (1, 1)
    assert report.rounds[ask.id].accepted == 1
    assert campaign.tell_log(log).duplicates == 1
    past = {"source": ["ann", "bob"], "target": ["bob", "cid"], "outcome": [1, 0], "strategy": ["email", "email"]}
    assert campaign.import_history(past, "jam").responses == 2
    campaign.add_products(["soap"], np.array([[0.5, 0.5]]))
    assert campaign.products() == own.products() == ("tea", "jam", "soap")
    campaign.add_strategies(["letter"], [[0.5, 0.5]], costs=[2.0])
    assert campaign.strategies() == ("email", "call", "letter")
    campaign.add_users(["hal"], sources=["ann"], targets=["hal"])
    assert campaign.users("h") == ("hal",)
    assert len(campaign.users()) == own.graph.n_nodes == 8
    assert campaign.expire() == []
    files = campaign.export(tmp_path / "out", format="csv")
    assert files[-1].name == "manifest.json"
    assert all(path.exists() for path in files)
    assert {path.name for path in files} == {path.name for path in own.export(tmp_path / "own", format="csv")}
    assert campaign.forget("hal").responses == 0
    assert campaign.users("h") == ()


def test_a_lift_needs_a_hold_out(campaign, own):
    with pytest.raises(StateError) as ours:
        own.lift()
    with pytest.raises(StateError) as theirs:
        campaign.lift()
    assert str(theirs.value) == str(ours.value)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.ask("coffee", k=1), UnknownIdError),
        (lambda c: c.ask("tea", k=100), InputError),
        (lambda c: c.tell(c.ask("tea", k=1).id, [{"source": "fay", "target": "ann", "outcome": 1}]), InputError),
        (lambda c: c.ask("tea", k=1, holdout=1.5), InputError),
    ],
)
def test_errors_are_the_librarys_own(campaign, own, call, kind):
    with pytest.raises(kind) as theirs:
        call(campaign)
    with pytest.raises(kind) as ours:
        call(own)
    assert type(theirs.value) is type(ours.value)
    assert str(theirs.value) == str(ours.value)


def test_somebody_who_is_not_there_is_said_in_the_services_words(campaign):
    with pytest.raises(UnknownIdError, match="no such user"):
        campaign.explain(campaign.ask("tea", k=1).id, "nobody")


def test_asking_again_with_the_same_request_id_returns_the_same_round(campaign):
    first = campaign.ask("tea", k=1, request_id="monday")
    assert campaign.ask("tea", k=1, request_id="monday") == first
    assert len(campaign.rounds()) == 1
    with pytest.raises(InputError):
        campaign.ask("jam", k=1, request_id="monday")
    with pytest.raises(InputError, match="request_id must be"):
        campaign.ask("tea", k=1, request_id="on monday")


def test_create_list_and_delete(client, tmp_path):
    (tmp_path / "products.csv").write_text("product,kind\ntea,food\njam,food\nsoap,home\n")
    edges = pl.DataFrame({"source": SOURCES, "target": TARGETS})
    made = client.create_campaign(
        "made", edges=edges, products=tmp_path / "products.csv", window="7d", ask={"k": 2}, policy="HighDegree"
    )
    assert any("Network: 7 users" in line for line in made.report)
    assert "made" in [info.name for info in client.campaigns()]
    assert made.products() == ("tea", "jam", "soap")
    assert len(made.ask("tea").seeds) == 2
    with pytest.raises(InputError, match="already"):
        client.create_campaign("made", edges=edges)
    client.delete_campaign("made")
    with pytest.raises(UnknownIdError):
        client.campaign("made")


def test_all_settings_and_arguments_come_through(client, storage):
    edges = pl.DataFrame({"source": SOURCES, "target": TARGETS})
    settings = {"credit": "last", "epsilon": 0.2, "snapshot_every": 3, "seed": 5, "objective": "cascade"}
    made = client.create_campaign(
        "whole", edges=edges, policy="LinUCB", policy_settings={"exploration": 0.5}, id_type="str", **settings
    )
    client.create_campaign("twice", edges=edges, policy="HighDegree", request_id="monday").ask(k=1)
    assert len(client.create_campaign("twice", edges=edges, policy="HighDegree", request_id="monday").rounds()) == 1
    with load_campaign("whole", storage=storage) as own:
        assert settings.items() <= own.settings.items()
        assert own.settings["policy"]["arguments"]["exploration"] == 0.5
        asked = {"groups": ["a", "b"] * 3 + ["b"], "minima": {"b": 2}, "quotas": {"a": 1}, "costs": np.ones(7)}
        asked |= {"budget": 3, "objective": "direct", "epsilon": 0.3}
        assert made.preview(k=3, **asked) == own.preview(k=3, **asked)
        ask = made.ask(k=3, **asked, request_id="monday")
        assert ask == own.ask(k=3, **asked, request_id="monday")
    with pytest.raises(InputError, match="a preview is of users to contact"):
        made.preview(shadow=["ann"])


def test_who_the_service_takes_us_for(client):
    found = client.session()
    assert (found.role, found.read_only) == ("admin", False)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://a", "http://", 5])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InputError, match="url"):
        Client(url)


def test_a_file_that_is_not_there_is_said_before_anything_is_sent(campaign, tmp_path):
    with pytest.raises(Exception, match=r"cannot read.*Check the path"):
        campaign.tell_log(tmp_path / "missing.csv")
    with pytest.raises(Exception, match="does not end in"):
        campaign.tell_log(tmp_path / "missing.xlsx")


def test_importing_the_client_does_not_load_the_service():
    heavy = ["fastapi", "uvicorn", "polars", "httpx"]
    code = f"import sys, tensorucb.client; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


def test_names_and_segments_are_those_of_the_library(client, storage):
    tables = {
        "edges": pl.DataFrame({"source": SOURCES, "target": TARGETS}),
        "users": pl.DataFrame(
            {"user": sorted({*SOURCES, *TARGETS}), "name": ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus"]}
        ),
        "products": pl.DataFrame({"product": [1, 2], "name": ["Tea", None]}),
    }
    countries = pl.Series("country", ["France", "Spain", "Spain", "France", "Spain", "Spain", "Spain"])
    tables["users"] = tables["users"].with_columns(countries)
    with create_campaign("named", data=tables, policy=HighDegree(), storage=storage) as own:
        theirs = client.campaign("named")
        ask = own.ask(1, k=3)
        own.close(ask.id)
        for table in ("products", "strategies", "users"):
            assert theirs.names(table) == own.names(table)
        assert theirs.names("products") == {1: "Tea"}
        assert theirs.segments() == own.segments() == ("country",)
        assert theirs.progress(segment="country") == own.progress(segment="country")
        assert theirs.explain(ask.id).seeds == own.explain(ask.id).seeds
        assert theirs.users("Ev") == ("eve",)
        with pytest.raises(UnknownIdError, match="segment is 'town'"):
            theirs.progress(segment="town")
