"""The topic-aware independent cascade model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

__all__ = ["TopicAwareIC", "check_mixtures"]

_SUM_TOLERANCE = 1e-4


def check_mixtures(mixtures: ArrayLike, n_topics: int | None = None) -> NDArray[np.float64]:
    """Rows of topic shares: not negative, one in sum."""
    result = np.ascontiguousarray(mixtures, dtype=np.float64)
    if n_topics is not None and result.shape[-1:] != (n_topics,):
        raise ShapeError(f"a mixture must hold {n_topics} topic shares; got shape {result.shape}.")
    if not (np.isfinite(result).all() and result.min(initial=0.0) >= 0.0):
        raise InputError("topic shares must be finite and not negative; use the rows of a topic model.")
    sums = result.sum(axis=-1)
    if np.abs(sums - 1.0).max(initial=0.0) > _SUM_TOLERANCE:
        worst = np.ravel(sums)[np.argmax(np.abs(np.ravel(sums) - 1.0))]
        raise InputError(f"topic shares must sum to 1; got a sum of {worst:.6g}. Divide each row by its sum.")
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
        table = np.asarray(self.edge_topics)
        table = np.ascontiguousarray(table, dtype=np.float32 if table.dtype == np.float32 else np.float64)
        if table.ndim != 2 or table.shape[1] == 0:
            raise ShapeError(f"edge_topics must be a table of edges by topics; got shape {table.shape}.")
        if not (table.min(initial=0.0) >= 0.0 and table.max(initial=0.0) <= 1.0):
            raise InputError("edge_topics must hold probabilities in [0, 1], without NaN.")
        object.__setattr__(self, "edge_topics", table)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.edge_topics.shape[0])

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return int(self.edge_topics.shape[1])

    def probabilities(self, mixture: ArrayLike) -> NDArray[np.float64]:
        """Activation probability of each edge for a product.

        Parameters
        ----------
        mixture
            The product's topic shares ``z``, which sum to 1.
        """
        shares = check_mixtures(mixture, self.n_topics)
        if shares.ndim != 1:
            raise ShapeError(f"one product at a time: the mixture must be flat; got shape {shares.shape}.")
        # Not BLAS: its blocking, and so the last bit, may depend on its number of threads.
        table = self.edge_topics
        result = np.einsum("ek,k->e", table, shares.astype(table.dtype))
        return np.clip(np.asarray(result, dtype=np.float64), 0.0, 1.0)
