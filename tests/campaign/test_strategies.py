"""Strategies as an action: a catalogue, the choice together with the users, and rounds that know who got which."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from campaign.reference import credit, learned
from campaign.workers import CONTEXT, play_round_with_strategies, play_with_strategies
from campaign.worlds import Clock, answers, out_pairs, small_campaign
from reference.oracle import select_pairs
from tensorucb import policies
from tensorucb.campaign import UnlearnableRoundWarning, copy_campaign, load_campaign
from tensorucb.errors import InputError, ShapeError, StateError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, LinUCB, LogisticUCB, TensorUCB

STRATEGIES = {"email": [1.0, 0.0, 0.0], "visit": [0.0, 1.0, 0.0], "call": [0.0, 0.0, 1.0]}
COSTS = {"visit": 2.0, "call": 0.5}
POLICIES = [
    name
    for name in policies.__all__
    if hasattr(getattr(policies, name), "bind") and name not in ("UCBPolicy", "Policy")
]


def campaign_with(storage="memory://", **settings):
    return small_campaign(storage, **{"strategies": STRATEGIES, "strategy_costs": COSTS, **settings})


def play(campaign, count, **terms):
    """Rounds that are asked, told and closed."""
    asks = []
    for i in range(count):
        ask = campaign.ask("tea" if i % 2 == 0 else "soap", 5, **{"strategies": "all", "per_user": True, **terms})
        campaign.tell(ask.id, answers(campaign, ask, 2 + i % 3))
        campaign.close(ask.id)
        asks.append(ask)
    return asks


def taught(**settings):
    """A campaign that has learned what suits whom: of three users in a row, one each responds to each strategy."""
    campaign = campaign_with(policy=TensorUCB(), **settings)
    names, users = list(STRATEGIES), campaign.graph.ids.tolist()
    for i in range(6):
        given = {user: names[(place + i) % 3] for place, user in enumerate(users)}
        ask = campaign.ask("tea", 3, strategies="all", shadow=given)
        rows = [
            {"source": s, "target": t, "outcome": int(users.index(s) % 3 == names.index(given[s]))}
            for s, t in out_pairs(campaign, users)
        ]
        campaign.tell(ask.id, rows[i % 2 :: 2])
        campaign.close(ask.id)
    return campaign


def by_hand(campaign, product="tea"):
    """(3, edges) scores of the campaign's policy."""
    vector = {"tea": [1.0, 0.0], "soap": [0.0, 1.0]}[product]
    return np.stack([campaign._handle.model.policy.score([vector, features]) for features in STRATEGIES.values()])


def redundancy(campaign):
    """What the campaign's policy believes of second contacts."""
    return campaign._handle.model.policy.prediction([[1.0, 0.0], STRATEGIES["email"]]).redundancy


def responders(graph, scores, rows, strategies, rho=0.0):
    """Expected responses of users who are not contacted, by its definition."""
    survive, best = np.ones(graph.n_nodes), np.zeros(graph.n_nodes)
    for row, strategy in zip(rows, strategies, strict=True):
        for edge in range(graph.out_offsets[row], graph.out_offsets[row + 1]):
            target, p = graph.targets[edge], scores[strategy, edge]
            survive[target] *= 1.0 - p
            best[target] = max(best[target], p)
    expected = (1.0 - rho) * (1.0 - survive) + rho * best
    expected[list(rows)] = 0.0
    return float(expected.sum())


def while_it_pays(graph, scores, pick, rho):
    """How many of the chosen pairs bring the most responses."""
    rows, strategies = pick.rows.tolist(), pick.strategies.tolist()
    values = [responders(graph, scores, rows[:m], strategies[:m], rho) for m in range(1, len(rows) + 1)]
    return 1 + int(np.argmax(values))


# -- the choice --


@pytest.mark.parametrize(
    "terms",
    [
        {"k": 5},
        {"k": 5, "objective": "cascade"},
        {"k": None, "budget": 7.0},
        {"k": 4, "exclude": ["person-001"], "must_include": ["person-007"], "quotas": 2},
        {"k": 5, "budget": 9.0, "quotas": 3},
    ],
)
def test_per_user_is_the_choice_of_pairs_by_the_policys_scores(terms):
    groups = ["a", "b", "c"] * 10
    campaign = taught(costs=np.linspace(0.5, 2.0, 30), groups=groups)
    ask = campaign.ask("tea", strategies="all", per_user=True, **terms)
    graph = campaign.graph
    given = {name: value for name, value in terms.items() if name not in ("k", "objective")}
    if "budget" in terms:
        given["costs"] = np.linspace(0.5, 2.0, 30) + np.array([[0.0], [2.0], [0.5]])
    if "quotas" in terms:
        given["groups"] = groups
    expected = select_pairs(
        graph,
        by_hand(campaign),
        terms["k"] or 30,
        objective=terms.get("objective", "direct"),
        epsilon=0.1,
        rng=np.random.default_rng([0, ask.number]),
        count_seeds="budget" not in terms,
        redundancy=redundancy(campaign),
        **given,
    )
    kept = (
        while_it_pays(graph, by_hand(campaign), expected, redundancy(campaign))
        if "budget" in terms
        else expected.rows.size
    )
    assert ask.seeds == tuple(expected.seeds[:kept].tolist())
    assert ask.strategies == tuple(list(STRATEGIES)[place] for place in expected.strategies[:kept].tolist())
    if "budget" in terms:
        assert 0.0 < ask.cost <= terms["budget"]


@pytest.mark.parametrize("terms", [{"k": 5}, {"k": 4, "budget": 8.0}])
def test_one_strategy_for_all_is_the_best_of_the_choices_for_each(terms):
    campaign = taught(costs=np.ones(30))
    ask = campaign.ask("tea", strategies="all", **terms)
    found = []
    for scores, cost in zip(by_hand(campaign), (0.0, 2.0, 0.5), strict=True):
        given = {}
        if "budget" in terms:
            given = {"costs": np.full((1, 30), 1.0 + cost), "budget": terms["budget"], "count_seeds": False}
        found.append(select_pairs(campaign.graph, scores[None], terms["k"], objective="direct", **given))
    best = int(np.argmax([selection.spread for selection in found]))
    assert ask.seeds == tuple(found[best].seeds.tolist())
    assert ask.strategies == (list(STRATEGIES)[best],) * len(ask.seeds)


def test_only_the_strategies_named_are_used_in_any_order():
    campaign = taught()
    ask = campaign.ask("tea", 6, strategies=["call", "email"], per_user=True)
    assert set(ask.strategies) <= {"call", "email"}
    again = campaign.ask("tea", 6, strategies=("email", "call"), per_user=True)
    assert (again.seeds, again.strategies) == (ask.seeds, ask.strategies)


def test_a_budget_works_with_the_costs_of_strategies_alone():
    campaign = taught()
    each = campaign.ask("tea", None, strategies="all", per_user=True, budget=3.0)
    prices = {"email": 0.0, "visit": 2.0, "call": 0.5}
    assert each.cost == sum(prices[strategy] for strategy in each.strategies) <= 3.0
    # E-mails are free, but who is contacted no longer responds: not everybody gets one.
    assert 5 < len(each.seeds) < 30
    assert each.reach.mean > 0.0
    same = campaign.ask("tea", 5, strategies=["visit", "call"], budget=2.5)
    assert set(same.strategies) == {"call"}
    assert same.cost == 2.5
    assert campaign.ask(("tea", "visit"), None, budget=5.0).cost == 4.0
    with pytest.raises(InputError, match="budget needs costs"):
        campaign.ask("tea", 2, strategies=["email"], budget=5.0)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_takes_strategies_and_replays_them(name):
    made = getattr(policies, name)
    campaign = campaign_with(policy=made(LinUCB()) if name == "ForgetOnDrift" else made())
    (one,) = play(campaign, 1, per_user=False)
    assert len(set(one.strategies)) == 1
    assert len(one.seeds) == len(one.strategies) == 5
    (each,) = play(campaign, 1)
    assert len(each.strategies) == 5
    assert campaign.model_hash() == campaign.replay_hash()
    assert campaign.status().quarantined == {}
    # Strategies that a policy does not tell apart: the cheapest one.
    if name in ("HighDegree", "CUCB", "GammaCounts", "IMLinUCB", "DILinUCB", "DILinUCBOriginal"):
        assert set(one.strategies) == set(each.strategies) == {"email"}


def test_strategies_that_a_policy_does_not_tell_apart_count_the_same_in_cascades():
    campaign = small_campaign(
        policy=policies.GammaCounts(), strategies=STRATEGIES, strategy_costs={"email": 1.0, "visit": 0.5, "call": 2.0}
    )
    play(campaign, 2)
    ask = campaign.ask("tea", 4, strategies="all", objective="cascade")
    assert ask.strategies == ("visit",) * 4


def test_a_policy_that_picks_users_itself_keeps_them_and_the_budget():
    campaign = campaign_with(policy=HighDegree(), costs=np.ones(30))
    plain = small_campaign(policy=HighDegree()).ask("tea", 4)
    assert campaign.ask("tea", 4, strategies="all", per_user=True).seeds == plain.seeds
    # With visits, four users would cost 12: the strategy is left out, the round is not.
    assert campaign.ask("tea", 4, strategies=["visit", "call"], budget=6.0).strategies == ("call",) * 4
    with pytest.raises(StateError, match="over the budget"):
        campaign.ask("tea", 4, strategies=["visit", "call"], budget=5.0)


def test_held_out_users_keep_the_strategy_they_would_have_got(tmp_path):
    whole, part = (taught().ask("tea", 6, strategies="all", per_user=True, holdout=share) for share in (0.0, 0.5))
    wanted = dict(zip(whole.seeds, whole.strategies, strict=True))
    assert len(part.held_out) == len(part.strategies) == len(part.seeds) == 3
    assert dict(zip(part.seeds, part.strategies, strict=True)).items() <= wanted.items()
    for user in part.held_out:
        found = part.explain(user)
        assert (found.status, found.strategy) == ("held_out", wanted[user])
    paths = {path.stem: path for path in part._campaign.export(tmp_path / "out")}
    rows = pl.read_parquet(paths["seeds"]).filter(pl.col("round") == part.id)
    assert dict(rows.filter(pl.col("role") != "contacted").select("user", "strategy").rows()) == wanted


# -- what a round teaches --


@pytest.mark.parametrize("rule", ["any", "last", "shared"])
def test_a_round_teaches_each_strategy_what_was_done_with_it(rule):
    campaign = campaign_with(window="50s", credit=rule)
    graph = campaign.graph
    asks = []
    for i, product in enumerate(("tea", "soap", "tea")):
        asks.append(campaign.ask(product, 6, strategies="all", per_user=True, shadow=_mixed(campaign, i)))
    told = {ask.id: answers(campaign, ask) for ask in asks}
    acted = [(graph.ids[i].item(), 1000.0 + 5 * i) for i in range(12)]
    for ask in asks:
        campaign.tell(ask.id, told[ask.id])
        campaign.tell(ask.id, [{"user": user, "time": time} for user, time in acted])
        campaign.close(ask.id)

    users = np.random.default_rng(1).normal(size=(graph.n_nodes, 3))
    policy = LinUCB()
    policy.bind(graph, users, np.random.default_rng([0, 0]))
    everything = out_pairs(campaign, graph.ids.tolist())
    for i, (ask, vector) in enumerate(zip(asks, ([1.0, 0.0], [0.0, 1.0], [1.0, 0.0]), strict=True)):
        given = _mixed(campaign, i)
        means = {s: policy.prediction([vector, features]).expected() for s, features in STRATEGIES.items()}
        p = {pair: means[given.get(pair[0], "email")][e] for e, pair in enumerate(everything)}
        pairs = [pair for pair in everything if pair[0] in given]
        outcomes = {(r["source"], r["target"]): float(r["outcome"]) for r in told[ask.id]}
        expected = learned(everything, given, outcomes, credit(rule, pairs, acted, 1000.0, 50, p))
        for strategy, features in STRATEGIES.items():
            own = {pair: y for pair, y in expected.items() if given[pair[0]] == strategy}
            if strategy in given.values():
                edges = graph.edge_rows([s for s, _ in own], [t for _, t in own]) if own else []
                policy.update([vector, features], edges, list(own.values()))
    for strategy, features in STRATEGIES.items():
        found = campaign.probabilities(("tea", strategy))
        np.testing.assert_allclose(found, policy.prediction([[1.0, 0.0], features]).expected(), rtol=1e-6)
    assert campaign.model_hash() == campaign.replay_hash()


def _mixed(campaign, i):
    """Users contacted by somebody else, and with what."""
    ids = campaign.graph.ids.tolist()[3 * i : 3 * i + 7]
    return dict(zip(ids, ["visit", "email", "visit", "call", "email", "email", "call"], strict=True))


def test_late_responses_to_a_round_with_strategies_are_learned_as_if_in_time():
    def run(late):
        campaign = campaign_with(policy=TensorUCB())
        # All open at once, so that both campaigns ask the same.
        asks = [campaign.ask("tea", 5, strategies="all", per_user=True) for _ in range(7)]
        for i, ask in enumerate(asks):
            if not (late and i == 1):
                campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
        if late:
            campaign.model_hash()
            assert campaign.tell(asks[1].id, answers(campaign, asks[1])).late > 0
        assert campaign.model_hash() == campaign.replay_hash()
        return campaign.model_hash()

    assert run(True) == run(False)


class RefusesVisits(LinUCB):
    """A policy that cannot learn one of the strategies."""

    name = "RefusesVisits"

    def update(self, product, edges, outcomes):
        if product[1][1] == 1.0:
            raise ValueError("no visits")
        super().update(product, edges, outcomes)


def test_a_round_of_which_one_strategy_cannot_be_learned_is_left_out_as_a_whole():
    campaign = campaign_with(policy=RefusesVisits())
    ask = campaign.ask("tea", 3, strategies="all", shadow={"person-001": "email", "person-002": "call"})
    campaign.close(ask.id)
    before = campaign.model_hash()
    mixed = campaign.ask("tea", 3, strategies="all", shadow={"person-001": "email", "person-002": "visit"})
    with pytest.warns(UnlearnableRoundWarning, match="no visits"):
        campaign.close(mixed.id)
    assert list(campaign.status().quarantined) == [mixed.id]
    assert campaign.model_hash() == campaign.replay_hash() == before


def test_replay_needs_the_log_alone_and_not_the_catalogue():
    campaign = campaign_with(policy=TensorUCB())
    play(campaign, 4)
    before = campaign.model_hash()
    with campaign.store.write() as session:
        session.delete_blobs(1, ["strategies"])
    again = load_campaign("spring", storage=campaign.store, clock=Clock())
    assert again.replay_hash() == before
    assert again.rounds()[0].strategies == campaign.rounds()[0].strategies is not None


@pytest.mark.slow
def test_processes_that_take_over_from_each_other_go_on_bit_for_bit(tmp_path):
    url, seen = f"sqlite:///{tmp_path / 'c.db'}", []
    campaign_with(url).disconnect()
    for first, last in ((1, 2), (3, 5)):
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=play_with_strategies, args=(url, first, last, theirs))
        process.start()
        seen.append(ours.recv())
        process.join()
    alone = campaign_with()
    for number in range(1, 6):
        play_round_with_strategies(alone, number)
    assert seen[-1] == [alone.model_hash()] * 2
    with load_campaign("spring", storage=url, clock=Clock()) as campaign:
        assert [ask.strategies for ask in campaign.rounds()] == [ask.strategies for ask in alone.rounds()]


def test_the_catalogue_of_strategies_is_durable_and_shared(tmp_path):
    url = f"sqlite:///{tmp_path / 'c.db'}"
    with small_campaign(url) as first, load_campaign("spring", storage=url, clock=Clock()) as second:
        assert first.strategies() == second.strategies() == ()
        first.add_strategies(["email", "visit"], [[1, 0], [0, 1]], costs=[0, 2])
        assert second.strategies() == ("email", "visit")
        assert second.status().strategies == 2
        second.add_strategies(["call", "email"], [[1, 1], [1, 0]])
        assert first.strategies() == ("email", "visit", "call")
        assert first.ask(("tea", "visit"), 2, budget=4.0).cost == 4.0
        copy_campaign("spring", "copy", storage=url)
    with load_campaign("copy", storage=url, clock=Clock()) as copied:
        assert copied.strategies() == ("email", "visit", "call")
        kinds = [event.kind for event in _events(copied)]
    assert kinds == ["created", "strategies_added", "strategies_added", "asked"]


def _events(campaign):
    with campaign.store.read() as session:
        return session.events(campaign._handle.record.campaign)


def test_forgetting_takes_a_user_and_their_strategy_out_of_every_round(tmp_path):
    campaign = campaign_with(f"sqlite:///{tmp_path / 'c.db'}", policy=TensorUCB())
    asks = play(campaign, 4, holdout=0.4)
    shadow = campaign.ask(
        "tea", 3, strategies="all", per_user=True, shadow={"person-004": "visit", "person-005": "call"}
    )
    campaign.close(shadow.id)
    user = asks[-1].seeds[0]
    report = campaign.forget(user)
    assert report.proven
    campaign.forget("person-004")
    for before, after in zip([*asks, shadow], campaign.rounds(), strict=True):
        kept = [
            pair for pair in zip(before.seeds, before.strategies, strict=True) if pair[0] not in (user, "person-004")
        ]
        assert list(zip(after.seeds, after.strategies, strict=True)) == kept
        assert len(campaign.explain(after.id).seeds) == len(after.seeds) + len(after.held_out)
    assert campaign.rounds()[-1].contacted == ("person-005",)
    assert campaign.model_hash() == campaign.replay_hash()


def test_export_says_who_got_which(tmp_path):
    campaign = taught(costs=np.ones(30))
    ask = campaign.ask("tea", 5, strategies="all", per_user=True)
    files = {path.stem: path for path in campaign.export(tmp_path / "out")}
    rows = pl.read_parquet(files["seeds"]).filter((pl.col("round") == ask.id) & (pl.col("role") == "contacted"))
    assert dict(rows.select("user", "strategy").rows()) == dict(zip(ask.seeds, ask.strategies, strict=True))
    held = pl.read_parquet(files["strategies"])
    assert held.columns == ["strategy", "feature_0", "feature_1", "feature_2", "cost"]
    assert held.rows() == [(name, *features, COSTS.get(name, 0.0)) for name, features in STRATEGIES.items()]
    assert pl.read_parquet(files["rounds"])["cost"].to_list()[-1] == ask.cost
    plain = small_campaign()
    plain.ask("tea", 2)
    (seeds,) = [path for path in plain.export(tmp_path / "plain") if path.stem == "seeds"]
    assert pl.read_parquet(seeds)["strategy"].to_list() == [None] * 4


def test_a_repeated_request_must_mean_the_same_strategies():
    campaign = taught()
    terms = {"strategies": "all", "per_user": True, "request_id": "monday"}
    first = campaign.ask("tea", 3, **terms)
    assert campaign.ask("tea", 3, **{**terms, "strategies": ["call", "email", "visit"]}) == first
    for changed, name in (({"strategies": ["email"]}, "strategies"), ({"per_user": False}, "per_user")):
        with pytest.raises(InputError, match=f"other values of {name}[.]"):
            campaign.ask("tea", 3, **{**terms, **changed})
    shadow = {"shadow": {"person-001": "email", "person-002": "visit"}, "request_id": "tuesday"}
    second = campaign.ask("tea", 3, **{**terms, **shadow})
    shadow["shadow"] = dict(reversed(shadow["shadow"].items()))
    assert campaign.ask("tea", 3, **{**terms, **shadow}) == second
    with pytest.raises(InputError, match="other values of shadow"):
        campaign.ask("tea", 3, **{**terms, **shadow, "shadow": {"person-001": "visit", "person-002": "visit"}})
    third = campaign.ask(("tea", "email"), 3, request_id="wednesday")
    assert campaign.ask(([1, 0], "email"), 3, request_id="wednesday") == third
    assert campaign.ask(([1, 0], [1, 0, 0]), 3, request_id="wednesday") == third


# -- a strategy as plain context --


def test_a_context_is_named_by_ids_or_features_or_both():
    campaign = taught()
    wanted = campaign.probabilities(("tea", "visit"))
    for product in (
        ["tea", "visit"],
        ("tea", [0, 1, 0]),
        ("tea", np.array([0.0, 1.0, 0.0])),
        ([1.0, 0.0], "visit"),
        ([1, 0], (0, 1, 0)),
    ):
        np.testing.assert_array_equal(campaign.probabilities(product), wanted)
    ask = campaign.ask(("tea", "visit"), 2)
    assert (ask.product, ask.strategies) == ("tea", ("visit", "visit"))
    assert ask.explain(ask.seeds[0]).strategy == "visit"
    assert campaign.ask(("tea", [0, 1, 0]), 2).strategies is None
    chosen = campaign.ask("tea", 2, strategies=["visit"])
    assert (chosen.seeds, chosen.strategies) == (ask.seeds, ask.strategies)


def test_whole_numbers_are_ids_only_beside_a_text_or_a_vector():
    campaign = small_campaign(
        products={7: [1.0, 0.0], 8: [0.0, 1.0]}, strategies={3: [1.0, 0.0], 4: [0.0, 1.0]}, policy=LogisticUCB()
    )
    ask = campaign.ask((7, [1.0, 0.0]), 2)
    assert (ask.product, ask.strategies) == (7, None)
    ask = campaign.ask(([1.0, 0.0], 3), 2)
    assert (ask.product, ask.strategies) == (None, (3, 3))
    assert campaign.ask(7, 2, strategies=[4]).strategies == (4, 4)
    with pytest.raises(
        InputError, match=r"\(7, 3\) may mean product 7 with strategy 3, or two features.*strategies, \[3\]"
    ):
        campaign.ask((7, 3), 2)
    # Without such ids, numbers are features as they always were.
    plain = small_campaign(products={7: [1.0, 0.0]})
    assert plain.ask((7, 3), 2).product is None


@pytest.mark.parametrize(
    ("product", "terms", "error", "words"),
    [
        (
            ("tea", "post"),
            {},
            UnknownIdError,
            "strategy 'post' is not in the campaign's catalogue of 3.*add_strategies",
        ),
        (("milk", "email"), {}, UnknownIdError, "product 'milk'"),
        (("tea", "email", "spring"), {}, InputError, "'spring' in place 3"),
        (("tea", 0.5), {}, InputError, "part of the product"),
        (("tea", [1.0]), {}, ShapeError, r"2 \+ 1 features.*2 \+ 3"),
        ("tea", {}, ShapeError, "has strategies, so a round needs one"),
        ("tea", {"strategies": "email"}, InputError, r"Write \['email'\]"),
        ("tea", {"strategies": []}, InputError, "names none"),
        ("tea", {"strategies": ["email", "email"]}, InputError, "one twice"),
        ("tea", {"strategies": ["post"]}, UnknownIdError, "'post'"),
        ("tea", {"strategies": 3}, InputError, "strategies must be"),
        ("tea", {"per_user": True}, InputError, "per_user needs strategies"),
        ("tea", {"strategies": "all", "per_user": 1}, InputError, "per_user"),
        (("tea", "email"), {"strategies": "all"}, InputError, "names the strategy 'email'"),
        ("tea", {"strategies": "all", "shadow": ["person-001"]}, InputError, "who got which strategy"),
        (("tea", "email"), {"shadow": {"person-001": "email"}}, InputError, "Name these strategies in strategies"),
        ("tea", {"strategies": ["email"], "shadow": {"person-001": "call"}}, UnknownIdError, "Name it in strategies"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_clear_word(product, terms, error, words):
    campaign = campaign_with()
    with pytest.raises(error, match=words):
        campaign.ask(product, 2, **terms)
    assert campaign.rounds() == ()


def test_where_no_strategy_can_be_chosen_one_is_named_with_the_product():
    campaign = campaign_with()
    bought = [{"user": "person-001", "time": 1.0, "product": "tea"}]
    for call in (lambda: campaign.probabilities("tea"), lambda: campaign.import_history(bought)):
        with pytest.raises(ShapeError, match=r"Name it with the product, as in \('PRODUCT', 'email'\)"):
            call()
    assert campaign.probabilities(("tea", "email")).shape == (campaign.graph.n_edges,)
    assert campaign.import_history([{"user": "person-001", "time": 1.0}], ("tea", "email")).rounds == 1


def test_a_catalogue_is_refused_where_it_cannot_be_used():
    campaign = small_campaign()
    with pytest.raises(InputError, match="the campaign has none"):
        campaign.ask("tea", 2, strategies="all")
    campaign.add_strategies(["email"], [[1.0, 0.0]], [1.0])
    with pytest.raises(InputError, match="strategy 'email' is known with another cost"):
        campaign.add_strategies(["email"], [[1.0, 0.0]])
    with pytest.raises(InputError, match="known with other features"):
        campaign.add_strategies(["email"], [[0.0, 1.0]], [1.0])
    with pytest.raises(ShapeError, match="strategies have 2 features"):
        campaign.add_strategies(["call"], [[1.0]])
    with pytest.raises(InputError, match="costs"):
        campaign.add_strategies(["call"], [[1.0, 0.0]], [-1.0])
    other = small_campaign()
    other.ask("tea", 2)
    with pytest.raises(ShapeError, match="had no strategy"):
        other.add_strategies(["email"], [[1.0]])
    with pytest.raises(UnknownIdError, match="strategy_costs names 'call'"):
        small_campaign(strategies={"email": [1.0]}, strategy_costs={"call": 1.0})


def test_history_may_name_strategies():
    campaign = campaign_with()
    pairs = out_pairs(campaign, campaign.graph.ids.tolist())[:40]
    rows = [
        {"source": s, "target": t, "outcome": i % 2, "product": "tea", "strategy": "visit" if i % 3 else "call"}
        for i, (s, t) in enumerate(pairs)
    ]
    assert campaign.import_history(rows).rounds == 2
    assert campaign.import_history(rows).known_rounds == 2
    by_argument = campaign_with()
    for strategy in ("call", "visit"):
        own = [
            {k: v for k, v in row.items() if k not in ("product", "strategy")}
            for row in rows
            if row["strategy"] == strategy
        ]
        by_argument.import_history(own, ("tea", strategy))
    assert by_argument.model_hash() == campaign.model_hash() == campaign.replay_hash()


# -- what is said --


def test_a_shadow_round_learns_what_others_gave_and_shows_what_we_would_have():
    campaign = taught()
    ours = campaign.ask("tea", 3, strategies="all", per_user=True)
    theirs = {"person-001": "visit", "person-002": "call"}
    ask = campaign.ask("tea", 3, strategies="all", per_user=True, shadow=theirs)
    assert (ask.kind, ask.seeds, ask.strategies) == ("shadow", ours.seeds, ours.strategies)
    assert (ask.contacted, ask.cost) == (tuple(theirs), 2.5)
    same = campaign.ask("tea", 3, strategies=["visit"], shadow=list(theirs))
    assert same.cost == 4.0


def test_explanations_compare_the_offers():
    campaign = taught(costs=np.ones(30))
    ask = campaign.ask("tea", 5, strategies="all", per_user=True)
    explained = campaign.explain(ask.id)
    assert [seed.strategy for seed in explained.seeds] == list(ask.strategies)
    assert sum(seed.gain for seed in explained.seeds) == pytest.approx(ask.reach.mean)
    for seed in explained.seeds:
        values = {offer.strategy: offer.expected for offer in seed.offers}
        assert values[seed.strategy] == pytest.approx(seed.score)
        assert (
            f"Gets '{seed.strategy}' (cost {COSTS.get(seed.strategy, 0):.2f}): {seed.score:.2f} expected" in seed.text
        )
        assert [offer.cost for offer in seed.offers] == [0.0, 2.0, 0.5]
    other = next(user for user in campaign.graph.ids.tolist() if user not in ask.seeds)
    found = ask.explain(other)
    best = max(found.offers, key=lambda offer: offer.expected)
    assert found.strategy == best.strategy
    assert f"The best offer for this user is '{best.strategy}'" in found.text
    same = campaign.ask("tea", 5, strategies="all")
    assert "as everybody does in this round" in same.explain(same.seeds[0]).text
    assert same.explain(other).strategy == same.strategies[0]


def test_who_is_not_chosen_never_counts_more_than_the_last_one_chosen():
    campaign = taught()
    ask = campaign.ask("tea", 5, strategies="all", per_user=True)
    others = [ask.explain(user).text for user in campaign.graph.ids.tolist() if user not in ask.seeds]
    bonuses = [re.findall(r"(\d+\.\d+) stand against (\d+\.\d+)", text) for text in others]
    compared = [(float(theirs), float(last)) for found in bonuses for theirs, last in found]
    assert compared
    assert all(theirs < last for theirs, last in compared)


# -- learning --


def test_a_campaign_learns_which_offer_suits_which_group():
    # Followers of the first half respond to e-mail (20 % against 4 %), those of the second half to visits.
    rng = np.random.default_rng(5)
    n = 80
    graph = Graph.from_edges(np.repeat(np.arange(n), 12), rng.integers(0, n, 12 * n), self_loops="drop")
    side = np.arange(n) < n // 2
    users = np.column_stack([side, ~side]).astype(float)
    campaign = small_campaign(
        graph=graph, users=users, policy=TensorUCB(), strategies={"email": [1.0, 0.0], "visit": [0.0, 1.0]}
    )
    right = []
    for _ in range(25):
        ask = campaign.ask("tea", 10, strategies="all", per_user=True)
        suits = {
            user: (strategy == "email") == (user < n // 2)
            for user, strategy in zip(ask.seeds, ask.strategies, strict=True)
        }
        right.append(np.mean(list(suits.values())))
        rows = [
            {"source": s, "target": t, "outcome": int(rng.random() < (0.2 if suits[s] else 0.04))}
            for s, t in out_pairs(campaign, ask.seeds)
        ]
        campaign.tell(ask.id, rows)
        campaign.close(ask.id)
    assert np.mean(right[-8:]) >= 0.9
    assert np.mean(right[:3]) <= 0.8
