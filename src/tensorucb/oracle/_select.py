"""`select_seeds` and `SeedOracle`: the room's two doors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_number, check_rows, check_share
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.oracle._constraints import SeedProblem, make_problem
from tensorucb.oracle._direct import direct
from tensorucb.oracle._fixed import imm, tim
from tensorucb.oracle._opim import Outcome, Settings, opim
from tensorucb.oracle._result import Selection
from tensorucb.oracle.rr import Sampler
from tensorucb.oracle.rr._sampler import check_probabilities
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import thread_count
from tensorucb.work import Engine, check_engine

Algorithm = Literal["opim", "tim", "imm"]
Objective = Literal["cascade", "direct"]

_ALGORITHMS = {"opim": opim, "tim": tim, "imm": imm}
QUALITY = 14.0
_BYTES_PER_MEMBER = 12  # stored, reduced to candidates, and inverted
_KEYS = 8


def check_settings(epsilon: float, delta: float | None, quality: float, max_memory: float, n: int) -> Settings:
    """Checked settings of every sampling algorithm; ``n`` nodes give the default of ``delta``."""
    epsilon = check_number("epsilon", epsilon, low=1e-4, high=1.0, hint="The usual value is 0.1.")
    delta = 1.0 / max(n, 2) if delta is None else check_share("delta", delta, zero=False, one=False)
    if epsilon == 1.0 or delta < 1e-100:
        raise InputError(
            f"must be below 1 and delta at least 1e-100; got {epsilon:g} and {delta:g}.", argument="epsilon"
        )
    quality = check_number("quality", quality, high=1e6, hint=f"The usual value is {QUALITY:g}.")
    max_memory = check_number("max_memory", max_memory, low=2.0**20, high=2.0**60, hint="It is a number of bytes.")
    return Settings(epsilon, delta, quality, int(min(max_memory, 2.0**40)) // _BYTES_PER_MEMBER)


def rows_of(graph: Graph, **ids: ArrayLike | None) -> dict[str, Any]:
    """Rows of these lists of ids, under the same names; None where there is no list."""
    return {name: None if given is None else graph.rows(given) for name, given in ids.items()}


def _guarantee(problem: SeedProblem, outcome: Outcome, settings: Settings, algorithm: str, ratio: float) -> str:
    confidence = f"with probability at least {1.0 - settings.delta:.6g}"
    share = problem.factor - settings.epsilon
    wanted = f"{problem.rule} - {settings.epsilon:g} = {share:.3f}"
    if share <= 0.0:
        wanted = f"nothing, since epsilon {settings.epsilon:g} is not below {problem.rule} = {problem.factor:.3f}"
    if outcome.stopped:
        return (
            f"stopped at the memory limit: the seeds reach at least {ratio:.3f} of the best admissible choice, "
            f"{confidence}; more may need a larger max_memory (wanted: {wanted})."
        )
    if algorithm == "opim":
        return f"the seeds reach at least {ratio:.3f} of the best admissible choice, {confidence} (wanted: {wanted})."
    if share <= 0.0:
        return f"{wanted}, is promised of these seeds; choose a smaller epsilon."
    return f"the seeds reach at least ({wanted}) of the best admissible choice, {confidence}."


def cascade(
    sampler: Sampler, p: F64, problem: SeedProblem, settings: Settings, algorithm: str, key: np.uint64
) -> Selection:
    """Choose seeds for the cascade objective."""
    sampler.load(p, problem.values, problem.redundancy)
    keys = np.random.Generator(np.random.PCG64(int(key))).integers(0, 2**64, _KEYS, dtype=np.uint64)
    try:
        outcome = _ALGORITHMS[algorithm](sampler, problem, settings, keys)
    finally:
        sampler.mark(np.empty(0, dtype=np.int64))
    total = sampler.total
    ratio = outcome.lower / outcome.upper if outcome.upper > 0.0 else 1.0
    return Selection(
        sampler.graph.ids[outcome.rows],
        outcome.rows,
        total * outcome.share,
        total * outcome.lower,
        total * outcome.upper,
        ratio,
        outcome.rr_sets,
        algorithm,
        total * outcome.gains,
        _guarantee(problem, outcome, settings, algorithm, ratio),
    )


def new_sampler(graph: Graph, threads: int | None, engine: Engine | None) -> Sampler:
    """What draws RR sets of this graph, here or where the engine says."""
    workers = thread_count(threads)
    return Sampler(graph, workers) if engine is None else engine.sampler(graph, workers)


def select_seeds(
    graph: Graph,
    probabilities: ArrayLike,
    k: int | None,
    *,
    epsilon: float = 0.1,
    delta: float | None = None,
    objective: Objective = "cascade",
    algorithm: Algorithm = "opim",
    candidates: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    must_include: ArrayLike | None = None,
    values: ArrayLike | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    groups: ArrayLike | None = None,
    quotas: Mapping[Any, int] | int | None = None,
    redundancy: float = 0.0,
    quality: float = QUALITY,
    max_memory: float = 2.0**31,
    threads: int | None = None,
    rng: RngLike = None,
    engine: Engine | None = None,
) -> Selection:
    """Pick the seeds whose expected spread (or value) is near the largest possible.

    Candidates that are equal go by direct gain (what a node and its own edges add), then by out-degree, then by the
    order of ``graph.ids``. ``opim`` does the same with candidates that its samples do not tell apart: those within one
    standard error of the best, and all of them where the best would add no more than noise. The certificate counts what
    this may cost, because ``lower`` and ``ratio`` are measured for the seeds returned. ``tim``, ``imm`` and the direct
    objective break exact ties only, so their factors hold as they are. Choices under a budget go by value for money.

    Parameters
    ----------
    graph
        The network; an edge source → target lets the source influence the target.
    probabilities
        One probability per edge, in the graph's edge order.
    k
        How many seeds, ``must_include`` among them. With costs and a budget, the most seeds; None for no limit.
    epsilon, delta
        Sampling may cost at most ``epsilon`` of the greedy factor, with probability at least ``1 - delta`` (default
        ``1 / n_nodes``).
    objective
        ``"cascade"``, the default: expected spread of the independent cascade model, the usual question when the
        probabilities of all edges are given. ``"direct"``: users activated by the seeds themselves, computed exactly;
        the default of campaigns, which observe no more than that.
    algorithm
        For the cascade: ``"opim"`` (OPIM-C, stops on a measured certificate), ``"tim"`` (TIM+, the paper's) or
        ``"imm"``. TIM+ takes neither quotas nor a budget.
    candidates, exclude, must_include
        Ids: who may be a seed (default all), who may not, and who must be. The factor ``1 - 1/e`` stays,
        against the best choice that obeys them.
    values
        What activating each node is worth, in the order of ``graph.ids``; RR roots are drawn in proportion to
        it. Default 1.
    costs, budget
        What seeding each node costs, and what all seeds may cost together. Factor ``(1 - 1/e)/2`` without ``k``,
        ``(1 - 1/√e)/2`` with it. Fewer seeds than ``k`` come back if money runs out.
    groups, quotas
        A label for each node, in the order of ``graph.ids``, and the most seeds of each group: a mapping, or
        one number for all. Groups that the mapping leaves out are not limited. Factor ``1/2``; together with a
        budget ``1/5``.
    redundancy
        ρ in [0, 1]: how far a second contact of the same user brings nothing new. Seeds S activate user j with
        probability ``(1 - ρ) [1 - Π (1 - p_ij)] + ρ max p_ij`` over i in S; in a cascade the same holds of every step.
        0, the default: each edge has a coin of its own (independent cascades). 1: only the strongest edge into a user
        counts. All factors and certificates hold for every ρ.
    quality
        ``opim`` goes on sampling until the noise of its choice (the standard errors of the seeds' gains added up, and
        three times that of their whole coverage) is at most ``1 / quality`` of the coverage; 0 stops at the
        certificate. With the default the seeds' spread is within 1 % of TIM+'s on average, for any number of seeds.
    max_memory
        Bytes for stored RR sets. When they are used up the run stops, and ``ratio`` tells what is certified by then.
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
    check_graph(graph)
    wanted = check_choice("objective", objective, ("cascade", "direct"))
    name = check_choice("algorithm", algorithm, ("opim", "tim", "imm"))
    settings = check_settings(epsilon, delta, quality, max_memory, graph.n_nodes)
    p = check_probabilities(graph, probabilities)
    problem = make_problem(
        graph,
        k,
        **rows_of(graph, candidates=candidates, exclude=exclude, must_include=must_include),
        values=values,
        costs=costs,
        budget=budget,
        groups=groups,
        quotas=quotas,
        redundancy=redundancy,
    )
    where = check_engine(engine)
    if wanted == "direct":
        return direct(graph, p, problem)
    key = stream_key(as_generator(rng))
    sampler = new_sampler(graph, threads, where)
    return cascade(sampler, p, problem, settings, name, key)


class SeedOracle:
    """An oracle for policies: ``oracle(probabilities, k)`` gives the rows of ``k`` seeds.

    Rows go in and rows come out. Scratch memory is kept between calls, and each call takes the next random key
    of ``rng``, so a run of calls repeats for a seed. Several threads may call one oracle at the same time: each call
    then has scratch memory of its own.

    Parameters
    ----------
    graph
        The network.
    objective, epsilon, algorithm, delta, quality, max_memory, redundancy, threads, rng, engine
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
        epsilon: float = 0.1,
        algorithm: Algorithm = "opim",
        delta: float | None = None,
        quality: float = QUALITY,
        max_memory: float = 2.0**31,
        redundancy: float = 0.0,
        candidates: ArrayLike | None = None,
        threads: int | None = None,
        rng: RngLike = None,
        engine: Engine | None = None,
    ) -> None:
        check_graph(graph)
        self.graph = graph
        self.objective = check_choice("objective", objective, ("cascade", "direct"))
        self.algorithm = check_choice("algorithm", algorithm, ("opim", "tim", "imm"))
        self.candidates = _checked_rows(graph, "candidates", candidates)
        self.redundancy = check_share("redundancy", redundancy)
        self._settings = check_settings(epsilon, delta, quality, max_memory, graph.n_nodes)
        self._threads, self._engine = thread_count(threads), check_engine(engine)
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
        problem = make_problem(self.graph, k, candidates=allowed, must_include=forced, redundancy=own)
        key = stream_key(self._rng)
        if self.objective == "direct":
            return direct(self.graph, p, problem)
        try:
            sampler = self._idle_samplers.pop()
        except IndexError:
            sampler = new_sampler(self.graph, self._threads, self._engine)
        found = cascade(sampler, p, problem, self._settings, self.algorithm, key)
        self._idle_samplers.append(sampler)
        return found


def _checked_rows(graph: Graph, name: str, rows: ArrayLike | None) -> I64 | None:
    return None if rows is None else check_rows(name, rows, graph.n_nodes)
