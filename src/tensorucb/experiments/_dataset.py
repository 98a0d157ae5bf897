"""An environment from a network with an action log, by the protocol of the paper's experiments.

Every fifth item is held out: the users' past (activity, taste, influence) is counted on those alone, and rounds draw
from the other four fifths. The truth is a topic-aware cascade model fitted to the whole log.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tensorucb.data import Dataset, checksum
from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment, WorldSettings
from tensorucb.features import UserProfile, cached, laplacian_eigenmap, topic_mixtures, user_profile
from tensorucb.moments import duration_text
from tensorucb.threads import OnProgress
from tensorucb.truth import TopicAwareIC, fit_topic_aware_ic
from tensorucb.work import Engine

_HOLD_OUT_EVERY = 5
_STEPS = 4


def environment_from_dataset(
    dataset: Dataset,
    *,
    settings: WorldSettings | None = None,
    dim: int = 10,
    n_topics: int = 10,
    topics_from: Literal["all", "held_out"] = "all",
    truth_prior: tuple[float, float] = (1.1, 3.0),
    cache: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> Environment:
    """The world of a data set: features from held-out items, truth from the whole log.

    Parameters
    ----------
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
    report, engine
        How far the preparation is, and where the truth is fitted; see `run_experiment`.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> environment_from_dataset(generate_dataset("sandbox", scale=0.3), n_topics=3).products.shape[1]
    3
    """
    graph, log = dataset.graph, dataset.log
    if log.n_items <= _HOLD_OUT_EVERY:
        raise InputError(
            f"{dataset.name!r} has {log.n_items} items; experiments need a log with more than {_HOLD_OUT_EVERY}."
        )
    held_out = np.arange(0, log.n_items, _HOLD_OUT_EVERY)
    identity: dict[str, Any] = {"data": checksum(dataset)}
    steps = iter(range(1, _STEPS + 1))

    def keep(name: str, key: dict[str, Any], compute: Callable[[OnProgress], NDArray[Any]]) -> NDArray[Any]:
        step = next(steps)

        def told(done: int, total: int, what: str) -> None:
            if report is not None:
                report(done, total, f"preparing, step {step} of {_STEPS}: {what}")

        told(0, 1, name.replace("-", " "))
        return compute(told) if cache is None else cached(cache, name, {**identity, **key}, lambda: compute(told))

    topics = {"topics": n_topics, "topics_from": topics_from}
    learned_from = None if topics_from == "all" else held_out
    mixtures = keep(
        "product-topics",
        topics,
        lambda told: topic_mixtures(log, n_topics, held_out=learned_from, n_nodes=graph.n_nodes, rng=0, report=told),
    )
    coordinates = keep("user-coordinates", {"dim": dim}, lambda told: laplacian_eigenmap(graph, dim))
    # The rest as one array in the cache: features, then three blocks by topic.
    table = keep(
        "user-features",
        {**topics, "kinds": ["degree"]},
        lambda told: np.hstack(list(user_profile(graph, log, held_out, mixtures, kinds=["degree"]).parts().values())),
    )
    split = table.shape[1] - 3 * n_topics
    taste, credit, exposure = np.split(table[:, split:], 3, axis=1)
    # Linear baselines have no intercept of their own; the constant gives them one.
    features_and_constant = np.hstack([table[:, :split], np.ones((graph.n_nodes, 1))])
    users = UserProfile(features_and_constant, taste, credit, exposure, coordinates)
    actions = (graph, log.users, log.items, log.times, mixtures)
    window = None if dataset.window_seconds is None else duration_text(dataset.window_seconds)
    fitted: Any = {"window": window, "prior": list(truth_prior)}
    edge_topics = keep(
        "truth",
        {**topics, **fitted},
        lambda told: fit_topic_aware_ic(*actions, **fitted, report=told, engine=engine).model.edge_topics,
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
    )
