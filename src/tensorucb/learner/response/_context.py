"""What a round is about: the vectors of its modes (product, strategy, season …) and their interactions.

The effect of a context is linear in these features: each mode's own vector (main effects), the Kronecker product of
every pair of modes, and of all modes together (interactions). A Kronecker product with more than ``rank`` entries is
never formed. Its coordinates in an orthonormal basis of the first ``rank`` contexts told take its place: the low-rank
form that is exact on all contexts seen, as long as these are no more than ``rank``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, pairwise

import numpy as np

from tensorucb.arrays import F64, Vectors

# A context joins the basis if this share of its squared length lies outside of it.
_NEW_DIRECTION = 1e-6
# Vectors whose first example has a norm outside these bounds are brought to norm 1, and none may exceed the upper one.
_SMALL, _LARGE = 0.1, 10.0


@dataclass(frozen=True)
class ContextFeatures:
    """How the vectors of a round's modes become features."""

    scales: tuple[float, ...]  # factor on each mode's vector, set by the first round
    sizes: tuple[int, ...]  # length of each mode's vector
    rank: int  # largest number of features of an interaction
    landmarks: F64  # (m, k): the first contexts told, at most ``rank``, which span the basis of large interactions

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

    @cached_property
    def _large(self) -> list[tuple[int, ...]]:
        """The interactions whose Kronecker product is never formed."""
        return [group for group in self.interactions if self._entries(group) > self.rank]

    def _entries(self, group: tuple[int, ...]) -> int:
        """Entries of the Kronecker product of a group of modes."""
        return int(np.prod([self.sizes[mode] for mode in group], dtype=np.int64))

    def scaled(self, vectors: Vectors) -> F64:
        """The vectors side by side, each by its mode's factor and at most of norm 10."""
        parts = []
        for scale, vector in zip(self.scales, vectors, strict=True):
            norm = _norm(vector) * scale
            parts.append(vector * (scale if norm <= _LARGE else scale * _LARGE / norm))
        return np.concatenate(parts)

    def features(self, own: F64) -> F64:
        """``(T, 1 + k + …)`` features of T rounds: a constant, the modes side by side, then each interaction."""
        columns = [np.ones((len(own), 1)), own]
        for group in self.interactions:
            vectors = (own[:, self.parts[mode]] for mode in group)
            columns.append(self._coordinates(group, own) if group in self._large else reduce(_kronecker, vectors))
        return np.hstack(columns)

    def _coordinates(self, group: tuple[int, ...], own: F64) -> F64:
        """``(T, rank)`` coordinates of Kronecker products in the landmarks' basis (Gram–Schmidt in their order).

        Inner products of Kronecker products are products of inner products, so that none is ever formed. A landmark
        that joins later adds a coordinate and leaves the others as they are.
        """
        root = self._roots[group]
        found = np.zeros((len(own), self.rank))
        found[:, : len(root)] = np.linalg.solve(root, self._inner(group, self.landmarks, own)).T
        return found

    @cached_property
    def _roots(self) -> dict[tuple[int, ...], F64]:
        """Cholesky factors of the landmarks' inner products in each large interaction."""
        grams = {group: self._inner(group, self.landmarks, self.landmarks) for group in self._large}
        lifted = {group: gram + 1e-10 * np.diag(np.diag(gram)) for group, gram in grams.items()}
        return {group: np.asarray(np.linalg.cholesky(gram), dtype=np.float64) for group, gram in lifted.items()}

    def _inner(self, group: tuple[int, ...], a: F64, b: F64) -> F64:
        return reduce(np.multiply, (a[:, self.parts[m]] @ b[:, self.parts[m]].T for m in group))

    def with_landmark(self, own: F64) -> ContextFeatures:
        """The context whose basis holds this one as well, if there is room and it points in a new direction."""
        if not self._large or len(self.landmarks) == self.rank:
            return self
        for group in self._large:
            length = float(self._inner(group, own[None], own[None])[0, 0])
            inside = self._coordinates(group, own[None])[0]
            if length - float(inside @ inside) <= _NEW_DIRECTION * length:
                return self
        return replace(self, landmarks=np.vstack([self.landmarks, own]))

    def mixture(self, own: F64) -> F64:
        """The first mode as shares which sum to 1: what past actions by topic are weighted with."""
        shares = np.maximum(own[..., self.parts[0]], 0.0)
        total = shares.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / self.sizes[0])


def context_of(vectors: Vectors, rank: int) -> ContextFeatures:
    """The context whose first round has these vectors."""
    sizes = tuple(vector.size for vector in vectors)
    return ContextFeatures(tuple(_scale(vector) for vector in vectors), sizes, rank, np.zeros((0, sum(sizes))))


def _kronecker(a: F64, b: F64) -> F64:
    """The Kronecker product of each row of ``a`` and of ``b``."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])


def _norm(vector: F64) -> float:
    peak = float(np.abs(vector).max())
    return peak * float(np.linalg.norm(vector / peak)) if peak > 0.0 else 0.0


def _scale(vector: F64) -> float:
    norm = _norm(vector)
    # A norm below the smallest normal number has no finite inverse.
    return 1.0 if _SMALL <= norm <= _LARGE or norm < 1e-300 else 1.0 / norm
