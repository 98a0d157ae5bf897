from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
from scipy.stats import kstest, norm

from studies.uncertainty.__main__ import main
from studies.uncertainty.calibration import LEVELS
from studies.uncertainty.counts import count_probabilities, predictive_counts, randomised_pit
from studies.uncertainty.figures import _source_coverage
from studies.uncertainty.policy import HeldOut, held_out, pooled
from studies.uncertainty.policy_study import data_tables
from studies.uncertainty.sources import SourceQuestions
from tensorucb.data import ActionLog, Dataset, make_sandbox, write_dataset
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import Environment, WorldSettings
from tensorucb.policies import TensorUCB


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-np.asarray(x)))


def enumerated(p, count):
    """P(K < count), P(K = count) over all 2^n outcomes."""
    below = at = 0.0
    for outcome in itertools.product((0, 1), repeat=len(p)):
        weight = float(np.prod(np.where(outcome, p, 1.0 - np.asarray(p))))
        below += weight * (sum(outcome) < count)
        at += weight * (sum(outcome) == count)
    return below, at


def drawn_questions(n_sources, *, true_deviation, stated, rng, edges=(5, 60)):
    """Beliefs, and truths drawn around them with one error a source."""
    generator = np.random.default_rng(rng)
    sizes = generator.integers(*edges, n_sources)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mean = generator.normal(-2.0, 1.0, offsets[-1])
    rates = sigmoid(mean + np.repeat(true_deviation * generator.standard_normal(n_sources), sizes))
    hits = (generator.random(rates.size) < rates).astype(np.int64)
    total, counts = (np.add.reduceat(x, offsets[:-1]) for x in (rates, hits))
    explored = np.arange(n_sources) % 2 == 0
    return SourceQuestions(offsets, mean, np.full(mean.size, stated), total, counts, explored)


# -- the distribution of counts --


def test_counts_of_few_coins_equal_enumeration():
    rng = np.random.default_rng(0)
    sizes = np.array([1, 3, 0, 7, 7, 5])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    p = rng.random(offsets[-1])
    p[4], p[5] = 0.0, 1.0
    for counts in ([0, 0, 0, 0, 0, 0], [1, 3, 0, 7, 4, 2], [1, 2, 0, 5, 1, 5]):
        below, at = count_probabilities(offsets, p, counts)
        parts = zip(np.split(p, offsets[1:-1]), counts, strict=True)
        np.testing.assert_allclose(np.column_stack([below, at]), [enumerated(*part) for part in parts], atol=1e-14)


def test_the_shared_error_is_integrated_out():
    """Enumeration at each node of a wider and finer grid than the function's own."""
    rng = np.random.default_rng(1)
    mean, deviation = rng.normal(-1.0, 1.0, 5), rng.uniform(0.0, 2.0, 5)
    nodes = np.linspace(-9.0, 9.0, 251)
    weights = norm.pdf(nodes) / norm.pdf(nodes).sum()
    for count in range(6):
        reference = weights @ [enumerated(sigmoid(mean + node * deviation), count) for node in nodes]
        found = np.concatenate(predictive_counts([0, 5], mean, deviation, [count]))
        np.testing.assert_allclose(found, reference, atol=1e-9)


def test_many_edges_agree_with_monte_carlo():
    """20,000 draws: four standard errors of a probability are 0.014; 400 edges make steep steps in the error."""
    rng = np.random.default_rng(2)
    mean, deviation = rng.normal(-1.5, 1.0, 400), 0.8
    shifts = deviation * rng.standard_normal(20_000)
    counts = np.array([(rng.random(400) < sigmoid(mean + shift)).sum() for shift in shifts])
    for quantile in (0.02, 0.3, 0.7, 0.98):
        asked = int(np.quantile(counts, quantile))
        below, at = predictive_counts([0, 400], mean, np.full(400, deviation), [asked])
        assert abs(below[0] - (counts < asked).mean()) < 0.015
        assert abs(at[0] - (counts == asked).mean()) < 0.004


def test_a_large_sure_source_is_near_its_normal_limit():
    """Where the law of large numbers leaves only the error: P(K ≤ n·sigmoid(sd)) is near Φ(1)."""
    n, deviation = 4_000, 1.0
    asked = int(n * sigmoid(-2.0 + deviation))
    below, at = predictive_counts([0, n], np.full(n, -2.0), np.full(n, deviation), [asked])
    assert below[0] == pytest.approx(norm.cdf(1.0), abs=5e-3)
    assert 0.0 < at[0] < 2e-3


def test_all_counts_sum_to_one():
    mean, deviation = np.linspace(-3, 3, 25), np.full(25, 0.7)
    at = [predictive_counts([0, 25], mean, deviation, [k])[1][0] for k in range(26)]
    assert sum(at) == pytest.approx(1.0, abs=1e-12)


def test_bad_input_to_counts_is_refused():
    with pytest.raises(ShapeError, match="one count a group"):
        count_probabilities([0, 2], [0.1, 0.2], [1, 1])
    with pytest.raises(InputError, match="offsets must rise"):
        count_probabilities([0, 3], [0.1, 0.2], [1])
    for counts in ([3], [-1], [0.5]):
        with pytest.raises(InputError, match="whole numbers"):
            count_probabilities([0, 2], [0.1, 0.2], counts)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        count_probabilities([0, 2], [0.1, 1.2], [1])
    with pytest.raises(ShapeError, match="one length"):
        predictive_counts([0, 2], [0.1, 0.2], [0.1], [1])
    for deviation in ([0.1, -0.1], [0.1, np.nan]):
        with pytest.raises(InputError, match="finite"):
            predictive_counts([0, 2], [0.1, 0.2], deviation, [1])
    with pytest.raises(InputError, match="link"):
        predictive_counts([0, 1], [0.1], [0.1], [1], link="probit")
    with pytest.raises(ShapeError, match="one shape"):
        randomised_pit([0.1], [0.1, 0.2])
    with pytest.raises(InputError, match="at most 1"):
        randomised_pit([0.9], [0.2])


# -- calibration --


def test_the_randomised_pit_is_uniform_when_beliefs_are_right():
    questions = drawn_questions(3000, true_deviation=0.6, stated=0.6, rng=3)
    pit = questions.pit(rng=4)
    assert kstest(pit, "uniform").pvalue > 0.05
    np.testing.assert_array_equal(pit, questions.pit(rng=4))
    assert (pit != questions.pit(rng=5)).any()
    wrong = drawn_questions(3000, true_deviation=0.6, stated=0.1, rng=3)
    assert kstest(wrong.pit(rng=4), "uniform").pvalue < 1e-6


def test_coverage_is_nominal_when_beliefs_are_right():
    """4,000 sources: four standard errors of a share are at most 0.032."""
    questions = drawn_questions(4000, true_deviation=0.5, stated=0.5, rng=6)
    for coverage in (questions.rate_coverage(), questions.predictive_coverage()):
        np.testing.assert_allclose(coverage.empirical, coverage.levels, atol=0.032)
        assert coverage.count == 4000
    widths = questions.rate_coverage().width
    assert (np.diff(widths) > 0).all()


def test_coverage_is_too_low_when_deviations_are_stated_too_small():
    right = drawn_questions(2000, true_deviation=1.0, stated=1.0, rng=7, edges=(30, 60))
    small = drawn_questions(2000, true_deviation=1.0, stated=0.3, rng=7, edges=(30, 60))
    np.testing.assert_array_equal(right.counts, small.counts)
    found, good = small.summary(), right.summary()
    # z·0.3 of a standard normal: 2Φ(0.493) − 1.
    assert found["rate_90"] == pytest.approx(2 * norm.cdf(0.3 * 1.645) - 1, abs=0.04)
    assert found["predictive_90"] < 0.75 < 0.87 < good["predictive_90"] < 0.93
    assert found["coins_90"] == good["coins_90"] < found["predictive_90"]  # stating nothing is worse still
    assert good["error"] == pytest.approx(0.7, abs=0.2)  # on the scale of ln rate, flatter than a logit
    assert (found["deviation"], good["questions"]) == (pytest.approx(0.3), 2000)


def test_groups_partition_the_questions():
    questions = drawn_questions(101, true_deviation=0.4, stated=0.4, rng=8)
    explored, rest = questions.group("explored"), questions.group("unexplored")
    assert (explored.counts.size, rest.counts.size) == (51, 50)
    np.testing.assert_allclose(explored.predicted, questions.predicted[::2])
    np.testing.assert_allclose(rest.predicted, questions.predicted[1::2])
    both = 51 * explored.rate_coverage((0.9,)).empirical + 50 * rest.rate_coverage((0.9,)).empirical
    np.testing.assert_allclose(both / 101, questions.rate_coverage((0.9,)).empirical)
    np.testing.assert_array_equal(questions.group("all").counts, questions.counts)
    with pytest.raises(InputError, match="group must be"):
        questions.group("seen")
    with pytest.raises(InputError, match="levels"):
        questions.predictive_coverage((0.0, 0.9))


# -- from a policy --


@pytest.fixture(scope="module")
def found():
    sandbox = make_sandbox(60, 400, 8, n_topics=4, rng=0)
    world = Environment.from_sandbox(sandbox, settings=WorldSettings(k=3), product_rows=np.arange(6))
    return world, held_out(world, TensorUCB(), rounds=3)


def test_sources_of_held_out_questions(found):
    world, pairs = found
    graph = world.graph
    questions = pairs.sources(minimum=4)
    kept = graph.out_degree >= 4
    totals = [np.bincount(graph.sources, world.probabilities(z), graph.n_nodes)[kept] for z in (6, 7)]
    np.testing.assert_allclose(questions.rates, np.concatenate(totals))
    np.testing.assert_array_equal(np.diff(questions.offsets), np.tile(graph.out_degree[kept], 2))
    hits = pairs.outcomes.reshape(2, -1)
    np.testing.assert_array_equal(
        questions.counts, np.concatenate([np.bincount(graph.sources, y, graph.n_nodes)[kept] for y in hits])
    )
    for name in ("explored", "unexplored"):  # the order of choosing does not matter
        np.testing.assert_array_equal(questions.group(name).counts, pairs.group(name).sources(minimum=4).counts)
    assert 0 < questions.explored.sum() < questions.explored.size
    assert pairs.sources().counts.size < questions.counts.size
    with pytest.raises(InputError, match="minimum must be positive"):
        pairs.sources(minimum=0)
    with pytest.raises(InputError, match="lower minimum"):
        pairs.sources(minimum=10_000)


def test_runs_are_pooled_without_mixing_their_sources():
    """One source in each of two runs: two questions, although the numbers are equal and neighbours."""
    ones = np.ones(3)
    run = HeldOut(-ones, ones, 0.5 * ones, ones, ones > 0, np.full(3, 4), "sigmoid")
    both = pooled([run, run]).sources(minimum=3)
    np.testing.assert_array_equal(both.counts, [3, 3])
    np.testing.assert_allclose(both.rates, [1.5, 1.5])


# -- the command --


def small_dataset(directory):
    sandbox = make_sandbox(40, 400, 12, n_topics=3, rng=1)
    rng = np.random.default_rng(1)
    users, items = np.nonzero(rng.random((40, 12)) < 0.5)
    log = ActionLog.from_arrays(users, items, rng.integers(0, 1000, users.size), [f"i{i}" for i in range(12)])
    write_dataset(Dataset(sandbox.graph, log, name="small"), directory, form="csv")


def test_a_data_set_is_asked_about_new_and_past_products(tmp_path):
    small_dataset(tmp_path / "small")
    tables = data_tables(tmp_path / "small", rounds=2, runs=1, seed=0, report=lambda _: None)
    rows = {(row["products"], row["sources"]): row for row in tables["sources"]}
    assert set(rows) == {(kind, group) for kind in ("new", "past") for group in ("explored", "unexplored")}
    # 12 items: 3 are the past, of which 2 are asked about, and 8 of the other 9 are kept out of the rounds.
    for kind, products in (("new", 8), ("past", 2)):
        asked = sum(rows[kind, group]["questions"] for group in ("explored", "unexplored"))
        assert asked % products == 0
        assert 0 < asked // products <= 40
    nominal = [row["nominal"] for row in tables["source_coverage"]]
    assert len(nominal) == 4 * 2 * len(LEVELS)
    chart = _source_coverage(tables["source_coverage"]).to_dict()
    assert {row["products"] for row in chart["data"]["values"]} == {"new"}


@pytest.mark.slow
def test_the_command_measures_sources_and_data(tmp_path, capsys):
    small_dataset(tmp_path / "small")
    options = ["--out", str(tmp_path / "new"), "--quick", "--only", "policies", "--data", str(tmp_path / "small")]
    assert main(options) == 0
    assert len(capsys.readouterr().out.split()) == 12
    with (tmp_path / "new" / "sources.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(row["world"], row["policy"], row["products"]) for row in rows}
    assert kinds == {
        ("sandbox", "TensorUCB", "new"),
        ("sandbox", "paper, logistic", "new"),
        ("small", "TensorUCB", "new"),
        ("small", "TensorUCB", "past"),
    }
    assert all(0.0 <= float(row["predictive_90"]) <= 1.0 for row in rows)
    assert "| small | TensorUCB | new | explored |" in (tmp_path / "new" / "policies.md").read_text()
    assert (tmp_path / "new" / "uncertainty-sources.png").stat().st_size < 200 * 1024


def test_data_without_the_part_on_policies_is_refused(tmp_path):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--only", "bonus", "--data", str(tmp_path)])
