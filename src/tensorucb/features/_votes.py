"""What features need of an action log."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_rows, check_share, shown
from tensorucb.errors import InputError
from tensorucb.rng import RngLike, as_generator


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


def check_log(log: Any) -> VoteLog:
    """An action log: something with users, items and the number of items."""
    for name in ("users", "items", "n_items"):
        if not hasattr(log, name):
            raise InputError(f"log must be an action log such as tensorucb.data.ActionLog; got {shown(log)}.")
    found: VoteLog = log
    return found


def item_numbers(log: VoteLog, items: ArrayLike | None) -> NDArray[np.int64]:
    """``items`` as checked item numbers; all of the log's where ``None``."""
    check_log(log)
    if items is None:
        return np.arange(log.n_items, dtype=np.int64)
    numbers = check_rows("items", items, log.n_items, distinct=True)
    if numbers.size == 0:
        raise InputError("items must name at least one item; got an empty list.")
    return numbers


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
    share = check_share("share", share, zero=False, one=False)
    if check_log(log).n_items < 2:
        raise InputError(f"log must have at least 2 items, so that one can be set aside; it has {log.n_items}.")
    size = min(max(1, round(share * log.n_items)), log.n_items - 1)
    return np.sort(as_generator(rng).choice(log.n_items, size, replace=False)).astype(np.int64)
