"""Product features: topics of items seen as bags of votes (Section "Datasets" of the paper).

An item is a document whose words are the users that acted on it, so two items are alike if the same people like
them. The model is fitted on items held out from the rounds; mixtures of all items then follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_count
from tensorucb.errors import InputError
from tensorucb.features._votes import VoteLog, check_log, item_numbers
from tensorucb.rng import RngLike, as_generator
from tensorucb.threads import single_threaded_blas


def _bags(log: VoteLog, items: NDArray[np.int64], n_nodes: int) -> Any:
    """``(items, n_nodes)`` sparse matrix of 0 and 1: who acted on what."""
    from scipy.sparse import csr_array

    place = np.full(log.n_items, -1, dtype=np.int64)
    place[items] = np.arange(items.size)
    rows = place[log.items]
    inside = rows >= 0
    columns = np.asarray(log.users)[inside].astype(np.int64)
    if columns.size and columns.max() >= n_nodes:
        raise InputError(f"the log names user {int(columns.max())}, but the model knows {n_nodes} users only.")
    bags = csr_array((np.ones(columns.size), (rows[inside], columns)), shape=(items.size, n_nodes))
    bags.sum_duplicates()
    bags.data[:] = 1.0
    return bags


@dataclass(frozen=True, eq=False)
class TopicModel:
    """Latent Dirichlet allocation over bags of votes. Build it with :meth:`fit`.

    Parameters
    ----------
    topics
        ``(n_topics, n_nodes)``: how likely each topic is to call each user; rows sum to 1.
    """

    topics: NDArray[np.float64]
    _estimator: Any

    @classmethod
    def fit(
        cls,
        log: VoteLog,
        items: ArrayLike | None = None,
        *,
        n_topics: int = 10,
        n_nodes: int | None = None,
        max_iter: int = 30,
        rng: RngLike = 0,
    ) -> TopicModel:
        """Fit the topics on some items.

        Parameters
        ----------
        log
            The action log.
        items
            Numbers of the items to learn from, those held out from the rounds; ``None`` for all.
        n_topics
            Number of topics, 10 in the paper.
        n_nodes
            Number of users, ``graph.n_nodes``; by default what the log reaches.
        max_iter
            Passes of variational inference over the items.
        rng
            Seed or generator of the start.
        """
        n_topics = check_count("n_topics", n_topics, 1, 10_000)
        max_iter = check_count("max_iter", max_iter, 1, 1_000_000)
        check_log(log)
        if not len(log.users):
            raise InputError("the log holds no actions, and topics are learned from actions.")
        from sklearn.decomposition import LatentDirichletAllocation

        size = int(np.max(log.users)) + 1 if n_nodes is None else check_count("n_nodes", n_nodes, 1, 2**31 - 1)
        bags = _bags(log, item_numbers(log, items), size)
        if not bags.nnz:
            raise InputError("nobody acted on these items; fit the topics on others.")
        seed = int(as_generator(rng).integers(2**31))
        estimator = LatentDirichletAllocation(
            n_topics, learning_method="batch", max_iter=max_iter, random_state=seed, n_jobs=1
        )
        with single_threaded_blas():
            estimator.fit(bags)
        topics = estimator.components_ / estimator.components_.sum(axis=1, keepdims=True)
        return cls(topics, estimator)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return int(self.topics.shape[0])

    def transform(self, log: VoteLog, items: ArrayLike | None = None) -> NDArray[np.float64]:
        """Topic mixtures ``z`` of items, which need not be those of the fit.

        Parameters
        ----------
        log
            The action log.
        items
            Item numbers; ``None`` for all.

        Returns
        -------
        ndarray
            ``(items, n_topics)``; rows sum to 1. An item nobody acted on gets equal shares.
        """
        with single_threaded_blas():
            shares = self._estimator.transform(_bags(log, item_numbers(log, items), self.topics.shape[1]))
        mixtures: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return mixtures


def topic_mixtures(
    log: VoteLog,
    n_topics: int = 10,
    *,
    held_out: ArrayLike | None = None,
    n_nodes: int | None = None,
    max_iter: int = 30,
    rng: RngLike = 0,
) -> NDArray[np.float64]:
    """Topic mixtures of all items, with topics learned from the held-out ones.

    Parameters
    ----------
    log
        The action log.
    n_topics
        Number of topics.
    held_out
        Items to learn the topics from (`held_out_items`); ``None`` for all items, as for a ground truth.
    n_nodes, max_iter, rng
        See `TopicModel.fit`.

    Returns
    -------
    ndarray
        ``(n_items, n_topics)``; rows sum to 1.
    """
    model = TopicModel.fit(log, held_out, n_topics=n_topics, n_nodes=n_nodes, max_iter=max_iter, rng=rng)
    return model.transform(log)
