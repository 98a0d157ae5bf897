"""`Selection` and `PairSelection`: who was chosen and what is known about the choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Selection:
    """Chosen seeds with their certificate.

    Attributes
    ----------
    seeds
        The caller's ids, in the order of choice.
    rows
        The same as row numbers of the graph.
    spread
        Estimate of the objective (expected active users, or their expected value), from samples that had no part in
        the choice; exact for the direct objective.
    lower, upper
        With probability at least ``1 - delta`` the objective of ``seeds`` is at least ``lower``, and no
        admissible seed set exceeds ``upper``.
    ratio
        ``lower / upper``: the share of the best possible that is certified for these seeds.
    rr_sets
        RR sets sampled in all (0 for the direct objective).
    algorithm
        ``opim``, ``tim`` or ``direct``.
    gains
        What each seed added when it was chosen, estimated on the samples used for the choice (so a little high);
        0 for seeds that add no more than noise and were taken for their direct gain. Seeds fixed beforehand, which the
        samples stop at, share what they cover: a sample counts for the one it met first.
    guarantee
        One sentence on what is guaranteed.

    Examples
    --------
    >>> from tensorucb import Graph, select_seeds
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "dan"])
    >>> pick = select_seeds(graph, [1.0, 1.0, 0.5], 2, objective="direct")
    >>> pick.seeds.tolist(), pick.gains.tolist(), pick.ratio
    (['ann', 'dan'], [3.0, 1.0], 1.0)
    >>> pick.guarantee
    'exact greedy: at least 1 - 1/e of the best admissible choice; here at least 1.000 of it.'
    """

    seeds: NDArray[Any]
    rows: NDArray[np.int64]
    spread: float
    lower: float
    upper: float
    ratio: float
    rr_sets: int
    algorithm: str
    gains: NDArray[np.float64]
    guarantee: str


@dataclass(frozen=True)
class PairSelection(Selection):
    """Chosen users, each with the strategy to contact the user with; the certificate is about these pairs.

    Attributes
    ----------
    strategies
        The strategy of each seed: row numbers of ``probabilities``.
    cost
        What all pairs cost together; None where no costs were given.

    Examples
    --------
    >>> from tensorucb import Graph, select_pairs
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["cid", "dan", "dan"])
    >>> pick = select_pairs(graph, [[0.9, 0.9, 0.1], [0.1, 0.1, 0.8]], 2, objective="direct")
    >>> pick.seeds.tolist(), pick.strategies.tolist()
    (['ann', 'bob'], [0, 1])
    """

    strategies: NDArray[np.int64]
    cost: float | None
