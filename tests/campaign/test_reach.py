"""Expected reach: what it counts, that its interval holds, and that no shown number contradicts another."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.test_progress import played as played_with_hold_outs
from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from studies import reach as study
from tensorucb.campaign import create_campaign, load_campaign

# private: the arithmetic of intervals against distributions written out
from tensorucb.campaign._reach import Forecast, Outcome, past_outcomes, stated, width_factor
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, LinUCB, Prediction, TensorUCB, Thompson, UCBPolicy
from tensorucb.store import open_store

POLICIES = [LinUCB(), TensorUCB(rank=2), Thompson(), HighDegree()]


class Fixed(UCBPolicy):
    """Believes the same of every edge, whatever it is told."""

    name = "Fixed"

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def learn(self, state, modes, edges, outcomes):
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, self.rate))


class Level(Fixed):
    """Believes that rounds differ, and nothing else."""

    name = "Level"

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, -6.0), link="logit", level=1.0)


class Unsure(Fixed):
    """Knows little of each source."""

    name = "Unsure"

    def predict(self, state, modes):
        edges = self.graph.n_edges
        return Prediction(self.graph, np.full(edges, -6.0), deviation=np.full(edges, 1.5), link="logit")


def respond(campaign, ask, rate, rng):
    """Followers respond at a rate; returns how many users did who were not contacted."""
    pairs = [pair for pair in out_pairs(campaign, ask.contacted) if rng.random() < rate]
    campaign.tell(ask.id, [{"source": s, "target": t, "outcome": 1} for s, t in pairs])
    campaign.close(ask.id)
    return len({target for _, target in pairs} - set(ask.contacted))


def played(policy, objective="direct", rounds=3, **settings):
    campaign = small_campaign(policy=policy, objective=objective, **settings)
    for number in range(rounds):
        ask = campaign.ask("tea" if number % 2 else "soap", 3)
        campaign.tell(ask.id, answers(campaign, ask, every=4))
        campaign.close(ask.id)
    return campaign


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_what_the_seeds_add_sums_to_the_expected_reach(policy, objective):
    campaign = played(policy, objective)
    for rounds in range(2):
        ask = campaign.ask("tea", 6, exclude=campaign.graph.ids.tolist()[:5] if rounds else None)
        seeds = ask.explain().seeds
        assert sum(seed.gain for seed in seeds) == pytest.approx(ask.reach.mean, rel=1e-6)
        assert ask.reach.low <= ask.reach.mean <= ask.reach.high
        if objective == "direct":
            assert all(seed.gain <= seed.score * (1 + 1e-9) for seed in seeds)
            assert all(sum(each.probability for each in seed.followers) <= seed.score * (1 + 1e-9) for seed in seeds)


def test_those_held_out_add_nothing_to_the_expected_reach():
    campaign = played(LinUCB())
    ask = campaign.ask("tea", 6, holdout=0.34)
    by_user = {seed.user: seed for seed in ask.explain().seeds}
    assert sum(by_user[user].gain for user in ask.seeds) == pytest.approx(ask.reach.mean, rel=1e-6)
    assert [by_user[user].status for user in ask.held_out] == ["held_out"] * 2
    assert "would add" in by_user[ask.held_out[0]].text


def test_the_reach_says_what_it_counts():
    campaign = played(LinUCB())
    assert "followers of those contacted who respond; those contacted do not count" in str(campaign.ask("tea", 2).reach)
    assert "everybody reached in a cascade" in str(campaign.ask("tea", 2, objective="cascade").reach)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("rounds", [0, 4])
def test_no_explanation_contradicts_the_choice(policy, rounds):
    campaign = played(policy, rounds=rounds, graph=small_graph(60, 240))
    ask = campaign.ask("tea", 4)
    for user in set(campaign.graph.ids.tolist()) - set(ask.seeds):
        reason = ask.explain(user)
        assert reason.gain <= reason.score * (1 + 1e-9)
        better = f"{reason.gain:.2f}" if reason.gain >= reason.threshold else None
        if better is not None:
            assert any(word in reason.text for word in ("exploration", "ties go to", "rule of its own"))
        if "stand against" in reason.text:
            small, large = reason.text.rstrip(".").split("exploration ")[1].split(" stand against ")
            assert float(small) < float(large)


def test_users_beyond_the_ranked_thousand_are_explained_without_numbers_that_mislead():
    rng = np.random.default_rng(0)
    from tensorucb.graph import Graph

    sources, targets = rng.integers(0, 1500, 6000), rng.integers(0, 1500, 6000)
    keep = sources != targets
    graph = Graph.from_edges(sources[keep], targets[keep], nodes=np.arange(1500))
    campaign = small_campaign(policy=LinUCB(), graph=graph)
    ask = campaign.ask("tea", 3)
    silent = int(graph.ids[np.argmin(graph.out_degree)])
    text = ask.explain(silent).text
    assert "1000 others who were not chosen either count as much or more" in text


@pytest.mark.parametrize("offers", [{}, {"strategies": {"email": [1.0, 0.0], "letter": [0.0, 1.0]}}])
def test_an_explanation_is_small_and_exact_enough_for_what_it_says(offers):
    graph = small_graph(1500, 9000)
    wanted = {"strategies": "all"} if offers else {}
    small_campaign(policy=LinUCB(), graph=graph, storage=(store := open_store("memory://")), **offers).ask(
        "tea", 10, **wanted
    )
    with store.read() as session:
        # 36 kB and more if all numbers were kept to the last bit.
        assert len(session.explanation(1, 1)) < 12_000
    ask = small_campaign(policy=Fixed(0.3), graph=graph, **offers).ask("tea", 10, **wanted)
    degrees = dict(zip(graph.ids.tolist(), graph.out_degree.tolist(), strict=True))
    each = ask.explain(ask.seeds[0]).score / degrees[ask.seeds[0]]
    found = [ask.explain(user) for user in degrees]
    known = [one for one in found if one.score is not None]
    assert len(known) == 1010
    for one in known:
        expected = each * degrees[one.user]
        assert abs(one.score - expected) <= 1e-3
        assert all(abs(offer.expected - expected) <= 1e-3 for offer in one.offers)
        assert len(one.offers) == (2 if offers else 0)
        assert one.gain <= one.score + 1e-3


def test_a_tie_is_called_a_tie():
    from tensorucb.graph import Graph

    graph = Graph.from_edges(["a", "a", "b", "b", "c"], ["x", "y", "z", "w", "x"])
    campaign = small_campaign(policy=Fixed(0.5), graph=graph)
    ask = campaign.ask("tea", 1)
    other = ({"a", "b"} - set(ask.seeds)).pop()
    assert "counts as much as the last one chosen, and ties go to users with more followers" in ask.explain(other).text


def test_a_policy_that_believes_far_too_much_gets_an_interval_as_wide_as_its_error():
    campaign = small_campaign(policy=Fixed(0.6), graph=small_graph(200, 2000))
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(30):
        ask = campaign.ask("tea", 8)
        observed = respond(campaign, ask, 0.1, rng)
        inside.append(ask.reach.low <= observed <= ask.reach.high)
    # The mean stays the policy's own, whatever came: about 150 edges, some to the same follower.
    assert ask.reach.mean > 60
    assert sum(inside[10:]) >= 17


def test_a_round_that_has_much_of_its_own_is_foreseen_as_such():
    """Products differ by a factor of six in popularity beyond their features: the model learns how much they do."""
    campaign = small_campaign(policy=TensorUCB(), graph=small_graph(200, 2000))
    rng = np.random.default_rng(1)
    inside = []
    for number in range(30):
        ask = campaign.ask("tea", 8)
        observed = respond(campaign, ask, 0.25 if number % 2 else 0.04, rng)
        inside.append(ask.reach.low <= observed <= ask.reach.high)
    assert sum(inside[5:]) >= 21
    assert ask.reach.high > 3 * ask.reach.low


def test_the_width_follows_the_misses_so_far():
    forecast = Forecast(20.0, 10.0, 40.0)
    hits, misses = Outcome(forecast, 20), Outcome(forecast, 100)
    # Without rounds to look back on the interval is as stated.
    assert width_factor([]) == pytest.approx(1.0, abs=0.05)
    assert width_factor([hits] * 50) < 0.5
    assert width_factor([misses] * 50) == pytest.approx(forecast.miss(100))
    # The newest rounds count most.
    assert width_factor([*[misses] * 50, *[hits] * 100]) < width_factor([*[hits] * 100, *[misses] * 50])


def test_the_first_interval_holds_the_whole_level_of_a_round():
    """A level of deviation 1 and nothing else: the ends of 90 % lie 1.645 deviations apart from the middle."""
    graph = Graph.from_edges(np.zeros(100_000, dtype=int), np.arange(1, 100_001))
    campaign = create_campaign("wide", graph=graph, policy=Level(), storage="memory://")
    reach = campaign.ask([1.0], 1).reach
    assert np.log(reach.high / reach.low) == pytest.approx(2 * 1.645, abs=0.2)


def test_what_is_not_known_of_many_sources_evens_out():
    """Deviations of 1.5 would treble a mean of bent probabilities; with 200 sources hardly anything is left of them."""
    sources = np.repeat(np.arange(200), 500)
    graph = Graph.from_edges(sources, np.arange(200, 200 + sources.size))
    reach = create_campaign("even", graph=graph, policy=Unsure(), storage="memory://").ask([1.0], 200).reach
    assert reach.mean == pytest.approx(100_000 / (1.0 + np.exp(6.0)))
    assert 0.5 * reach.mean < reach.low < reach.mean < reach.high < 2.0 * reach.mean


def test_what_all_sources_share_is_doubted_once():
    """Before the first round the base rate is unknown: that is the level's doubt, and hardly any is a source's own."""
    policy = TensorUCB()
    graph = small_graph(200, 2000)
    policy.bind(graph, np.random.default_rng(0).normal(size=(200, 3)), 0)
    prediction = policy.prediction([1.0])
    assert prediction.doubt > 2.0
    assert prediction.deviation.min() > 2.0
    assert prediction.apart.max() < 0.5 * prediction.doubt
    # After a round the doubt of the sources told about has shrunk, and stays a part of the whole.
    policy.update([1.0], graph.out_edges([3]), np.zeros(graph.out_edges([3]).size))
    later = policy.prediction([1.0])
    assert np.all(later.apart <= later.deviation)
    assert later.apart[3] < later.apart.max()


def test_a_wider_interval_stays_within_the_audience():
    assert Forecast(3.0, 1.0, 4.0).widened(50.0, 4) == (0.0, 4.0)
    reach = create_campaign("few", graph=small_graph(3, 4), storage="memory://").ask(k=1).reach
    assert reach.low == 0.0
    assert "-0" not in str(reach)
    low, high = Forecast(20.0, 10.0, 40.0).widened(1.0, 1000)
    assert (low, high) == (10.0, 40.0)


def test_the_stated_interval_is_that_of_the_mixture():
    rng = np.random.default_rng(0)
    counts = np.array([5.0] * 3 + [40.0] * 7)
    draws = rng.binomial(100, rng.choice(counts, 200_000) / 100)
    forecast = stated(29.5, counts, 100)
    assert forecast.mean == pytest.approx(29.5)
    assert forecast.low == np.quantile(draws, 0.05)
    assert forecast.high == np.quantile(draws, 0.95)


def test_the_forecasts_learn_from_the_numbers_that_progress_shows():
    campaign, _ = played_with_hold_outs()
    with campaign._handle.read() as view:
        outcomes = past_outcomes(view)
    closed = [entry for entry in campaign.progress().rounds if entry.status == "closed"]
    assert [o.responders for o in outcomes] == [e.responders for e in closed]


def test_responders_are_counted_once_and_never_among_the_contacted():
    clock = Clock()
    campaign = small_campaign(window="100s", clock=clock)
    ask = campaign.ask("tea", 4)

    def count():
        with campaign._handle.read() as view:
            return [o.responders for o in past_outcomes(view)]

    pairs = out_pairs(campaign, ask.contacted)
    outside = sorted({t for _, t in pairs} - set(ask.contacted))
    stranger = next(u for u in campaign.graph.ids.tolist() if u not in outside and u not in ask.contacted)
    first = next((s, t) for s, t in pairs if t == outside[0])
    campaign.tell(ask.id, [{"source": first[0], "target": first[1], "outcome": 1}])
    events = [
        {"user": outside[0], "time": 1010},
        {"user": outside[1], "time": 1020},
        {"user": outside[2], "time": 1200},
        {"user": stranger, "time": 1030},
        {"user": ask.contacted[0], "time": 1040},
    ]
    campaign.tell(ask.id, events)
    assert count() == []
    campaign.close(ask.id)
    assert count() == [2]
    campaign.tell(ask.id, [{"user": outside[3], "time": 1050}])
    assert count() == [3]
    campaign.cancel(campaign.ask("tea", 2).id)
    assert count() == [3]


def test_the_reach_is_a_function_of_the_log_alone(tmp_path):
    url = f"sqlite:///{tmp_path}/campaigns.db"
    campaign = played(LinUCB(), storage=url, rounds=5)
    again = load_campaign("spring", storage=url, clock=Clock())
    one, other = campaign.ask("tea", 4), again.ask("tea", 4)
    assert one.reach == other.reach
    assert [s.gain for s in one.explain().seeds] == [s.gain for s in other.explain().seeds]


@pytest.mark.parametrize("policy", [TensorUCB(rank=2), LinUCB()], ids=lambda policy: policy.name)
def test_an_ask_needs_one_prediction(monkeypatch, policy):
    campaign, asked = played(policy), []
    plain = type(policy).predict

    def counted(self, *given):
        asked.append(given)
        return plain(self, *given)

    monkeypatch.setattr(type(policy), "predict", counted)
    campaign.ask("tea", 3)
    assert len(asked) == 1


def test_a_policy_that_chooses_by_itself_is_asked_to_choose():
    class Picky(TensorUCB):
        def pick(self, prediction, modes, k, oracle):
            return np.arange(k)

    campaign = small_campaign(policy=Picky(), graph=small_graph())
    assert list(campaign.ask("tea", 3).seeds) == campaign.graph.ids[:3].tolist()


def test_campaigns_count_direct_responses_unless_told_otherwise():
    import inspect

    from tensorucb.campaign import create_campaign
    from tensorucb.oracle import select_seeds

    graph = small_graph()
    campaign = create_campaign("c", graph=graph, policy=HighDegree(), storage="memory://", clock=Clock())
    assert campaign.settings["objective"] == "direct"
    assert campaign.ask([1.0], 2).reach.objective == "direct"
    # Whoever brings probabilities of all edges asks for the cascade.
    assert inspect.signature(select_seeds).parameters["objective"].default == "cascade"


def test_the_interval_covers_on_a_generated_world():
    from tensorucb.data import make_sandbox
    from tensorucb.experiments import Environment

    place = Environment.from_sandbox(make_sandbox(150, 1500, 10, rng=5))
    rounds = list(study.play("sandbox", place, LinUCB(), 5, 40, 0))
    assert 0.8 <= np.mean([entry.covered for entry in rounds]) <= 1.0
    assert 0.75 < sum(entry.reach.mean for entry in rounds) / sum(entry.observed for entry in rounds) < 1.35
    late = [entry for entry in rounds if entry.round > 20 and entry.untried < 0.5]
    assert np.median([(e.reach.high - e.reach.low) / e.reach.mean for e in late]) < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("name", study.WORLDS)
def test_the_interval_covers_85_to_95_percent(name):
    if name in study.LOGS and not (study.DATA / name).is_dir():
        pytest.skip("the shared data sets are not on this machine")
    rounds = []
    for run in range(3):
        place = study.world(name, run, study.DATA)
        rounds += study.play(name, place, TensorUCB(), study.SIZES[run], 100, run)
    assert 0.845 <= np.mean([entry.covered for entry in rounds]) <= 0.955
