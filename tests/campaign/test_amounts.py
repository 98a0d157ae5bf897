"""Amounts told with responses: stored, repeated, late, contradicted, exported, copied and forgotten."""

import math
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorucb as tu
from tensorucb.errors import FileFormatError, InputError

GRAPH = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])


def opened(storage="memory://", **options):
    """A campaign with one open round in which Ann is contacted."""
    campaign = tu.create_campaign("spring", graph=GRAPH, storage=storage, clock=lambda: 1000.0, **options)
    return campaign, campaign.ask(k=1, candidates=["ann"])


def told(campaign):
    """The responses as the export has them: by edge (source, target, amount), and by user (user, time, amount)."""
    with TemporaryDirectory() as folder:
        campaign.export(folder)
        tables = [pl.read_parquet(Path(folder, f"{name}.parquet")) for name in ("responses", "node_events")]
    edges, nodes = tables
    return edges.select("source", "target", "amount").rows(), nodes.select("user", "time", "amount").rows()


def test_an_amount_comes_by_edge_or_by_user_and_may_be_left_empty():
    campaign, ask = opened()
    campaign.tell(ask.id, [{"source": "ann", "target": "bob", "outcome": 1, "amount": 12.5}])
    rows = {"buyer": ["cid", "bob"], "time": [1001.0, 1002.0], "total": [7, None]}
    campaign.tell(ask.id, rows, columns={"user": "buyer", "amount": "total"})
    assert told(campaign) == ([("ann", "bob", 12.5)], [("bob", 1002.0, None), ("cid", 1001.0, 7.0)])


@pytest.mark.parametrize("amount", [-1.0, math.inf, "ten"])
def test_a_row_with_what_is_no_amount_is_left_out_or_refused(amount):
    campaign, ask = opened()
    rows = [{"user": "bob", "time": 1001.0, "amount": 1.0}, {"user": "cid", "time": 1001.0, "amount": amount}]
    with pytest.raises(InputError, match=r"amount is .*line 2"):
        campaign.tell(ask.id, rows, strict=True)
    assert told(campaign) == ([], [])
    assert campaign.tell(ask.id, rows, max_left_out=0.5).accepted == 1
    assert told(campaign) == ([], [("bob", 1001.0, 1.0)])


def test_who_did_not_respond_has_spent_nothing():
    campaign, ask = opened()
    row = {"source": "ann", "target": "bob", "outcome": 0}
    with pytest.raises(InputError, match="an amount of somebody who did not respond"):
        campaign.tell(ask.id, [{**row, "amount": 3.0}], strict=True)
    assert campaign.tell(ask.id, [{**row, "amount": 0.0}]).accepted == 1


def test_amounts_are_read_as_they_are_written(tmp_path):
    campaign, ask = opened()
    (tmp_path / "sales.csv").write_text("user;time;amount\nbob;1001;€12,50\ncid;1002;1.299,00 €\n", encoding="utf-8")
    campaign.tell(ask.id, tmp_path / "sales.csv")
    assert told(campaign) == ([], [("bob", 1001.0, 12.5), ("cid", 1002.0, 1299.0)])


def test_the_same_amount_again_is_a_duplicate_and_another_a_contradiction():
    campaign, ask = opened()
    row = {"user": "bob", "time": 1001.0, "amount": 5.0}
    campaign.tell(ask.id, [row])
    again = campaign.tell(ask.id, [row, {**row, "amount": None}, {**row, "amount": 6.0}])
    assert (again.accepted, again.duplicates) == (0, 2)
    [clash] = again.contradictions
    assert (clash.row, clash.source, clash.target, clash.kept, clash.told) == (3, "bob", None, 5.0, 6.0)
    assert told(campaign) == ([], [("bob", 1001.0, 5.0)])


@pytest.mark.parametrize("event_id", [None, "order-7"])
def test_an_amount_that_comes_later_is_filled_in_also_after_the_round_has_closed(event_id):
    campaign, ask = opened()
    edge = {"source": "ann", "target": "bob", "outcome": 1, "event_id": event_id}
    campaign.tell(ask.id, [edge])
    campaign.close(ask.id)
    report = campaign.tell(ask.id, [{**edge, "amount": 8.0}])
    assert (report.accepted, report.late, report.duplicates) == (1, 1, 0)
    assert told(campaign) == ([("ann", "bob", 8.0)], [])
    clash = campaign.tell(ask.id, [{**edge, "amount": 9.0}])
    assert (clash.accepted, clash.duplicates, clash.contradictions[0].kept) == (0, 0, 8.0)


def test_an_amount_that_comes_later_is_appended_and_rewrites_nothing(tmp_path):
    path = tmp_path / "a.db"
    campaign, ask = opened(f"sqlite:///{path}")
    rows = [{"source": "ann", "target": "bob", "outcome": 1}, {"user": "cid", "time": 1001.0}]

    def batches():
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT seq, data FROM tensorucb_response ORDER BY seq").fetchall()

    campaign.tell(ask.id, rows)
    before = batches()
    report = campaign.tell(ask.id, [{**row, "amount": 8.0} for row in rows])
    assert (report.accepted, report.duplicates) == (2, 0)
    assert batches()[:1] == before
    assert len(batches()) == 2
    assert told(campaign) == ([("ann", "bob", 8.0)], [("cid", 1001.0, 8.0)])
    # Both rows of a response go with the person, and count as one.
    assert campaign.forget("cid").responses == 1
    campaign.disconnect()


_ROWS = st.lists(
    st.fixed_dictionaries(
        {"user": st.sampled_from(["bob", "cid"]), "time": st.sampled_from([1001.0, 1002.0]), "with": st.booleans()}
    ),
    max_size=8,
)


@given(_ROWS, st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_neither_the_order_nor_the_parts_of_a_delivery_change_what_stands(rows, random):
    # Rows of one event agree, and some leave the amount out.
    whole = [
        {"user": row["user"], "time": row["time"], "amount": row["time"] - 995.0 if row["with"] else None}
        for row in rows
    ]
    shuffled = random.sample(whole, len(whole))
    first, one = opened()
    first.tell(one.id, whole)
    second, two = opened()
    for row in shuffled:
        second.tell(two.id, [row])
    assert told(first) == told(second)


def test_amounts_are_exported_copied_and_forgotten(tmp_path):
    storage = f"sqlite:///{tmp_path / 'a.db'}"
    campaign, ask = opened(storage)
    campaign.tell(ask.id, [{"source": "ann", "target": "bob", "outcome": 1, "amount": 12.5}])
    campaign.tell(ask.id, [{"user": "cid", "time": 1001.0, "amount": 3.25}])
    before = told(campaign)
    assert before == ([("ann", "bob", 12.5)], [("cid", 1001.0, 3.25)])
    tu.copy_campaign("spring", "rehearsal", storage=storage)
    with tu.load_campaign("rehearsal", storage=storage) as copy:
        assert told(copy) == before
    assert campaign.forget("cid").proven
    assert told(campaign) == (before[0], [])
    campaign.disconnect()


def test_an_amount_that_history_tells_in_a_second_row_counts_as_in_a_round():
    row = {"source": "ann", "target": "bob", "outcome": 1}
    campaign, _ = opened()
    assert campaign.import_history([row, {**row, "amount": 4.0}, {**row, "amount": 4.0}], product=[1.0]).responses == 1
    assert told(campaign) == ([("ann", "bob", 4.0)], [])


def test_a_changed_amount_in_the_file_is_found(tmp_path):
    path = tmp_path / "a.db"
    campaign, ask = opened(f"sqlite:///{path}")
    campaign.tell(ask.id, [{"user": "cid", "time": 1001.0, "amount": 3.25}])
    campaign.disconnect()
    with closing(sqlite3.connect(path)) as connection, connection:
        [(data,)] = connection.execute("SELECT data FROM tensorucb_response").fetchall()
        content = zlib.decompress(data)
        flipped = (np.frombuffer(content[-8:], "<u8") ^ np.uint64(1)).tobytes()  # the last bit of the amount
        changed = zlib.compress(content[:-8] + flipped)
        connection.execute("UPDATE tensorucb_response SET data = ?", (changed,))
    again = tu.load_campaign("spring", storage=f"sqlite:///{path}", clock=lambda: 1000.0)
    with pytest.raises(FileFormatError, match="damaged"):
        again.progress()
    again.disconnect()
