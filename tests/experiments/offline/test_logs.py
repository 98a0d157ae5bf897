"""Logged campaigns: drawing, checking, files and replay."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import FileFormatError, InputError, ShapeError, UnknownIdError
from tensorucb.experiments import Environment, WorldSettings, product_sequence
from tensorucb.experiments.offline import (
    LoggedCampaign,
    LoggedRound,
    draw_contacts,
    estimate_value,
    log_campaign,
    mixed_propensities,
    read_campaign,
    replay,
    write_campaign,
)
from tensorucb.graph import Graph
from tensorucb.policies import CUCB, LinUCB, Prediction, UCBPolicy

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "evaluate-from-logs.md"


@pytest.fixture(scope="module")
def environment():
    sandbox = make_sandbox(60, 400, 4, n_topics=4, base_rate=0.1, rng=0)
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=5))


def same(one: LoggedCampaign, two: LoggedCampaign) -> bool:
    names = [name for name in vars(one) if name not in ("graph", "sampling")]
    return one.sampling == two.sampling and all(np.array_equal(getattr(one, n), getattr(two, n)) for n in names)


# -- drawing --


@pytest.mark.parametrize("sampling", ["independent", "fixed_size"])
def test_inclusion_probabilities_are_the_ones_given(sampling):
    p = np.array([0.0, 1.0, 0.9, 0.1, 0.25, 0.35, 0.4])
    rng, draws = np.random.default_rng(0), 4000
    counts = np.zeros(7)
    for _ in range(draws):
        rows = draw_contacts(p, sampling, rng)
        counts[rows] += 1
        if sampling == "fixed_size":
            assert rows.size == 3
    error = np.sqrt(p * (1 - p) / draws)
    assert (np.abs(counts / draws - p) <= 4 * error).all()


def test_a_size_that_is_not_whole_is_refused():
    with pytest.raises(InputError, match="whole number"):
        draw_contacts(np.full(3, 0.5), "fixed_size", np.random.default_rng(0))
    with pytest.raises(InputError, match="sampling must be"):
        draw_contacts(np.full(2, 0.5), "unknown", np.random.default_rng(0))


def test_mixed_propensities_sum_to_the_number_of_seeds():
    p = mixed_propensities([3, 1], 10, epsilon=0.2)
    assert p.sum() == pytest.approx(2.0)
    assert p[3] == pytest.approx(0.84)
    assert p[0] == pytest.approx(0.04)
    with pytest.raises(InputError, match="epsilon"):
        mixed_propensities([0], 2, epsilon=1.5)


@pytest.mark.parametrize("sampling", ["independent", "fixed_size"])
def test_a_log_repeats_for_a_seed_and_shows_the_contacted(environment, sampling):
    one, two = (log_campaign(environment, LinUCB(), rounds=12, sampling=sampling, seed=2) for _ in range(2))
    assert same(one, two)
    assert one.n_rounds == 12
    for t in range(12):
        r = one.round(t)
        assert np.array_equal(np.unique(environment.graph.sources[r.edges]), np.sort(r.contacts))
        assert r.propensities.sum() == pytest.approx(5.0)
        assert sampling == "independent" or r.contacts.size == 5


def test_propensities_may_depend_on_the_product_and_are_kept_once(environment):
    log = log_campaign(environment, lambda z: np.full(60, 0.1 + 0.1 * z), rounds=30, seed=0)
    products = product_sequence(environment, 30, run=0, seed=0)
    assert log.propensities.shape[0] == np.unique(products).size
    assert np.allclose(log.propensities[log.design, 0], 0.1 + 0.1 * products)


def test_ips_is_unbiased_for_a_fixed_number_of_contacts(environment):
    """60 logs of 40 rounds, mean error within 3 standard errors; contacts of a round depend on each other."""
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=60)
    p, rows = 12 * weights / weights.sum(), environment.optimum(1).rows
    errors = []
    for run in range(60):
        log = log_campaign(environment, p, rounds=40, sampling="fixed_size", run=run, seed=7)
        edges = environment.graph.out_edges(rows)
        products = product_sequence(environment, 40, run=run, seed=7).tolist()
        truth = np.mean([environment.probabilities(z)[edges].sum() for z in products])
        errors.append(estimate_value(log, rows, estimator="ips").value - truth)
    assert abs(np.mean(errors)) <= 3 * np.std(errors, ddof=1) / np.sqrt(60)


# -- checks --


@pytest.fixture
def tiny():
    graph = Graph.from_edges(["a", "a", "b"], ["c", "d", "d"])
    r = LoggedRound(np.array([1.0, 2.0]), np.array([0]), np.array([1, 0]), np.array([1.0, 0.0]), [0.5, 0.2, 0.0, 0.0])
    return graph, r


def changed(r: LoggedRound, **values) -> LoggedRound:
    return LoggedRound(**{**vars(r), **values})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"propensities": [0.5, 0.2, 0.0, 1.2]}, "propensities must be numbers in"),
        ({"propensities": [np.nan, 0.2, 0.0, 0.1]}, "propensities must be finite"),
        ({"propensities": [0.5, 0.2]}, "one entry per user"),
        ({"contacts": [2]}, "c was contacted in round 1 with propensity 0"),
        ({"contacts": [7]}, "contacts must lie in"),
        ({"contacts": [0, 0]}, "twice"),
        ({"contacts": [0.5]}, "whole numbers"),
        ({"edges": [0, 9]}, "edges must lie in"),
        ({"edges": [1, 1]}, "twice"),
        ({"edges": [1]}, "outcomes must have shape"),
        ({"outcomes": [1.0, 2.0]}, "outcomes must be numbers in"),
        ({"outcomes": [1.0, np.nan]}, "outcomes must be finite"),
        ({"product": [1.0]}, "products must be"),
    ],
)
def test_a_log_that_cannot_have_happened_is_refused(tiny, values, words):
    graph, r = tiny
    with pytest.raises(InputError, match=words):
        LoggedCampaign.from_rounds(graph, [r, changed(r, **values)])


def test_other_misuse(tiny, environment):
    graph, r = tiny
    with pytest.raises(InputError, match="at least one round"):
        LoggedCampaign.from_rounds(graph, [])
    with pytest.raises(InputError, match="sampling"):
        LoggedCampaign.from_rounds(graph, [r], sampling="magic")
    with pytest.raises(InputError, match="round must be"):
        LoggedCampaign.from_rounds(graph, [r]).round(1)
    with pytest.raises(ShapeError, match="one entry per user"):
        log_campaign(environment, np.ones(3), rounds=1)
    with pytest.raises(InputError, match="propensities must be"):
        log_campaign(environment, np.full(60, 1.5), rounds=1)
    with pytest.raises(InputError, match="rounds"):
        log_campaign(environment, np.ones(60), rounds=0)


# -- files --


def test_a_log_comes_back_from_parquet(environment, tiny, tmp_path):
    log = log_campaign(environment, LinUCB(), rounds=8, seed=3)
    files = write_campaign(log, tmp_path / "log")
    assert {f.name for f in files} == {
        "rounds.parquet", "contacts.parquet", "responses.parquet", "propensities.parquet", "campaign.json"
    }  # fmt: skip
    assert same(read_campaign(tmp_path / "log", environment.graph), log)
    graph, r = tiny
    quiet = changed(r, contacts=np.empty(0, int), edges=np.empty(0, int), outcomes=np.empty(0))
    named = LoggedCampaign.from_rounds(graph, [quiet, r, quiet], sampling="fixed_size")
    write_campaign(named, tmp_path / "named")
    again = read_campaign(tmp_path / "named", graph)
    assert same(again, named)
    assert again.round(1).edges.tolist() == [1, 0]
    assert pl.read_parquet(tmp_path / "named" / "responses.parquet")["source"].to_list() == ["a", "a"]


def test_damaged_or_foreign_files_are_named(tiny, tmp_path):
    graph, r = tiny
    write_campaign(LoggedCampaign.from_rounds(graph, [r]), tmp_path)
    with pytest.raises(UnknownIdError):
        read_campaign(tmp_path, Graph.from_edges(["x"], ["y"]))
    (tmp_path / "campaign.json").write_text("[]")
    with pytest.raises(FileFormatError, match=r"campaign\.json"):
        read_campaign(tmp_path, graph)
    (tmp_path / "campaign.json").unlink()
    assert read_campaign(tmp_path, graph).sampling == "unknown"
    for name, frame, words in (
        ("contacts", pl.DataFrame({"round": [5], "user": ["a"]}), "names round 5"),
        ("contacts", pl.DataFrame({"round": [0], "user": [None]}), "empty cells in user"),
        ("contacts", pl.DataFrame({"round": [0]}), "lacks the columns user"),
        ("rounds", pl.DataFrame({"round": [1], "product": [[1.0]], "design": [0]}), "must number its rounds"),
    ):
        path = tmp_path / f"{name}.parquet"
        kept = path.read_bytes()
        frame.write_parquet(path)
        with pytest.raises(FileFormatError, match=words):
            read_campaign(tmp_path, graph)
        path.write_bytes(kept)
    (tmp_path / "responses.parquet").write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="responses"):
        read_campaign(tmp_path, graph)


# -- replay --


def test_replay_of_a_log_that_shows_everything_is_the_live_run(environment):
    """With propensity 1 for all, the policy sees what it would have seen, and the value is what it would have got."""
    log = log_campaign(environment, np.ones(60), rounds=15, seed=4)
    live = LinUCB()
    rng = np.random.default_rng(0)
    from tensorucb.oracle import SeedOracle

    oracle = SeedOracle(environment.graph, objective="direct", rng=rng)
    live.bind(environment.graph, environment.users, rng)
    choices, got = [], []
    for t in range(15):
        r = log.round(t)
        rows = live.choose(r.product, 5, oracle)
        shown = np.isin(environment.graph.sources[r.edges], rows)
        live.update(r.product, r.edges[shown], r.outcomes[shown])
        choices.append(rows)
        got.append(r.outcomes[shown].sum())
    for estimator in ("ips", "snips", "dr"):
        result = replay(log, LinUCB(), 5, environment.users, estimator=estimator, rng=0)
        assert all(np.array_equal(a, b) for a, b in zip(result.choices, choices, strict=True))
        assert result.estimate.value == pytest.approx(np.mean(got))
        assert result.seen == 1.0
        assert result.matched.tolist() == [5] * 15


class Spy(UCBPolicy):
    """Seeds users 0..k-1 and remembers what it was told."""

    name = "Spy"

    def __init__(self):
        self.told = []

    def settings(self):
        return {}

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 0.1))

    def pick(self, prediction, modes, k, oracle):
        return np.arange(k)

    def learn(self, state, modes, edges, outcomes):
        self.told.append(set(self.graph.sources[edges].tolist()))
        return state


def test_replay_shows_matches_alone_or_the_whole_log(environment):
    log = log_campaign(environment, np.full(60, 0.5), rounds=20, seed=5)
    spy = Spy()
    result = replay(log, spy, 6, None, rng=0)
    assert set().union(*spy.told) <= set(range(6))
    assert result.seen == pytest.approx(0.5, abs=0.15)
    assert result.estimate.matched == result.matched.sum()
    assert result.estimate.effective_sample_size == pytest.approx(result.matched.sum())
    # Uniform propensities: the classic replay average of the matched rewards.
    rewards = [
        log.round(t).outcomes[np.isin(environment.graph.sources[log.round(t).edges], np.arange(6))].sum()
        for t in range(20)
    ]
    assert result.estimate.value == pytest.approx(6 * np.sum(rewards) / result.matched.sum())
    spy = Spy()
    replay(log, spy, 6, None, learn="logged", rng=0)
    assert max(set().union(*spy.told)) > 6


@pytest.mark.parametrize("estimator", ["ips", "dr"])
def test_replay_is_unbiased_for_what_the_learner_chose(environment, estimator):
    """40 logs of 30 rounds, mean error within 3 standard errors."""
    errors = []
    for run in range(40):
        log = log_campaign(environment, np.full(60, 0.4), rounds=30, run=run, seed=6)
        result = replay(log, CUCB(exploration=0.1), 5, None, estimator=estimator, rng=run)
        products = product_sequence(environment, 30, run=run, seed=6).tolist()
        truth = [
            environment.probabilities(z)[environment.graph.out_edges(rows)].sum()
            for z, rows in zip(products, result.choices, strict=True)
        ]
        errors.append(result.estimate.value - np.mean(truth))
    assert abs(np.mean(errors)) <= 3 * np.std(errors, ddof=1) / np.sqrt(40)


def test_replay_refuses_what_it_cannot_do(environment):
    half = np.where(np.arange(60) < 30, 0.5, 0.0)
    log = log_campaign(environment, half, rounds=3, seed=5)
    with pytest.raises(InputError, match="no support"):
        replay(log, LinUCB(), 40, environment.users)
    with pytest.raises(InputError, match="learn must be"):
        replay(log, LinUCB(), 4, environment.users, learn="all")


# -- the page --


@pytest.mark.slow
def test_the_page_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    promised = re.findall(r"print\(.*\)\s+# (.*)", text)
    assert capsys.readouterr().out.splitlines() == promised
