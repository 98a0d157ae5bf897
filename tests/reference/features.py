"""Plain references of the feature functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.graph import Graph


def matched_columns(profile, product) -> NDArray[np.float64]:
    """`UserProfile.matched` for one product, user by user and topic by topic."""
    n, k = profile.taste.shape
    weights = [max(share, 0.0) for share in product]
    weights = [weight / sum(weights) for weight in weights] if sum(weights) > 0 else [1.0 / k] * k
    rate = profile.credit.sum() / profile.exposure.sum()
    ratio = lambda credit, chances: np.log((credit + 2.0) / (rate * chances + 2.0))  # noqa: E731
    pure = np.array([[ratio(profile.credit[i, t], profile.exposure[i, t]) for t in range(k)] for i in range(n)])
    liking, activity = np.log(1.0 + profile.taste), np.log(1.0 + profile.taste.sum(axis=1))
    beyond = np.array(
        [[liking[i, t] - activity[i] * liking[:, t].mean() / activity.mean() for t in range(k)] for i in range(n)]
    )
    columns = np.empty((n, 2))
    for i in range(n):
        credit = sum(weights[t] * profile.credit[i, t] for t in range(k))
        chances = sum(weights[t] * profile.exposure[i, t] for t in range(k))
        columns[i, 0] = 0.5 * (ratio(credit, chances) - pure.mean()) / pure.std()
        columns[i, 1] = 0.5 * (sum(weights[t] * beyond[i, t] for t in range(k)) - beyond.mean()) / beyond.std()
    return columns


def normalised_adjacency(graph: Graph) -> NDArray[np.float64]:
    adjacency = np.zeros((graph.n_nodes, graph.n_nodes))
    for source, target in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        adjacency[source, target] = adjacency[target, source] = 1.0
    root = np.sqrt(np.maximum(adjacency.sum(axis=1), 1.0))
    return adjacency / root[:, None] / root[None, :]


def spectrum(graph: Graph) -> NDArray[np.float64]:
    """Eigenvalues of the normalised Laplacian, ascending."""
    return 1.0 - np.linalg.eigvalsh(normalised_adjacency(graph))[::-1]
