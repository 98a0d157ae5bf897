"""`select_seeds` and `SeedOracle`: the room's two doors."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_rows
from tensorucb.choices import Model, Objective
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_model, check_probabilities, check_redundancy
from tensorucb.memory import check_memory, selecting
from tensorucb.oracle._constraints import SeedProblem, make_problem
from tensorucb.oracle._greedy import Outcome, complete, direct, worth_nothing
from tensorucb.oracle._records import Constraints, Sampling, Selection, check_constraints, check_sampling
from tensorucb.oracle._sampled import opim, tim
from tensorucb.oracle.rr import Sampler
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import thread_count
from tensorucb.work import Engine, check_engine

_ALGORITHMS = {"opim": opim, "tim": tim}
_KEYS = 6


def _guarantee(problem: SeedProblem, outcome: Outcome, sampling: Sampling | None, delta: float, ratio: float) -> str:
    """One sentence on what is certain; without ``sampling`` the choice is exact."""
    factor, rule = problem.promise
    shares = f"at least {ratio:.3f} of"
    if sampling is None:
        promise = f"at least {rule} of the best admissible choice; here" if factor > 0.0 else "here"
        return f"exact greedy: {promise} {shares} {'it' if factor > 0.0 else 'the best'}."
    confidence = f"with probability at least {1.0 - delta:.6g}"
    share = factor - sampling.epsilon
    wanted = f"{rule} - {sampling.epsilon:g} = {share:.3f}"
    if factor == 0.0:
        wanted = "as much as the samples bring, since no share is known for minima with a budget"
    elif share <= 0.0:
        wanted = f"nothing, since epsilon {sampling.epsilon:g} is not below {rule} = {factor:.3f}"
    if outcome.stopped:
        return (
            f"stopped at the memory limit: the seeds reach {shares} the best admissible choice, "
            f"{confidence}; more may need a larger max_memory (wanted: {wanted})."
        )
    if sampling.algorithm == "opim":
        return f"the seeds reach {shares} the best admissible choice, {confidence} (wanted: {wanted})."
    if share <= 0.0:
        return f"{wanted}, is promised of these seeds; choose a smaller epsilon."
    return f"the seeds reach at least ({wanted}) of the best admissible choice, {confidence}."


def _cascade(
    sampler: Sampler, p: F64, problem: SeedProblem, sampling: Sampling, delta: float, key: np.uint64
) -> Outcome:
    """Choose seeds for the cascade objective."""
    # TIM+ counts sets as its paper does: of any root.
    sampler.load(p, problem.values, problem.redundancy, sampling.algorithm == "opim", problem.model)
    keys = np.random.Generator(np.random.PCG64(int(key))).integers(0, 2**64, _KEYS, dtype=np.uint64)
    if worth_nothing(sampler.graph, p, problem):
        rows = complete(sampler.graph, p, problem, problem.forced)
        return Outcome(rows, np.zeros(rows.size), 0.0, 0.0, 0.0)
    try:
        return _ALGORITHMS[sampling.algorithm](sampler, problem, sampling, delta, keys)
    finally:
        sampler.mark(np.empty(0, dtype=np.int64))


def select_seeds(
    graph: Graph,
    probabilities: ArrayLike,
    k: int | None,
    *,
    objective: Objective = "cascade",
    constraints: Constraints | None = None,
    values: ArrayLike | None = None,
    redundancy: float = 0.0,
    model: Model = "ic",
    sampling: Sampling | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    engine: Engine | None = None,
) -> Selection:
    """Pick the seeds whose expected spread (or value) is near the largest possible.

    Candidates that are equal go by direct gain (what a node and its own edges add), then by out-degree, then by the
    order of ``graph.ids``. ``opim`` does the same with candidates that its samples do not tell apart: those within one
    standard error of the best, and all of them where the best would add no more than noise. The certificate counts what
    this may cost, because ``lower`` and ``ratio`` are measured for the seeds returned. ``tim`` and the direct
    objective break exact ties only, so their factors hold as they are. Choices under a budget go by value for money.

    Parameters
    ----------
    graph
        The network; an edge source → target lets the source influence the target.
    probabilities
        One probability per edge, in the graph's edge order.
    k
        How many seeds, ``must_include`` among them. With costs and a budget, the most seeds; None for no limit.
    objective
        ``"cascade"``, the default: expected spread of the independent cascade model, the usual question when the
        probabilities of all edges are given. ``"direct"``: users activated by the seeds themselves, computed exactly;
        the default of campaigns, which observe no more than that.
    constraints
        Who may be chosen, who must be, what seeds cost, and how many of each group: :class:`Constraints`.
    values
        What activating each node is worth, in the order of ``graph.ids``; RR roots are drawn in proportion to
        it. Default 1.
    redundancy
        ρ in [0, 1]: how far a second contact of the same user brings nothing new. Seeds S activate user j with
        probability ``(1 - ρ) [1 - Π (1 - p_ij)] + ρ max p_ij`` over i in S; in a cascade the same holds of every step.
        0, the default: each edge has a coin of its own (independent cascades). 1: only the strongest edge into a user
        counts. All factors and certificates hold for every ρ.
    model
        How a cascade spreads. ``"ic"``, the default: independent cascades. ``"lt"``: linear thresholds, where a user
        joins once the weights of active in-neighbours reach a random threshold; the probabilities are these weights,
        and those into a user add up to at most 1. All factors and certificates hold for both.
    sampling
        How the cascade is sampled: :class:`Sampling`.
    threads
        Threads to use; the answer does not depend on it.
    rng
        A seed or a generator.
    engine
        Where samples are drawn and kept: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).
        The answer is the same.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> star = Graph.from_edges(["hub"] * 3, ["a", "b", "c"])
    >>> pick = select_seeds(star, [1.0, 1.0, 1.0], 1, rng=0)
    >>> pick.seeds.tolist(), pick.spread
    (['hub'], 4.0)
    """
    oracle = SeedOracle(
        graph,
        objective=objective,
        redundancy=redundancy,
        model=model,
        sampling=sampling,
        rng=rng,
        threads=threads,
        engine=engine,
    )
    rules = check_constraints(constraints).by_row(graph)
    p = check_probabilities(graph, probabilities)
    return solve(oracle, p, make_problem(graph, k, rules, values, oracle.redundancy))


class SeedOracle:
    """An oracle for policies: ``oracle(probabilities, k)`` gives the rows of ``k`` seeds.

    Rows go in and rows come out. Scratch memory is kept between calls, and each call takes the next random key
    of ``rng``, so a run of calls repeats for a seed. Several threads may call one oracle at the same time: each call
    then has scratch memory of its own.

    Parameters
    ----------
    graph
        The network.
    objective, redundancy, model, sampling, rng, threads, engine
        As in :func:`select_seeds`. A call may bring a redundancy of its own, since a policy may learn it.
    candidates
        Rows from which to choose whenever a call names none; policies that choose without the oracle respect it too.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb import Graph, SeedOracle
    >>> graph = Graph.from_edges([0, 0, 0, 1], [1, 2, 3, 2])
    >>> oracle = SeedOracle(graph, objective="direct", rng=0)
    >>> oracle(np.array([0.9, 0.9, 0.9, 0.1]), 1).tolist()
    [0]
    """

    def __init__(
        self,
        graph: Graph,
        *,
        objective: Objective = "cascade",
        candidates: ArrayLike | None = None,
        redundancy: float = 0.0,
        model: Model = "ic",
        sampling: Sampling | None = None,
        rng: RngLike = None,
        threads: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.graph = check_graph(graph)
        self.objective = check_choice("objective", objective, get_args(Objective))
        self.candidates = _checked_rows(graph, "candidates", candidates)
        self.redundancy = check_redundancy(redundancy, model)
        self.model = model
        if objective == "direct" and model == "lt":
            raise InputError("model='lt' is for objective='cascade'; the direct objective has independent edges.")
        self.sampling = check_sampling(sampling)
        self._threads = thread_count(threads)
        self._engine = check_engine(engine)
        self._rng = as_generator(rng)
        self._idle_samplers: list[Sampler] = []

    def __call__(
        self,
        probabilities: ArrayLike,
        k: int,
        *,
        candidates: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        redundancy: float | None = None,
    ) -> I64:
        """The rows of ``k`` seeds, ``must_include`` first; without ``redundancy``, with the oracle's own."""
        return self.select(
            probabilities, k, candidates=candidates, must_include=must_include, redundancy=redundancy
        ).rows

    def select(
        self,
        probabilities: ArrayLike,
        k: int,
        *,
        candidates: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        redundancy: float | None = None,
    ) -> Selection:
        """The same choice with its certificate."""
        p = check_probabilities(self.graph, probabilities)
        allowed = self.candidates if candidates is None else _checked_rows(self.graph, "candidates", candidates)
        forced = _checked_rows(self.graph, "must_include", must_include)
        own = self.redundancy if redundancy is None else redundancy
        rules = Constraints(candidates=allowed, must_include=forced)
        key = stream_key(self._rng)
        return solve(self, p, make_problem(self.graph, k, rules, redundancy=own), key)


def solve(
    oracle: SeedOracle, p: F64, problem: SeedProblem, key: np.uint64 | None = None, users: int | None = None
) -> Selection:
    """The seeds of a checked problem; without ``key`` the samples get the oracle's next one.

    ``users`` is for how many the default failure probability is: all nodes, unless some of them stand for pairs.
    """
    graph = oracle.graph
    sampling = None if oracle.objective == "direct" else oracle.sampling
    delta = oracle.sampling.failure(graph.n_nodes if users is None else users)
    check_memory(f"choosing seeds in a network of {graph.n_edges:,} edges", selecting(graph.n_nodes, graph.n_edges))
    if sampling is None:
        outcome = direct(graph, p, problem)
    else:
        redundancy = check_model(graph, p, problem.redundancy, oracle.model)
        problem = replace(problem, redundancy=redundancy, model=oracle.model)
        if key is None:
            key = stream_key(oracle._rng)
        try:
            sampler = oracle._idle_samplers.pop()
        except IndexError:
            engine = oracle._engine
            threads = oracle._threads
            sampler = Sampler(graph, threads) if engine is None else engine.sampler(graph, threads)
        outcome = _cascade(sampler, p, problem, sampling, delta, key)
        oracle._idle_samplers.append(sampler)
    upper = outcome.upper
    ratio = outcome.lower / upper if upper > 0.0 else 1.0
    guarantee = _guarantee(problem, outcome, sampling, delta, ratio)
    if problem.need.any():  # the bound is also one on choices that do not keep the minima
        minima = f"The minima cost at most {upper - outcome.lower:.3g}"
        guarantee += f" {minima}: without them no choice is worth more than {upper:.4g}."
    return Selection(
        graph.ids[outcome.rows],
        outcome.rows,
        outcome.spread,
        outcome.lower,
        upper,
        ratio,
        outcome.rr_sets,
        "direct" if sampling is None else sampling.algorithm,
        outcome.gains,
        guarantee,
    )


def _checked_rows(graph: Graph, name: str, rows: ArrayLike | None) -> I64 | None:
    return None if rows is None else check_rows(name, rows, graph.n_nodes)
