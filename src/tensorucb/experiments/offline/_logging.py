"""`log_campaign`: logs with known propensities from an environment, for tests and rehearsals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_count, check_instance, check_share
from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runner import product_sequence
from tensorucb.experiments.offline._campaign import LoggedCampaign, LoggedRound, Sampling, check_propensities
from tensorucb.policies import Policy

_CONTACTS, _POLICY, _ORACLE = 21, 22, 23


def draw_contacts(propensities: ArrayLike, sampling: Sampling, rng: np.random.Generator) -> I64:
    """Rows drawn such that each user's inclusion probability is exactly the one given.

    ``"independent"`` tosses a coin for each user. ``"fixed_size"`` is systematic sampling in random order (Madow 1949);
    the propensities must then sum to a whole number, the size.

    Examples
    --------
    >>> draw_contacts([1.0, 0.0, 1.0], "independent", np.random.default_rng(0)).tolist()
    [0, 2]
    """
    check_choice("sampling", sampling, ("independent", "fixed_size"))
    p = np.asarray(propensities, dtype=np.float64)
    if sampling == "independent":
        return np.flatnonzero(rng.random(p.size) < p)
    size = round(float(p.sum()))
    if abs(float(p.sum()) - size) > 1e-6:
        raise InputError(
            f"propensities must sum to a whole number for sampling='fixed_size'; they sum to {p.sum():.6g}. "
            "Scale them, or use sampling='independent'."
        )
    order = rng.permutation(p.size)
    # Users lie one after the other on a line, each as long as its propensity, and a comb with teeth at distance 1 is
    # laid on it: who is under a tooth is drawn. The end is set to the size itself: rounding must not lose a contact.
    steps = np.concatenate([np.cumsum(p[order])[:-1], [float(size)]])
    below = np.concatenate([[0.0], steps[:-1]])
    start = rng.random()
    return np.sort(order[np.floor(steps - start) > np.floor(below - start)])


def mixed_propensities(rows: ArrayLike, n_nodes: int, *, epsilon: float) -> F64:
    """Each of the k chosen rows with probability 1 − ε + εk/n, every other user with εk/n; they sum to k.

    Examples
    --------
    >>> mixed_propensities([0], 4, epsilon=0.2).round(3).tolist()
    [0.85, 0.05, 0.05, 0.05]
    """
    epsilon = check_share("epsilon", epsilon)
    chosen = np.asarray(rows, dtype=np.int64)
    result = np.full(n_nodes, epsilon * chosen.size / n_nodes)
    result[chosen] += 1.0 - epsilon
    return np.asarray(np.minimum(result, 1.0))


def log_campaign(
    environment: Environment,
    logging: ArrayLike | Callable[[int], ArrayLike] | Policy,
    *,
    rounds: int,
    sampling: Sampling = "independent",
    epsilon: float = 0.5,
    run: int = 0,
    seed: int = 0,
) -> LoggedCampaign:
    """Play ``rounds`` rounds with a stochastic logging policy, and keep what an estimator may know.

    Parameters
    ----------
    environment, run, seed
        The world that answers. Everything random follows from ``(seed, run)``; products and coins are `run_policy`'s.
    logging
        (n,) inclusion probabilities; a function from the product's number to them; or a policy, which is bound again,
        learns as it goes, and contacts by `mixed_propensities` of its choice with ``epsilon``.
    sampling
        ``"independent"`` or ``"fixed_size"``; see `draw_contacts`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> log_campaign(world, [0.2] * 60, rounds=5, sampling="fixed_size").contacts.size  # 12 in each round
    60
    """
    check_instance("environment", environment, Environment, "an Environment")
    seed, run = check_count("seed", seed, 0), check_count("run", run, 0)
    n, k = environment.graph.n_nodes, environment.settings.k
    policy = logging if isinstance(logging, Policy) else None
    if policy is not None:
        policy.bind(environment.graph, environment.users, np.random.default_rng([seed, _POLICY, run]))
    oracle = environment.oracle(np.random.default_rng([seed, _ORACLE, run]))
    rng = np.random.default_rng([seed, _CONTACTS, run])
    logged = []
    for t, number in enumerate(product_sequence(environment, rounds, run=run, seed=seed).tolist()):
        product = environment.products[number]
        if policy is not None:
            p = mixed_propensities(policy.choose(product, k, oracle), n, epsilon=epsilon)
        else:
            p = check_propensities(logging(number) if callable(logging) else logging, n)  # type: ignore[arg-type]
        contacts = draw_contacts(p, sampling, rng)
        edges, outcomes = environment.observe(number, contacts, seed=seed, run=run, round_number=t)
        if policy is not None:
            policy.update(product, edges, outcomes)
        logged.append(LoggedRound(product, contacts, edges, outcomes, p))
    return LoggedCampaign.from_rounds(environment.graph, logged, sampling=sampling)
