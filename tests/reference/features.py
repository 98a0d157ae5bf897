"""Plain references of the feature functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.graph import Graph


def normalised_adjacency(graph: Graph) -> NDArray[np.float64]:
    adjacency = np.zeros((graph.n_nodes, graph.n_nodes))
    for source, target in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        adjacency[source, target] = adjacency[target, source] = 1.0
    root = np.sqrt(np.maximum(adjacency.sum(axis=1), 1.0))
    return adjacency / root[:, None] / root[None, :]


def spectrum(graph: Graph) -> NDArray[np.float64]:
    """Eigenvalues of the normalised Laplacian, ascending."""
    return 1.0 - np.linalg.eigvalsh(normalised_adjacency(graph))[::-1]
