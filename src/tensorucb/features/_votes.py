"""What features need of an action log."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError
from tensorucb.rng import RngLike, as_generator

__all__ = ["VoteLog", "held_out_items"]


class VoteLog(Protocol):
    """Who acted on which item: `tensorucb.data.ActionLog`, or anything with these arrays."""

    @property
    def users(self) -> NDArray[Any]:
        """Row of the graph's node that acted."""

    @property
    def items(self) -> NDArray[Any]:
        """Number of the item acted on, below ``n_items``."""

    @property
    def n_items(self) -> int:
        """Number of items."""


def item_numbers(log: VoteLog, items: ArrayLike | None) -> NDArray[np.int64]:
    """``items`` as checked item numbers; all of the log's where ``None``."""
    if items is None:
        return np.arange(log.n_items, dtype=np.int64)
    numbers = np.asarray(items)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise InputError(f"items must be a list of item numbers, at least one; got {items!r}.")
    if numbers.min() < 0 or numbers.max() >= log.n_items or np.unique(numbers).size != numbers.size:
        raise InputError(f"items must be different numbers from 0 to {log.n_items - 1}; got {numbers.tolist()[:10]} ….")
    return numbers.astype(np.int64)


def held_out_items(log: VoteLog, share: float = 0.2, rng: RngLike = 0) -> NDArray[np.int64]:
    """Items set aside for features: rounds of a campaign or an experiment draw from the others.

    Parameters
    ----------
    log
        The action log.
    share
        Part of the items to set aside, at least one item and never all.
    rng
        Seed or generator of the draw.

    Returns
    -------
    ndarray
        Item numbers, sorted.
    """
    if not 0 < share < 1 or log.n_items < 2:
        raise InputError(f"share must lie between 0 and 1, of 2 items or more; got {share!r} of {log.n_items} items.")
    size = min(max(1, round(share * log.n_items)), log.n_items - 1)
    return np.sort(as_generator(rng).choice(log.n_items, size, replace=False)).astype(np.int64)
