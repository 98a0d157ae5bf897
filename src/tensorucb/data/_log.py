"""`ActionLog`: who acted on which item, and when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

__all__ = ["ActionLog"]


@dataclass(frozen=True, eq=False)
class ActionLog:
    """Actions (votes, ratings, purchases), sorted by item, then time, then user; one a user and item.

    Build it with :meth:`from_arrays`, which sorts and checks.

    Parameters
    ----------
    users
        Row of the graph's node that acted.
    items
        Number of the item acted on, an index into ``item_ids``.
    times
        When, in seconds (whole numbers stay int64, otherwise float64).
    item_ids
        The caller's id of each item.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    times: NDArray[np.int64] | NDArray[np.float64]
    item_ids: NDArray[Any]

    @classmethod
    def from_arrays(cls, users: ArrayLike, items: ArrayLike, times: ArrayLike, item_ids: ArrayLike) -> ActionLog:
        """A log from arrays in any order; of a repeated user and item the earliest is kept."""
        user_rows, item_numbers, moments = np.asarray(users), np.asarray(items), np.asarray(times)
        ids = np.asarray(item_ids)
        if not user_rows.shape == item_numbers.shape == moments.shape or user_rows.ndim != 1:
            raise ShapeError(
                "users, items and times must be of one length; "
                f"got {user_rows.shape}, {item_numbers.shape} and {moments.shape}."
            )
        if user_rows.size and (item_numbers.min() < 0 or item_numbers.max() >= ids.size):
            raise InputError(f"items must be numbers below the {ids.size} item_ids; got {int(item_numbers.max())}.")
        if user_rows.size and user_rows.min() < 0:
            raise InputError(f"users must be rows of the graph; got {int(user_rows.min())}.")
        if moments.dtype.kind not in "iu":
            moments = moments.astype(np.float64)
            if not np.isfinite(moments).all():
                raise InputError("times must be finite numbers of seconds; drop the actions without a time.")
        else:
            moments = moments.astype(np.int64)
        order = np.lexsort((user_rows, moments, item_numbers))
        user_rows = user_rows[order].astype(np.int32)
        item_numbers = item_numbers[order].astype(np.int32)
        keys = item_numbers.astype(np.int64) * (int(user_rows.max(initial=0)) + 1) + user_rows
        _, first = np.unique(keys, return_index=True)
        first.sort()
        return cls(user_rows[first], item_numbers[first], moments[order][first], ids)

    @classmethod
    def empty(cls) -> ActionLog:
        """A log without actions, for data sets that are a graph alone."""
        none = np.empty(0, dtype=np.int32)
        return cls(none, none, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.users.size)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item_ids.size)

    @cached_property
    def item_offsets(self) -> NDArray[np.int64]:
        """Actions ``item_offsets[i]:item_offsets[i + 1]`` are on item ``i``, in the order of time."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.items, minlength=self.n_items))]).astype(np.int64)

    def interactions(self, n_nodes: int) -> NDArray[np.int64]:
        """Number of actions of each of ``n_nodes`` users."""
        return np.bincount(self.users, minlength=n_nodes).astype(np.int64)

    def select(self, actions: NDArray[Any], *, items: NDArray[np.int64] | None = None) -> ActionLog:
        """The actions under a mask or index; ``items`` (sorted numbers) renumbers to those items alone."""
        users, numbers, times = self.users[actions], self.items[actions], self.times[actions]
        if items is None:
            return ActionLog(users, numbers, times, self.item_ids)
        inside = np.isin(numbers, items)
        renumbered = np.searchsorted(items, numbers[inside]).astype(np.int32)
        return ActionLog(users[inside], renumbered, times[inside], self.item_ids[items])
