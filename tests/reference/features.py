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


def count_past(graph: Graph, log, mixtures, held_out):
    """Credit, exposure and log rate of following, item by item and edge by edge of the item."""
    n = graph.n_nodes
    credit, exposure = np.zeros((2, n, mixtures.shape[1]))
    followed_items, exposed_items = np.zeros((2, n))
    for item in held_out.tolist():
        acted = np.full(n, np.inf)
        on_item = np.flatnonzero(log.items == item)
        np.minimum.at(acted, log.users[on_item], log.times[on_item].astype(float))
        edges = np.flatnonzero(acted[graph.targets] > acted[graph.sources])
        sources, targets = graph.sources[edges], graph.targets[edges]
        followed = np.isfinite(acted[targets])
        rivals = np.bincount(targets[followed], minlength=n)
        earned = np.bincount(sources[followed], 1.0 / rivals[targets[followed]], n)
        exposure += np.bincount(sources, minlength=n)[:, None] * mixtures[item]
        credit += earned[:, None] * mixtures[item]
        exposed_items[np.unique(targets)] += 1.0
        followed_items[np.unique(targets[followed])] += 1.0
    rate = followed_items.sum() / max(exposed_items.sum(), 1.0)
    return credit, exposure, np.log((followed_items + 3.0) / (exposed_items * rate + 3.0))


def lda_mixtures(log, n_topics: int, n_nodes: int, seed: int) -> NDArray[np.float64]:
    """Topic mixtures of all items by scikit-learn."""
    from scipy.sparse import csr_array
    from sklearn.decomposition import LatentDirichletAllocation

    bags = csr_array((np.ones(len(log.users)), (log.items, log.users)), shape=(log.n_items, n_nodes))
    bags.sum_duplicates()
    bags.data[:] = 1.0
    start = int(np.random.default_rng(seed).integers(2**31))
    model = LatentDirichletAllocation(n_topics, learning_method="batch", max_iter=30, random_state=start)
    return model.fit_transform(bags)
