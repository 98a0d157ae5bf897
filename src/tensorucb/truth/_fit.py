"""Maximum likelihood of the topic-aware independent cascade model, by EM (Barbieri et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_array, check_count, check_number, check_rows
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.threads import map_chunks, thread_count
from tensorucb.truth._activations import Activations, activations, even_bounds
from tensorucb.truth._model import TopicAwareIC, check_mixtures

# Probabilities stay this far from 0 and 1: a constrained maximum, so EM still never falls.
_FLOOR = 1e-9


@dataclass(frozen=True)
class TopicAwareFit:
    """What :func:`fit_topic_aware_ic` found.

    Attributes
    ----------
    model
        The fitted model.
    log_likelihood
        Log-likelihood at the start and after each iteration.
    penalised_log_likelihood
        The same plus the logarithm of the Beta prior (without its constant): what EM climbs; it never falls.
    trials, successes
        Number of trials and of successes of each edge; a success may have several candidate causes.
    iterations
        Number of iterations done.
    converged
        Whether the tolerance was met before the iterations ran out.
    """

    model: TopicAwareIC
    log_likelihood: NDArray[np.float64]
    penalised_log_likelihood: NDArray[np.float64]
    trials: NDArray[np.int64]
    successes: NDArray[np.int64]
    iterations: int
    converged: bool


def fit_topic_aware_ic(
    graph: Graph,
    users: ArrayLike,
    items: ArrayLike,
    times: ArrayLike,
    mixtures: ArrayLike,
    *,
    window: float | None = None,
    prior: tuple[float, float] = (1.1, 3.0),
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    threads: int | None = None,
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
    graph
        The social network.
    users, items, times
        The action log: node row, item number and time of each action, see :func:`activations`.
    mixtures
        Topic shares of each item, ``(n_items, n_topics)``; rows sum to 1.
    window
        Longest delay between cause and effect; unlimited by default.
    prior
        ``(alpha, beta)`` of a Beta prior on every ``p_ij^k``, both at least 1: ``alpha - 1`` extra successes and
        ``beta - 1`` extra failures. An untried edge gets its mode; under the flat prior (1, 1), 0 (to 1e-9).
    max_iterations
        Most iterations.
    tolerance
        Stop when the penalised log-likelihood gains less than this share of itself.
    threads
        Threads to use; the result does not depend on it.

    Returns
    -------
    TopicAwareFit
        The model and how it was reached.
    """
    check_graph(graph)
    more, less = _checked_prior(prior)
    check_count("max_iterations", max_iterations, 1, 1_000_000)
    check_number("tolerance", tolerance)
    shares = check_mixtures("mixtures", mixtures, ("items", "topics"))
    shares = shares / shares.sum(axis=1, keepdims=True)
    check_rows("items", items, shares.shape[0], hint="Each item needs a row of mixtures.")
    found = activations(graph, users, items, times, window, threads=threads)
    em = _Expectation.of(graph, found, shares, thread_count(threads))
    rate = (em.successes + more) / np.maximum(em.trials + more + less, 1.0)
    p = np.repeat(np.clip(rate, 1e-3, 0.9)[:, None], shares.shape[1], axis=1)
    fits = [em.expect(p, more, less)]
    converged = False
    while len(fits) <= max_iterations and not converged:
        em.maximise(p, more, less)
        fits.append(em.expect(p, more, less))
        before, after = sum(fits[-2]), sum(fits[-1])
        converged = after - before <= tolerance * abs(before)
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


def _checked_prior(prior: tuple[float, float]) -> tuple[float, float]:
    hint = "It is (alpha, beta), both at least 1; (1, 1) is flat."
    alpha, beta = check_array("prior", prior, (2,), low=1.0, hint=hint).tolist()
    return alpha - 1.0, beta - 1.0


def _offsets(keys: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])


@dataclass(frozen=True)
class _Expectation:
    """The trials as the kernels want them, and the scratch between E-step and M-step."""

    shares: NDArray[np.float64]
    trials: NDArray[np.int64]
    successes: NDArray[np.int64]
    fail_offsets: NDArray[np.int64]
    fail_items: NDArray[np.int32]
    hit_offsets: NDArray[np.int64]
    hit_items: NDArray[np.int32]
    group_offsets: NDArray[np.int64]
    members: NDArray[np.int64]
    hit_scratch: NDArray[np.float64]
    edge_scratch: NDArray[np.float64]
    threads: int

    @classmethod
    def of(cls, graph: Graph, found: Activations, shares: NDArray[np.float64], threads: int) -> _Expectation:
        m, hit = graph.n_edges, found.successes
        # Candidate causes of one action: the successes with the same item and target.
        keys = found.items[hit] * graph.n_nodes + graph.targets[found.edges[hit]]
        members = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[members], prepend=-1))
        return cls(
            shares=shares,
            trials=np.bincount(found.edges, minlength=m),
            successes=np.bincount(found.edges[hit], minlength=m),
            fail_offsets=_offsets(found.edges[~hit], m),
            fail_items=found.items[~hit].astype(np.int32),
            hit_offsets=_offsets(found.edges[hit], m),
            hit_items=found.items[hit].astype(np.int32),
            group_offsets=np.append(starts, keys.size),
            members=members,
            hit_scratch=np.empty((3, keys.size)),
            edge_scratch=np.empty((m, shares.shape[1])),
            threads=threads,
        )

    def expect(self, p: NDArray[np.float64], more: float, less: float) -> tuple[float, float]:
        """The E-step; returns the log-likelihood and the log-prior at ``p``."""
        from tensorucb.truth import _kernels

        m, groups = p.shape[0], self.group_offsets.size - 1
        q, r, s = self.hit_scratch
        fit, penalty, group_fit = np.empty(m), np.empty(m), np.empty(groups)
        trials = (self.fail_offsets, self.fail_items, self.hit_offsets, self.hit_items, self.shares, p, more, less)
        out = (q, self.edge_scratch, fit, penalty)
        map_chunks(lambda a, b: _kernels.expect_edges(*trials, a, b, *out), even_bounds(m, self.threads), self.threads)
        causes = (self.group_offsets, self.members, q)
        map_chunks(
            lambda a, b: _kernels.expect_groups(*causes, a, b, r, s, group_fit),
            even_bounds(groups, self.threads),
            self.threads,
        )
        return float(fit.sum() + group_fit.sum()), float(penalty.sum())

    def maximise(self, p: NDArray[np.float64], more: float, less: float) -> None:
        """The M-step, in place."""
        from tensorucb.truth import _kernels

        _, r, s = self.hit_scratch
        args = (self.hit_offsets, self.hit_items, self.shares, r, s, self.edge_scratch, more, less, _FLOOR)
        map_chunks(lambda a, b: _kernels.maximise(*args, a, b, p), even_bounds(p.shape[0], self.threads), self.threads)
