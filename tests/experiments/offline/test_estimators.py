"""The estimators against the simulator's truth: fixed seeds, tolerances of 3 standard errors over replications."""

from __future__ import annotations

import numpy as np
import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import Environment, WorldSettings, product_sequence
from tensorucb.experiments.offline import (
    LoggedCampaign,
    LoggedRound,
    choices_of,
    cross_fitted_model,
    estimate_value,
    log_campaign,
    train,
)
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB, Random

ROUNDS, REPLICATIONS = 60, 120


@pytest.fixture(scope="module")
def environment():
    sandbox = make_sandbox(60, 400, 4, n_topics=4, base_rate=0.1, rng=0)
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=5))


@pytest.fixture(scope="module")
def propensities():
    return np.random.default_rng(0).uniform(0.1, 0.5, size=60)


def additive(environment, product, rows):
    return environment.probabilities(product)[environment.graph.out_edges(rows)].sum()


def distinct(environment, product, rows):
    return environment.evaluate(product, rows) - len(rows)


@pytest.fixture(scope="module")
def study(environment, propensities):
    """Errors, standard errors and coverage of every estimator over many logs."""
    rows, m = environment.optimum(0).rows, environment.graph.n_edges
    rumour = np.random.default_rng(1).uniform(0.0, 0.6, size=m)
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for run in range(REPLICATIONS):
        log = log_campaign(environment, propensities, rounds=ROUNDS, run=run, seed=1)
        products = product_sequence(environment, ROUNDS, run=run, seed=1).tolist()
        truth = {
            "all": np.mean([additive(environment, z, rows) for z in products]),
            "distinct": np.mean([distinct(environment, z, rows) for z in products]),
        }

        def model(t, products=products):
            return environment.probabilities(products[t])

        for name, count, options in (
            ("ips", "all", {"estimator": "ips"}),
            ("snips", "all", {"estimator": "snips"}),
            ("dr", "all", {"model": model}),
            ("dr, wrong model", "all", {"model": rumour}),
            ("clipped", "all", {"estimator": "ips", "clip": 2.5}),
            ("ips, distinct", "distinct", {"estimator": "ips", "count": "distinct"}),
            ("dr, distinct", "distinct", {"model": model, "count": "distinct"}),
            ("dr, wrong model, distinct", "distinct", {"model": rumour, "count": "distinct"}),
            ("dr, modelled", "distinct", {"model": model, "count": "modelled"}),
            ("all for distinct", "distinct", {"estimator": "ips"}),
        ):
            e = estimate_value(log, rows, **options)
            row = e.value - truth[count], e.standard_error, e.low <= truth[count] <= e.high, e.bias_bound
            found.setdefault(name, []).append(row)
    return {name: np.array(rows, dtype=float) for name, rows in found.items()}


def bias(rows):
    """Mean error in standard errors."""
    return abs(rows[:, 0].mean()) / (rows[:, 0].std(ddof=1) / np.sqrt(len(rows)))


UNBIASED = [
    "ips",
    "dr",
    "dr, wrong model",
    "ips, distinct",
    "dr, distinct",
    "dr, wrong model, distinct",
    "dr, modelled",
]


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased(study, name):
    assert bias(study[name]) <= 3.0


def test_snips_has_at_most_a_small_bias(study):
    """Of order 1/T: within a tenth of its standard deviation, or of noise."""
    rows = study["snips"]
    assert abs(rows[:, 0].mean()) <= 3.0 * rows[:, 0].std() / np.sqrt(len(rows)) + 0.1 * rows[:, 0].std()


def test_the_additive_value_is_not_the_number_of_users(study):
    assert bias(study["all for distinct"]) > 10.0
    assert study["all for distinct"][:, 0].mean() > 0.0


def test_variances_are_ordered(study):
    sd = {name: rows[:, 0].std() for name, rows in study.items()}
    assert sd["snips"] < 0.85 * sd["ips"]
    assert sd["dr"] < 0.6 * sd["ips"]
    assert sd["dr, distinct"] < 0.6 * sd["ips, distinct"]
    assert sd["dr"] < sd["dr, wrong model"]
    assert sd["clipped"] < sd["ips"]


@pytest.mark.parametrize("name", [*UNBIASED, "snips"])
def test_standard_errors_and_coverage_are_near_nominal(study, name):
    """90 % intervals; 120 replications have a standard error of 2.7 points, so ±8 points are allowed."""
    rows = study[name]
    assert 0.8 <= rows[:, 1].mean() / rows[:, 0].std() <= 1.25
    assert 0.82 <= rows[:, 2].mean() <= 0.98


def test_clipping_biases_downwards_within_its_stated_bound(study):
    rows = study["clipped"]
    assert bias(rows) > 3.0
    assert -rows[:, 3].mean() <= rows[:, 0].mean() < 0.0


# -- by hand --


@pytest.fixture
def hand():
    """0 → 2, 3 and 1 → 3; two rounds with propensities 1/2 and 1/4."""
    graph = Graph.from_edges([0, 0, 1], [2, 3, 3])
    p = np.array([0.5, 0.25, 0.0, 0.0])
    first = LoggedRound(np.ones(1), np.array([0, 1]), np.array([0, 1, 2]), np.array([1.0, 1.0, 1.0]), p)
    second = LoggedRound(np.ones(1), np.array([0]), np.array([0, 1]), np.array([1.0, 0.0]), p)
    return LoggedCampaign.from_rounds(graph, [first, second], sampling="independent")


def test_ips_snips_and_dr_by_hand(hand):
    ips = estimate_value(hand, [0, 1], estimator="ips")
    assert ips.by_round.tolist() == [2 * 2 + 4 * 1, 2 * 1]
    assert ips.value == 5.0
    assert ips.standard_error == pytest.approx(3.0)
    assert (ips.chosen, ips.matched, ips.largest_weight) == (4, 3, 4.0)
    assert ips.effective_sample_size == pytest.approx((2 + 4 + 2) ** 2 / (4 + 16 + 4))
    assert "effective contacts" in ips.caution
    snips = estimate_value(hand, [0, 1], estimator="snips")
    assert snips.value == pytest.approx(2 * 10 / 8)
    m = np.array([0.5, 0.5, 0.25])
    dr = estimate_value(hand, [0, 1], model=m)
    # Σm + Σ w(r − m): 1.25 + 2(2 − 1) + 4(1 − 0.25), and 1.25 + 2(1 − 1)
    assert dr.by_round.tolist() == [6.25, 1.25]
    users = estimate_value(hand, [0, 1], model=m, count="distinct")
    # q = 1.5, 1.5, 3.25 and 1.5, −0.5, 0.25: user 3 is reached by both sources
    assert users.by_round == pytest.approx([1.5 + 1 - (1 - 1.5) * (1 - 3.25), 1.5 + 1 - 1.5 * 0.75])
    modelled = estimate_value(hand, [0, 1], model=m, count="modelled")
    assert modelled.by_round == pytest.approx(dr.by_round - 0.5 * 0.25)


def test_clipping_by_hand(hand):
    clipped = estimate_value(hand, [0, 1], estimator="ips", clip=3.0)
    assert clipped.by_round.tolist() == [2 * 2 + 3 * 1, 2 * 1]
    # Source 1 keeps 3/4 of its mean and has one edge.
    assert (clipped.clipped, clipped.bias_bound) == (1, 0.25)
    assert estimate_value(hand, [0, 1], estimator="ips", clip=4.0).bias_bound == 0.0
    ratio = estimate_value(hand, [0, 1], estimator="snips", clip=3.0)
    assert ratio.bias_bound == pytest.approx(abs(1 * 2 / 1.75 - 1) * 2 + abs(0.75 * 2 / 1.75 - 1) * 1)


def test_targets_may_differ_by_round(hand):
    assert estimate_value(hand, [[0], [1]], estimator="ips").by_round.tolist() == [4.0, 0.0]
    assert estimate_value(hand, np.array([[0], [1]], dtype=np.int32), estimator="ips").value == 2.0


# -- support --


def test_missing_support_is_refused_and_named(hand):
    with pytest.raises(InputError, match=r"no support.*round 0.*propensity 0 \(2\)"):
        estimate_value(hand, [0, 2], estimator="ips")


def test_the_model_may_stand_in_and_says_so(hand):
    graph = hand.graph
    blind = LoggedCampaign.from_rounds(
        graph, [LoggedRound(r.product, [1], [2], [1.0], [0.0, 0.25, 0, 0]) for r in (hand.round(0), hand.round(1))]
    )
    e = estimate_value(blind, [0, 1], model=np.array([0.9, 0.5, 0.25]), missing_support="model")
    assert e.value == pytest.approx(1.4 + 0.25 + 4 * 0.75)
    assert e.unsupported == 2
    assert e.bias_bound == pytest.approx(0.9 + 0.5)
    assert "no support" in e.caution


def test_a_target_that_never_matched(hand):
    once = hand.take([1])
    assert estimate_value(once, [1], estimator="ips").value == 0.0
    with pytest.raises(InputError, match="nothing to average"):
        estimate_value(once, [1], estimator="snips")


# -- models, policies, intervals --


def test_a_cross_fitted_model_beats_no_model_and_never_saw_its_round(environment, propensities):
    log = log_campaign(environment, propensities, rounds=80, seed=3)
    target = environment.optimum(0).rows
    model = cross_fitted_model(log, LinUCB(), environment.users, folds=2, rng=0)
    ips = estimate_value(log, target, estimator="ips")
    dr = estimate_value(log, target, model=model)
    assert dr.standard_error < ips.standard_error
    assert abs(dr.value - ips.value) < 3 * ips.standard_error
    # Turning the outcomes of one round around must not move its own prediction.
    t = 7
    outcomes = log.outcomes.copy()
    part = slice(log.edge_offsets[t], log.edge_offsets[t + 1])
    outcomes[part] = 1.0 - outcomes[part]
    other = LoggedCampaign(**{**vars(log), "outcomes": outcomes})
    again = cross_fitted_model(other, LinUCB(), environment.users, folds=2, rng=0)
    assert np.array_equal(model(t), again(t))
    assert any(not np.array_equal(model(s), again(s)) for s in range(20))


def test_a_policy_as_target_and_as_model(environment, propensities):
    past, log = (log_campaign(environment, propensities, rounds=60, run=run, seed=4) for run in (0, 1))
    policy = train(past, LinUCB(exploration=1.0), environment.users)
    choices = choices_of(log, policy, 5)
    assert len(choices) == 60
    assert len({tuple(rows) for rows in choices}) <= 4
    e = estimate_value(log, choices, model=policy)
    products = product_sequence(environment, 60, run=1, seed=4).tolist()
    truth = np.mean([additive(environment, z, rows) for z, rows in zip(products, choices, strict=True)])
    assert abs(e.value - truth) <= 3 * e.standard_error


def test_better_choices_are_told_from_worse_ones(environment, propensities):
    log = log_campaign(environment, propensities, rounds=300, seed=5)
    lazy = Random()
    lazy.bind(environment.graph, environment.users, 0)
    best = estimate_value(log, environment.optimum(0).rows, estimator="snips")
    worst = estimate_value(log, choices_of(log, lazy, 5), estimator="snips")
    assert best.low > worst.high
    assert best.caution == ""


@pytest.mark.parametrize("options", [{"estimator": "ips"}, {"estimator": "snips"}, {"model": 0.1}])
def test_the_bootstrap_agrees_with_students_interval(environment, propensities, options):
    log = log_campaign(environment, propensities, rounds=150, seed=6)
    if "model" in options:
        options = {"model": np.full(environment.graph.n_edges, 0.1), "count": "modelled"}
    target = environment.optimum(0).rows
    normal = estimate_value(log, target, **options)
    boot = estimate_value(log, target, **options, interval="bootstrap", rng=0)
    assert boot.value == normal.value
    width = normal.high - normal.low
    assert abs(boot.low - normal.low) < 0.15 * width
    assert abs(boot.high - normal.high) < 0.15 * width
    assert estimate_value(log, target, **options, interval="bootstrap", rng=0).low == boot.low


# -- misuse --


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"estimator": "dm"}, "estimator must be"),
        ({}, "needs a model"),
        ({"estimator": "ips", "count": "modelled"}, "needs a model"),
        ({"estimator": "ips", "missing_support": "model"}, "needs estimator='dr'"),
        ({"estimator": "snips", "count": "distinct"}, "self-normalised"),
        ({"estimator": "ips", "clip": 0.5}, "clip must be"),
        ({"estimator": "ips", "clip": float("nan")}, "clip must be"),
        ({"estimator": "ips", "level": 1.0}, "level"),
        ({"model": np.full(3, 1.5)}, "predictions must be"),
        ({"model": np.full(3, np.nan)}, "predictions must be"),
    ],
)
def test_bad_options_are_refused(hand, options, words):
    with pytest.raises(InputError, match=words):
        estimate_value(hand, [0, 1], **options)


@pytest.mark.parametrize("target", [[], [0, 0], [9], [-1], [0.5], [[0], [1], [0]], [[0], []]])
def test_bad_targets_are_refused(hand, target):
    with pytest.raises(InputError):
        estimate_value(hand, target, estimator="ips")


def test_a_model_of_another_size_is_refused(hand):
    with pytest.raises(ShapeError, match="one probability per edge"):
        estimate_value(hand, [0], model=np.zeros(2))
    with pytest.raises(ShapeError, match="one probability per edge"):
        estimate_value(hand, [0], model=lambda t: np.zeros(2))
    with pytest.raises(InputError, match="folds"):
        cross_fitted_model(hand, LinUCB(), np.ones((4, 2)), folds=3)


def test_distinct_users_need_independent_contacts(hand):
    unknown = LoggedCampaign(**{**vars(hand), "sampling": "unknown"})
    with pytest.raises(InputError, match="independently"):
        estimate_value(unknown, [0, 1], estimator="ips", count="distinct")
