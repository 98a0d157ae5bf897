"""What multiplies the weights: features of a round's context, of users as sources, and of users as targets.

A context is the vectors of its modes (product, strategy, season …). Its effect is linear in each mode's own vector, in
the Kronecker product of every pair of modes, and of all modes together. A Kronecker product with more than ``rank``
entries is never formed. Its coordinates in an orthonormal basis of at most ``rank`` contexts of the log take its place:
exact on all contexts told, as long as these are no more than ``rank``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from tensorucb._columns import expected_credit, log_ratio, standardised, taste_beyond_activity
from tensorucb.arrays import F64, I64

# A context joins the basis if this share of its squared length lies outside of it.
_NEW_DIRECTION = 1e-6
# Vectors of a usual norm within these bounds are taken as they are; others are brought to a usual norm of 1.
_SMALL, _LARGE = 0.1, 10.0
# A heavy tail must not let one feature of one user outweigh everything.
_LARGEST = 8.0
# Weights of features times context features: more features than fit are replaced by their leading axes.
_MOST_CROSSINGS = 400


@dataclass(frozen=True)
class ContextFeatures:
    """How the vectors of a round's modes become features."""

    sizes: tuple[int, ...]  # length of each mode's vector
    rank: int  # largest number of features of an interaction
    scales: F64  # factor on each mode's vector
    landmarks: F64  # (m, k): scaled contexts, at most ``rank``, which span the basis of large interactions

    @property
    def k(self) -> int:
        """Number of features of all modes side by side."""
        return sum(self.sizes)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Where each mode stands in the vectors side by side."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @cached_property
    def interactions(self) -> tuple[tuple[int, ...], ...]:
        """The groups of modes that interact: every pair, and all of them."""
        modes = tuple(range(len(self.sizes)))
        pairs = tuple(combinations(modes, 2))
        return (*pairs, modes) if len(modes) > 2 else pairs

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each interaction."""
        return tuple(min(self._entries(group), self.rank) for group in self.interactions)

    def _entries(self, group: tuple[int, ...]) -> int:
        return int(np.prod([self.sizes[mode] for mode in group], dtype=np.int64))

    def scaled(self, vectors: F64) -> F64:
        """``(T, k)`` vectors side by side, each by its mode's factor and at most of norm 10."""
        own = np.empty(vectors.shape)
        for scale, part in zip(self.scales.tolist(), self.parts, strict=True):
            norms = _norms(vectors[:, part]) * scale
            own[:, part] = vectors[:, part] * (scale * np.minimum(1.0, _LARGE / np.maximum(norms, 1e-300)))[:, None]
        return own

    def too_large(self, vectors: F64) -> bool:
        """Whether `scaled` shortens a vector of these."""
        pairs = zip(self.scales.tolist(), self.parts, strict=True)
        return any((_norms(vectors[:, part]) * scale > _LARGE * (1.0 + 1e-9)).any() for scale, part in pairs)

    def features(self, own: F64) -> F64:
        """``(T, 1 + k + …)`` features c(x) of T scaled contexts: a constant, the modes, each interaction."""
        columns = [np.ones((len(own), 1)), own]
        for group in self.interactions:
            if self._entries(group) > self.rank:
                columns.append(self._coordinates(group, own))
            else:
                columns.append(reduce(_kronecker, (own[:, self.parts[mode]] for mode in group)))
        return np.hstack(columns)

    def _coordinates(self, group: tuple[int, ...], own: F64) -> F64:
        """``(T, rank)`` coordinates of Kronecker products in the landmarks' basis (Gram–Schmidt in their order)."""
        coordinates = np.zeros((len(own), self.rank))
        if len(self.landmarks):
            gram = self._inner(group, self.landmarks, self.landmarks)
            root = np.linalg.cholesky(gram + 1e-10 * np.diag(np.diag(gram)))
            coordinates[:, : len(root)] = np.linalg.solve(root, self._inner(group, self.landmarks, own)).T
        return coordinates

    def _inner(self, group: tuple[int, ...], a: F64, b: F64) -> F64:
        """Inner products of Kronecker products: products of inner products, so that none is ever formed."""
        return reduce(np.multiply, (a[:, self.parts[m]] @ b[:, self.parts[m]].T for m in group))

    def with_landmarks(self, contexts: F64) -> ContextFeatures:
        """With a basis of the first contexts that each add a direction to every large interaction."""
        groups = [group for group in self.interactions if self._entries(group) > self.rank]
        basis = self
        for context in contexts[:, None]:
            lengths = np.array([basis._inner(group, context, context)[0, 0] for group in groups])
            inside = np.array([np.sum(basis._coordinates(group, context) ** 2) for group in groups])
            if (lengths - inside > _NEW_DIRECTION * lengths).all():
                basis = replace(basis, landmarks=np.vstack([basis.landmarks, context]))
            if len(basis.landmarks) == self.rank:
                break
        return basis


def context_of(sizes: tuple[int, ...], rank: int, contexts: F64) -> ContextFeatures:
    """The features for the contexts of a log, ``(T, k)``, whatever their order."""
    bare = ContextFeatures(sizes, rank, np.ones(len(sizes)), np.zeros((0, sum(sizes))))
    scaled = replace(bare, scales=np.array([_scale(contexts[:, part]) for part in bare.parts]))
    if all(scaled._entries(group) <= rank for group in scaled.interactions):
        return scaled
    distinct = np.unique(scaled.scaled(contexts), axis=0)
    # In an order that has nothing to do with what the features mean, nor with the rounds.
    order = np.argsort([zlib.crc32(row.tobytes()) for row in distinct], kind="stable")
    return scaled.with_landmarks(distinct[order])


def _kronecker(a: F64, b: F64) -> F64:
    """The Kronecker product of each row of ``a`` and of ``b``."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])


def _norms(rows: F64) -> F64:
    """Euclidean norms, also of numbers whose squares overflow or vanish."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    safe = np.where(peak > 0.0, peak, 1.0)
    return np.asarray(peak * np.linalg.norm(rows / safe[:, None], axis=1))


def _scale(rows: F64) -> float:
    """The factor that brings a usual norm outside of the bounds to 1."""
    usual = float(np.median(_norms(rows)))
    # A norm below the smallest normal number has no finite inverse.
    return 1.0 if _SMALL <= usual <= _LARGE or usual < 1e-300 else 1.0 / usual


def mixture(product: F64) -> F64:
    """Products as shares which sum to 1, whatever their scale: what past actions by topic are weighted with."""
    shares = np.maximum(product, 0.0)
    peak = shares.max(axis=-1, keepdims=True)
    shares = np.where(peak > 0.0, shares / np.where(peak > 0.0, peak, 1.0), 1.0)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


class PastInfluence(NamedTuple):
    """What users achieved as sources before the campaign."""

    credit: F64  # (n, k): responses credited to each user, by topic
    expected: F64  # (n, k): credit that a user of average influence would have earned
    overall: F64  # (n,): the log of their ratio over all topics


@dataclass(frozen=True)
class NodeFeatures:
    """Features of users, and what makes the columns that depend on the product."""

    as_source: F64  # (n, d_s): features, past influence, then zeros in the columns that depend on the product
    as_target: F64  # (n, d_t): features and past influence
    influence: PastInfluence | None
    taste: F64 | None  # (n, k): past actions beyond the user's activity, standardised; taste(x) = row · mixture
    readiness: F64  # (n,): log ratio of past actions to those of an average user; 0 without a past
    axes: F64  # (d_t, d_t): principal axes of the features, the widest first

    @property
    def slots(self) -> int:
        """Number of product-dependent columns of a source, which stand last."""
        return (self.influence is not None) + (self.taste is not None)

    @property
    def n(self) -> int:
        """Number of users."""
        return len(self.as_source)

    def crossing(self, k: int) -> F64:
        """``(d, c)`` axes of the features that respond to each of k context features: all, or as many as can be."""
        d = len(self.axes)
        width = min(d, max(1, _MOST_CROSSINGS // k))
        return np.eye(d) if width == d else self.axes[:, :width]

    def sources(self, mix: F64, rows: I64 | slice = slice(None)) -> F64:
        """``(n, d_s)`` features of some sources, for a product of mixture ``mix`` (k,) or each for its own (n, k)."""
        X = self.as_source[rows]
        if not self.slots:
            return X
        X = X.copy()
        if self.influence is not None:
            credit, expected, overall = self.influence
            X[:, -self.slots] = log_ratio(_mixed(credit[rows], mix), _mixed(expected[rows], mix)) - overall[rows]
        if self.taste is not None:
            X[:, -1] = _mixed(self.taste[rows], mix)
        return X

    def source_rows(self, context: ContextFeatures, own: F64, sources: I64) -> F64:
        """``(pulls, P)`` what multiplies θ: s_i(x), c(x), products of x and s̃_i, for each source in its context."""
        features = self.sources(mixture(own[:, context.parts[0]]), sources)
        crossed = self.as_target[sources] @ self.crossing(context.k)
        return np.hstack([features, context.features(own), _kronecker(own, crossed)])


def _mixed(past: F64, mix: F64) -> F64:
    return np.asarray(past @ mix if mix.ndim == 1 else np.einsum("qk,qk->q", past, mix))


def node_features(users: F64, actions: F64 | None, credit: F64 | None, exposure: F64 | None) -> NodeFeatures:
    """Standardise ``(n, d)`` user features; turn counts of past actions and past influence into logarithms.

    The past is ``(n, k)`` by topic, or None: actions, responses credited to a user as a source (``credit``), and
    chances to earn them (``exposure``).
    """
    columns = [users]
    influence = None
    taste = None
    readiness = np.zeros(len(users))
    if actions is not None:
        total = actions.sum(axis=1)
        columns.append(np.log1p(total)[:, None])
        readiness = log_ratio(total, total.mean())
        taste = taste_beyond_activity(actions)
        taste = (taste - taste.mean()) / (float(taste.std()) or 1.0)
    if credit is not None and exposure is not None:
        expected = expected_credit(credit, exposure)
        influence = PastInfluence(credit, expected, log_ratio(credit.sum(axis=1), expected.sum(axis=1)))
        columns.append(influence.overall[:, None])
    X = _distinct(np.clip(standardised(np.hstack(columns)), -_LARGEST, _LARGEST))
    axes = np.linalg.eigh(X.T @ X)[1][:, ::-1]
    slots = np.zeros((len(users), (influence is not None) + (taste is not None)))
    return NodeFeatures(np.hstack([X, slots]), X, influence, taste, readiness, axes)


def _distinct(X: F64) -> F64:
    """Without columns that are constant or repeat a later one, which would count twice in the prior."""
    products = X.T @ X
    norms = np.sqrt(np.diag(products))
    repeated = (np.triu(np.abs(products), 1) > (1.0 - 1e-6) * np.outer(norms, norms)).any(axis=1)
    return X[:, X.any(axis=0) & ~repeated]
