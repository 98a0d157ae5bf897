"""The topic-aware independent cascade model, and its maximum likelihood by EM (Barbieri et al. 2013)."""

from __future__ import annotations

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
from tensorucb.threads import OnProgress, thread_count
from tensorucb.truth._activations import activations
from tensorucb.truth._em import EM
from tensorucb.work import Engine, check_engine

_SUM_TOLERANCE = 1e-4


def _check_mixtures(name: str, mixtures: ArrayLike, shape: tuple[int | str, ...]) -> F64:
    """Rows of topic shares, none negative, that sum to 1."""
    result = check_array(name, mixtures, shape, low=0.0, hint="Topic shares are rows of a topic model.")
    sums = np.ravel(result.sum(axis=-1))
    apart = np.abs(sums - 1.0)
    if apart.max(initial=0.0) > _SUM_TOLERANCE:
        worst = sums[np.argmax(apart)]
        raise InputError(
            f"must be topic shares that sum to 1; got a sum of {worst:.6g}. Divide each row by its sum.", argument=name
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
    log_likelihood, penalised_log_likelihood
        At the start and after each iteration; the second has the logarithm of the Beta prior (without its constant)
        added, and is what EM climbs: it never falls.
    trials, successes
        Numbers for each edge; a success may have several candidate causes.
    converged
        Whether the tolerance was met before the iterations ran out.
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
    trials = activations(graph, users, items, times, window, threads=threads)
    em = EM(graph, trials, shares, [more, less], thread_count(threads), check_engine(engine))
    rate = (em.successes + more) / np.maximum(em.trials + more + less, 1.0)
    p = np.repeat(np.clip(rate, 1e-3, 0.9)[graph.in_edges, None], shares.shape[1], axis=1)
    fit, following = em.iterate(p)
    fits, converged = [fit], False
    while len(fits) <= max_iterations and not converged:
        p = following
        fit, following = em.iterate(p)
        fits.append(fit)
        if report is not None:
            report(len(fits) - 1, max_iterations, "truth")
        before, after = sum(fits[-2]), sum(fits[-1])
        converged = after - before <= tolerance * abs(before)
    if report is not None:
        report(len(fits) - 1, len(fits) - 1, "truth")
    curves = np.array(fits)
    return TopicAwareFit(
        model=TopicAwareIC(p[em.place]),
        log_likelihood=curves[:, 0],
        penalised_log_likelihood=curves.sum(axis=1),
        trials=em.trials,
        successes=em.successes,
        iterations=len(fits) - 1,
        converged=converged,
    )
