"""`estimate_value`: what other choices would have brought, from a log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.experiments.offline._models import Model, as_baseline
from tensorucb.experiments.offline._rounds import Baseline, RoundSums, Rules, sums_by_round
from tensorucb.policies import Oracle, Policy
from tensorucb.rng import RngLike, as_generator

Choices = Sequence[ArrayLike] | NDArray[np.integer[Any]]
Estimator = Literal["ips", "snips", "dr"]
Count = Literal["all", "distinct", "modelled"]

_CHOICES = {
    "estimator": ("ips", "snips", "dr"),
    "count": ("all", "distinct", "modelled"),
    "missing_support": ("refuse", "model"),
    "interval": ("normal", "bootstrap"),
}
_FEW = 30.0
_CHUNK = 64


@dataclass(frozen=True)
class Estimate:
    """An estimated value per round, with how far it can be trusted.

    Attributes
    ----------
    estimator, count
        How it was made; see `estimate_value`.
    value
        Estimated responses per round.
    standard_error, low, high, level
        Clustered by round: the outcomes within a round may depend on each other in any way.
    rounds, chosen, matched
        Rounds; the target's choices in all of them; and how many of those had been contacted.
    effective_sample_size
        ``(Σw)²/Σw²`` of the matched contacts (Kish): as many equally weighted ones would say as much.
    largest_weight, clipped
        The largest weight used, and how many were clipped.
    bias_bound
        Clipping, and the model in place of missing support, move the estimator's mean by at most this. 0: unbiased.
        The error of the model's overlap under ``count="modelled"`` is not in it.
    unsupported
        Choices with propensity 0, for which the model stood in.
    by_round
        The contribution of each round; their mean is ``value``.
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

    def row(self) -> dict[str, Any]:
        """Everything but ``by_round`` as JSON values."""
        return {**{k: v for k, v in asdict(self).items() if k != "by_round"}, "caution": self.caution}


def choices_of(campaign: LoggedCampaign, policy: Policy, k: int, *, oracle: Oracle | None = None) -> list[I64]:
    """What a policy, as it stands, would choose in each logged round; it must be bound to the log's graph.

    The oracle is the exact one of the direct objective by default.
    """
    if oracle is None:
        from tensorucb.oracle import SeedOracle

        oracle = SeedOracle(campaign.graph, objective="direct", rng=0)
    found: dict[bytes, I64] = {}
    for product in campaign.products:
        if product.tobytes() not in found:
            found[product.tobytes()] = np.asarray(policy.choose(product, k, oracle), dtype=np.int64)
    return [found[product.tobytes()] for product in campaign.products]


def estimate_value(
    campaign: LoggedCampaign,
    target: Choices,
    *,
    estimator: Estimator = "dr",
    model: Model | None = None,
    count: Count = "all",
    clip: float | None = None,
    missing_support: Literal["refuse", "model"] = "refuse",
    interval: Literal["normal", "bootstrap"] = "normal",
    level: float = 0.9,
    resamples: int = 1000,
    rng: RngLike = 0,
) -> Estimate:
    """Expected direct responses per round, had the target's seeds been contacted in the logged rounds.

    A source is an item, its responses are the item's reward, and its marginal inclusion probability π_i is all that
    the weights need. This rests on the responses of a source not depending on who else was contacted: true for edges
    with coins of their own, as in the independent cascade model.

    Parameters
    ----------
    campaign
        The log.
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
    level, resamples, rng
        Of the interval.
    """
    how = How(estimator, count, clip, missing_support, interval, level, resamples)
    how.check(campaign, has_model=model is not None)
    baseline = None if model is None else as_baseline(campaign, model)
    return summarise(campaign, _as_targets(campaign, target), baseline, how, rng)


@dataclass(frozen=True)
class How:
    """The arguments of `estimate_value` that say how."""

    estimator: Estimator
    count: Count
    clip: float | None = None
    missing_support: Literal["refuse", "model"] = "refuse"
    interval: Literal["normal", "bootstrap"] = "normal"
    level: float = 0.9
    resamples: int = 1000

    @property
    def needs_model(self) -> bool:
        """Whether predictions enter."""
        return self.estimator == "dr" or self.count == "modelled"

    def check(self, campaign: LoggedCampaign, *, has_model: bool) -> None:
        """Refuse what does not fit together."""
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if self.needs_model and not has_model:
            raise InputError(
                f"estimator={self.estimator!r} with count={self.count!r} needs a model. "
                "Pass model=cross_fitted_model(campaign, policy, users), or use estimator='ips' or 'snips'."
            )
        if self.missing_support == "model" and self.estimator != "dr":
            raise InputError(f"missing_support='model' needs estimator='dr'; got {self.estimator!r}.")
        if self.count == "distinct" and self.estimator == "snips":
            raise InputError("count='distinct' has no self-normalised form. Use 'ips', 'dr' or count='modelled'.")
        if self.count == "distinct" and campaign.sampling != "independent":
            raise InputError(
                "count='distinct' needs contacts drawn independently of each other; this log has "
                f"sampling={campaign.sampling!r}. Use count='modelled' (with a model) or count='all'."
            )
        if self.clip is not None and not (np.isfinite(self.clip) and self.clip >= 1.0):
            raise InputError(f"clip must be a finite number of at least 1, the smallest weight; got {self.clip!r}.")
        if not 0.0 < self.level < 1.0:
            raise InputError(f"level must lie between 0 and 1; got {self.level!r}.")
        if self.resamples < 100:
            raise InputError(f"resamples must be at least 100; got {self.resamples!r}.")


def summarise(
    campaign: LoggedCampaign, targets: list[I64], baseline: Baseline | None, how: How, rng: RngLike
) -> Estimate:
    """The estimate, once the arguments are known to be in order."""
    rules = Rules(
        clip=np.inf if how.clip is None else float(how.clip),
        # "ips" and "snips" weigh outcomes alone; the model may still tell their overlap.
        weighted_model=how.estimator == "dr",
        distinct=how.count == "distinct",
        overlap=how.count == "modelled",
        fill_with_model=how.missing_support == "model",
    )
    sums = sums_by_round(campaign, targets, baseline if how.needs_model else None, rules)
    if how.estimator == "snips" and sums.weight.sum() <= 0.0:
        raise InputError("no choice of the target was ever contacted in the log: there is nothing to average.")
    by_round = _by_round(sums, how)
    T, value, w = campaign.n_rounds, float(by_round.mean()), sums.weights
    error = float(by_round.std(ddof=1) / np.sqrt(T)) if T > 1 else float("inf")
    bootstrap = how.interval == "bootstrap"
    low, high = _bootstrap(sums, how, rng) if bootstrap else _student(value, error, T, how.level)
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
        bias_bound=sums.ratio_bound if how.estimator == "snips" else float(sums.bias_bound.mean()),
        unsupported=sums.unsupported,
        by_round=by_round,
    )


def _by_round(sums: RoundSums, how: How) -> F64:
    """Contributions whose mean is the estimate and whose variance is its (linearised) variance."""
    extra = sums.overlap if how.count == "modelled" else 0.0
    if how.estimator != "snips":
        return np.asarray(sums.value + extra)
    mean = sums.value.sum() / sums.weight.sum()
    scale = sums.chosen.mean() / sums.weight.mean()
    return np.asarray(mean * sums.chosen + scale * (sums.value - mean * sums.weight) + extra)


def _student(value: float, error: float, rounds: int, level: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    if rounds < 2:
        return -float("inf"), float("inf")
    half = float(stdtrit(rounds - 1, 0.5 + level / 2)) * error
    return value - half, value + half


def _bootstrap(sums: RoundSums, how: How, rng: RngLike) -> tuple[float, float]:
    """Percentiles over resampled rounds."""
    generator, T = as_generator(rng), sums.value.size
    columns = np.column_stack([sums.value, sums.weight, sums.chosen, sums.overlap])
    means = []
    for start in range(0, how.resamples, _CHUNK):
        counts = generator.multinomial(T, np.full(T, 1.0 / T), size=min(_CHUNK, how.resamples - start))
        means.append(counts @ columns / T)
    value, weight, chosen, overlap = np.concatenate(means).T
    if how.estimator == "snips":
        # A resample without a single match says nothing.
        value, chosen, overlap, weight = (x[weight > 0.0] for x in (value, chosen, overlap, weight))
        value = chosen * value / weight
    low, high = np.quantile(
        value + (overlap if how.count == "modelled" else 0.0), [0.5 - how.level / 2, 0.5 + how.level / 2]
    )
    return float(low), float(high)


def _as_targets(campaign: LoggedCampaign, target: Choices) -> list[I64]:
    nested = len(target) > 0 and np.ndim(target[0]) > 0
    sets = [np.asarray(rows) for rows in target] if nested else [np.asarray(target)] * campaign.n_rounds
    if len(sets) != campaign.n_rounds:
        raise ShapeError(f"target must be one set, or one for each of {campaign.n_rounds} rounds; got {len(sets)}.")
    # The same array may stand for many rounds: look at each once, and keep it one array.
    checked: dict[int, I64] = {}
    for rows in {id(rows): rows for rows in sets}.values():
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise InputError(f"a target is a flat array of at least one row; got {rows!r}. Use graph.rows(ids).")
        if rows.min() < 0 or rows.max() >= campaign.graph.n_nodes or np.unique(rows).size != rows.size:
            raise InputError(
                f"a target's rows must be distinct and lie in 0..{campaign.graph.n_nodes - 1}; got {rows}."
            )
        checked[id(rows)] = rows.astype(np.int64)
    return [checked[id(rows)] for rows in sets]
