"""The topic-aware independent cascade model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_array
from tensorucb.errors import InputError

_SUM_TOLERANCE = 1e-4


def check_mixtures(name: str, mixtures: ArrayLike, shape: tuple[int | str, ...]) -> NDArray[np.float64]:
    """Rows of topic shares: not negative, one in sum."""
    result = check_array(name, mixtures, shape, low=0.0, hint="Topic shares are rows of a topic model.")
    sums = result.sum(axis=-1)
    if np.abs(sums - 1.0).max(initial=0.0) > _SUM_TOLERANCE:
        worst = np.ravel(sums)[np.argmax(np.abs(np.ravel(sums) - 1.0))]
        raise InputError(
            f"{name} must be topic shares that sum to 1; got a sum of {worst:.6g}. Divide each row by its sum."
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
        table: NDArray[Any] = check_array("edge_topics", self.edge_topics, ("edges?", "topics"), low=0.0, high=1.0)
        if single:
            table = table.astype(np.float32)
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
        shares = check_mixtures("mixture", mixture, (self.n_topics,))
        # Not BLAS: its blocking, and so the last bit, may depend on its number of threads.
        table = self.edge_topics
        result = np.einsum("ek,k->e", table, shares.astype(table.dtype))
        return np.clip(np.asarray(result, dtype=np.float64), 0.0, 1.0)
