"""Generated networks whose truth is known: for examples, tests and experiments without private data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_array, check_count, check_number, check_rows, check_share, shown
from tensorucb.data._effects import correlated, edge_topics, strategy_effects, tastes_of, user_features
from tensorucb.data._network import community_members, draw_edges, skewed_degrees
from tensorucb.diffusion import simulate_cascade
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.rng import RngLike, as_generator
from tensorucb.truth import TopicAwareIC

__all__ = ["Sandbox", "digg_like", "flixster_like", "make_sandbox"]

_COLUMNS = ("influence", "susceptibility", "out-degree", "in-degree")


@dataclass(frozen=True)
class Sandbox:
    """A social network, its products, and the truth that no policy may see.

    Attributes
    ----------
    graph
        Who can influence whom; ids are ``0..n_users - 1``.
    users
        Observable user features, ``(n_users, d)``; rows no longer than 1.
    products
        Observable product features, ``(n_products, n_topics)``: a noisy view of ``mixtures``.
    mixtures
        True topic shares of each product.
    truth
        True activation probabilities.
    names
        A name for each product.
    user_columns
        What each column of ``users`` measures.
    communities
        Community of each user.
    strategies
        Features of the strategies (channels, offers …), ``(S, S)``, one-hot; S = 0 if there are none.
    source_effects, topic_effects
        ``(n_users, S)`` and ``(n_topics, S)``: what a strategy adds to the logits of a user's out-edges, by user and by
        the topics of the product.
    """

    graph: Graph
    users: NDArray[np.float64]
    products: NDArray[np.float64]
    mixtures: NDArray[np.float64]
    truth: TopicAwareIC
    names: tuple[str, ...]
    user_columns: tuple[str, ...]
    communities: NDArray[np.int64]
    strategies: NDArray[np.float64]
    source_effects: NDArray[np.float64]
    topic_effects: NDArray[np.float64]

    def probabilities(self, product_index: int, strategy: int | None = None) -> NDArray[np.float64]:
        """True activation probability of each edge for a product, if every user is contacted with this strategy.

        Without a strategy: as users influence each other by themselves.
        """
        product_index = check_count("product_index", product_index, 0, len(self.names) - 1)
        mixture = self.mixtures[product_index]
        p = self.truth.probabilities(mixture)
        if strategy is None:
            return p
        if not len(self.strategies):
            raise InputError("this world has no strategies. Ask make_sandbox for n_strategies of them.")
        strategy = check_count("strategy", strategy, 0, len(self.strategies) - 1)
        odds = np.exp(self.source_effects[:, strategy] + mixture @ self.topic_effects[:, strategy])[self.graph.sources]
        # The logit of p, plus the effect; at effect 0, p to the last bit.
        return np.asarray(np.clip(p + (odds - 1.0) * p * (1.0 - p) / (1.0 + (odds - 1.0) * p), 0.0, 1.0))

    def action_log(
        self, items: Sequence[int] | NDArray[np.int64] | None = None, rng: RngLike = None, *, starters: int = 5
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Who acted on what, and when: a cascade from random starters for each item.

        Parameters
        ----------
        items
            Product numbers; all of them by default.
        rng
            Seed or generator.
        starters
            Number of users who find each item by themselves.

        Returns
        -------
        users, items, times : numpy.ndarray
            One entry per action: the user's row, the product's number, and the step of its cascade (0 for starters).
            A user answers exactly one step after the neighbour who convinced them, so ``window=1`` is the right one.
        """
        generator = as_generator(rng)
        everything = np.arange(len(self.names))
        chosen = everything if items is None else check_rows("items", items, everything.size, distinct=True)
        starters = check_count("starters", starters, 1, self.graph.n_nodes)
        users, times = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for item in chosen:
            rows = generator.choice(self.graph.n_nodes, size=starters, replace=False)
            story = simulate_cascade(self.graph, self.probabilities(int(item)), rows, generator)
            users.append(story.nodes)
            times.append(story.steps)
        lengths = [u.size for u in users[1:]]
        return np.concatenate(users), np.repeat(chosen, lengths), np.concatenate(times)


def make_sandbox(
    n_users: int = 500,
    n_edges: int = 5000,
    n_products: int = 50,
    n_topics: int = 10,
    n_communities: int | None = None,
    *,
    base_rate: float = 0.03,
    product_effect: float = 1.5,
    influence_effect: float = 1.0,
    susceptibility_effect: float = 0.7,
    hub_influence: float = -0.3,
    degree_shape: tuple[float, float, float, float] = (3.0, 25.0, 100.0, 250.0),
    mixing: float = 0.25,
    topic_concentration: float = 0.3,
    feature_noise: float = 0.5,
    n_strategies: int = 0,
    strategy_effect: float = 1.0,
    rng: RngLike = None,
) -> Sandbox:
    """Generate a social network with communities, tastes and a topic-dependent truth.

    The truth is ``logit p_ij^k = b + a·s_i + c·t_j + e·(g_i^k + g_j^k + g_i^k·g_j^k)/√3`` with the influence ``s`` of
    the source, the susceptibility ``t`` of the target, and the taste ``g`` of both for topic ``k``, all standardised;
    ``b`` is set so that the mean over edges and topics is ``base_rate``. Communities share tastes.

    A strategy ``s`` adds ``f·(m_s + h_i^s + z·w_s)/√3`` to the logit of every out-edge of a contacted user ``i``: some
    strategies are better for everybody (``m``), some for this user (``h``, half of it shared by the community), some
    for the topics ``z`` of this product (``w``). Each of the three has mean 0 and variance 1. Users' features
    hold a noisy view of ``h``, as they do of tastes. Network, products and the truth without a strategy stay the same.

    Parameters
    ----------
    n_users, n_edges, n_products, n_topics
        Sizes, met exactly. Every user has at least one out-edge, so nobody is isolated.
    n_communities
        Number of communities; √n_users / 4 by default.
    base_rate
        Mean activation probability.
    product_effect
        Weight ``e`` of the topics: at 0 the product does not matter, at 2 it decides.
    influence_effect, susceptibility_effect
        Weights ``a`` and ``c``.
    hub_influence
        Correlation of ``s`` with the logarithm of the out-degree. Zero or below: the loudest users are not the
        most convincing ones, so picking by degree can be beaten.
    degree_shape
        Percentiles 50, 90, 99 and 100 of the out-degree, up to the common factor that gives ``n_edges`` in sum.
    mixing
        Share of edges drawn from the whole network rather than from the community.
    topic_concentration
        Parameter of the Dirichlet of the product mixtures; small: a product has few topics.
    feature_noise
        Standard deviation of the noise on the observable features, in units of their own.
    n_strategies, strategy_effect
        Number of strategies, and the weight ``f`` of their effects: at 0 the choice of a strategy does not matter.
    rng
        Seed or generator.

    Returns
    -------
    Sandbox
        Network, features, products and truth.

    Examples
    --------
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> box.graph.n_nodes, box.graph.n_edges, box.users.shape, box.products.shape
    (100, 800, (100, 14), (5, 10))
    """
    n_users, n_edges, n_products, n_topics = _sizes(n_users, n_edges, n_products, n_topics)
    _check_settings(base_rate, hub_influence, degree_shape, mixing, topic_concentration, feature_noise)
    n_strategies = check_count("n_strategies", n_strategies, 0, 1000)
    strategy_effect = check_number("strategy_effect", strategy_effect, high=20.0)
    generator = as_generator(rng)
    groups = max(1, round(n_users**0.5 / 4))
    if n_communities is not None:
        groups = check_count("n_communities", n_communities, 1, n_users)
    for name, effect in (
        ("product_effect", product_effect),
        ("influence_effect", influence_effect),
        ("susceptibility_effect", susceptibility_effect),
    ):
        check_number(name, effect, low=-100.0, high=100.0)
    members = community_members(n_users, groups, generator)
    graph = _network(n_users, n_edges, members, degree_shape, mixing, generator)
    influence = correlated(np.log(graph.out_degree), hub_influence, generator)
    susceptibility = generator.standard_normal(n_users)
    tastes = tastes_of(members, n_topics, generator)
    effects = (influence_effect * influence, susceptibility_effect * susceptibility, product_effect)
    truth = TopicAwareIC(edge_topics(graph, *effects, tastes, base_rate))
    mixtures = generator.dirichlet(np.full(n_topics, topic_concentration), size=n_products)
    seen = (mixtures + 1e-3) * np.exp(0.2 * feature_noise * generator.standard_normal(mixtures.shape))
    likings = tastes_of(members, n_strategies, generator)
    by_source, by_topic = strategy_effects(strategy_effect, likings, mixtures, generator)
    traits = np.hstack([tastes, likings])
    return Sandbox(
        graph=graph,
        users=user_features(graph, influence, susceptibility, traits, feature_noise, generator),
        products=seen / seen.sum(axis=1, keepdims=True),
        mixtures=mixtures,
        truth=truth,
        names=tuple(f"product {i + 1}" for i in range(n_products)),
        user_columns=(
            *_COLUMNS,
            *(f"taste {k + 1}" for k in range(n_topics)),
            *(f"liking of strategy {s + 1}" for s in range(n_strategies)),
        ),
        communities=members,
        strategies=np.eye(n_strategies),
        source_effects=by_source,
        topic_effects=by_topic,
    )


def digg_like(
    scale: float = 1.0,
    rng: RngLike = 0,
    *,
    product_effect: float = 1.5,
    n_strategies: int = 0,
    strategy_effect: float = 1.0,
) -> Sandbox:
    """A sandbox of the size of the paper's Digg: 2,843 users, 75,895 edges, 1,000 stories.

    The out-degrees follow those of the public Digg 2009 subset (percentiles 50/90/99/100: 2/95/277/457). The paper's
    Table 2 has 1/8/101, which would leave more than half of its 75,895 edges to 28 users.

    Parameters
    ----------
    scale
        Factor on all three sizes.
    rng
        Seed or generator.
    product_effect, n_strategies, strategy_effect
        How much the product matters, and the strategies, see :func:`make_sandbox`.
    """
    users, edges, products = _scaled(scale, 2_843, 75_895, 1_000)
    shape = (2.0, 95.0, 277.0, 457.0)
    return make_sandbox(
        users,
        edges,
        products,
        base_rate=0.02,
        product_effect=product_effect,
        degree_shape=shape,
        n_strategies=n_strategies,
        strategy_effect=strategy_effect,
        rng=rng,
    )


def flixster_like(
    scale: float = 1.0,
    rng: RngLike = 0,
    *,
    product_effect: float = 1.5,
    n_strategies: int = 0,
    strategy_effect: float = 1.0,
) -> Sandbox:
    """A sandbox of the size of the paper's Flixster: 29,384 users, 371,722 edges, 100 movies.

    The out-degrees have the shape of the paper's Table 2 (percentiles 50/90/99: 9/154/2064), scaled down together:
    as they stand they need at least 38 edges a user, and the paper's own counts have 12.7.

    Parameters
    ----------
    scale
        Factor on all three sizes.
    rng
        Seed or generator.
    product_effect, n_strategies, strategy_effect
        How much the product matters, and the strategies, see :func:`make_sandbox`.
    """
    users, edges, products = _scaled(scale, 29_384, 371_722, 100)
    shape = (9.0, 154.0, 2064.0, 4000.0)
    return make_sandbox(
        users,
        edges,
        products,
        base_rate=0.03,
        product_effect=product_effect,
        degree_shape=shape,
        n_strategies=n_strategies,
        strategy_effect=strategy_effect,
        rng=rng,
    )


def _scaled(scale: float, users: int, edges: int, products: int) -> tuple[int, int, int]:
    scale = check_number("scale", scale, low=1e-6, high=1000.0, hint="Use 1.0 for the paper's size.")
    n = max(10, round(users * scale))
    return n, min(max(n, round(edges * scale)), n * (n - 1)), max(1, round(products * scale))


def _network(
    n: int,
    m: int,
    members: NDArray[np.int64],
    shape: tuple[float, float, float, float],
    mixing: float,
    rng: np.random.Generator,
) -> Graph:
    degrees = skewed_degrees(n, m, shape, rng)
    attraction = np.exp(correlated(np.log(degrees), 0.5, rng))
    return Graph.from_edges(*draw_edges(degrees, members, attraction, mixing, rng))


def _sizes(n_users: int, n_edges: int, n_products: int, n_topics: int) -> tuple[int, int, int, int]:
    n_users = check_count("n_users", n_users, 2, 10_000_000)
    n_edges = check_count("n_edges", n_edges, 1, 100_000_000)
    n_products = check_count("n_products", n_products, 1, 1_000_000)
    n_topics = check_count("n_topics", n_topics, 1, 1000)
    if not n_users <= n_edges <= n_users * (n_users - 1):
        raise InputError(
            f"n_edges must lie between n_users and n_users·(n_users − 1); got {n_edges} edges for {n_users} users."
        )
    if max(n_edges, n_users, n_products) * n_topics > 1_000_000_000:
        raise InputError(f"{n_edges} edges with {n_topics} topics do not fit in memory. Ask for fewer of either.")
    return n_users, n_edges, n_products, n_topics


def _check_settings(
    base_rate: float,
    hub_influence: float,
    degree_shape: tuple[float, float, float, float],
    mixing: float,
    topic_concentration: float,
    feature_noise: float,
) -> None:
    check_share("base_rate", base_rate, zero=False, one=False)
    check_number("hub_influence", hub_influence, low=-1.0, high=1.0, hint="It is a correlation.")
    check_share("mixing", mixing)
    check_number("topic_concentration", topic_concentration, low=1e-6)
    check_number("feature_noise", feature_noise, high=100.0)
    shape = check_array(
        "degree_shape", degree_shape, (4,), low=1.0, hint="It holds the percentiles 50, 90, 99 and 100."
    )
    if (np.diff(shape) < 0).any():
        raise InputError(f"degree_shape must hold four percentiles from 1 up, in order; got {shown(degree_shape)}.")
