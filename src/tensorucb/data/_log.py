"""`ActionLog`: who acted on which item, and when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_count, check_rows
from tensorucb.errors import ShapeError
from tensorucb.graph._ids import id_column, string_array
from tensorucb.moments import check_times


@dataclass(frozen=True, eq=False)
class ActionLog:
    """Actions (votes, ratings, purchases), sorted by item, then time, then user; one per user and item.

    Build it with :meth:`from_arrays`, which sorts and checks.

    Parameters
    ----------
    users
        Row of the graph's node that acted.
    items
        Number of the item acted on, an index into ``item_ids``.
    times
        When, in seconds (whole numbers stay int64, otherwise float64); `from_arrays` also takes datetimes.
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
        column = id_column(item_ids, "item_ids")
        ids = column if isinstance(column, np.ndarray) else string_array(column)
        user_rows = check_rows("users", users, 2**31 - 1, hint="They are rows of the graph.")
        item_numbers = check_rows("items", items, ids.size, hint="They are indices into item_ids.")
        moments = check_times("times", times)
        if not user_rows.shape == item_numbers.shape == moments.shape:
            raise ShapeError(
                "users, items and times must be of one length; "
                f"got {user_rows.shape}, {item_numbers.shape} and {moments.shape}."
            )
        order = np.lexsort((user_rows, moments, item_numbers))
        user_rows, item_numbers = user_rows[order], item_numbers[order]
        keys = item_numbers * (int(user_rows.max(initial=0)) + 1) + user_rows
        _, first = np.unique(keys, return_index=True)
        first.sort()
        return cls(user_rows[first].astype(np.int32), item_numbers[first].astype(np.int32), moments[order][first], ids)

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
        n_nodes = check_count("n_nodes", n_nodes, int(self.users.max(initial=-1)) + 1, 2**31 - 1)
        return np.bincount(self.users, minlength=n_nodes).astype(np.int64)

    def select(self, actions: NDArray[Any], *, items: NDArray[np.int64] | None = None) -> ActionLog:
        """The actions under a mask or index; ``items`` (sorted numbers) renumbers to those items alone."""
        users, numbers, times = self.users[actions], self.items[actions], self.times[actions]
        if items is None:
            return ActionLog(users, numbers, times, self.item_ids)
        inside = np.isin(numbers, items)
        renumbered = np.searchsorted(items, numbers[inside]).astype(np.int32)
        return ActionLog(users[inside], renumbered, times[inside], self.item_ids[items])
