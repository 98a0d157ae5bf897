"""`progress` counts what the forecasts are about, leaves out what cannot be compared, and learns nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from scipy.stats import binomtest

from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import copy_campaign, load_campaign
from tensorucb.errors import StateError
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, TensorUCB

STRATEGIES = {"strategies": {"mail": [1.0, 0.0], "visit": [0.0, 1.0]}, "strategy_costs": {"visit": 3.0}}


def actions(campaign, users, rng, share=0.3):
    """Some of these users act once or twice, now, before the contact and after a window of 100 seconds."""
    now = campaign.clock()
    acting = [user for user in users if rng.random() < share]
    return [{"user": user, "time": now + float(rng.choice([-5.0, 1.0, 50.0, 100.0, 101.0]))} for user in acting]


def played(rounds=6, **settings):
    """A campaign with costs, hold-outs and strategies, told by node and by edge, and what it was told."""
    campaign = small_campaign(window="100s", costs=np.ones(30), clock=Clock(1000.0), **{**STRATEGIES, **settings})
    rng, everybody, told = np.random.default_rng(3), campaign.graph.ids.tolist(), []
    for number in range(rounds):
        ask = campaign.ask("tea" if number % 2 else "soap", 5, strategies="all", per_user=True, holdout=0.2)
        edges, acted = answers(campaign, ask), actions(campaign, everybody, rng)
        campaign.tell(ask.id, edges)
        campaign.tell(ask.id, acted)
        told.append((ask, edges, acted))
        if number < rounds - 1:
            campaign.close(ask.id)
        campaign.clock.now += 200.0 if number < rounds - 1 else 0.0
    return campaign, told


def responders(campaign, ask, edges, acted):
    """Who responded, by the definition in words: the followers of the contacted who said yes or acted in the window."""
    followers = {target for _, target in out_pairs(campaign, ask.contacted)}
    yes = {row["target"] for row in edges if row["outcome"]}
    inside = {row["user"] for row in acted if ask.opened <= row["time"] <= ask.opened + 100.0}
    return (yes | (inside & followers)) - set(ask.contacted)


def test_responders_are_the_users_whose_number_was_forecast():
    campaign, told = played()
    progress = campaign.progress()
    expected = [responders(campaign, *part) for part in told]
    assert [entry.responders for entry in progress.rounds] == [len(users) for users in expected]
    assert progress.reached == len(set.union(*expected))
    assert progress.contacted == len({user for ask, _, _ in told for user in ask.contacted})
    seen, new = set(), []
    for users in expected:
        new.append(len(users - seen))
        seen |= users
    assert [entry.new_responders for entry in progress.rounds] == new
    for entry, (ask, edges, acted) in zip(progress.rounds, told, strict=True):
        assert (entry.id, entry.number, entry.product, entry.expected) == (ask.id, ask.number, ask.product, ask.reach)
        assert (entry.contacted, entry.held_out, entry.spend) == (len(ask.seeds), len(ask.held_out), ask.cost)
        inside = sum(ask.opened <= row["time"] <= ask.opened + 100.0 for row in acted)
        assert entry.responses == sum(row["outcome"] for row in edges) + inside
    assert progress.spend == pytest.approx(sum(ask.cost for ask, _, _ in told))


def test_sums_are_of_closed_and_of_open_rounds():
    campaign, _ = played()
    progress = campaign.progress()
    *closed, last = progress.rounds
    assert (progress.closed.rounds, progress.open.rounds) == (5, 1)
    assert progress.closed.responders == progress.closed.compared == sum(entry.responders for entry in closed)
    assert progress.closed.expected == pytest.approx(sum(entry.expected.mean for entry in closed))
    assert progress.closed.contacts == sum(entry.contacted for entry in closed)
    assert (progress.open.responders, progress.open.expected) == (last.responders, last.expected.mean)
    assert last.within is None
    assert progress.calibration.rounds == 5
    assert progress.calibration.held == sum(entry.within for entry in closed)


def test_groups_split_what_came_and_what_was_expected():
    campaign, told = played()
    progress = campaign.progress()
    for groups in (progress.products, progress.strategies, progress.users):
        assert sum(group.responders for group in groups) == pytest.approx(progress.closed.responders)
        assert sum(group.contacts for group in groups) == progress.closed.contacts
        assert [group.contacts for group in groups] == sorted((group.contacts for group in groups), reverse=True)
        # One denominator: rates of parts average to the rate of the whole.
        assert sum(group.followers for group in groups) == sum(group.followers for group in progress.products)
        believed = sum(group.believed * group.followers for group in groups)
        assert believed == pytest.approx(progress.closed.expected)
    assert {group.id for group in progress.products} == {"tea", "soap"}
    user = progress.users[0]
    with_user = [ask for ask, _, _ in told[:-1] if user.id in ask.contacted]
    assert user.rounds == user.contacts == len(with_user)
    followers = 0
    for ask in with_user:
        before = ask.contacted[: ask.contacted.index(user.id)]
        others = {target for _, target in out_pairs(campaign, before)} | set(ask.contacted)
        followers += len({target for _, target in out_pairs(campaign, [user.id])} - others)
    assert user.followers == followers
    assert user.observed == pytest.approx(user.responders / user.followers)


def test_somebody_who_follows_two_contacted_users_counts_for_the_first():
    graph = Graph.from_edges(["ann", "ann", "bob", "bob"], ["cid", "dan", "cid", "eve"])
    campaign = small_campaign(graph=graph, policy=HighDegree(), window="100s")
    ask = campaign.ask("tea", 2)
    campaign.tell(ask.id, [{"user": user, "time": 1001.0} for user in ("cid", "dan")])
    campaign.close(ask.id)
    users = {group.id: (group.followers, group.responders) for group in campaign.progress().users}
    first, second = ask.contacted
    own = {"ann": 1, "bob": 0}  # dan follows ann alone, eve bob alone, and cid both
    assert users == {first: (2, own[first] + 1), second: (1, own[second])}


def test_what_cannot_be_compared_has_no_expectation():
    campaign = small_campaign()
    cancelled = campaign.ask("tea", 3)
    campaign.cancel(cancelled.id)
    shadow = campaign.ask("tea", 3, shadow=campaign.graph.ids[:2].tolist())
    cascade = campaign.ask("tea", 3, objective="cascade")
    for ask in (shadow, cascade):
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    source, target = out_pairs(campaign, campaign.graph.ids[:1])[0]
    campaign.import_history([{"source": source, "target": target, "outcome": 1}], "tea")
    progress = campaign.progress()
    assert [entry.expected for entry in progress.rounds] == [None] * 4
    assert [entry.within for entry in progress.rounds] == [None] * 4
    assert [entry.contacted for entry in progress.rounds] == [0, 2, 3, 1]
    assert progress.rounds[1].responders > 0
    assert (progress.closed.rounds, progress.closed.expected, progress.calibration) == (2, None, None)
    assert progress.closed.responders == progress.rounds[1].responders + progress.rounds[2].responders
    assert [group.believed for group in progress.products] == [None]
    assert "responders" in repr(progress)


def test_a_late_response_changes_its_round():
    campaign = small_campaign()
    ask = campaign.ask("tea", 3)
    campaign.close(ask.id)
    assert campaign.progress().rounds[0].responders == 0
    source, target = next(pair for pair in out_pairs(campaign, ask.seeds) if pair[1] not in ask.seeds)
    campaign.tell(ask.id, [{"source": source, "target": target, "outcome": 1}])
    assert campaign.progress().rounds[0].responders == 1


def test_the_lift_is_that_of_lift_or_says_what_it_lacks():
    campaign, _ = played()
    assert campaign.progress().lift == campaign.lift()
    assert campaign.progress().lift_missing is None
    campaign = small_campaign()
    campaign.ask("tea", 3)
    progress = campaign.progress()
    with pytest.raises(StateError) as missing:
        campaign.lift()
    assert (progress.lift, progress.lift_missing) == (None, str(missing.value))
    assert "(" not in progress.lift_missing, "every door shows it as it is"
    campaign.ask("tea", 4, holdout=0.5)
    assert "none were told in rounds with a hold-out" in campaign.progress().lift_missing


def test_progress_reads_once_and_learns_nothing(tmp_path, monkeypatch):
    campaign = small_campaign(f"sqlite:///{tmp_path / 'c.db'}", policy=TensorUCB())
    for _ in range(3):
        ask = campaign.ask("tea", 3)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    campaign.disconnect()
    with load_campaign("spring", storage=f"sqlite:///{tmp_path / 'c.db'}") as again:
        learned, bind = [], TensorUCB.bind
        monkeypatch.setattr(TensorUCB, "bind", lambda *arguments: learned.append(None) or bind(*arguments))
        sessions, read = [], again.store.read
        again.store.read = lambda: sessions.append(None) or read()
        progress = again.progress()
        assert len(sessions) == 1
        assert progress.closed.rounds == 3
        assert not learned
        assert progress.behind == again.status().behind
        again.ask("tea", 3)
        assert learned  # whoever learns binds first


def test_forgotten_users_are_gone_from_the_counts(tmp_path):
    campaign = small_campaign(f"sqlite:///{tmp_path / 'c.db'}", **STRATEGIES)
    ask = campaign.ask("tea", 4, strategies="all", per_user=True)
    campaign.tell(ask.id, answers(campaign, ask, every=1))
    campaign.close(ask.id)
    campaign.forget(ask.seeds[0])
    progress = campaign.progress()
    assert progress.contacted == 3
    assert ask.seeds[0] not in {group.id for group in progress.users}
    assert sum(group.contacts for group in progress.strategies) == 3


def test_counts_that_are_stored_are_those_of_the_log(tmp_path):
    """Also after late responses, a person forgotten and damage, whoever counts."""
    path = tmp_path / "c.db"
    storage = f"sqlite:///{path}"
    campaign = small_campaign(storage, **STRATEGIES)
    asks = []
    for i in range(60):
        ask = campaign.ask(("tea", "soap")[i % 2], 3, strategies="all", per_user=True)
        campaign.tell(ask.id, answers(campaign, ask)[:4])
        campaign.cancel(ask.id) if i == 5 else campaign.close(ask.id)
        asks.append(ask)

    def counted(store=storage):
        with load_campaign("spring", storage=store) as fresh:
            return fresh.progress()

    def counted_from_the_log():
        copy = f"sqlite:///{tmp_path / 'copy.db'}"
        (tmp_path / "copy.db").unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(tmp_path / "copy.db")) as database:
            here.backup(database)
            assert database.execute("UPDATE tensorucb_blob SET data = x'00' WHERE name = 'tally'").rowcount == stored
            database.commit()
        return counted(copy)

    stored = 1
    assert counted() == counted_from_the_log() == campaign.progress()
    campaign.tell(asks[2].id, [{"user": campaign.graph.ids[0].item(), "time": asks[2].opened + 1.0}])
    campaign.tell(asks[2].id, answers(campaign, asks[2], every=1))
    assert counted() == counted_from_the_log() == campaign.progress()
    campaign.forget(asks[0].seeds[0])
    stored = 0
    assert counted() == counted_from_the_log() == campaign.progress()
    campaign.close(campaign.ask("tea", 2, strategies="all").id)
    stored = 1
    assert counted() == counted_from_the_log() == campaign.progress()
    campaign.disconnect()


def test_a_copy_counts_its_rounds_itself():
    """Its log has no events of what was learned, so that a late response may have the number of an earlier count."""
    campaign = small_campaign(policy=HighDegree())
    asks = []
    for _ in range(50):
        asks.append(campaign.ask("tea", 1))
        campaign.close(asks[-1])
    for ask in reversed(asks):
        source, target = out_pairs(campaign, ask.contacted)[0]
        campaign.tell(ask, [{"source": source, "target": target, "outcome": 1}])
    copy_campaign("spring", "rehearsal", storage=campaign.store)
    copy = load_campaign("rehearsal", storage=campaign.store)
    assert [line.responders for line in copy.progress().rounds] == [1] * 50


def test_counts_that_another_process_has_stored_are_not_stored_again(tmp_path):
    storage = f"sqlite:///{tmp_path / 'c.db'}"

    def stored():
        with campaign.store.read() as session:
            return session.blob(1, "tally")

    with small_campaign(storage, policy=HighDegree()) as campaign, load_campaign("spring", storage=storage) as other:
        other.close(other.ask("tea", 1))
        for _ in range(50):
            campaign.close(campaign.ask("tea", 1))
        before = stored()
        assert before is not None
        other.close(other.ask("tea", 1))
        assert stored() == before
        assert other.progress().closed.rounds == 52


def test_counts_are_stored_though_another_thread_has_replaced_what_is_remembered(monkeypatch):
    campaign = small_campaign(policy=HighDegree())
    for _ in range(49):
        campaign.close(campaign.ask("tea", 1))
    last = campaign.ask("tea", 1)
    monkeypatch.setattr(campaign._handle.memory, "get", lambda *_, **__: None)
    assert campaign.close(last).status == "closed"
    with campaign.store.read() as session:
        assert "tally" in session.blobs(1)


def test_an_empty_campaign_has_a_progress_too():
    progress = small_campaign().progress()
    assert (progress.rounds, progress.products, progress.users, progress.spend) == ((), (), (), None)
    assert (progress.closed.rounds, progress.closed.expected, progress.calibration) == (0, None, None)


def test_the_interval_of_the_calibration_is_exact():
    """Rounds to which everybody responds, or nobody: none, some and all of their intervals held."""
    shares = set()
    for everybody in (lambda number: True, lambda number: False, lambda number: number % 3 == 0):
        campaign = small_campaign(policy=HighDegree())
        for number in range(8):
            ask = campaign.ask("tea", 3)
            if everybody(number):
                pairs = out_pairs(campaign, ask.contacted)
                campaign.tell(ask.id, [{"source": s, "target": t, "outcome": 1} for s, t in pairs])
            campaign.close(ask.id)
            progress = campaign.progress()
            found, held = progress.calibration, sum(entry.within for entry in progress.rounds)
            exact = binomtest(held, number + 1).proportion_ci(confidence_level=0.9, method="exact")
            assert (found.held, found.rounds, found.share) == (held, number + 1, held / (number + 1))
            assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
            shares.add(found.share)
    assert {0.0, 1.0} < shares


def test_what_python_prints_is_one_line_each():
    campaign, told = played()
    ask = told[-1][0]
    report = campaign.tell(ask.id, [{**told[-1][1][0], "outcome": 1 - told[-1][1][0]["outcome"]}])
    things = [campaign, ask, campaign.status(), campaign.progress(), campaign.lift(), report, campaign.graph]
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) <= 200, repr(thing)
        assert repr(thing).startswith(f"{type(thing).__name__}(")
    assert repr(report).startswith("TellReport(accepted=0, duplicates=0, contradictions=1")
    assert repr(ask.id) in repr(ask)
    assert f"{ask.reach.low:,.0f} to {ask.reach.high:,.0f}" in repr(ask)
    assert "behind" not in repr(campaign.status())


def test_a_notebook_shows_tables_whatever_ids_hold():
    hostile = "<script>alert(1)</script>"
    graph = Graph.from_edges([hostile, hostile, "b"], ["b", "c", "c"])
    products = {"<b>tea</b>": [1.0, 0.0]}
    campaign = small_campaign(graph=graph, policy=HighDegree(), products=products, **STRATEGIES)
    ask = campaign.ask("<b>tea</b>", 1, strategies=["mail"])
    for shown in (ask._repr_html_(), campaign.progress()._repr_html_()):
        assert shown.startswith("<table>")
        assert "<script" not in shown
        assert "<b>" not in shown
        assert "&lt;b&gt;tea" in shown
    assert f"<td>1</td><td>{hostile.replace('<', '&lt;').replace('>', '&gt;')}</td><td>mail</td>" in ask._repr_html_()


def test_whole_numbers_are_ids_too():
    campaign = small_campaign(graph=small_graph(strings=False), products={7: [1.0, 0.0], 8: [0.0, 1.0]})
    ask = campaign.ask(7, 2)
    campaign.close(ask.id)
    progress = campaign.progress()
    assert [type(group.id) for group in (*progress.products, *progress.users)] == [int, int, int]


def test_what_is_kept_between_calls_changes_no_count(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(storage, window="100s", clock=Clock(1000.0), **STRATEGIES)
    rng, everybody = np.random.default_rng(5), campaign.graph.ids.tolist()

    def same():
        with load_campaign("spring", storage=storage, clock=campaign.clock) as fresh:
            assert campaign.progress() == fresh.progress()

    asks = []
    for number in range(8):
        ask = campaign.ask("tea" if number % 2 else "soap", 5, strategies="all", per_user=True)
        campaign.clock.now += 5.0
        campaign.tell(ask.id, actions(campaign, everybody, rng))
        asks.append(ask)
        same()
        if number in (2, 5):
            campaign.cancel(ask.id)
        elif number != 6:
            campaign.close(ask.id)
        same()
    campaign.tell(asks[1].id, actions(campaign, everybody, rng))  # late
    same()
    campaign.close(asks[6].id)
    same()
    campaign.forget(asks[0].seeds[0])
    same()
