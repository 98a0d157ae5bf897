"""The topic-aware independent cascade model, and its maximum likelihood by EM (Barbieri et al. 2013)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_count, check_number, check_report, check_rows
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import Duration
from tensorucb.threads import OnProgress, map_chunks, thread_count
from tensorucb.truth._activations import Activations, activations, even_bounds, offsets_of
from tensorucb.truth._by_target import ExpectationByTarget
from tensorucb.work import Engine, check_engine

_SUM_TOLERANCE = 1e-4
# Probabilities stay this far from 0 and 1: a constrained maximum, so EM still never falls.
_FLOOR = 1e-9


def _check_mixtures(name: str, mixtures: ArrayLike, shape: tuple[int | str, ...]) -> F64:
    """Rows of topic shares, none negative, that sum to 1."""
    result = check_array(name, mixtures, shape, low=0.0, hint="Topic shares are rows of a topic model.")
    sums = np.ravel(result.sum(axis=-1))
    apart = np.abs(sums - 1.0)
    if apart.max(initial=0.0) > _SUM_TOLERANCE:
        worst = sums[np.argmax(apart)]
        raise InputError(
            f"{name} must be topic shares that sum to 1; got a sum of {worst:.6g}. Divide each row by its sum."
        )
    return result


@dataclass(frozen=True)
class TopicAwareIC:
    """Activation probabilities that depend on the topics of the product (Barbieri et al. 2013).

    ``p_ij^z = Σ_k z_k p_ij^k``: an edge of the cascade first draws one of the product's topics, then the coin of
    that topic.

    Attributes
    ----------
    edge_topics
        ``p_ij^k``, one row per edge in graph order, one column per topic. Kept as given in float32 or float64.

    Examples
    --------
    >>> TopicAwareIC([[0.1, 0.3], [0.0, 1.0]]).probabilities([0.5, 0.5]).tolist()
    [0.2, 0.5]
    """

    edge_topics: NDArray[Any]

    def __post_init__(self) -> None:
        single = getattr(self.edge_topics, "dtype", None) == np.float32
        table = check_array("edge_topics", self.edge_topics, ("edges?", "topics"), low=0.0, high=1.0)
        object.__setattr__(self, "edge_topics", table.astype(np.float32) if single else table)

    def probabilities(self, mixture: ArrayLike) -> F64:
        """Activation probability of each edge for a product with these topic shares ``z``, which sum to 1."""
        table = self.edge_topics
        shares = _check_mixtures("mixture", mixture, (table.shape[1],))
        # Not BLAS: its blocking, and so the last bit, may depend on its number of threads.
        result = np.einsum("ek,k->e", table, shares.astype(table.dtype))
        return np.clip(np.asarray(result, dtype=np.float64), 0.0, 1.0)


@dataclass(frozen=True)
class TopicAwareFit:
    """What :func:`fit_topic_aware_ic` found.

    Attributes
    ----------
    log_likelihood
        Log-likelihood at the start and after each iteration.
    penalised_log_likelihood
        The same plus the logarithm of the Beta prior (without its constant): what EM climbs; it never falls.
    trials, successes
        Number of trials and of successes of each edge; a success may have several candidate causes.
    iterations, converged
        Number of iterations, and whether the tolerance was met before they ran out.

    Examples
    --------
    >>> fit = fit_topic_aware_ic(Graph.from_edges([0, 0], [1, 2]), [0, 1, 0], [0, 0, 1], [0, 1, 0], [[1.0], [1.0]])
    >>> fit.trials.tolist(), fit.successes.tolist()
    ([2, 2], [1, 0])
    """

    model: TopicAwareIC
    log_likelihood: F64
    penalised_log_likelihood: F64
    trials: I64
    successes: I64
    iterations: int
    converged: bool


def fit_topic_aware_ic(
    graph: Graph,
    users: ArrayLike,
    items: ArrayLike,
    times: ArrayLike,
    mixtures: ArrayLike,
    *,
    window: Duration | None = None,
    prior: tuple[float, float] = (1.1, 3.0),
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    threads: int | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> TopicAwareFit:
    """Fit ``p_ij^k`` of every edge and topic to an action log.

    The model of one trial of edge ``i → j`` with an item: draw a topic ``k`` from the item's mixture, then a coin with
    ``p_ij^k``. Where ``j`` acted, at least one of the coins of those who acted at most ``window`` before fired; every
    other trial failed, also that of a neighbour who acted *longer* than the window before ``j`` did: their chance had
    passed. An action without a candidate cause says nothing about the edges. Topics and coins are the hidden data;
    with their exact posterior the penalised log-likelihood never falls. (Counting a trial as ``γ_k`` of a trial of
    topic ``k``, as is common, is not its M-step and can fall.)

    Parameters
    ----------
    graph, users, items, times, window, threads
        The network and its action log, see :func:`activations`.
    mixtures
        Topic shares of each item, ``(n_items, n_topics)``; rows sum to 1.
    prior
        ``(alpha, beta)`` of a Beta prior on every ``p_ij^k``, both at least 1: ``alpha - 1`` extra successes and
        ``beta - 1`` extra failures. An untried edge gets its mode; under the flat prior (1, 1), 0 (to 1e-9).
    max_iterations, tolerance
        Stop after so many iterations, or when the penalised log-likelihood gains less than this share of itself.
    report
        Called as ``report(done, most, "truth")`` after each iteration; ``most`` is ``done`` at the end.
    engine
        Where iterations run: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).

    Examples
    --------
    >>> graph = Graph.from_edges([0, 0], [1, 2])
    >>> fit = fit_topic_aware_ic(graph, [0, 1, 0], [0, 0, 1], [0, 1, 0], [[1.0], [1.0]], prior=(1, 1))
    >>> fit.model.edge_topics.round(3).tolist()  # user 1 followed on one of two items, user 2 never
    [[0.5], [0.0]]
    """
    check_graph(graph)
    hint = "It is (alpha, beta), both at least 1; (1, 1) is flat."
    more, less = (check_array("prior", prior, (2,), low=1.0, hint=hint) - 1.0).tolist()
    check_count("max_iterations", max_iterations, 1, 1_000_000)
    check_number("tolerance", tolerance)
    check_report("report", report)
    shares = _check_mixtures("mixtures", mixtures, ("items", "topics"))
    shares = shares / shares.sum(axis=1, keepdims=True)
    check_rows("items", items, shares.shape[0], hint="Each item needs a row of mixtures.")
    found = activations(graph, users, items, times, window, threads=threads)
    here = _Expectation(graph, found, shares, more, less, thread_count(threads))
    where = check_engine(engine)
    em = here if where is None else ExpectationByTarget(graph, here, where, _FLOOR)
    rate = (em.successes + more) / np.maximum(em.trials + more + less, 1.0)
    p = np.repeat(np.clip(rate, 1e-3, 0.9)[:, None], shares.shape[1], axis=1)
    fits = [em.expect(p)]
    converged = False
    while len(fits) <= max_iterations and not converged:
        em.maximise(p)
        fits.append(em.expect(p))
        if report is not None:
            report(len(fits) - 1, max_iterations, "truth")
        before, after = sum(fits[-2]), sum(fits[-1])
        converged = after - before <= tolerance * abs(before)
    if report is not None:
        report(len(fits) - 1, len(fits) - 1, "truth")
    curves = np.array(fits)
    return TopicAwareFit(
        model=TopicAwareIC(p),
        log_likelihood=curves[:, 0],
        penalised_log_likelihood=curves.sum(axis=1),
        trials=em.trials,
        successes=em.successes,
        iterations=len(fits) - 1,
        converged=converged,
    )


class _Expectation:
    """The trials as the kernels want them, and what the E-step leaves for the M-step."""

    def __init__(self, graph: Graph, found: Activations, shares: F64, more: float, less: float, threads: int) -> None:
        m, hit = graph.n_edges, found.successes
        # Candidate causes of one action: the successes with the same item and target.
        keys = found.items[hit] * graph.n_nodes + graph.targets[found.edges[hit]]
        self.members = np.argsort(keys, kind="stable")
        self.group_offsets = np.append(np.flatnonzero(np.diff(keys[self.members], prepend=-1)), keys.size)
        self.trials, self.successes = (np.bincount(e, minlength=m) for e in (found.edges, found.edges[hit]))
        self.failed = offsets_of(found.edges[~hit], m), found.items[~hit].astype(np.int32)
        self.fired = offsets_of(found.edges[hit], m), found.items[hit].astype(np.int32)
        self.shares, self.more, self.less, self.threads = shares, more, less, threads
        # q, r and s of each success, and V of each edge and topic; the kernels' glossary says what they are.
        self.q, self.r, self.s = np.empty((3, keys.size))
        self.v = np.empty((m, shares.shape[1]))

    def expect(self, p: F64) -> tuple[float, float]:
        """The E-step; returns the log-likelihood and the log-prior at ``p``."""
        from tensorucb.truth import _kernels

        fit, penalty, group_fit = np.empty(len(p)), np.empty(len(p)), np.empty(self.group_offsets.size - 1)
        trials = (*self.failed, *self.fired, self.shares, p, self.more, self.less)
        self._map(lambda a, b: _kernels.expect_edges(*trials, a, b, self.q, self.v, fit, penalty), len(p))
        causes = (self.group_offsets, self.members, self.q)
        self._map(lambda a, b: _kernels.expect_groups(*causes, a, b, self.r, self.s, group_fit), group_fit.size)
        return float(fit.sum() + group_fit.sum()), float(penalty.sum())

    def maximise(self, p: F64) -> None:
        """The M-step, in place."""
        from tensorucb.truth import _kernels

        counts = (*self.fired, self.shares, self.r, self.s, self.v, self.more, self.less, _FLOOR)
        self._map(lambda a, b: _kernels.maximise(*counts, a, b, p), len(p))

    def _map(self, work: Callable[[int, int], None], count: int) -> None:
        map_chunks(work, even_bounds(count, self.threads), self.threads)
