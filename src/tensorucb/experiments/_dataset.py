"""Worlds from a network with an action log, by the protocol of the paper's experiments.

Every fifth item is held out: the users' past (activity, taste, influence) is counted on those alone, and rounds draw
from the other four fifths. Who responds is decided by a topic-aware cascade model fitted to the whole log
(`environment_from_dataset`), or by the log itself (`replay_from_dataset`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_count, check_instance
from tensorucb.data import Dataset, checksum
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments._environment import Environment, WorldSettings
from tensorucb.experiments._results import Measure
from tensorucb.features import TopicModel, UserProfile, cached, laplacian_eigenmap, user_profile
from tensorucb.moments import duration_text
from tensorucb.threads import OnProgress
from tensorucb.truth import TopicAwareIC, fit_topic_aware_ic
from tensorucb.work import Engine

Features = Literal["ours", "paper"]
"""What policies are told of users: our features, or the paper's."""
_HOLD_OUT_EVERY = 5
# Purpose of a derived random stream: (seed, purpose, run).
_ITEMS = 14


def environment_from_dataset(
    dataset: Dataset,
    *,
    settings: WorldSettings | None = None,
    features: Features = "ours",
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
    features
        What policies are told of users. ``"paper"``: the Laplacian eigenmap of the network with unit rows, and nothing
        else. ``"ours"``: a `UserProfile` with that, degrees, and what users did on the held-out items.
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
    check_choice("features", features, get_args(Features))
    steps = 4 if features == "ours" else 3
    described = _Described(dataset, dim, n_topics, topics_from, cache, report, steps=steps)
    users = described.profile() if features == "ours" else described.coordinates()
    graph = dataset.graph
    log = dataset.log
    mixtures = described.products
    actions = (graph, log.users, log.items, log.times, mixtures)
    window = None if dataset.window_seconds is None else duration_text(dataset.window_seconds)
    fitted: Any = {"window": window, "prior": list(truth_prior)}
    edge_topics = described.keep(
        "truth",
        {**described.topics, **fitted},
        lambda report: fit_topic_aware_ic(*actions, **fitted, report=report, engine=engine).model.edge_topics,
    )
    truth = TopicAwareIC(edge_topics)
    return Environment(
        graph,
        users,
        mixtures,
        lambda product: truth.probabilities(mixtures[product]),
        settings=settings,
        product_rows=described.items,
        name=dataset.name,
    )


class ReplayedLog(Environment):
    """A world in which the log itself answers: a round is on one of its items.

    A follower of a contacted user responds if, and only if, it acted on the item in the log, whoever was contacted; so
    a follower of several of them responds to all of them or to none. Reach is the number of distinct responders; a
    contacted user is none. Every item comes once before one comes again, since its answers would be known by then.

    The best possible choice, :meth:`~Environment.optimum`, is greedy maximum coverage of those who acted: at least
    1 − 1/e of the contacted users and responders that any choice has.

    Parameters
    ----------
    dataset
        The network and the log.
    users, products, settings, product_rows, name
        As in `Environment`; products are the items of the log. Only the direct objective and one-hop feedback: a log
        does not tell whom the responders would have persuaded.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> world = replay_from_dataset(generate_dataset("sandbox", scale=0.3), n_topics=3)
    >>> world.evaluate(1, world.optimum(1).rows) >= world.evaluate(1, range(10))
    True
    """

    measure: ClassVar[Measure] = "responders"

    def __init__(self, dataset: Dataset, users: ArrayLike | None, products: ArrayLike, **options: Any) -> None:
        check_instance("dataset", dataset, Dataset, "a Dataset", "tensorucb.data.read_dataset reads one.")
        graph, log = dataset.graph, dataset.log

        def acted(item: int) -> F64:
            actor = np.zeros(graph.n_nodes)
            actor[log.users[log.item_offsets[item] : log.item_offsets[item + 1]]] = 1.0
            return actor[graph.targets]

        super().__init__(graph, users, products, acted, **options)
        if len(self.products) != log.n_items:
            raise ShapeError(
                f"must have {log.n_items} rows, one per item; got {self.products.shape}.", argument="products"
            )
        if (self.settings.objective, self.settings.feedback) != ("direct", "one_hop"):
            raise InputError(
                "a replayed log has the direct objective and one-hop feedback, since it does not tell whom responders "
                f"would have persuaded; got {self.settings.objective} and {self.settings.feedback}."
            )

    def draw_products(self, rounds: int, *, seed: int, run: int) -> I64:
        """Every item once, in random order, and then again in another."""
        rng = np.random.default_rng([seed, _ITEMS, run])
        times = -(-rounds // self.product_rows.size)
        return np.concatenate([rng.permutation(self.product_rows) for _ in range(times)])[:rounds]

    def evaluate(self, product: int, rows: ArrayLike, strategies: ArrayLike | None = None) -> float:
        """The number of distinct responders, contacted users left out."""
        return super().evaluate(product, rows, strategies) - np.size(rows)


def replay_from_dataset(
    dataset: Dataset,
    *,
    settings: WorldSettings | None = None,
    dim: int = 10,
    n_topics: int = 10,
    topics_from: Literal["all", "held_out"] = "held_out",
    min_actors: int = 1,
    cache: str | Path | None = None,
    report: OnProgress | None = None,
) -> ReplayedLog:
    """The world of a data set in which the log itself answers; features come from held-out items.

    Parameters
    ----------
    dim, n_topics, topics_from, cache, report
        As in `environment_from_dataset`. Topics are learned from held-out items; the mixture of an item is inferred
        from those who acted on it, as nothing else is known of it.
    min_actors
        Rounds draw from items with at least so many actors.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> import tensorucb as tu
    >>> world = replay_from_dataset(generate_dataset("sandbox", scale=0.3), n_topics=3)
    >>> tu.experiments.run_policy(world, tu.policies.HighDegree(), rounds=5)["spread"].len()
    5
    """
    least = check_count("min_actors", min_actors, 0)
    described = _Described(dataset, dim, n_topics, topics_from, cache, report, steps=3)
    actors = np.diff(dataset.log.item_offsets)
    items = described.items[actors[described.items] >= least]
    if items.size == 0:
        raise InputError(
            f"no item of {dataset.name!r} that rounds may draw from has min_actors = {least} actors or more; "
            f"the most popular one has {actors[described.items].max()}. Lower it."
        )
    return ReplayedLog(
        dataset,
        described.profile(),
        described.products,
        settings=settings,
        product_rows=items,
        name=f"{dataset.name}, replayed",
    )


@dataclass
class _Described:
    """Users and items of a data set as features, and the items that rounds draw from."""

    dataset: Dataset
    dim: int
    n_topics: int
    topics_from: Literal["all", "held_out"]
    cache: str | Path | None
    report: OnProgress | None
    steps: int  # that will be reported
    step: int = 0

    def __post_init__(self) -> None:
        graph, log = self.dataset.graph, self.dataset.log
        if log.n_items <= _HOLD_OUT_EVERY:
            name = self.dataset.name
            raise InputError(
                f"{name!r} has {log.n_items} items; experiments need a log with more than {_HOLD_OUT_EVERY}."
            )
        self.identity = {"data": checksum(self.dataset)}
        self.held_out = np.arange(0, log.n_items, _HOLD_OUT_EVERY)
        self.items: I64 = np.setdiff1d(np.arange(log.n_items), self.held_out)
        self.topics = {"topics": self.n_topics, "topics_from": self.topics_from}
        learned_from = None if self.topics_from == "all" else self.held_out
        self.products: F64 = self.keep(
            "product-topics",
            self.topics,
            lambda report: TopicModel.fit(
                log, learned_from, n_topics=self.n_topics, n_nodes=graph.n_nodes, report=report
            ).transform(log),
        )

    def coordinates(self) -> F64:
        """The users' places in the network: the paper's features."""
        return self.keep(
            "user-coordinates", {"dim": self.dim}, lambda report: laplacian_eigenmap(self.dataset.graph, self.dim)
        )

    def profile(self) -> UserProfile:
        """Degrees, what users did on the held-out items, and their places in the network."""
        graph, log = self.dataset.graph, self.dataset.log
        coordinates = self.coordinates()
        # The rest as one array in the cache: features, then four blocks by topic.
        table = self.keep(
            "user-features",
            {**self.topics, "kinds": ["degree"], "past": ["taste", "credit", "exposure", "chances"]},
            lambda report: np.hstack(
                list(user_profile(graph, log, self.held_out, self.products, kinds=["degree"]).parts().values())
            ),
        )
        split = table.shape[1] - 4 * self.n_topics
        taste, credit, exposure, chances = np.split(table[:, split:], 4, axis=1)
        # Linear baselines have no intercept of their own; the constant gives them one.
        features_and_constant = np.hstack([table[:, :split], np.ones((graph.n_nodes, 1))])
        return UserProfile(features_and_constant, taste, credit, exposure, coordinates, chances)

    def keep(self, name: str, key: dict[str, Any], compute: Callable[[OnProgress], NDArray[Any]]) -> NDArray[Any]:
        """What ``compute`` gives, or what it gave the last time if there is a cache; progress is reported."""
        self.step += 1
        stage = f"preparing, step {self.step} of {self.steps}"

        def report(done: int, total: int, what: str) -> None:
            if self.report is not None:
                self.report(done, total, f"{stage}: {what}")

        report(0, 1, name.replace("-", " "))
        if self.cache is None:
            return compute(report)
        return cached(self.cache, name, {**self.identity, **key}, lambda: compute(report))
