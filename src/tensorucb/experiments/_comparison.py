"""Policies side by side: who takes part, settings tuned on validation rounds, then runs with the same coins for all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_path, check_report, check_sequence, shown
from tensorucb.errors import InputError
from tensorucb.experiments._dataset import Features
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._results import OURS, Experiment
from tensorucb.experiments._runs import by_policy, check_environment, check_policies, check_rounds, run_experiment
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.experiments._tuning import Tuning, split_products, tune, with_arguments
from tensorucb.oracle import select_seeds
from tensorucb.policies import (
    GammaCounts,
    Grid,
    HighDegree,
    LinUCB,
    LogisticUCB,
    Oracle,
    Policy,
    Prediction,
    TensorUCB,
    UCBPolicy,
)
from tensorucb.policies._base import EXPLORATIONS, check_policy_object
from tensorucb.policies.registry import REGISTRY, make_policy
from tensorucb.threads import OnProgress
from tensorucb.work import Engine

# Ours, the paper's tensor, its Table 3, and simple ones that it leaves out.
_OURS = (
    *("TensorUCB", "TensorUCB (paper)", "TensorUCB (paper, logistic)", "LinUCB", "IMLinUCB", "DILinUCB"),
    *("IMFB", "COIN", "COIN-HD", "COIN+", "CUCB", "Thompson", "HighDegree", "Random"),
)
_STRICT = (
    *("TensorUCB", "TensorUCB (paper)", "TensorUCB (paper, logistic)", "LinUCB", "LogisticUCB", "IMLinUCB"),
    *("DILinUCB", "DILinUCB (original)", "IMFB", "COIN", "COIN-HD", "COIN+", "GammaCounts", "HighDegree", "Random"),
)
# Arguments as published where ours are others, and what the paper tuned, from its own values.
_AS_PUBLISHED: dict[str, dict[str, Any]] = {"IMFB": {"base_rate": 0.25}}
_TUNED_AS_PUBLISHED: dict[str, Grid] = {
    "TensorUCB (paper)": {"exploration": EXPLORATIONS, "rank": (1, 2, 5, 10, 20, 50)},
    **{label: {"exploration": EXPLORATIONS} for label in ("IMLinUCB", "DILinUCB", "DILinUCB (original)")},
    **{label: {} for label in ("TensorUCB", "IMFB", "COIN", "COIN-HD", "COIN+", "GammaCounts")},
}
# The baselines of Table 3 whose best form differs from the published one by more than c.
_ALSO_TUNED = ("IMLinUCB", "DILinUCB", "IMFB", "COIN")
# Most products over which the truth, and the best strategy, are averaged.
_AVERAGED, _PRODUCTS = 4_000, 100


# -- who takes part; what may be tuned, each policy says itself --


def contestants() -> dict[str, Policy]:
    """Ours first, then every baseline in its best form: with all that it can use of the users' past."""
    return {label: make_policy(label) for label in REGISTRY}


def paper_policies(features: Features = "paper") -> tuple[dict[str, Policy], dict[str, Grid]]:
    """Who takes part in the paper's figures, and the grids of those that are not tuned in all that they have.

    With the paper's features, the baselines of its Table 3 play as published, where c of the linear ones is chosen
    from the paper's values, and, as ``…, tuned``, in their best form. Ours and one count per source play untouched.
    With ours, all are tuned.
    """
    if features == "ours":
        made = {label: make_policy(label) for label in _OURS}
        # Flat columns, as published.
        return {p: with_arguments(m, {"matched": False}) if hasattr(m, "matched") else m for p, m in made.items()}, {}
    policies: dict[str, Policy] = {}
    for label in _STRICT:
        policies[label] = with_arguments(make_policy(label), _AS_PUBLISHED.get(label, {}))
        if label in _ALSO_TUNED:
            policies[f"{label}, tuned"] = make_policy(label)
    return policies, dict(_TUNED_AS_PUBLISHED)


def strategy_contestants() -> dict[str, Policy]:
    """For worlds with strategies: ours choosing per user, per round and not at all, and baselines choosing per user.

    ``per strategy`` means a separate copy of the policy for each strategy.
    """
    return {
        OURS: StrategyPolicy(TensorUCB()),
        f"{OURS}, one strategy per round": StrategyPolicy(TensorUCB(), "round"),
        f"{OURS}, strategies in turn": StrategyPolicy(TensorUCB(), "turn"),
        f"{OURS} per strategy": StrategyPolicy(TensorUCB(), separate=True),
        "LogisticUCB": StrategyPolicy(LogisticUCB()),
        "LogisticUCB per strategy": StrategyPolicy(LogisticUCB(), separate=True),
        "LinUCB": StrategyPolicy(LinUCB()),
        "GammaCounts per strategy": StrategyPolicy(GammaCounts(), separate=True),
        "HighDegree": StrategyPolicy(HighDegree(), "turn"),
    }


def always(by_label: Mapping[str, Policy]) -> dict[str, Policy]:
    """Ours, to which differences are taken, and plain degree, which whoever learns should beat."""
    return {label: by_label[label] for label in (OURS, "HighDegree")}


def ours_untouched(policies: Mapping[str, Policy]) -> dict[str, Grid]:
    """Grids for :meth:`Comparison.tune` that keep our default policy as it is, alone or inside a `StrategyPolicy`."""
    return {label: {} for label, policy in policies.items() if isinstance(getattr(policy, "policy", policy), TensorUCB)}


class _Reference(UCBPolicy):
    """A policy that knows its scores from the start, and has nothing to learn."""

    tunable: ClassVar[Grid] = {}
    knows_redundancy: ClassVar[bool] = True

    def __init__(self, environment: Environment) -> None:
        self.bind(environment.graph, None)

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Nothing to learn."""
        return state


class ProductBlind(_Reference):
    """The oracle's choice for the true probabilities averaged over products: perfect but for the product.

    A policy that ends below it has learned what the products change. The average is over at most 4,000 of the
    products that rounds draw from, evenly spaced. In a replayed log a follower answers once, so its users are greedy
    maximum coverage, each follower weighted by the share of the items that it acted on.
    """

    name = "product-blind oracle"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        mean = np.zeros(environment.graph.n_edges)
        products = environment.product_rows[:: -(-environment.product_rows.size // _AVERAGED)]
        for product in products.tolist():
            mean += environment.probabilities(product)
        self._mean = mean / products.size
        self._weights: F64 | None = None
        if environment.measure == "responders":
            self._weights = np.zeros(environment.graph.n_nodes)
            self._weights[environment.graph.targets] = self._mean

    def settings(self) -> dict[str, Any]:
        """A digest of what it knows, so that kept runs are recognised."""
        return {"sha256": hashlib.sha256(self._mean.tobytes()).hexdigest()}

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The average."""
        return Prediction(self.graph, self._mean)

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """The oracle's choice for the average; of a log, the users whose distinct followers acted most often."""
        if self._weights is None:
            return oracle(self._mean, k)
        return select_seeds(
            self.graph, np.ones(self.graph.n_edges), k, objective="direct", values=self._weights, rng=0
        ).rows


class TruthWithStrategies(_Reference):
    """The truth for each product and strategy; with ``fixed``, always for this strategy, whatever is asked."""

    name = "truth"

    def __init__(self, environment: Environment, fixed: int | None = None) -> None:
        super().__init__(environment)
        self._environment, self.fixed = environment, fixed
        self._products = {environment.products[p].tobytes(): p for p in environment.product_rows.tolist()}

    def settings(self) -> dict[str, Any]:
        """The fixed strategy; what the world is, kept runs know already."""
        return {"fixed": self.fixed}

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The truth."""
        first, *chosen = modes
        strategy = self.fixed
        if strategy is None:
            same = [(rows == mode).all(axis=1) for rows, mode in zip(self._environment.strategies, chosen, strict=True)]
            strategy = int(np.flatnonzero(np.logical_and.reduce(same))[0])
        return Prediction(self.graph, self._environment.probabilities(self._products[first.tobytes()], strategy))


def best_strategy(environment: Environment) -> int:
    """The strategy that is best on average under the truth, if it is used always and users are chosen by the truth."""
    oracle, k = environment.oracle(np.random.default_rng(0)), environment.settings.k
    reached = np.zeros(environment.n_strategies)
    for product in environment.product_rows[:: -(-environment.product_rows.size // _PRODUCTS)].tolist():
        for strategy in range(environment.n_strategies):
            rows = oracle(environment.probabilities(product, strategy), k)
            reached[strategy] += environment.evaluate(product, rows, np.full(rows.size, strategy))
    return int(np.argmax(reached))


def references(environment: Environment) -> dict[str, Policy]:
    """Who knows part of the truth of this world: the product-blind oracle, or who knows what strategies do."""
    if not environment.strategies:
        return {ProductBlind.name: ProductBlind(environment)}
    best = best_strategy(environment)
    truth, truth_fixed = TruthWithStrategies(environment), TruthWithStrategies(environment, best)
    return {
        f"{OURS}, best fixed strategy": StrategyPolicy(TensorUCB(), "fixed", strategy=best),
        "truth, best fixed strategy": StrategyPolicy(truth_fixed, "fixed", strategy=best),
        "truth, one strategy per round": StrategyPolicy(truth, "round"),
    }


# -- the comparison --


@dataclass(frozen=True)
class Comparison:
    """A comparison of policies on one environment, in two steps: `tune`, then `run`.

    Tuning and runs share no product, no order of products and no coin (:func:`~tensorucb.experiments.split_products`).

    Parameters
    ----------
    environment, policies
        The world to play in, and label -> policy, before tuning.
    directory
        Finished runs are kept in ``runs/`` below it, and nothing else is written. None keeps nothing.
    networks
        Functions that make further worlds. Runs then take turns on these, and settings are tuned on ``environment``,
        which no run plays. Each is made when it is needed.
    jobs, report, engine
        See `run_experiment`.
    """

    environment: Environment
    policies: Mapping[str, Policy]
    directory: Path | None
    rounds: int = 200
    runs: int = 10
    validation_rounds: int = 50
    seed: int = 0
    networks: Sequence[Callable[[], Environment]] = ()
    jobs: int = 1
    report: OnProgress | None = None
    engine: Engine | None = None

    def __post_init__(self) -> None:
        # A run would find these too late, after the tuning.
        check_rounds("rounds", self.rounds)
        check_rounds("runs", self.runs)
        check_report("report", self.report)
        if len(self.networks) > self.runs:
            raise InputError(f"{len(self.networks)} networks need as many runs; got {self.runs}.")

    @property
    def world(self) -> Environment:
        """The world that runs play in if there are no further networks."""
        return split_products(self.environment)[1]

    def _options(self, stage: str) -> dict[str, Any]:
        """What tuning and runs share; ``stage`` is what `report` calls this."""
        kept = None if self.directory is None else Path(self.directory) / "runs"
        report = self.staged(stage)
        return {"seed": self.seed, "jobs": self.jobs, "directory": kept, "report": report, "engine": self.engine}

    def tune(self, grids: Mapping[str, Grid] | None = None) -> Tuning:
        """Choose the settings of every policy on the same validation rounds; ``grids`` as in `experiments.tune`.

        Without validation rounds every policy stays as it is.
        """
        if check_count("validation_rounds", self.validation_rounds, 0) == 0:
            return Tuning(self.policies, {})
        world = self.environment if self.networks else split_products(self.environment)[0]
        options = self._options("validation")
        return tune(world, self.policies, rounds=self.validation_rounds, grids=grids, **options)

    def run(self, policies: Callable[[Environment], Mapping[str, Policy]], stage: str) -> Experiment:
        """Play every run of the policies that ``policies(world)`` names; ``stage`` is what `report` calls this."""
        results: list[pl.DataFrame] = []
        worlds = self.networks or [lambda: self.world]
        for number, make in enumerate(worlds):
            world = make()
            name = stage if len(worlds) == 1 else f"{stage}, network {number + 1}"
            report = self.staged(name)
            if report is not None:
                report(0, 1, "who takes part")  # a reference may look at the truth of thousands of products
            part = self.play(world, policies(world), name, range(number, self.runs, len(worlds)))
            results.append(part.frame)
        return by_policy(results, part.policies, part.measure)

    def play(
        self, world: Environment, policies: Mapping[str, Policy], stage: str, runs: int | range | None = None
    ) -> Experiment:
        """Play runs (all by default) in one world, and keep them."""
        numbers = self.runs if runs is None else runs
        return run_experiment(world, policies, rounds=self.rounds, runs=numbers, **self._options(stage))

    def staged(self, stage: str) -> OnProgress | None:
        """`report` with the name of the stage in front."""
        report = self.report
        return None if report is None else lambda done, total, what: report(done, total, f"{stage}: {what}")


def compare(
    environment: Environment,
    policies: Sequence[str | Policy] | Mapping[str, Policy] | None = None,
    *,
    rounds: int = 100,
    runs: int = 5,
    validation_rounds: int = 50,
    seed: int = 0,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> Experiment:
    """Compare policies as ``tensorucb compare`` does; ``print`` shows the result as a table.

    Our defaults play untouched. The settings of every other policy are first tuned on validation rounds, with products
    that the runs do not promote. The product-blind oracle, which knows all but the product, takes part as a reference.

    Parameters
    ----------
    policies
        Labels of policies of this package, such as ``"LinUCB"``, and policies of one's own, which go by their
        ``name``; or a mapping of labels to policies. `TensorUCB` and `HighDegree` take part in any case. All by
        default.
    validation_rounds
        Rounds on which each setting is tried; 0 leaves every policy as it is.
    jobs, directory, report, engine
        See `run_experiment`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> compare(world, ["Random"], rounds=10, runs=2)
    Experiment(4 policies, 2 runs of 10 rounds)
    """
    by_label = strategy_contestants() if check_environment(environment).strategies else contestants()
    chosen = {**always(by_label), **_labelled(by_label, policies)}
    folder = None if directory is None else check_path("directory", directory)
    work = Comparison(
        environment, chosen, folder, rounds, runs, validation_rounds, seed, jobs=jobs, report=report, engine=engine
    )
    tuned = work.tune(ours_untouched(chosen)).policies
    return work.run(lambda world: {**tuned, **references(world)}, "runs")


def _labelled(by_label: Mapping[str, Policy], policies: Any) -> Mapping[str, Policy]:
    """Policies by label; those named come from ``by_label``."""
    if policies is None or isinstance(policies, Mapping):
        return by_label if policies is None else check_policies(policies)
    labelled: dict[str, Policy] = {}
    for number, each in enumerate(check_sequence("policies", policies, "a list of labels and policies")):
        if isinstance(each, str):
            if each not in by_label:
                raise InputError(f"there is no policy {shown(each)}. Known: {', '.join(by_label)}.")
            labelled[each] = by_label[each]
        else:
            policy = check_policy_object(f"policies[{number}]", each)
            if policy.name in {**by_label, **labelled}:
                raise InputError(
                    f"policies[{number}] is called {shown(policy.name)}, as another one is. Name it otherwise, or pass "
                    "a mapping of labels to policies."
                )
            labelled[policy.name] = policy
    return labelled
