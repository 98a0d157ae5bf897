"""An environment from a network with an action log, by the protocol of the paper's experiments.

Every fifth item is held out: the users' past (activity, taste, influence) is counted on those alone, and rounds draw
from the other four fifths. The truth is a topic-aware cascade model fitted to the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment, WorldSettings
from tensorucb.features import FeatureKind

if TYPE_CHECKING:
    from tensorucb.data import Dataset

FEATURES: tuple[FeatureKind, ...] = ("eigenmap", "degree")
_HOLD_OUT_EVERY = 5


def environment_from_dataset(
    dataset: Dataset,
    *,
    settings: WorldSettings | None = None,
    features: Sequence[FeatureKind] = FEATURES,
    dim: int = 10,
    n_topics: int = 10,
    topics_from: Literal["all", "held_out"] = "all",
    truth_prior: tuple[float, float] = (1.1, 3.0),
    cache: str | Path | None = None,
    threads: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Environment:
    """The world of a data set: features from held-out items, truth from the whole log.

    Parameters
    ----------
    features
        Kinds of user features, see :func:`tensorucb.features.user_profile`.
    dim, n_topics
        Columns of the eigenmap and number of topics, 10 each in the paper.
    topics_from
        Items that the topics are learned from: all (one set of mixtures is then the products' features and the
        truth's), or only those held out.
    truth_prior
        Beta prior of the truth's probabilities, see :func:`tensorucb.truth.fit_topic_aware_ic`. It decides what edges
        with few trials are like, so results worth quoting should hold under several.
    cache
        Directory in which features and truth are kept for the next time.
    tell
        Gets a line before each long step.
    """
    from tensorucb.data import checksum
    from tensorucb.features import UserProfile, cached, laplacian_eigenmap, topic_mixtures, user_profile
    from tensorucb.truth import TopicAwareIC, fit_topic_aware_ic

    graph, log = dataset.graph, dataset.log
    if log.n_items <= _HOLD_OUT_EVERY:
        raise InputError(
            f"{dataset.name!r} has {log.n_items} items; experiments need a log with more than {_HOLD_OUT_EVERY}."
        )
    held_out = np.arange(0, log.n_items, _HOLD_OUT_EVERY)
    say = tell or (lambda line: None)
    identity: dict[str, Any] = {"data": checksum(dataset)}

    def keep(name: str, key: dict[str, Any], compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        say(name)
        return compute() if cache is None else cached(cache, name, {**identity, **key}, compute)

    topics = {"topics": n_topics, "topics_from": topics_from}
    mixtures = keep(
        "product-topics",
        topics,
        lambda: topic_mixtures(
            log, n_topics, held_out=None if topics_from == "all" else held_out, n_nodes=graph.n_nodes, rng=0
        ),
    )
    kinds = [kind for kind in features if kind != "eigenmap"]
    coordinates = (
        keep("user-coordinates", {"dim": dim}, lambda: laplacian_eigenmap(graph, dim))
        if "eigenmap" in features
        else None
    )
    # The rest as one array in the cache: features, then three blocks by topic.
    table = keep(
        "user-features",
        {**topics, "kinds": kinds},
        lambda: np.hstack(list(user_profile(graph, log, held_out, mixtures, kinds=kinds).parts().values())),
    )
    split = table.shape[1] - 3 * n_topics
    taste, credit, exposure = np.split(table[:, split:], 3, axis=1)
    # Linear baselines have no intercept of their own; the constant gives them one.
    features_and_constant = np.hstack([table[:, :split], np.ones((graph.n_nodes, 1))])
    users = UserProfile(features_and_constant, taste, credit, exposure, coordinates)
    edge_topics = keep(
        "truth",
        {**topics, "window": dataset.window, "prior": list(truth_prior)},
        lambda: (
            fit_topic_aware_ic(
                graph,
                log.users,
                log.items,
                log.times,
                mixtures,
                window=dataset.window,
                prior=truth_prior,
                threads=threads,
            ).model.edge_topics
        ),
    )
    truth = TopicAwareIC(edge_topics)
    return Environment(
        graph,
        users,
        mixtures,
        lambda product: truth.probabilities(mixtures[product]),
        settings=settings,
        product_rows=np.setdiff1d(np.arange(log.n_items), held_out),
        name=dataset.name,
        threads=threads,
    )
