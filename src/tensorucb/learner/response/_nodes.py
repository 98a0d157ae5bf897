"""What is known about users beforehand: their features s_i(x) as sources and t_j as targets, and their past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensorucb._columns import expected_credit, log_ratio, standardised, taste_beyond_activity
from tensorucb.arrays import F64, I64

# A heavy tail must not let one feature of one user outweigh everything.
_LARGEST = 8.0
# Weights of features times context features: more features than fit are replaced by their leading axes.
_MOST_CROSSINGS = 400


class PastInfluence(NamedTuple):
    """What users achieved as sources before the campaign."""

    credit: F64  # (n, k): responses credited to each user, by topic
    expected: F64  # (n, k): credit that a user of average influence would have earned
    overall: F64  # (n,): the log of their ratio over all topics


@dataclass(frozen=True)
class NodeFeatures:
    """Features of nodes, and what makes the columns that depend on the product."""

    as_source: F64  # (n, d_s): features, past influence, then zeros in the columns that depend on the product
    as_target: F64  # (n, d_t): features and past influence
    influence: PastInfluence | None
    taste: F64 | None  # (n, k): past actions beyond the user's activity, standardised; taste(x) = row · mixture
    axes: F64  # (d_t, d_t): principal axes of the features, the widest first

    @property
    def slots(self) -> int:
        """Number of product-dependent columns of a source, which stand last."""
        return (self.influence is not None) + (self.taste is not None)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.as_source)

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
        """``(n, d_s)`` features of some sources, for a product of mixture ``mix`` (k,) or each for its own (n, k)."""
        X = self.as_source[rows]
        if not self.slots:
            return X

        def mixed(past: F64) -> F64:
            return np.asarray(past[rows] @ mix if mix.ndim == 1 else np.einsum("qk,qk->q", past[rows], mix))

        X = X.copy()
        if self.influence is not None:
            credit, expected, overall = self.influence
            X[:, -self.slots] = log_ratio(mixed(credit), mixed(expected)) - overall[rows]
        if self.taste is not None:
            X[:, -1] = mixed(self.taste)
        return X

    def tastes(self, mix: F64, rows: I64 | slice = slice(None)) -> F64:
        """``(n, 1)`` taste of some targets, each for its own mixture (n, k) or all for one (k,); no column without."""
        if self.taste is None:
            return np.zeros((len(self.as_target[rows]), 0))
        past = self.taste[rows]
        return np.asarray(past @ mix if mix.ndim == 1 else np.einsum("qk,qk->q", past, mix))[:, None]


def node_features(users: F64, actions: F64 | None, credit: F64 | None, exposure: F64 | None) -> NodeFeatures:
    """Standardise ``(n, d)`` user features; turn counts of past actions and past influence into logarithms.

    The past is ``(n, k)`` by topic, or None: actions, responses credited to a user as a source (``credit``), and
    chances to earn them (``exposure``).
    """
    columns, influence, taste = [users], None, None
    if actions is not None:
        columns.append(np.log1p(actions.sum(axis=1, keepdims=True)))
        taste = taste_beyond_activity(actions)
        taste = (taste - taste.mean()) / (float(taste.std()) or 1.0)
    if credit is not None and exposure is not None:
        expected = expected_credit(credit, exposure)
        influence = PastInfluence(credit, expected, log_ratio(credit.sum(axis=1), expected.sum(axis=1)))
        columns.append(influence.overall[:, None])
    X = _distinct(np.clip(standardised(np.hstack(columns)), -_LARGEST, _LARGEST))
    axes = np.linalg.eigh(X.T @ X)[1][:, ::-1]
    slots = np.zeros((len(users), (influence is not None) + (taste is not None)))
    return NodeFeatures(np.hstack([X, slots]), X, influence, taste, axes)


def _distinct(X: F64) -> F64:
    """Without columns that are constant or repeat a later one, which would count twice in the prior."""
    products = X.T @ X
    norms = np.sqrt(np.diag(products))
    repeated = (np.triu(np.abs(products), 1) > (1.0 - 1e-6) * np.outer(norms, norms)).any(axis=1)
    return X[:, X.any(axis=0) & ~repeated]
