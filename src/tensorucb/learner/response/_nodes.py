"""What the learner knows of the nodes: standardised features, past influence and taste."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorucb._columns import expected_credit, log_ratio, standardised, taste_beyond_activity
from tensorucb.arrays import F64, I64

# A heavy tail must not let one feature of one user outweigh everything.
_LARGEST = 8.0
# Weights of features times context features: more features than fit are replaced by their leading axes.
_MOST_CROSSINGS = 400


@dataclass(frozen=True)
class NodeFeatures:
    """Features of nodes as sources s_i(z) and as targets t_j."""

    as_source: F64  # (n, d_s): features, past influence, then zeros in the columns that depend on the product
    as_target: F64  # (n, d_t): features and past influence
    credit: F64 | None  # (n, k): past credit
    exposure: F64 | None  # (n, k): credit to be expected
    influence: F64 | None  # (n,): the log of their ratio
    preference: F64 | None  # (n, k): m_j(z) = preference_j · z is the target's taste beyond its activity
    axes: F64  # (d, d): principal axes of the features, the widest first

    @property
    def slots(self) -> int:
        """Number of product-dependent columns of a source, which stand last."""
        return (self.credit is not None) + (self.preference is not None)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.as_source.shape[0])

    def crossing(self, k: int) -> F64:
        """``(d, c)`` axes of the features that respond to each of k context features: all, or as many as can be."""
        d = len(self.axes)
        width = min(d, max(1, _MOST_CROSSINGS // k))
        return np.eye(d) if width == d else self.axes[:, :width]

    def crossed(self, k: int, rows: I64 | slice = slice(None)) -> F64:
        """``(n, c)`` features of some sources along `crossing`."""
        axes, features = self.crossing(k), self.as_target[rows]
        return features if axes.shape[1] == len(axes) else features @ axes

    def sources(self, mix: F64, rows: I64 | slice = slice(None)) -> F64:
        """``(n, d_s)`` features of some sources for one product with mixture ``mix``."""
        return self._for_product(rows, lambda past: past[rows] @ mix)

    def pulls(self, sources: I64, mixes: F64) -> F64:
        """``(q, d_s)`` features of some sources, each for its own mixture."""
        return self._for_product(sources, lambda past: np.einsum("qk,qk->q", past[sources], mixes))

    def _for_product(self, rows: I64 | slice, mixed: Callable[[F64], F64]) -> F64:
        """Features of some sources; ``mixed`` weighs their past by topic with the product's mixture."""
        X = self.as_source[rows]
        if not self.slots:
            return X
        X = X.copy()
        column = X.shape[1] - self.slots
        if self.credit is not None and self.exposure is not None and self.influence is not None:
            X[:, column] = log_ratio(mixed(self.credit), mixed(self.exposure)) - self.influence[rows]
            column += 1
        if self.preference is not None:
            X[:, column] = mixed(self.preference)
        return X


def node_features(users: F64, taste: F64 | None, credit: F64 | None, exposure: F64 | None) -> NodeFeatures:
    """Standardise ``(n, d)`` user features; turn counts of past actions and past influence into logarithms.

    The past is ``(n, k)`` by topic, or None: actions (``taste``), responses credited to a user as a source
    (``credit``), and chances to earn them (``exposure``).
    """
    columns, influence, expected, preference = [users], None, None, None
    if taste is not None:
        columns.append(np.log1p(taste.sum(axis=1, keepdims=True)))
        preference = taste_beyond_activity(taste)
    if credit is not None and exposure is not None:
        expected = expected_credit(credit, exposure)
        influence = log_ratio(credit.sum(axis=1), expected.sum(axis=1))
        columns.append(influence[:, None])
    X = _distinct(np.clip(standardised(np.hstack(columns)), -_LARGEST, _LARGEST))
    axes = np.linalg.eigh(X.T @ X)[1][:, ::-1]
    slots = np.zeros((len(users), (taste is not None) + (influence is not None)))
    earned = None if influence is None else credit
    return NodeFeatures(np.hstack([X, slots]), X, earned, expected, influence, preference, axes)


def _distinct(X: F64) -> F64:
    """Without columns that are constant or repeat a later one, which would count twice in the prior."""
    products = X.T @ X
    norms = np.sqrt(np.diag(products))
    repeated = (np.triu(np.abs(products), 1) > (1.0 - 1e-6) * np.outer(norms, norms)).any(axis=1)
    return X[:, X.any(axis=0) & ~repeated]
