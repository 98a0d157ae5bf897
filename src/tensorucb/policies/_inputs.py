"""What every policy is given: a network, features of users and products, and responses, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_array, check_rows
from tensorucb.errors import InputError, ShapeError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph

_VECTOR = "a product must be a vector (d,), or a sequence of vectors for several modes."


def as_modes(product: Any) -> tuple[NDArray[np.float64], ...]:
    """``product`` as a tuple of vectors: one (d3,) vector, or a sequence of them for more modes."""
    several = (
        isinstance(product, list | tuple)
        and len(product) > 0
        and all(isinstance(part, np.ndarray | list | tuple) for part in product)
    )
    return tuple(check_array("product", part, ("d",), hint=_VECTOR) for part in (product if several else (product,)))


def as_user_features(graph: Graph, users: ArrayLike | None, *, needed: bool, name: str) -> NDArray[np.float64] | None:
    """``users`` as a finite (n, d) array; None passes only where the policy needs none."""
    if users is None:
        if needed:
            raise InputError(
                f"{name} needs user features; got users=None. "
                "Pass an (n, d) array, e.g. tensorucb.features.laplacian_eigenmap(graph, dim=10)."
            )
        return None
    return check_array("users", users, (graph.n_nodes, "d"), hint="One row per node; rows follow graph.ids.")


def feature_columns(users: Any) -> int:
    """Numbers per user in a matrix of features or in all parts of a profile; 0 for what is neither."""
    parts = users.parts().values() if isinstance(users, UserProfile) else (users,)
    return sum(np.shape(part)[1] for part in parts if getattr(part, "ndim", 0) == 2)


def as_observations(
    n_edges: int, edges: ArrayLike, outcomes: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edge numbers and outcomes of one length, in range; both may be empty."""
    values = check_array("outcomes", outcomes, ("N?",), low=0.0, high=1.0)
    rows = check_rows("edges", edges, n_edges, hint="graph.edge_rows gives the number of an edge.")
    if rows.size != values.size:
        raise ShapeError(f"edges and outcomes must be of one length; got {rows.size} and {values.size}.")
    return rows, values
