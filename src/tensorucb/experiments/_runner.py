"""One run of one policy: everything random follows from the seed and the number of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorucb.checks import check_count, check_instance, check_mapping, check_report, check_text, shown
from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._results import RunResult
from tensorucb.experiments._strategies import StrategyPolicy, of_edges
from tensorucb.policies import Policy
from tensorucb.policies._base import check_policy_object
from tensorucb.threads import single_threaded_blas

# Purposes of derived random streams: (seed, purpose, run).
_POLICY, _ORACLE = 2, 3


def check_environment(environment: Any) -> Environment:
    """An `Environment`."""
    hint = "Environment.from_sandbox makes one."
    return check_instance("environment", environment, Environment, "an Environment", hint)


def check_policies(policies: Any) -> Mapping[str, Policy]:
    """Policies by label, at least one."""
    found = check_mapping("policies", policies, "a mapping of labels to policies")
    for label, policy in found.items():
        check_policy_object(f"policies[{shown(label)}]", policy)
        check_text("the label of a policy", label)
    if not found:
        raise InputError("must hold at least one policy; got none.", argument="policies")
    return found


def check_rounds(name: str, value: Any) -> int:
    """A number of rounds or runs."""
    return check_count(name, value, 1, 10_000_000)


def check_seed(name: str, value: Any) -> int:
    """A seed, or the number of a run."""
    return check_count(name, value, 0, 2**63 - 1)


class _Stopwatch:
    """Adds up the time spent in an oracle, so that scoring and selecting can be told apart."""

    seconds = 0.0

    def timed(self, oracle: Callable[..., Any]) -> Any:
        """The same oracle, with its time counted."""

        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            found = oracle(*arguments, **options)
            self.seconds += time.perf_counter() - start
            return found

        return call


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Say whose answer was wrong: several policies play, and some are the caller's own."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"policy {shown(label)}: ", *error.parts()) from error


def policy_arguments(policy: Policy) -> dict[str, Any]:
    """The arguments that a policy was made with, as far as it tells them."""
    settings = getattr(policy, "settings", None)
    return settings() if callable(settings) else {}


# The last bit of a large product may depend on the number of threads, and runs are played in several ways.
@single_threaded_blas()
def run_policy(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int,
    run: int = 0,
    seed: int = 0,
    label: str | None = None,
    each_round: Callable[[], None] | None = None,
) -> RunResult:
    """Let ``policy`` play ``rounds`` rounds from scratch.

    Everything random follows from ``(seed, run)``: the products, the coins, the policy's own draws and the
    oracle's. ``each_round`` is called after every round. In a world with strategies the policy is a `StrategyPolicy`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> run_policy(world, tu.policies.HighDegree(), rounds=5).regret.shape
    (5,)
    """
    check_environment(environment)
    check_policy_object("policy", policy)
    if isinstance(policy, StrategyPolicy) != bool(environment.strategies):
        raise InputError(
            "a world with strategies needs a StrategyPolicy, such as StrategyPolicy(TensorUCB()), and other worlds "
            f"a policy as it is; got {shown(policy.name)} for {environment.n_strategies} strategies."
        )
    if label is not None:
        check_text("label", label)
    check_report("each_round", each_round)
    rounds, run, seed = check_rounds("rounds", rounds), check_seed("run", run), check_seed("seed", seed)
    products = environment.draw_products(rounds, seed=seed, run=run)
    policy.bind(environment.graph, environment.users, np.random.default_rng([seed, _POLICY, run]))
    watch, k = _Stopwatch(), environment.settings.k
    seed_oracle = environment.oracle(np.random.default_rng([seed, _ORACLE, run]))
    oracle, pair_oracle = watch.timed(seed_oracle), watch.timed(environment.pair_oracle)
    spread, optimum, seconds = np.empty(rounds), np.empty(rounds), np.empty((rounds, 3))
    for t, product in enumerate(products.tolist()):
        world, vector = environment.in_round(t, seed=seed, run=run), environment.products[product]
        seed_oracle.candidates = oracle.candidates = world.candidates
        optimum[t] = world.optimum(product).spread
        watch.seconds, start = 0.0, time.perf_counter()
        # The seeds; and their strategies, in a world that has any.
        with _named(label or policy.name):
            if isinstance(policy, StrategyPolicy):
                choice = [*policy.choose_pairs(environment.contexts(product), k, oracle, pair_oracle)]
            else:
                choice = [policy.choose(vector, k, oracle)]
        seconds[t, :2] = time.perf_counter() - start - watch.seconds, watch.seconds
        edges, outcomes = world.observe(product, *choice, seed=seed, run=run, round_number=t)
        start = time.perf_counter()
        if isinstance(policy, StrategyPolicy):
            strategies = of_edges(environment.graph, choice[0], choice[1], edges)
            policy.update_pairs(environment.contexts(product), strategies, edges, outcomes)
        else:
            policy.update(vector, edges, outcomes)
        seconds[t, 2] = time.perf_counter() - start
        spread[t] = world.evaluate(product, *choice)
        if each_round is not None:
            each_round()
    return RunResult(label or policy.name, run, products, spread, optimum, seconds)
