"""Logs of several rounds: which rows count where, in any order and in any parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.policies import Thompson

HOUR = 3600.0


def running(**more):
    """Two rounds of tea, which overlap, and one of soap; the campaign, its rounds and the clock."""
    clock = Clock(1e9)
    campaign = small_campaign(clock=clock, window="10h", policy=Thompson(), **more)
    asks = []
    for product, holdout in (("tea", 0.0), ("soap", 0.0), ("tea", 0.5)):
        asks.append(campaign.ask(product, 4, holdout=holdout))
        clock.now += HOUR
    return campaign, asks, clock


def stored(campaign, number):
    with campaign.store.read() as session:
        events = session.responses(1, number, number)[number].actions
    users = campaign.graph.ids[events.targets].tolist()
    return set(zip(users, events.times.tolist(), strict=True))


def counting(campaign, ask):
    """Who can count in a round: those chosen, and their followers."""
    chosen = {*ask.contacted, *ask.held_out}
    return chosen | {target for _, target in out_pairs(campaign, chosen)}


def expected(campaign, asks, log):
    """Row by row, what the page says."""
    found = {ask.number: set() for ask in asks}
    for row in log:
        for ask in asks:
            inside = ask.opened <= row["time"] <= ask.opened + 10 * HOUR
            if row["item"] == ask.product and inside and row["user"] in counting(campaign, ask):
                found[ask.number].add((row["user"], row["time"]))
    return found


def purchases(campaign, seed, rows=400):
    rng = np.random.default_rng(seed)
    users = [*campaign.graph.ids.tolist(), "guest"]
    return [
        {
            "user": users[rng.integers(len(users))],
            "item": ("tea", "soap", "lamp")[rng.integers(3)],
            "time": float(1e9 + rng.integers(-2 * HOUR, 15 * HOUR)),
        }
        for _ in range(rows)
    ]


def test_rows_find_the_rounds_of_their_product_and_window():
    campaign, asks, _ = running()
    log = purchases(campaign, 0)
    report = campaign.tell_log(log, max_left_out=1.0)
    wanted = expected(campaign, asks, log)
    for ask in asks:
        assert stored(campaign, ask.number) == wanted[ask.number]
        assert report.rounds[ask.id].accepted == len(wanted[ask.number])
        assert report.rounds[ask.id].outside_window == 0
    assert report.accepted == sum(map(len, wanted.values())) > 100
    assert wanted[1] & wanted[3], "some purchases must fall into both rounds of tea"
    inside = {(ask.product, row) for row, r in enumerate(log) for ask in asks if _falls(ask, r)}
    guests = [row for _, row in inside if log[row]["user"] == "guest"]
    assert report.unknown == len(set(guests)) > 0
    used = sum(any((r["user"], r["time"]) in wanted[a.number] and _falls(a, r) for a in asks) for r in log)
    assert report.other == len(log) - used - report.unknown


def _falls(ask, row):
    return row["item"] == ask.product and ask.opened <= row["time"] <= ask.opened + 10 * HOUR


def test_a_log_counts_like_its_rows_told_by_round():
    campaign, asks, _ = running()
    log = [row for row in purchases(campaign, 1) if row["user"] != "guest"]
    campaign.tell_log(log)
    other, twins, _ = running()
    for ask in twins:
        # Everybody's purchases of that product, whether they can count or not.
        other.tell(ask.id, [row for row in log if row["item"] == ask.product])
    for ask, twin in zip(asks, twins, strict=True):
        campaign.close(ask.id)
        other.close(twin.id)
    assert campaign.model_hash() == other.model_hash() == campaign.replay_hash()
    assert campaign.lift() == other.lift()


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 5), data=st.data())
def test_any_split_and_order_of_a_log_gives_the_same_state(seed, data):
    whole, asks, _ = running()
    log = [{**row, "event_id": f"e{i}"} for i, row in enumerate(purchases(whole, seed, 60))]
    # One purchase is one event; the same user and second would be the same purchase under two ids.
    log = list({(row["user"], row["item"], row["time"]): row for row in log}.values())
    whole.tell_log(log, max_left_out=1.0)
    parts, _, _ = running()
    shuffled = data.draw(st.permutations(log))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=4)))
    for start, stop in zip([0, *cuts], [*cuts, len(log)], strict=True):
        parts.tell_log(shuffled[start:stop], max_left_out=1.0)
        parts.tell_log(shuffled[:stop], max_left_out=1.0)
    again = parts.tell_log(log, max_left_out=1.0)
    assert (again.accepted, again.contradictions) == (0, ())
    for ask in asks:
        assert stored(parts, ask.number) == stored(whole, ask.number)
        for campaign in (whole, parts):
            campaign.close(campaign.rounds()[ask.number - 1].id)
    assert whole.model_hash() == parts.model_hash()


def test_rows_that_name_their_round():
    campaign, asks, _ = running()
    edges = [
        {**row, "round": ask.id if ask.number == 1 else ask.number}
        for ask in asks[:2]
        for row in answers(campaign, ask)
    ]
    outsider = next(u for u in campaign.graph.ids.tolist() if u not in counting(campaign, asks[1]))
    acted = [
        {"user": outsider, "time": asks[1].opened + 1, "round": "2"},  # named, so kept like tell does
        {"user": outsider, "time": 5.0, "round": 2.0},
        {"user": outsider, "time": asks[1].opened + 1, "round": "000099-x"},
        {"user": outsider, "time": asks[1].opened + 1, "round": None},
    ]
    report = campaign.tell_log([*edges, *acted])
    assert report.accepted == len(edges) + 2
    assert report.other == 2
    assert report.rounds[asks[1].id].outside_window == 1
    assert list(report.rounds) == [asks[0].id, asks[1].id]
    again = campaign.tell_log([*edges, *acted])
    assert (again.accepted, again.duplicates) == (0, len(edges) + 2)


def test_cancelled_rounds_and_history_take_no_rows():
    campaign, asks, _ = running()
    campaign.cancel(asks[0].id)
    campaign.import_history(
        [{"source": s, "target": t, "outcome": 1} for s, t in out_pairs(campaign, asks[0].seeds)], "tea"
    )
    user = min(counting(campaign, asks[0]))
    rows = [
        {"user": user, "time": asks[0].opened, "round": 1, "product": "tea"},
        {"user": user, "time": asks[0].opened, "round": 4, "product": "tea"},
        {"user": user, "time": asks[0].opened, "round": None, "product": "tea"},
    ]
    report = campaign.tell_log(rows)
    assert (report.accepted, report.other, report.rounds) == (0, 3, {})


def test_late_rows_are_learned_and_rounds_that_are_due_are_closed_first():
    campaign, asks, clock = running()
    log = [row for row in purchases(campaign, 2) if row["user"] != "guest"]
    clock.now = asks[2].opened + 20 * HOUR
    report = campaign.tell_log(log)
    assert report.late == report.accepted > 0
    assert campaign.model_hash() == campaign.replay_hash()
    on_time, _, _ = running()
    on_time.tell_log(log)
    on_time.expire(clock.now)
    assert campaign.model_hash() == on_time.model_hash()


def test_a_log_is_stored_whole_or_not_at_all():
    campaign, asks, _ = running()
    user = min(counting(campaign, asks[0]))
    good = {"user": user, "time": asks[0].opened + 1, "item": "tea"}
    before = campaign.status()
    rows = [good, {**good, "user": "x"}, {**good, "user": "y"}, {**good, "user": "z", "item": "lamp"}]
    with pytest.raises(UnknownIdError, match=r"2 of 4 rows .*not in the network \(lines 2, 3: 'x', 'y'\)"):
        campaign.tell_log(rows, strict=True)
    others = [user for user in campaign.graph.ids.tolist() if user not in asks[0].seeds]
    stray = dict(zip(("source", "target"), out_pairs(campaign, others)[0], strict=True))
    with pytest.raises(InputError, match="was not contacted in round"):
        campaign.tell_log([{**good, "round": 1}, {**stray, "outcome": 1, "round": 1}], strict=True)
    with pytest.raises(InputError, match="line 2 tells an outcome by edge and names no round"):
        campaign.tell_log([{**good, "round": 1}, {**stray, "outcome": 1, "round": None}])
    with pytest.raises(InputError, match="time is not a time"):
        campaign.tell_log([good, {**good, "time": "soon", "item": "lamp"}], max_left_out=0.4)
    for rows in ([{"user": user, "time": 1.0}], [{**stray, "outcome": 1, "product": "tea"}]):
        with pytest.raises(InputError, match="need a field 'round', or 'product'"):
            campaign.tell_log(rows)
    with pytest.raises(InputError, match="max_left_out must be"):
        campaign.tell_log([good], max_left_out=2)
    assert campaign.status() == before
    assert campaign.tell_log([]).accepted == 0
    assert campaign.tell_log([good]).accepted == 1


def test_an_event_id_stays_with_the_one_round_of_its_row():
    campaign, asks, _ = running()
    both = min(counting(campaign, asks[0]) & counting(campaign, asks[2]))
    rows = [
        {"user": both, "time": asks[0].opened + 1, "item": "tea", "event_id": "one"},
        {"user": both, "time": asks[2].opened + 1, "item": "tea", "event_id": "two"},
    ]
    assert campaign.tell_log(rows).accepted == 3
    with campaign.store.read() as session:
        assert sorted(session.known_event_ids(1, ["one", "two"])) == ["one"]
    moved = campaign.tell_log([{**rows[0], "time": asks[0].opened + 2}])
    assert [clash.event_id for clash in moved.contradictions] == ["one"]
    assert campaign.tell_log(rows).duplicates == 3


@pytest.mark.parametrize("strings", [True, False])
def test_files_with_guests_and_other_names(tmp_path, strings):
    campaign, asks, _ = running(graph=small_graph(strings=strings))
    user = min(counting(campaign, asks[1]))
    lines = [f"{user},soap,2001-09-09T03:00:00", "guest-7,soap,2001-09-09 03:00:01", f"{user},lamp,2001-09-09"]
    (tmp_path / "log.csv").write_text("buyer,sku,timestamp\n" + "\n".join(lines) + "\n")
    names = {"user": "buyer", "item": "sku"}
    with pytest.raises(UnknownIdError, match=r"1 of 3 rows .*not in the network \(line 3: 'guest-7'\).*without strict"):
        campaign.tell_log(tmp_path / "log.csv", columns=names, strict=True)
    report = campaign.tell_log(tmp_path / "log.csv", columns=names)
    assert (report.accepted, report.unknown, report.other) == (1, 1, 1)
    assert stored(campaign, 2) == {(user, 1000004400.0)}
    frame = pl.read_csv(tmp_path / "log.csv").head(1)
    if strings:
        assert campaign.tell_log(frame, columns={"user": "buyer", "product": "sku"}).duplicates == 1


def test_products_that_are_numbers_are_found_in_text(tmp_path):
    campaign = small_campaign(products={7: [1.0, 0.0], 8: [0.0, 1.0]})
    ask = campaign.ask(7, 3)
    user = ask.seeds[0]
    (tmp_path / "log.csv").write_text(f"user,item,time\n{user},7,{ask.opened}\n{user},007,{ask.opened}\n")
    assert (campaign.tell_log(tmp_path / "log.csv").accepted, campaign.tell_log(tmp_path / "log.csv").other) == (1, 1)
    assert campaign.tell_log({"user": [user], "product": [7.0], "time": [ask.opened]}).duplicates == 1
