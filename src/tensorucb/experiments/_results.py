"""What runs found: regret in users, its intervals over runs, tables of policies, and Theorem 1's bound.

Glossary: ``T`` rounds, ``K`` seeds per round, ``|V|`` users, ``D`` modes, ``d`` the largest of the modes' dimensions,
``R`` rank, ``c`` exploration, ``σ²`` noise variance, ``B`` smoothness, ``η`` the oracle's guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_count, check_number, check_numbers, check_text, refusal, shown
from tensorucb.errors import InputError, ShapeError

ETA = 1.0 - 1.0 / math.e - 0.1
"""The oracle's guarantee in the paper's experiments, η = 1 − 1/e − 0.1, by which its figures divide regret."""
Measure = Literal["regret", "responders"]
"""What policies are compared by: regret, the less the better, or distinct responders, the more the better."""
OURS = "TensorUCB"
SECONDS = ("score", "select", "update")
"""What is timed in a round."""
REGRET_COLUMNS = ("policy", "run", "round", "product", "spread", "regret", "average_regret")
_LAST = 20
_CHECKPOINTS = (10, 30, 100, 200)


def round_regret(optimum: ArrayLike, spread: ArrayLike) -> F64:
    """Regret of each round, in users: how many more the best possible choice would have reached, ``f(S*) − f(S_t)``.

    It may be a little negative: ``S*`` is what a careful oracle finds when it knows the truth, not the unreachable
    optimum, and cascades are evaluated on a limited number of frozen worlds. The paper divides by the oracle's
    guarantee (Eq. regret_scaled_def): its figures are these users divided by `ETA`, 0.53.

    Examples
    --------
    >>> round_regret([10.0, 4.0], [8.0, 4.0]).tolist()
    [2.0, 0.0]
    """
    best = check_numbers("optimum", optimum)
    reached = check_numbers("spread", spread)
    if best.shape != reached.shape:
        raise ShapeError(f"optimum and spread must be of one shape; got {best.shape} and {reached.shape}.")
    return np.asarray(best - reached)


def average_regret(regret: ArrayLike) -> F64:
    """``R_t / t`` after each round ``t``, along the last axis.

    Examples
    --------
    >>> average_regret([2.0, 4.0, 0.0]).tolist()
    [2.0, 3.0, 2.0]
    """
    values = check_numbers("regret", regret)
    if not values.ndim:
        raise ShapeError("regret must hold one number per round; got a single number. Pass a list.")
    return np.asarray(np.cumsum(values, axis=-1) / np.arange(1.0, values.shape[-1] + 1))


@dataclass(frozen=True)
class Interval:
    """A mean over runs with its interval; arrays of one shape, or numbers."""

    mean: F64
    low: F64
    high: F64

    def row(self) -> dict[str, Any]:
        """The three as plain numbers."""
        return {name: float(value) for name, value in vars(self).items()}


def mean_interval(values: ArrayLike) -> Interval:
    """Mean over the first axis (runs) and Student's 90 % interval for it.

    With one run there is nothing to estimate a spread from, and the interval is the mean itself.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0]).row()["mean"]
    2.0
    """
    samples = check_numbers("values", values)
    if samples.ndim == 0 or samples.shape[0] == 0:
        raise InputError("must hold at least one run; got none.", argument="values")
    mean, runs = samples.mean(axis=0), samples.shape[0]
    if runs == 1:
        return Interval(mean, mean, mean)
    from scipy.special import stdtrit

    half = float(stdtrit(runs - 1, 0.5 + 0.9 / 2)) * samples.std(axis=0, ddof=1) / np.sqrt(runs)
    return Interval(mean, mean - half, mean + half)


def run_frame(policy: str, run: int, *, product: I64, spread: F64, optimum: F64, **seconds: F64) -> pl.DataFrame:
    """One policy's run, a row per round: what it reached, what was possible, and how long it took.

    ``seconds`` are ``score``, ``select`` and ``update``: the only columns that a repetition changes.
    """
    regret = round_regret(optimum, spread)
    columns: dict[str, Any] = {
        "round": np.arange(1, regret.size + 1),
        "product": product,
        "spread": spread,
        "optimum": optimum,
        "regret": regret,
        "average_regret": average_regret(regret),
        **{name: seconds[name] for name in SECONDS},
    }
    return pl.DataFrame(columns).select(pl.lit(policy).alias("policy"), pl.lit(run).alias("run"), pl.all())


@dataclass(frozen=True)
class Experiment:
    """All runs of all policies: a row of ``frame`` for each policy, run and round, as `run_policy` gives them.

    They are compared by ``measure``: ``"regret"``, or in replayed logs ``"responders"``.
    """

    frame: pl.DataFrame
    measure: Measure = "regret"

    def __repr__(self) -> str:
        runs, rounds = self.by_run(self.policies[0], "regret").shape
        return f"Experiment({len(self.policies)} policies, {runs} runs of {rounds} rounds)"

    def __str__(self) -> str:
        """The table of :func:`decision_table`, best policy first."""
        columns, cells = printed_table(decision_table(self))
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        lines = [columns, ["-" * width for width in widths], *cells]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        )

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' labels, in order."""
        return tuple(self.frame["policy"].unique(maintain_order=True))

    def by_run(self, policy: str, column: str | None = None) -> F64:
        """A column of one policy's rows, by default the measure, as an array of ``(runs, rounds)``."""
        check_text("policy", policy)
        name = column or ("regret" if self.measure == "regret" else "spread")
        rows = self.frame.filter(policy=policy)
        if not rows.height:
            raise refusal("policy", f"one of {shown(self.policies)}", policy)
        return rows[name].to_numpy().reshape(rows["run"].n_unique(), -1)

    def curve(self, policy: str) -> Interval:
        """Mean and 90 % interval over runs of the average measure up to each round."""
        return mean_interval(average_regret(self.by_run(policy)))

    def final(self, policy: str, *, last: int | None = None) -> Interval:
        """Mean and 90 % interval of the measure over the whole run, or over its ``last`` rounds."""
        start = None if last is None else -check_count("last", last)
        return mean_interval(self.by_run(policy)[:, start:].mean(axis=1))


def decision_table(experiment: Experiment, *, networks: int = 1) -> list[dict[str, Any]]:
    """One row per policy, best first: the average measure up to each checkpoint, and over the last 20 of more rounds.

    Checkpoints are 10, 30, 100 and 200 rounds, and the last one. The measure is the experiment's, regret or distinct
    responders. All are means over runs, with 90 % intervals for the
    longest checkpoint of at most 100 rounds and for the last 20; ``minus_ours`` is the policy's measure at that
    checkpoint minus ours, run by run (products and coins of a run are the same for all), with its interval;
    ``of_best`` is what the policy reached up to that checkpoint as a share of what the best possible choices reach,
    with its interval; ``worst_of_first_ten`` is the worst mean among the first ten rounds.

    Parameters
    ----------
    networks
        Number of networks on which the runs took turns: runs on one network are averaged first, since intervals are
        about new networks then.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> experiment = tu.experiments.run_experiment(world, {"Random": tu.policies.Random()}, rounds=2, runs=1)
    >>> decision_table(experiment)[0]["T=2"] == experiment.frame["regret"].mean()
    True
    """
    values = {policy: experiment.by_run(policy) for policy in experiment.policies}
    rounds = next(iter(values.values())).shape[1]
    checkpoints = [*(t for t in _CHECKPOINTS if t < rounds), rounds]
    main = max(t for t in checkpoints if t <= 100)

    def interval(values: Sequence[float]) -> Interval:
        return mean_interval(values if networks == 1 else [np.mean(values[n::networks]) for n in range(networks)])

    more_is_better = experiment.measure == "responders"
    at_main = {policy: by_run[:, :main].mean(axis=1).tolist() for policy, by_run in values.items()}
    rows = []
    for policy, by_run in values.items():
        average = average_regret(by_run.mean(axis=0))
        first = by_run.mean(axis=0)[:10]
        row = {
            "policy": policy,
            **{f"T={t}": float(average[t - 1]) for t in checkpoints},
            **_ends(f"T={main}", interval(at_main[policy])),
        }
        if rounds > _LAST:
            late = interval(by_run[:, -_LAST:].mean(axis=1).tolist())
            row |= {"last20": float(late.mean), **_ends("last20", late)}
        if OURS in at_main:
            apart = interval([a - b for a, b in zip(at_main[policy], at_main[OURS], strict=True)])
            row |= {f"T={main}_minus_ours": float(apart.mean), **_ends(f"T={main}_minus_ours", apart)}
        reached, best = (experiment.by_run(policy, name)[:, :main].sum(axis=1) for name in ("spread", "optimum"))
        # 1 where the best possible choices reach nobody.
        shares = interval(np.divide(reached, best, out=np.ones_like(best), where=best > 0.0).tolist())
        row |= {"of_best": float(shares.mean), **_ends("of_best", shares)}
        rows.append({**row, "worst_of_first_ten": float(first.min() if more_is_better else first.max())})
    return sorted(rows, key=lambda row: float(row[f"T={main}"]), reverse=more_is_better)


def printed_table(rows: Sequence[Mapping[str, Any]], *, sign: str = "±") -> tuple[list[str], list[list[str]]]:
    """The columns of :func:`decision_table` that one reads first, and their cells as text: it fits into 80 columns.

    The average at the checkpoint that has an interval, its difference to ours, the last 20 rounds, and reach in per
    cent of the best possible; what follows ``sign`` is half of the 90 % interval.
    """

    def cell(row: Mapping[str, Any], name: str) -> str:
        half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2 if f"{name}_low" in row else 0.0
        return f"{row[name]:z.{digits}f}" + (f" {sign} {half:.{digits}f}" if half else "")

    first = next(name for name in rows[0] if name.startswith("T="))
    main = next(name.removesuffix("_low") for name in rows[0] if name.endswith("_low"))
    names = {first: first, main: main, f"{main}_minus_ours": "minus ours", "last20": "last 20"}
    names = {name: title for name, title in names.items() if name in rows[0]}
    digits = 1 if max(row[main] for row in rows) >= 100.0 else 2
    cells = [[row["policy"], *(cell(row, name) for name in names), f"{100.0 * row['of_best']:.1f}"] for row in rows]
    return ["Policy", *names.values(), "% of best"], cells


def _ends(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_low": float(interval.low), f"{name}_high": float(interval.high)}


# -- Theorem 1 --


def _information(rounds: ArrayLike, k: int, dims: Sequence[int], noise_variance: float) -> F64:
    """``K·d·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)`` with ``d = max_l d_l``: the factor that bound and condition share."""
    horizon = check_numbers("rounds", rounds, low=1.0)
    noise_variance = check_number("noise_variance", noise_variance, strict=True)
    d = int(check_array("dims", dims, ("D",), low=1.0, hint="One dimension per mode.").max())
    k = check_count("k", k)
    growth = np.log1p(horizon * k / (d * noise_variance)) / math.log1p(1.0 / noise_variance)
    return np.asarray(k * d * growth, dtype=np.float64)


def regret_bound(
    rounds: ArrayLike,
    *,
    n_nodes: int,
    k: int,
    dims: Sequence[int],
    rank: int,
    exploration: float,
    noise_variance: float = 0.1,
    smoothness: float = 1.0,
) -> F64:
    """Theorem 1's bound on the sum of the rounds' regret, in users, after each number of rounds.

    ``cB·|V|·D·R·√(TKd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²))``; the paper states it for regret divided by η, and divides
    the bound by η too. It holds with probability ``1 − δ`` only if
    ``exploration`` meets :func:`exploration_condition`.

    Parameters
    ----------
    rounds
        T, a number or an array of numbers.
    smoothness
        ``B`` of assumption A1. For the direct objective with the seeds' out-edges observed, 1 suffices.

    Examples
    --------
    >>> bound = regret_bound([10, 40], n_nodes=100, k=5, dims=(10, 10, 10), rank=2, exploration=0.1)
    >>> bool(2 < bound[1] / bound[0] < 4)  # it grows a little faster than the root of the rounds
    True
    """
    information = _information(rounds, k, dims, noise_variance)
    constants = check_number("exploration", exploration) * check_number("smoothness", smoothness)
    scale = constants * check_count("n_nodes", n_nodes) * len(dims) * check_count("rank", rank)
    return np.asarray(scale * np.sqrt(check_numbers("rounds", rounds) * information))


def exploration_condition(
    rounds: ArrayLike, *, k: int, dims: Sequence[int], rank: int, largest_weight: float, noise_variance: float = 0.1
) -> F64:
    """The smallest ``c`` for which Theorem 1 promises anything (Eq. c_lower_bounded).

    ``D·R·√(Kd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)) + max_{l,r}‖w^{l,r}‖``; ``largest_weight`` is the last term.

    Examples
    --------
    >>> float(exploration_condition(100, k=10, dims=(10, 10, 10), rank=1, largest_weight=1.0).round())
    52.0
    """
    largest_weight = check_number("largest_weight", largest_weight)
    information = _information(rounds, k, dims, noise_variance)
    return np.asarray(len(dims) * check_count("rank", rank) * np.sqrt(information) + largest_weight)
