"""What a round is about: the vectors of its modes (product, strategy, season …) and their interactions.

The effect of a context is linear in these features: each mode's own vector (main effects), the Kronecker product of
every pair of modes, and of all modes together (interactions). A Kronecker product with more than ``rank`` entries is
never formed. Its coordinates in an orthonormal basis of at most ``rank`` contexts of the log take its place: the
low-rank form that is exact on all contexts told, as long as these are no more than ``rank``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, pairwise

import numpy as np

from tensorucb.arrays import F64

# A context joins the basis if this share of its squared length lies outside of it.
_NEW_DIRECTION = 1e-6
# Vectors of a usual norm within these bounds are taken as they are; others are brought to a usual norm of 1.
_SMALL, _LARGE = 0.1, 10.0


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
        modes = range(len(self.sizes))
        pairs = list(combinations(modes, 2))
        return (*pairs, tuple(modes)) if len(self.sizes) > 2 else tuple(pairs)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each interaction."""
        return tuple(min(self._entries(group), self.rank) for group in self.interactions)

    def _entries(self, group: tuple[int, ...]) -> int:
        """Entries of the Kronecker product of a group of modes."""
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
        """``(T, 1 + k + …)`` features of T scaled contexts: a constant, the modes side by side, each interaction."""
        columns = [np.ones((len(own), 1)), own]
        for group in self.interactions:
            if self._entries(group) > self.rank:
                columns.append(self._coordinates(group, own))
            else:
                columns.append(reduce(_kronecker, (own[:, self.parts[mode]] for mode in group)))
        return np.hstack(columns)

    def _coordinates(self, group: tuple[int, ...], own: F64) -> F64:
        """``(T, rank)`` coordinates of Kronecker products in the landmarks' basis (Gram–Schmidt in their order).

        Inner products of Kronecker products are products of inner products, so that none is ever formed.
        """
        gram = self._inner(group, self.landmarks, self.landmarks)
        root = np.linalg.cholesky(gram + 1e-10 * np.diag(np.diag(gram)))
        coordinates = np.zeros((len(own), self.rank))
        coordinates[:, : len(root)] = np.linalg.solve(root, self._inner(group, self.landmarks, own)).T
        return coordinates

    def _inner(self, group: tuple[int, ...], a: F64, b: F64) -> F64:
        return reduce(np.multiply, (a[:, self.parts[m]] @ b[:, self.parts[m]].T for m in group))

    def mixture(self, own: F64) -> F64:
        """The first mode as shares which sum to 1: what past actions by topic are weighted with."""
        shares = np.maximum(own[..., self.parts[0]], 0.0)
        total = shares.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / self.sizes[0])


def context_of(sizes: tuple[int, ...], rank: int, contexts: F64) -> ContextFeatures:
    """The features for the contexts of a log, ``(T, k)``, whatever their order."""
    bare = ContextFeatures(sizes, rank, np.ones(len(sizes)), np.zeros((0, sum(sizes))))
    scales = np.array([_scale(contexts[:, part]) for part in bare.parts])
    scaled = ContextFeatures(sizes, rank, scales, bare.landmarks)
    if all(scaled._entries(group) <= rank for group in scaled.interactions):
        return scaled
    distinct = np.unique(scaled.scaled(contexts), axis=0)
    # In an order that has nothing to do with what the features mean, nor with the rounds.
    order = np.argsort([zlib.crc32(row.tobytes()) for row in distinct], kind="stable")
    return ContextFeatures(sizes, rank, scales, _independent(scaled, distinct[order]))


def _independent(context: ContextFeatures, rows: F64) -> F64:
    """The first rows, at most ``rank``, that add a direction to the basis of every large interaction."""
    kept = rows[:0]
    groups = [group for group in context.interactions if context._entries(group) > context.rank]
    for row in rows:
        so_far = ContextFeatures(context.sizes, context.rank, context.scales, kept)
        new = True
        for group in groups:
            length = float(so_far._inner(group, row[None], row[None])[0, 0])
            inside = so_far._coordinates(group, row[None])[0] if len(kept) else np.zeros(1)
            new = new and length - float(inside @ inside) > _NEW_DIRECTION * length
        if new:
            kept = np.vstack([kept, row])
        if len(kept) == context.rank:
            break
    return kept


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
