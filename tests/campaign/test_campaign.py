from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign import moments
from campaign.reference import credit, learned
from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import copy_campaign, create_campaign, list_campaigns, load_campaign
from tensorucb.errors import InputError, ShapeError, StateError, UnknownIdError
from tensorucb.policies import HighDegree, LinUCB, Random, TensorUCB, Thompson
from tensorucb.store import open_store


def test_the_model_is_the_fold_of_the_closed_rounds_in_the_order_asked():
    campaign = small_campaign(window="50s", credit="shared")
    graph = campaign.graph
    asks = [campaign.ask(product, 3) for product in ("tea", "soap", "tea")]
    told = {ask.id: answers(campaign, ask) for ask in asks}
    acted = {ask.id: [(graph.ids[i].item(), 1000.0 + 10 * i) for i in range(8)] for ask in asks}
    for ask in (asks[2], asks[0], asks[1]):
        campaign.tell(ask.id, told[ask.id])
        campaign.tell(ask.id, [{"user": user, "time": time} for user, time in acted[ask.id]])
        campaign.close(ask.id)

    policy = LinUCB()
    users = np.random.default_rng(1).normal(size=(graph.n_nodes, 3))
    policy.bind(graph, users, np.random.default_rng([0, 0]))
    greedy = LinUCB(exploration=0.0)
    greedy.bind(graph, users, np.random.default_rng([0, 0]))
    everything = out_pairs(campaign, graph.ids.tolist())
    for ask, product in zip(asks, ([1.0, 0.0], [0.0, 1.0], [1.0, 0.0]), strict=True):
        pairs = [pair for pair in everything if pair[0] in ask.contacted]
        p = dict(zip(everything, greedy.score(product).tolist(), strict=True))
        shares = credit("shared", pairs, acted[ask.id], 1000.0, 50, p)
        outcomes = {(r["source"], r["target"]): float(r["outcome"]) for r in told[ask.id]}
        expected = learned(everything, ask.contacted, outcomes, shares)
        edges = graph.edge_rows([s for s, _ in expected], [t for _, t in expected])
        policy.update(product, edges, list(expected.values()))
        greedy.update(product, edges, list(expected.values()))
    expected = policy.prediction([1.0, 0.0]).expected()
    np.testing.assert_allclose(campaign.probabilities("tea"), expected, rtol=1e-6)


def test_silence_is_no_only_when_the_round_closes():
    campaign = small_campaign()
    start = campaign.model_hash()
    ask = campaign.ask("tea", 3)
    campaign.tell(ask.id, answers(campaign, ask))
    assert campaign.model_hash() == start
    closed = campaign.close(ask.id)
    assert closed.status == "closed"
    after = campaign.model_hash()
    assert after != start
    events = campaign.status().events
    campaign.close(ask.id)
    assert (campaign.model_hash(), campaign.status().events) == (after, events)


def test_late_responses_are_learned_as_if_they_had_come_in_time(caplog):
    def run(late):
        campaign = small_campaign()
        asks = [campaign.ask("tea", 3) for _ in range(8)]
        for i, ask in enumerate(asks):
            if not (late and i == 1):
                campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
        if late:
            campaign.model_hash()
            report = campaign.tell(asks[1].id, answers(campaign, asks[1]))
            assert report.late == report.accepted > 0
        return campaign

    timely = run(False)
    with caplog.at_level("INFO", "tensorucb.campaign"):
        late = run(True)
    assert late.model_hash() == timely.model_hash()
    # Seven of eight rounds come after the second one; a snapshot at three is no longer valid, none is older.
    assert caplog.messages[-1].endswith("8 rounds learned")


def test_a_late_yes_after_silence_is_no_contradiction():
    campaign = small_campaign()
    ask = campaign.ask("tea", 3)
    campaign.close(ask.id)
    silent = campaign.model_hash()
    row = {**answers(campaign, ask)[0], "outcome": 1}
    assert campaign.tell(ask.id, [row]).contradictions == ()
    assert campaign.model_hash() != silent


def with_acts():
    """A campaign with three rounds, and all that is then told and closed."""
    # Its updates do not commute, and shared credit depends on what was learned before: the order matters.
    campaign = small_campaign(graph=small_graph(12, 40), policy=TensorUCB(rank=2), credit="shared")
    acts = []
    for ask in [campaign.ask("tea", 2), campaign.ask("soap", 2), campaign.ask("tea", 3)]:
        rows = answers(campaign, ask)
        acts += [("tell", ask.id, rows[i : i + 3]) for i in range(0, len(rows), 3)]
        acts.append(("tell", ask.id, [{"user": campaign.graph.ids[4].item(), "time": 1003.0, "event_id": ask.id}]))
        acts.append(("close", ask.id, None))
    return campaign, acts


def act_out(campaign, acts):
    for kind, round_id, rows in acts:
        if kind == "tell":
            assert campaign.tell(round_id, rows).contradictions == ()
        else:
            campaign.close(round_id)
    return campaign.model_hash()


@pytest.fixture(scope="module")
def hash_in_order():
    return act_out(*with_acts())


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_permutation_with_duplicates_ends_in_the_same_model(hash_in_order, data):
    shuffled, acts = with_acts()
    again = data.draw(st.lists(st.sampled_from(range(len(acts))), max_size=10))
    order = data.draw(st.permutations([*range(len(acts)), *again]))
    assert act_out(shuffled, [acts[i] for i in order]) == hash_in_order


def test_rounds_cancel_expire_and_stay_what_they_are():
    clock = Clock()
    campaign = small_campaign(clock=clock, window="100s")
    first, second, third = (campaign.ask("tea", 2) for _ in range(3))
    assert first.deadline == 1100.0
    assert campaign.cancel(second.id).status == "cancelled"
    assert campaign.cancel(second.id).status == "cancelled"
    with pytest.raises(StateError, match="cancelled"):
        campaign.tell(second.id, answers(campaign, second))
    with pytest.raises(StateError, match="cancelled"):
        campaign.close(second.id)
    clock.now = 1100.0
    assert campaign.round(first.id).status == "open"
    report = campaign.tell(first.id, answers(campaign, first))
    assert report.late == report.accepted
    assert [r.status for r in campaign.rounds()] == ["closed", "cancelled", "closed"]
    assert campaign.expire() == []
    with pytest.raises(StateError, match="closed"):
        campaign.cancel(third.id)
    alone = campaign.ask("tea", 2, deadline=1200.0)
    assert campaign.expire(now=1300.0) == [alone.id]


def test_asking_again_with_the_same_request_gives_the_same_round():
    campaign = small_campaign()
    first = campaign.ask("tea", 3, request_id="monday")
    assert campaign.ask("tea", 3, request_id="monday") == first
    assert len(campaign.rounds()) == 1
    with pytest.raises(InputError, match="other values of k"):
        campaign.ask("tea", 4, request_id="monday")


def test_two_objects_on_one_store_see_each_other():
    store = open_store("memory://")
    one = small_campaign(store)
    two = load_campaign("spring", storage=store, clock=Clock())
    asks = [one.ask("tea", 3), two.ask("tea", 3), one.ask("soap", 3)]
    assert [ask.number for ask in asks] == [1, 2, 3]
    two.tell(asks[0].id, answers(two, asks[0]))
    two.close(asks[0].id)
    one.close(asks[2].id)
    assert one.model_hash() == two.model_hash() == one.replay_hash()


def test_an_ask_that_meets_another_writer_is_computed_again(monkeypatch):
    store = open_store("memory://")
    one = small_campaign(store)
    other = load_campaign("spring", storage=store, clock=Clock())
    propose, proposed, meddled = moments.ask.propose, [], []

    def meddle(draft):
        proposal = propose(draft)
        if draft.view.handle is one._handle:
            proposed.append(proposal)
            if len(meddled) < 3:
                meddled.append(other.ask("soap", 1))
        return proposal

    monkeypatch.setattr(moments.ask, "propose", meddle)
    assert one.ask("tea", 3).number == 4
    proposed.clear()
    assert one.ask("tea", 3).number == 5
    assert len(proposed) == 1


def test_an_ask_reads_once_and_writes_once(monkeypatch):
    clock, sessions = Clock(), []
    store = open_store("memory://")
    campaign = small_campaign(store, clock=clock)
    for kind in ("read", "write"):
        plain = getattr(store, kind)
        monkeypatch.setattr(store, kind, lambda kind=kind, plain=plain: (sessions.append(kind), plain())[1])
    campaign.ask("tea", 3, deadline=clock.now + 10)
    assert sessions == ["read", "write"]
    sessions.clear()
    clock.now += 20
    campaign.ask("tea", 3)
    # A due round is closed in a session of its own, and what was learned of it is written down in another.
    assert sessions == ["read", "write", "read", "write", "write"]


def test_an_ask_among_ever_busy_writers_gets_its_turn(monkeypatch):
    store = open_store("memory://")
    campaign = small_campaign(store)
    monkeypatch.setattr(moments.ask, "_still_next", lambda *_: False)
    assert campaign.ask("tea", 3).number == 1


def test_a_reloaded_campaign_needs_only_the_address(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url, costs=np.ones(30), groups=["a", "b"] * 15) as campaign:
        ask = campaign.ask("tea", 3, quotas=2)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
        expected = campaign.model_hash(), campaign.graph, campaign.rounds(), campaign.products()
        explained = str(ask.explain())
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        assert (again.model_hash(), again.graph, again.rounds(), again.products()) == expected
        assert str(again.explain(ask.id)) == explained
    assert [info.name for info in list_campaigns(url)] == ["spring"]


def test_names_that_exist_or_do_not(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url)
    campaign.ask("tea", 1)
    with pytest.raises(InputError, match="already"):
        small_campaign(url)
    assert small_campaign(url, load_if_exists=True).status().rounds == 1
    with pytest.raises(UnknownIdError, match=r"no campaign 'autumn'.*spring"):
        load_campaign("autumn", storage=url)
    with pytest.raises(InputError, match="name must be 1 to 100 letters"):
        small_campaign(url, name=" ")


def test_copies_have_the_same_model_and_go_their_own_way(tmp_path):
    store = open_store("memory://")
    campaign = small_campaign(store)
    for i in range(5):
        ask = campaign.ask("tea", 3)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.tell(ask.id, [{"user": "person-001", "time": 1001.0, "event_id": f"n{i}"}])
        if i != 2:
            campaign.close(ask.id)
    copy_campaign("spring", "twin", storage=store)
    url = f"sqlite:///{tmp_path}/c.db"
    copy_campaign("spring", "spring", storage=store, to=url)
    twin, moved = (
        load_campaign("twin", storage=store, clock=Clock()),
        load_campaign("spring", storage=url, clock=Clock()),
    )
    assert twin.model_hash() == moved.model_hash() == campaign.model_hash()
    assert [r.seeds for r in moved.rounds()] == [r.seeds for r in campaign.rounds()]
    before = campaign.model_hash()
    twin.close(twin.rounds()[2].id)
    assert campaign.model_hash() == before != twin.model_hash()
    with pytest.raises(InputError, match="another name"):
        copy_campaign("spring", "spring", storage=store)


def test_policies_of_another_package_are_passed_again():
    class Mine(HighDegree):
        pass

    store = open_store("memory://")
    campaign = small_campaign(store, policy=Mine())
    ask = campaign.ask("tea", 2)
    campaign.close(ask.id)
    with pytest.raises(StateError, match="Load it in Python"):
        load_campaign("spring", storage=store)
    with pytest.raises(InputError, match="created with policy"):
        load_campaign("spring", storage=store, policy=HighDegree())
    again = load_campaign("spring", storage=store, policy=Mine())
    assert again.model_hash() == campaign.model_hash() == campaign.replay_hash()
    with pytest.raises(InputError, match="policy object"):
        small_campaign(policy=HighDegree)
    with create_campaign("x", graph=small_graph(), policy=LinUCB(), storage="memory://") as plain:
        assert len(plain.ask(k=2).seeds) == 2  # degrees and an eigenmap stand for features


@pytest.mark.parametrize("policy", [TensorUCB(rank=2), Random(), HighDegree(), Thompson(), LinUCB(exploration=0.5)])
def test_policies_go_on_after_a_snapshot_bit_for_bit(policy):
    store = open_store("memory://")
    campaign = small_campaign(store, policy=policy)
    for _ in range(4):
        ask = campaign.ask("tea", 3)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    again = load_campaign("spring", storage=store, clock=Clock())
    assert again.model_hash() == campaign.model_hash() == campaign.replay_hash()
    assert again._handle.model.replayed == 1
    assert again.ask("soap", 4).seeds == load_campaign("spring", storage=store).round(again.rounds()[-1].id).seeds


def test_users_and_products_may_join_at_any_time():
    campaign = small_campaign(costs=np.ones(30))
    ask = campaign.ask("tea", 3)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    n, m = campaign.graph.n_nodes, campaign.graph.n_edges
    features = np.zeros((2, 3))
    seed = ask.seeds[0]
    campaign.add_users(["new-1", "new-2"], features, ["new-1", seed], ["new-2", "new-1"], costs=[1.0, 2.0])
    assert (campaign.graph.n_nodes, campaign.graph.n_edges) == (n + 2, m + 2)
    (record,) = campaign._handle.ledger.rounds.values()
    assert record.contexts()[0].tolist() == [1.0, 0.0]
    # The old round does not take the silence of the new edge for a "no": as many edges are learned as before.
    assert campaign.explain(ask.id, "new-1").status == "not_there_yet"
    assert campaign.model_hash() == campaign.replay_hash()
    again = campaign.ask("soap", 2, must_include=["new-1"])
    assert campaign.tell(again.id, [{"source": "new-1", "target": "new-2", "outcome": 1}]).accepted == 1
    campaign.close(again.id)
    late = campaign.tell(ask.id, [{"source": seed, "target": "new-1", "outcome": 1}])
    assert late.late == 1

    campaign.add_products(["jam"], [[0.5, 0.5]])
    campaign.add_products(["jam"], [[0.5, 0.5]])
    assert campaign.ask("jam", 1).product == "jam"
    assert campaign.ask(np.array([0.2, 0.8]), 1).product is None
    with pytest.raises(InputError, match="other features"):
        campaign.add_products(["jam"], [[0.5, 0.6]])
    with pytest.raises(UnknownIdError, match="'gin'"):
        campaign.ask("gin", 1)
    with pytest.raises(ShapeError):
        campaign.add_products(["gin"], [[1.0]])
    with pytest.raises(InputError, match="in the campaign already"):
        campaign.add_users(["new-1"], [[0, 0, 0]], costs=[1.0])
    with pytest.raises(InputError, match="need them"):
        campaign.add_users(["new-3"], [[0, 0, 0]])
    with pytest.raises(UnknownIdError):
        campaign.add_users(["new-3"], [[0, 0, 0]], ["who"], ["new-3"], costs=[1.0])
    with pytest.raises(InputError, match="itself"):
        campaign.add_users([], None, ["new-1"], ["new-1"])


def test_the_silence_of_a_new_edge_is_not_learned_by_an_old_round():
    def counts(grow_first):
        campaign = small_campaign(policy=Thompson())
        seed = "person-000"

        def grow():
            campaign.add_users(["new-1"], np.zeros((1, 3)), [seed], ["new-1"])

        if grow_first:
            grow()
        ask = campaign.ask("tea", 3, must_include=[seed])
        campaign.close(ask.id)
        if not grow_first:
            grow()
        campaign.model_hash()
        edge = int(campaign.graph.edge_rows([seed], ["new-1"])[0])
        return campaign._handle.model.policy.state().arrays["failures"][edge]

    assert counts(grow_first=True) == 1.0
    assert counts(grow_first=False) == 0.0


def test_a_history_without_rows_teaches_nothing():
    campaign = small_campaign()
    report = campaign.import_history([])
    assert (report.rounds, report.responses) == (0, 0)
    assert campaign.rounds() == ()


def test_history_comes_first_and_once():
    campaign = small_campaign(policy=Thompson())
    ask = campaign.ask("tea", 3)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    pairs = out_pairs(campaign, campaign.graph.ids.tolist()[:5])
    rows = [
        {"source": s, "target": t, "outcome": i % 2, "product": ("tea", "soap")[i % 2], "round": i % 3}
        for i, (s, t) in enumerate(pairs)
    ]
    report = campaign.import_history(rows)
    assert (report.rounds, report.responses, report.known_rounds) == (6, len(rows), 0)
    again = campaign.import_history(list(reversed(rows)))
    assert (again.rounds, again.responses, again.known_rounds) == (0, 0, 6)
    assert campaign.model_hash() == campaign.replay_hash()
    state = campaign._handle.model.policy.state()
    assert state.settings["rounds"] == 7
    told = campaign.graph.edge_rows([s for s, _ in pairs], [t for _, t in pairs])
    tried = state.arrays["successes"] + state.arrays["failures"]
    silent = np.setdiff1d(np.arange(campaign.graph.n_edges), told)
    contacted = campaign.graph.out_edges(campaign.graph.rows(list(ask.contacted)))
    assert tried[told].min() >= 1
    assert tried[np.setdiff1d(silent, contacted)].max() == 0
    with pytest.raises(StateError, match="imported history"):
        campaign.tell(campaign.rounds()[1].id, rows[:1])
    with pytest.raises(StateError, match="imported history"):
        campaign.explain(campaign.rounds()[1].id)
    with pytest.raises(InputError, match=r"lines 1 and 2 .* 0 and 1 of one edge"):
        campaign.import_history([{**rows[0], "outcome": 0}, {**rows[0], "outcome": 1}])
    with pytest.raises(InputError, match="'product'"):
        campaign.import_history([{k: v for k, v in rows[0].items() if k != "product"}])
    assert campaign.import_history(rows[:2], product=[0.3, 0.7]).rounds == 2


@pytest.mark.parametrize("together", [True, False])
def test_history_of_products_that_are_described_alike_is_kept_of_both(together):
    campaign = small_campaign(products={"red mug": [1.0, 0.0], "blue mug": [1.0, 0.0]})
    source, target = out_pairs(campaign, campaign.graph.ids.tolist()[:5])[0]
    rows = [
        {"source": source, "target": target, "outcome": 1, "product": name, "round": label}
        for name in ("red mug", "blue mug")
        for label in (None, "None")
    ]
    reports = [campaign.import_history(part) for part in ([rows] if together else [[row] for row in rows])]
    assert sum(report.rounds for report in reports) == 4
    assert sum(report.known_rounds for report in reports) == 0
    assert sorted(entry.product for entry in campaign.rounds()) == ["blue mug", "blue mug", "red mug", "red mug"]
    again = campaign.import_history(rows)
    assert (again.rounds, again.known_rounds) == (0, 4)
    # A number and the same number as text are one name of a past round.
    more = [{**rows[0], "round": 7}, {**rows[0], "round": "7"}]
    assert campaign.import_history(more).rounds == 1


def test_a_log_of_products_that_are_described_alike_is_kept_of_both():
    campaign = small_campaign(products={"red mug": [1.0, 0.0], "blue mug": [1.0, 0.0]})
    source, target = out_pairs(campaign, campaign.graph.ids.tolist()[:5])[0]
    for name in ("red mug", "blue mug"):
        log = {"user": [source, target], "item": [name, name], "time": [0.0, 60.0]}
        assert campaign.import_history(log, window="1d").rounds == 1
        assert campaign.import_history(log, window="1d").known_rounds == 1


def test_export_holds_everything_by_id(tmp_path):
    import polars as pl

    campaign = small_campaign()
    ask = campaign.ask("tea", 4, holdout=0.25)
    rows = answers(campaign, ask)
    campaign.tell(ask.id, rows)
    campaign.tell(ask.id, [{"user": "person-002", "time": 1001.0}])
    *paths, manifest = campaign.export(tmp_path / "out")
    files = {path.stem: pl.read_parquet(path) for path in paths}
    assert manifest.name == "manifest.json"
    assert files["rounds"]["round"].to_list() == [ask.id]
    told = files["responses"].sort("source", "target").select("source", "target", "outcome").rows()
    assert told == sorted((r["source"], r["target"], float(r["outcome"])) for r in rows)
    assert files["node_events"].select("user", "time").rows() == [("person-002", 1001.0)]
    roles = files["seeds"].filter(pl.col("role") == "held_out")["user"].to_list()
    assert roles == list(ask.held_out)
    assert files["users"].height == 30
    assert files["edges"].height == campaign.graph.n_edges
    assert files["products"]["product"].to_list() == ["tea", "soap"]
    assert files["events"]["kind"].to_list() == ["created", "asked", "told", "told"]
    empty = small_campaign(graph=small_graph(strings=False))
    assert len(empty.export(tmp_path / "empty")) == 11


def test_two_objects_that_tell_one_round_in_turn_never_count_twice():
    store = open_store("memory://")
    one = small_campaign(store)
    two = load_campaign("spring", storage=store, clock=Clock())
    ask = one.ask("tea", 4)
    rows = [*answers(one, ask), *({"user": f"person-{i:03d}", "time": 1001.0 + i % 3} for i in range(10))]
    seen = set()
    for turn in range(3 * len(rows)):
        teller, batch = (one, two)[turn % 2], [rows[(5 * turn + i) % len(rows)] for i in range(3)]
        new = {str(row) for row in batch} - seen
        report = teller.tell(ask.id, batch)
        assert (report.accepted, report.duplicates) == (len(new), 3 - len(new))
        seen |= new
        if turn % 10 == 5:
            with pytest.raises(InputError):
                teller.tell(ask.id, [*batch, {"user": "nobody", "time": 1.0}], strict=True)
    assert len(seen) == len(rows)
    clash = two.tell(ask.id, [{**rows[0], "outcome": 1 - rows[0]["outcome"]}])
    assert len(clash.contradictions) == 1


def test_a_product_of_another_size_is_refused_before_it_is_written():
    campaign = small_campaign()
    with pytest.raises(ShapeError, match="3 features, but the products of the catalogue have 2"):
        campaign.ask([1.0, 2.0, 3.0], 2)
    with pytest.raises(ShapeError, match="1 features"):
        campaign.probabilities([1.0])
    s, t = out_pairs(campaign, campaign.graph.ids.tolist())[0]
    row = {"source": s, "target": t, "outcome": 1}
    with pytest.raises(ShapeError, match="3 features"):
        campaign.import_history([row], product=[1.0, 2.0, 3.0])
    assert campaign.rounds() == ()

    bare = small_campaign(products=None)
    first = bare.ask([1.0, 2.0, 3.0], 2)
    for refused in (lambda: bare.ask([1.0, 2.0], 2), lambda: bare.ask([[1.0, 2.0, 3.0], [1.0]], 2)):
        with pytest.raises(ShapeError, match="the rounds of this campaign have 3"):
            refused()
    with pytest.raises(ShapeError, match="have 3"):
        bare.add_products(["tea"], [[1.0, 0.0]])
    with pytest.raises(ShapeError, match="have 3"):
        bare.import_history([row], product=[1.0, 2.0])
    # A cancelled round is never learned, so it binds nobody.
    bare.cancel(first.id)
    bare.close(bare.ask([1.0, 2.0], 2).id)
    assert bare.model_hash() == bare.replay_hash()


def test_sizes_are_checked_again_where_nobody_else_can_write(monkeypatch):
    store = open_store("memory://")
    one = small_campaign(store, products=None)
    other = load_campaign("spring", storage=store, clock=Clock())
    propose = moments.ask.propose

    def meddle(*arguments):
        proposal = propose(*arguments)
        if not other.products():
            other.add_products(["tea"], [[1.0, 0.0]])
        return proposal

    monkeypatch.setattr(moments.ask, "propose", meddle)
    with pytest.raises(ShapeError, match="the catalogue have 2"):
        one.ask([1.0, 2.0, 3.0], 2)
    assert one.rounds() == ()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_two_who_create_one_campaign_at_once_both_get_it(tmp_path, monkeypatch, kind):
    write = moments.create._write

    def outrun(*arguments):
        write(*arguments)
        write(*arguments)

    monkeypatch.setattr(moments.create, "_write", outrun)
    store = open_store("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/c.db", create=True)
    campaign = small_campaign(store, load_if_exists=True)
    assert campaign.ask("tea", 2).number == 1
    assert len(list_campaigns(store)) == 1
    with pytest.raises(InputError, match="already"):
        small_campaign(store, name="autumn")
    store.close()


def test_deadlines_are_seconds_datetimes_or_from_now():
    campaign = small_campaign()
    for deadline in (1060, "1060", np.float64(1060.0), timedelta(minutes=1), datetime.fromtimestamp(1060, UTC)):
        assert campaign.ask("tea", 2, deadline=deadline).deadline == 1060.0
    for wrong in ("tomorrow", float("nan"), float("inf"), True, [1060.0]):
        with pytest.raises(InputError, match="deadline must be"):
            campaign.ask("tea", 2, deadline=wrong)
    assert len(campaign.rounds()) == 5


WRITERS = {
    "close": lambda campaign, other, edge: campaign.close(other),
    "cancel": lambda campaign, other, edge: campaign.cancel(other),
    "add_users": lambda campaign, other, edge: campaign.add_users([], None),
    "add_products": lambda campaign, other, edge: campaign.add_products(["milk"], [[0.5, 0.5]]),
    "import_history": lambda campaign, other, edge: campaign.import_history([edge], product="tea"),
    "forget": lambda campaign, other, edge: campaign.forget("person-007"),
}


@pytest.mark.parametrize("call", WRITERS)
def test_every_writing_call_closes_the_rounds_that_are_due(call):
    clock = Clock()
    campaign = small_campaign(clock=clock)
    due, other = campaign.ask("tea", 2, deadline=1010.0), campaign.ask("tea", 2)
    s, t = out_pairs(campaign, ["person-001"])[0]
    clock.now = 1020.0
    WRITERS[call](campaign, other.id, {"source": s, "target": t, "outcome": 1})
    ended = campaign.round(due.id)
    assert (ended.status, ended.closed) == ("closed", 1010.0)


def test_a_round_past_its_deadline_cannot_be_cancelled():
    clock = Clock()
    campaign = small_campaign(clock=clock)
    due = campaign.ask("tea", 2, deadline=1010.0)
    clock.now = 1020.0
    with pytest.raises(StateError, match="its deadline has passed"):
        campaign.cancel(due.id)
    # What is refused changes nothing, not even this; the next call closes it.
    assert campaign.round(due.id).status == "open"
    campaign.ask("soap", 2)
    assert campaign.round(due.id).status == "closed"


def test_numbers_of_an_ask_may_be_numpys_and_must_be_numbers():
    campaign = small_campaign()
    assert len(campaign.ask("tea", np.int64(2), request_id="a").seeds) == 2
    assert campaign.ask("tea", 2, request_id="a").number == 1
    for name, wrong in (("holdout", "x"), ("holdout", 1.0), ("holdout", -0.1), ("epsilon", "x"), ("epsilon", 0)):
        with pytest.raises(InputError, match=name):
            campaign.ask("tea", 2, **{name: wrong})
    for wrong in ("2", 2.0, 0, True):
        with pytest.raises(InputError, match="k must be a whole number"):
            campaign.ask("tea", wrong)
    with pytest.raises(InputError, match="epsilon"):
        small_campaign(epsilon="x")


def test_history_without_the_rows_of_somebody_forgotten_is_known():
    campaign = small_campaign()
    pairs = out_pairs(campaign, campaign.graph.ids.tolist()[:5])
    rows = [{"source": s, "target": t, "outcome": i % 2, "round": i % 2} for i, (s, t) in enumerate(pairs)]
    assert campaign.import_history(rows, product="tea").rounds == 2
    campaign.forget("person-001")
    before = campaign.model_hash()
    rest = [row for row in rows if "person-001" not in (row["source"], row["target"])]
    assert len(rest) < len(rows)
    again = campaign.import_history(rest, product="tea")
    assert (again.rounds, again.known_rounds) == (0, 2)
    assert campaign.model_hash() == before
    assert campaign.import_history(rest, product="soap").rounds == 2


def test_a_copy_gives_its_rounds_ids_of_its_own():
    store = open_store("memory://")
    campaign = small_campaign(store)
    campaign.ask("tea", 2)
    copy_campaign("spring", "autumn", storage=store)
    copied = load_campaign("autumn", storage=store, clock=Clock())
    ours, theirs = campaign.ask("tea", 2), copied.ask("tea", 2)
    assert ours.number == theirs.number == 2
    assert ours.id != theirs.id


@contextmanager
def _statements(store):
    """What is sent to the database within the block."""
    sent = []

    def note(connection, cursor, statement, parameters, context, executemany):
        sent.append(statement)

    sa.event.listen(store._engine, "before_cursor_execute", note)
    yield sent
    sa.event.remove(store._engine, "before_cursor_execute", note)


def test_a_list_of_campaigns_reads_no_rounds():
    store = open_store("memory://")
    counts = []
    for number in range(1, 4):
        with small_campaign(store, name=f"c{number}") as campaign:
            for _ in range(number):
                campaign.ask("tea", 2)
            campaign.close(1)
            campaign.cancel(campaign.ask("tea", 2).id)
        with _statements(store) as sent:
            listed = list_campaigns(store)
        counts.append(len(sent))
        assert not any("payload" in statement for statement in sent)
        assert [(info.rounds, info.open) for info in listed] == [(n + 1, n - 1) for n in range(1, number + 1)]
    assert len(set(counts)) == 1


def test_a_new_request_id_costs_no_look_at_the_rounds():
    campaign = small_campaign()
    first = campaign.ask("tea", 2, request_id="first")
    with _statements(campaign.store) as sent:
        campaign.ask("tea", 2, request_id="second")
        assert campaign.ask("tea", 2, request_id="first") == first
    looks = [text for text in sent if "NOT INDEXED" in text or "request_id = " in text.partition("WHERE")[2]]
    assert looks == []
    again = load_campaign("spring", storage=campaign.store)
    assert again.ask("tea", 2, request_id="second").number == 2


def test_a_call_takes_few_statements():
    campaign = small_campaign()
    first = campaign.ask("tea", 2)
    campaign.tell(first.id, answers(campaign, first))
    campaign.close(first.id)
    with _statements(campaign.store) as sent:
        ask = campaign.ask("tea", 2)
        assert len(sent) <= 10
        rows = answers(campaign, ask)
        sent.clear()
        campaign.tell(ask.id, rows)
        assert len(sent) <= 8
        sent.clear()
        campaign.rounds()
        assert len(sent) <= 2


def test_due_rounds_are_found_by_an_index():
    store = open_store("memory://")
    with store.read() as session, _statements(store) as sent:
        session.due_campaigns(0.0)
        session.round_counts()
    with store._engine.connect() as connection:
        for statement in sent:
            values = ("open", 0.0) if "?" in statement else ()
            plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all())
            assert "INDEX tensorucb_round_status" in plan, plan
