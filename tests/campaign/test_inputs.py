"""What callers hand to a campaign: times of every kind, rounds without a name, ids and moments that cannot be kept."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tensorucb import create_campaign, load_campaign
from tensorucb.campaign import IgnoredContextWarning
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.policies import COIN, HighDegree, LinUCB, TensorUCB
from tensorucb.store import MemoryStore

NOW = 1704067200.0  # 2024-01-01 in UTC
GRAPH = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])


def _campaign(**more):
    options = {"graph": GRAPH, "policy": HighDegree(), "storage": MemoryStore(), "clock": lambda: NOW, **more}
    return create_campaign("spring", **options)


def _stored_times(campaign, number=1):
    with campaign.store.read() as session:
        return session.responses(campaign._handle.record.campaign, number, number)[number].actions.times.tolist()


AT = datetime(2024, 1, 1, 0, 0, 30)
TIMES = {
    "numpy ns": np.array([AT], dtype="datetime64[ns]"),
    "numpy ms": np.array([AT], dtype="datetime64[ms]"),
    "pandas": pd.Series([pd.Timestamp(AT)]),
    "pandas with a zone": pd.Series([pd.Timestamp("2024-01-01 01:00:30", tz="Europe/Berlin")]),
    "polars": pl.Series([AT]),
    "polars ns": pl.Series([AT], dtype=pl.Datetime("ns")),
    "Arrow": pa.array([AT], pa.timestamp("us")),
    "Arrow with a zone": pa.chunked_array([pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("s", "UTC"))]),
    "Python": [AT],
    "text": ["2024-01-01T00:00:30"],
    "seconds": [NOW + 30],
    "whole seconds": np.array([int(NOW) + 30]),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_of_every_kind_are_unix_seconds(times):
    campaign = _campaign()
    asked = campaign.ask([1.0], 1)
    campaign.tell(asked.id, {"user": ["bob"], "time": times})
    assert _stored_times(campaign) == [NOW + 30]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "Arrow"])
def test_frames_with_datetimes(frame):
    campaign = _campaign()
    campaign.tell(campaign.ask([1.0], 1).id, frame({"user": ["bob"], "time": [AT]}))
    assert _stored_times(campaign) == [NOW + 30]


@pytest.mark.parametrize("time", [math.nan, math.inf, 10**400, pd.NaT, "soon", True, 1.7e12, None])
def test_what_is_no_time_is_refused(time):
    campaign = _campaign()
    asked = campaign.ask([1.0], 1)
    with pytest.raises(InputError, match=r"time is (empty|not a time)"):
        campaign.tell(asked.id, {"user": ["bob"], "time": [time]})
    assert campaign.tell(asked.id, {"user": ["bob"], "time": [NOW]}).accepted == 1


@pytest.mark.parametrize("deadline", [NOW - 1, NOW, datetime(2023, 12, 31), timedelta(seconds=-1)])
def test_a_deadline_in_the_past_is_refused(deadline):
    campaign = _campaign()
    with pytest.raises(InputError, match="deadline"):
        campaign.ask([1.0], 1, deadline=deadline)
    assert campaign.rounds() == ()


def _history(**more):
    return {"source": ["ann", "bob"], "target": ["bob", "cid"], "outcome": [1, 0], **more}


@pytest.mark.parametrize("label", [math.nan, None, pd.NaT])
def test_past_rounds_without_a_name_are_one_round(label):
    campaign = _campaign()
    report = campaign.import_history(_history(round=[label, label]), product=[1.0])
    assert (report.rounds, report.responses) == (1, 2)
    assert campaign.import_history(_history(round=[label, label]), product=[1.0]).known_rounds == 1


def test_a_gap_in_the_rounds_makes_no_other_name():
    campaign = _campaign()
    campaign.import_history(_history(round=[1, 2]), product=[1.0])
    assert campaign.import_history(_history(round=[1.0, 2.0]), product=[1.0]).known_rounds == 2


@pytest.mark.parametrize("product", [[["tea"], ["tea"]], [math.nan, "tea"], [True, True], [1.5, 1.5]])
def test_products_of_the_past_are_ids(product):
    campaign = _campaign(products={"tea": [1.0]})
    with pytest.raises(InputError, match=r"product (in line 1 is empty|is not text or a whole number .lines 1, 2)"):
        campaign.import_history(_history(product=product))


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "", "x" * 600, 3, None])
def test_names_that_cannot_be_kept_are_refused(name):
    with pytest.raises(InputError, match="name"):
        create_campaign(name, graph=GRAPH, policy=HighDegree(), storage=MemoryStore())


@pytest.mark.parametrize("bad", ["\ud800", "a\0b", "", "x" * 600, b"bob"])
def test_ids_that_cannot_be_kept_are_refused(bad):
    campaign = _campaign()
    with pytest.raises(InputError, match="ids"):
        campaign.add_users([bad])
    with pytest.raises(InputError, match="exclude"):
        campaign.ask([1.0], 1, exclude=[bad])
    with pytest.raises(InputError, match="request_id"):
        campaign.ask([1.0], 1, request_id=bad)
    assert campaign.status().users == 3


@pytest.mark.parametrize("quotas", [{"x": 2**63}, {"x": 10**400}, {"x": -1}, {"x": 1.5}, 2**63])
def test_quotas_that_are_no_counts_are_refused(quotas):
    campaign = _campaign(groups=["x", "x", "x"], objective="direct")
    with pytest.raises(InputError, match="quota"):
        campaign.ask([1.0], 1, quotas=quotas)


def test_a_path_is_a_sqlite_file(tmp_path):
    path = tmp_path / "campaigns.db"
    create_campaign("spring", graph=GRAPH, policy=HighDegree(), storage=path).disconnect()
    with load_campaign("spring", storage=path) as campaign:
        assert campaign.store.url == f"sqlite:///{path}"


@pytest.mark.parametrize("storage", [3, None, b"sqlite:///a.db", ["memory://"]])
def test_what_is_no_storage_is_refused(storage):
    with pytest.raises(InputError, match="storage must be a storage URL"):
        load_campaign("spring", storage=storage)


def test_files_with_bare_carriage_returns_are_read(tmp_path):
    campaign = _campaign()
    asked = campaign.ask([1.0], 1)
    path = tmp_path / "told.csv"
    path.write_bytes(b"source,target,outcome\rann,bob,1\rann,cid,0\r")
    assert campaign.tell(asked.id, path).accepted == 2


def test_ragged_files_are_refused(tmp_path):
    campaign = _campaign()
    asked = campaign.ask([1.0], 1)
    path = tmp_path / "told.csv"
    path.write_text("source,target,outcome,time\nann,bob,1\n")
    with pytest.raises(InputError, match=r"wrong number of fields \(line 2: 'ann,bob,1'"):
        campaign.tell(asked.id, path)


def test_a_huge_value_is_not_echoed():
    campaign = _campaign()
    asked = campaign.ask([1.0], 1)
    with pytest.raises(UnknownIdError) as caught:
        campaign.explain(asked.id, "y" * 500)
    assert len(str(caught.value)) < 300
    with pytest.raises(InputError) as refused:
        campaign.tell(asked.id, {"source": ["ann"], "target": ["bob"], "outcome": ["z" * 10**6]})
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("policy", "words"),
    [(HighDegree(), "products and strategies"), (COIN(), "strategies"), (TensorUCB(), None), (LinUCB(), None)],
    ids=lambda given: getattr(given, "name", given),
)
def test_a_policy_says_once_what_it_does_not_look_at(policy, words):
    given = {"products": {"tea": [1.0, 0.0], "soap": [0.0, 1.0]}, "strategies": {"mail": [0.0], "call": [1.0]}}
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        campaign = create_campaign("c", graph=graph, policy=policy, storage="memory://", **given)
        campaign.ask("tea", 1, strategies="all")
    said = [str(entry.message) for entry in caught if entry.category is IgnoredContextWarning]
    assert len(said) == (words is not None)
    if words is not None:
        assert f"does not look at the {words} of this campaign" in said[0]
