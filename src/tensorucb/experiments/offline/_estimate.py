"""`estimate_value` and `replay`: what other choices, or a policy that learns, would have brought, from a log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_rows
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.experiments.offline._models import Model, as_baseline
from tensorucb.experiments.offline._rounds import (
    Baseline,
    Count,
    Estimator,
    How,
    IntervalKind,
    MissingSupport,
    RoundSums,
    sums_by_round,
)
from tensorucb.policies import Oracle, Policy
from tensorucb.rng import RngLike, as_generator

Choices = Sequence[ArrayLike] | NDArray[np.integer[Any]]

_ROWS = "Use graph.rows(ids)."
# Below so many effective contacts intervals are too short.
_FEW = 30.0
_RESAMPLES, _CHUNK = 1000, 64


@dataclass(frozen=True)
class Estimate:
    """An estimated value per round, with how far it can be trusted.

    Attributes
    ----------
    value, standard_error, low, high
        The estimated responses per round. Errors are clustered by round, within which outcomes may be dependent.
    chosen, matched
        The target's choices in all rounds, and how many of those had been contacted.
    effective_sample_size
        ``(Σw)²/Σw²`` of the matched contacts (Kish): as many equally weighted ones would say as much.
    bias_bound
        Clipping, and the model in place of missing support, move the estimator's mean by at most this. 0: unbiased.
        The error of the model's overlap under ``count="modelled"`` is not in it.
    unsupported, by_round
        Choices with propensity 0, for which the model stood in; and the contribution of each round to ``value``.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.2] * 60, rounds=10)
    >>> found = estimate_value(log, [3, 5, 7], estimator="snips")
    >>> found.chosen, found.low <= found.value <= found.high
    (30, True)
    """

    estimator: str
    count: str
    value: float
    standard_error: float
    low: float
    high: float
    level: float
    rounds: int
    chosen: int
    matched: int
    effective_sample_size: float
    largest_weight: float
    clipped: int
    bias_bound: float
    unsupported: int
    by_round: F64

    @property
    def caution(self) -> str:
        """Why the estimate should not be relied on; empty if nothing speaks against it."""
        reasons = []
        if self.effective_sample_size < _FEW:
            reasons.append(
                f"it rests on {self.effective_sample_size:.1f} effective contacts ({self.matched} of "
                f"{self.chosen} choices were logged); the interval is too short below about {_FEW:.0f}"
            )
        if self.unsupported:
            reasons.append(f"{self.unsupported} of {self.chosen} choices have no support and rest on the model alone")
        if self.bias_bound > self.standard_error > 0.0 and self.clipped:
            reasons.append(f"clipping may move it by {self.bias_bound:.3g}, more than its standard error")
        return "; ".join(reasons)


def choices_of(campaign: LoggedCampaign, policy: Policy, k: int, *, oracle: Oracle | None = None) -> list[I64]:
    """What a policy, as it stands, would choose in each logged round; it must be bound to the log's graph.

    The oracle is the exact one of the direct objective by default.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.2] * 60, rounds=10)
    >>> policy = tu.experiments.offline.train(log, tu.policies.LinUCB(), world.users)
    >>> [len(rows) for rows in choices_of(log, policy, k=3)][:4]
    [3, 3, 3, 3]
    """
    from tensorucb.oracle import SeedOracle

    chooser = oracle or SeedOracle(campaign.graph, objective="direct", rng=0)

    @cache
    def chosen(product: bytes) -> I64:
        return np.asarray(policy.choose(np.frombuffer(product), k, chooser), dtype=np.int64)

    return [chosen(product.tobytes()) for product in campaign.products]


def estimate_value(
    campaign: LoggedCampaign,
    target: Choices,
    *,
    estimator: Estimator = "dr",
    model: Model | None = None,
    count: Count = "all",
    clip: float | None = None,
    missing_support: MissingSupport = "refuse",
    interval: IntervalKind = "normal",
    level: float = 0.9,
    rng: RngLike = 0,
) -> Estimate:
    """Expected direct responses per round, had the target's seeds been contacted in the logged rounds.

    A source is an item, its responses are the item's reward, and its marginal inclusion probability π_i is all that
    the weights need. This rests on the responses of a source not depending on who else was contacted: true for edges
    with coins of their own, as in the independent cascade model.

    Parameters
    ----------
    target
        Rows to contact: one set for all rounds, or a sequence with a set for each round (see `choices_of`). They must
        not depend on the outcomes of the round itself or of later ones.
    estimator
        ``"ips"``: Σ A_i·r_i/π_i, unbiased. ``"snips"``: the weights divided by their mean; a bias of order 1/T, usually
        much less variance. ``"dr"``: the model's prediction plus the weighted residuals; unbiased whatever the model,
        and the better the model the smaller the variance.
    model
        For ``"dr"`` and ``count="modelled"``: edge probabilities, a bound policy (its beliefs without exploration) or
        ``model(t)``. It must not have learned from the rounds it predicts; see `cross_fitted_model`.
    count
        ``"all"``: responses, a user once for every source they responded to, Σ_i Σ_j p_ij: additive, at least as large
        as the number of users. ``"distinct"``: users other than the seeds, Σ_j (1 − Π_i(1 − p_ij)), which is
        ``direct_spread`` without the seeds; unbiased for logs with ``sampling="independent"`` and refused for others;
        not for ``"snips"``. ``"modelled"``: ``"all"`` minus the overlap that the model predicts, for any sampling; off
        by the model's error in the overlap alone.
    clip
        Largest weight allowed. Lowers the variance, and biases: ``bias_bound`` says by how much at most.
    missing_support
        A chosen user with propensity 0 is an error (``"refuse"``), or is predicted by the model alone (``"model"``,
        only with ``"dr"``); ``unsupported`` and ``bias_bound`` then tell.
    interval
        ``"normal"``: Student's, from the variance between rounds. ``"bootstrap"``: percentiles over resampled rounds.
    level, rng
        Of the interval.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 4, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.2] * 60, rounds=50)  # everybody with probability 0.2
    >>> found = estimate_value(log, world.optimum(0).rows, estimator="ips")
    >>> found.chosen, bool(found.low < found.value < found.high)
    (500, True)
    """
    how = How(estimator, count, clip, missing_support, interval, level)
    how.check(campaign, has_model=model is not None)
    baseline = None if model is None else as_baseline(campaign, model)
    return summarise(campaign, _as_targets(campaign, target), baseline, how, rng)


def summarise(
    campaign: LoggedCampaign, targets: list[I64], baseline: Baseline | None, how: How, rng: RngLike
) -> Estimate:
    """The estimate, once the arguments are known to be in order."""
    sums = sums_by_round(campaign, targets, baseline if how.needs_model else None, how)
    if how.estimator == "snips" and sums.weight.sum() <= 0.0:
        raise InputError("no choice of the target was ever contacted in the log: there is nothing to average.")
    by_round = _by_round(sums, how)
    T, value, w = campaign.n_rounds, float(by_round.mean()), sums.weights
    error = float(by_round.std(ddof=1) / np.sqrt(T)) if T > 1 else float("inf")
    if how.interval == "bootstrap":
        low, high = _bootstrap(sums, how, rng)
    else:
        from scipy.special import stdtrit

        half = float(stdtrit(T - 1, 0.5 + how.level / 2)) * error if T > 1 else error
        low, high = value - half, value + half
    return Estimate(
        estimator=how.estimator,
        count=how.count,
        value=value,
        standard_error=error,
        low=low,
        high=high,
        level=how.level,
        rounds=T,
        chosen=int(sums.chosen.sum()),
        matched=int(w.size),
        effective_sample_size=float(w.sum() ** 2 / (w**2).sum()) if w.size else 0.0,
        largest_weight=float(w.max(initial=0.0)),
        clipped=sums.clipped,
        bias_bound=sums.bias_bound,
        unsupported=sums.unsupported,
        by_round=by_round,
    )


def _by_round(sums: RoundSums, how: How) -> F64:
    """Contributions whose mean is the estimate and whose variance is its (linearised) variance."""
    if how.estimator != "snips":
        return np.asarray(sums.value + sums.overlap)
    mean = sums.value.sum() / sums.weight.sum()
    scale = sums.chosen.mean() / sums.weight.mean()
    return np.asarray(mean * sums.chosen + scale * (sums.value - mean * sums.weight) + sums.overlap)


def _bootstrap(sums: RoundSums, how: How, rng: RngLike) -> tuple[float, float]:
    """Percentiles over resampled rounds."""
    generator, T = as_generator(rng), sums.value.size
    columns = np.column_stack([sums.value, sums.weight, sums.chosen, sums.overlap])
    means = []
    for start in range(0, _RESAMPLES, _CHUNK):
        counts = generator.multinomial(T, np.full(T, 1.0 / T), size=min(_CHUNK, _RESAMPLES - start))
        means.append(counts @ columns / T)
    value, weight, chosen, overlap = np.concatenate(means).T
    if how.estimator == "snips":
        # A resample without a single match says nothing.
        value, chosen, overlap, weight = (x[weight > 0.0] for x in (value, chosen, overlap, weight))
        value = chosen * value / weight
    low, high = np.quantile(value + overlap, [0.5 - how.level / 2, 0.5 + how.level / 2])
    return float(low), float(high)


def _as_targets(campaign: LoggedCampaign, target: Choices) -> list[I64]:
    nested = len(target) > 0 and np.ndim(target[0]) > 0
    sets = [np.asarray(rows) for rows in target] if nested else [np.asarray(target)] * campaign.n_rounds
    if len(sets) != campaign.n_rounds:
        raise ShapeError(f"target must be one set, or one for each of {campaign.n_rounds} rounds; got {len(sets)}.")
    # The same array may stand for many rounds: look at each once, and keep it one array.
    checked: dict[int, I64] = {}
    for rows in {id(rows): rows for rows in sets}.values():
        checked[id(rows)] = check_rows("target", rows, campaign.graph.n_nodes, hint=_ROWS, distinct=True)
        if rows.size == 0:
            raise InputError(f"a target must name at least one row; got none. {_ROWS}")
    return [checked[id(rows)] for rows in sets]


@dataclass(frozen=True)
class Replay:
    """A policy's way through a log: its value, the rows it chose, and how many of them had been contacted.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 4, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.2] * 60, rounds=10)
    >>> len(replay(log, tu.policies.HighDegree(), 3, None).choices)
    10
    """

    estimate: Estimate
    choices: tuple[I64, ...]
    matched: I64

    @property
    def seen(self) -> float:
        """Share of the chosen contacts whose responses the log could show; live it would be 1."""
        return float(self.matched.sum() / sum(rows.size for rows in self.choices))


def replay(
    campaign: LoggedCampaign,
    policy: Policy,
    k: int,
    users: ArrayLike | None,
    *,
    learn: Literal["matched", "logged"] = "matched",
    estimator: Estimator = "snips",
    oracle: Oracle | None = None,
    rng: RngLike = 0,
) -> Replay:
    """Bind ``policy`` and play the log's rounds: it chooses, and learns from the chosen users who were contacted.

    The replay estimator (Li, Chu, Langford, Wang 2011) at the level of sources: a match is a chosen user who had been
    contacted, weighted by 1/π. A round's choice depends on earlier rounds alone, so the estimate is as unbiased as
    `estimate_value`. What it estimates is the policy *under this feedback*: it sees the share ``seen`` of what it
    would see live, and so learns later than it would.

    Parameters
    ----------
    learn
        ``"matched"``: from the edges of matched users only. ``"logged"``: from every logged edge, as if it watched the
        logging policy; more data, but data that its own choices would not have brought.
    estimator
        ``"snips"`` (the classic average of matches, weighted), ``"ips"``, or ``"dr"`` with the policy's own beliefs
        before each round as the model.
    oracle, rng
        By default the exact one of the direct objective; and the seed of the policy and of this oracle.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 4, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [1.0] * 60, rounds=5)
    >>> replay(log, tu.policies.HighDegree(), 3, None).seen  # everybody was contacted, so the log shows everything
    1.0
    """
    from tensorucb.oracle import SeedOracle

    check_choice("learn", learn, ("matched", "logged"))
    how = How(estimator)
    how.check(campaign, has_model=True)
    generator = as_generator(rng)
    chooser = oracle or SeedOracle(campaign.graph, objective="direct", rng=generator)
    policy.bind(campaign.graph, users, generator)
    choices: list[I64] = []
    beliefs: list[F64] = []
    matched = np.zeros(campaign.n_rounds, dtype=np.int64)
    for t in range(campaign.n_rounds):
        r = campaign.round(t)
        rows = np.asarray(policy.choose(r.product, k, chooser), dtype=np.int64)
        if how.needs_model:
            beliefs.append(policy.prediction(r.product).expected()[campaign.graph.out_edges(rows)])
        both = np.intersect1d(rows, r.contacts)
        shown = np.isin(campaign.graph.sources[r.edges], both) if learn == "matched" else slice(None)
        policy.update(r.product, r.edges[shown], r.outcomes[shown])
        choices.append(rows)
        matched[t] = both.size
    # The estimator asks for exactly the edges whose beliefs were kept.
    baseline = (lambda t, edges: beliefs[t]) if how.needs_model else None
    return Replay(summarise(campaign, choices, baseline, how, generator), tuple(choices), matched)
