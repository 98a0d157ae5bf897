"""What the learner knows of the nodes: standardised features, past influence and taste."""

from __future__ import annotations

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
    """Features of nodes as sources s_i(z) and as targets t_j.

    Attributes
    ----------
    as_source
        ``(n, d_s)``: features, past influence, then zeros in the columns that depend on the product.
    as_target
        ``(n, d_t)``: features and past influence.
    credit, exposure, influence
        ``(n, k)`` past credit, ``(n, k)`` credit to be expected, ``(n,)`` the log of their ratio; or None.
    preference
        ``(n, k)``, so that m_j(z) = preference_j · z is the target's taste beyond its activity; or None.
    axes
        ``(d, d)`` principal axes of the features, the widest first.
    """

    as_source: F64
    as_target: F64
    credit: F64 | None
    exposure: F64 | None
    influence: F64 | None
    preference: F64 | None
    axes: F64

    @property
    def slots(self) -> int:
        """Number of product-dependent columns of a source, which stand last."""
        return (self.credit is not None) + (self.preference is not None)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.as_source.shape[0])

    def crossed(self, k: int, rows: I64 | slice = slice(None)) -> F64:
        """``(n, c)`` features that respond to each of k context features: all, or as many leading axes as can be."""
        d, features = len(self.axes), self.as_target[rows]
        width = min(d, max(1, _MOST_CROSSINGS // k))
        return features if width == d else features @ self.axes[:, :width]

    def sources(self, mix: F64) -> F64:
        """``(n, d_s)`` features of all sources for one product with mixture ``mix``."""
        X = self.as_source.copy()
        column = X.shape[1] - self.slots
        if self.credit is not None and self.exposure is not None and self.influence is not None:
            X[:, column] = log_ratio(self.credit @ mix, self.exposure @ mix) - self.influence
            column += 1
        if self.preference is not None:
            X[:, column] = self.preference @ mix
        return X

    def pulls(self, sources: I64, mixes: F64) -> F64:
        """``(q, d_s)`` features of some sources, each for its own mixture."""
        X = self.as_source[sources]
        column = X.shape[1] - self.slots
        if self.credit is not None and self.exposure is not None and self.influence is not None:
            credit = np.einsum("qk,qk->q", self.credit[sources], mixes)
            expected = np.einsum("qk,qk->q", self.exposure[sources], mixes)
            X[:, column] = log_ratio(credit, expected) - self.influence[sources]
            column += 1
        if self.preference is not None:
            X[:, column] = np.einsum("qk,qk->q", self.preference[sources], mixes)
        return X

    def liking(self, mix: F64) -> F64:
        """m_j(z) of all targets: their past taste for this product, beyond their activity."""
        return np.zeros(self.n) if self.preference is None else self.preference @ mix


def node_features(users: F64, taste: F64 | None, credit: F64 | None, exposure: F64 | None) -> NodeFeatures:
    """Standardise user features; turn counts of past actions and past influence into logarithms.

    Parameters
    ----------
    users
        ``(n, d)`` features of any scale.
    taste
        ``(n, k)`` past actions by topic, or None.
    credit, exposure
        ``(n, k)`` responses credited to a user as a source, and chances to earn them, by topic; or both None.
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
    return NodeFeatures(
        as_source=np.hstack([X, slots]),
        as_target=X,
        credit=None if influence is None else credit,
        exposure=expected,
        influence=influence,
        preference=preference,
        axes=axes,
    )


def _distinct(X: F64) -> F64:
    """Without columns that are constant or repeat a later one, which would count twice in the prior."""
    products = X.T @ X
    norms = np.sqrt(np.diag(products))
    repeated = (np.triu(np.abs(products), 1) > (1.0 - 1e-6) * np.outer(norms, norms)).any(axis=1)
    return X[:, X.any(axis=0) & ~repeated]
