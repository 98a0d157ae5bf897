"""A plain oracle for tests of policies."""

from __future__ import annotations

import numpy as np


class TopK:
    """The k rows of largest expected direct reach ``Σ_j p_ij``, ties by row; those that must be included first."""

    def __init__(self, graph, candidates=None):
        self.graph, self.candidates = graph, candidates

    def __call__(self, probabilities, k, *, candidates=None, must_include=None, redundancy=None):
        allowed = self.candidates if candidates is None else candidates
        reach = np.bincount(self.graph.sources, weights=probabilities, minlength=self.graph.n_nodes)
        first = np.empty(0, dtype=np.int64) if must_include is None else np.asarray(must_include)
        rows = np.setdiff1d(np.arange(self.graph.n_nodes) if allowed is None else allowed, first)
        return np.concatenate([first, rows[np.argsort(-reach[rows], kind="stable")]])[:k]
