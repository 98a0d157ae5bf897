"""Generated networks whose truth is known: for examples, tests and experiments without private data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_choice, check_count, check_number, check_rows, check_share, shown
from tensorucb.data._dataset import ActionLog, Dataset
from tensorucb.data._generate import (
    community_members,
    correlated,
    draw_edges,
    draw_traits,
    edge_topics,
    observable_features,
    skewed_degrees,
    strategy_effects,
)
from tensorucb.diffusion import simulate_cascade
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.reports import Report
from tensorucb.rng import RngLike, as_generator
from tensorucb.truth import TopicAwareIC

_COLUMNS = ("influence", "susceptibility", "out-degree", "in-degree")
# Weights of susceptibility beside influence, which counts as 1, and of the noise beside what it hides.
_SUSCEPTIBILITY, _FEATURE_NOISE = 0.7, 0.5
# Below 0, so that the loudest users are not the most convincing ones, and picking by degree can be beaten.
_HUB_INFLUENCE = -0.3
# Share of edges drawn from the whole network rather than from the community.
_MIXING = 0.25
# Parameter of the Dirichlet of the product mixtures: so small that a product has few topics.
_CONCENTRATION = 0.3

GENERATORS: dict[str, str] = {
    "digg_like": "the size of the paper's Digg: 2,843 users, 75,895 edges, 1,000 stories",
    "flixster_like": "the size of the paper's Flixster: 29,384 users, 371,722 edges, 100 movies",
    "sandbox": "small, for a first look: 500 users, 5,000 edges, 50 products",
}
# A user of a generated log answers exactly one step after the neighbour who convinced them.
_WINDOW = "1s"


@dataclass(frozen=True)
class Sandbox:
    """A social network, its products, and the truth that no policy may see.

    Attributes
    ----------
    graph, communities
        The users, with ids ``0..n_users - 1``, and for each the users that they can influence; and their communities.
    users, user_columns
        Observable user features, ``(n_users, d)``, with rows no longer than 1; and what each column measures.
    products, names
        Observable product features, ``(n_products, n_topics)``: a noisy view of ``mixtures``; and a name for each.
    mixtures, truth
        True topic shares of each product, and true activation probabilities.
    strategies
        Features of the strategies (channels, offers …), ``(S, S)``, one-hot; S = 0 if there are none.
    source_effects, topic_effects
        ``(n_users, S)`` and ``(n_topics, S)``: what a strategy adds to the logits of a user's out-edges, by user and by
        the topics of the product.
    """

    graph: Graph
    users: F64
    products: F64
    mixtures: F64
    truth: TopicAwareIC
    names: tuple[str, ...]
    user_columns: tuple[str, ...]
    communities: I64
    strategies: F64
    source_effects: F64
    topic_effects: F64

    def probabilities(self, product_index: int, strategy: int | None = None) -> F64:
        """True activation probability of each edge for a product, if every user is contacted with this strategy.

        Without a strategy: as users influence each other by themselves.
        """
        product_index = check_count("product_index", product_index, 0, len(self.names) - 1)
        mixture = self.mixtures[product_index]
        p = self.truth.probabilities(mixture)
        if strategy is None:
            return p
        if not len(self.strategies):
            raise InputError("this sandbox has no strategies. Ask make_sandbox for n_strategies of them.")
        strategy = check_count("strategy", strategy, 0, len(self.strategies) - 1)
        odds = np.exp(self.source_effects[:, strategy] + mixture @ self.topic_effects[:, strategy])[self.graph.sources]
        # The logit of p, plus the effect; at effect 0, p to the last bit.
        return np.asarray(np.clip(p + (odds - 1.0) * p * (1.0 - p) / (1.0 + (odds - 1.0) * p), 0.0, 1.0))

    def action_log(
        self, items: Sequence[int] | I64 | None = None, rng: RngLike = None, *, starters: int = 5
    ) -> tuple[I64, I64, I64]:
        """Who acted on what, and when: a cascade for each item (all by default) from a number of random starters.

        Gives three arrays with one entry per action: the user's row, the product's number, and the step of its cascade
        (0 for starters). A user answers exactly one step after the neighbour who convinced them. A step counts as a
        second, so ``window="1s"`` is the right one.
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
    *,
    base_rate: float = 0.03,
    product_effect: float = 1.5,
    degree_shape: tuple[float, float, float, float] = (3.0, 25.0, 100.0, 250.0),
    n_strategies: int = 0,
    strategy_effect: float = 1.0,
    rng: RngLike = None,
) -> Sandbox:
    """Generate a social network with communities and a truth that depends on the product's topics.

    The truth is ``logit p_ij^k = b + s_i + 0.7·t_j + e·(g_i^k + g_j^k + g_i^k·g_j^k)/√3`` with the influence ``s`` of
    the source, the susceptibility ``t`` of the target, and the liking ``g`` of both for topic ``k``, all standardised;
    ``b`` is set so that the mean over edges and topics is ``base_rate``. Communities share likings.

    A strategy ``s`` adds ``f·(m_s + h_i^s + z·w_s)/√3`` to the logit of every out-edge of a contacted user ``i``: some
    strategies are better for everybody (``m``), some for this user (``h``, half of it shared by the community), some
    for the topics ``z`` of this product (``w``). Each of the three has mean 0 and variance 1. Users' features
    hold a noisy view of ``h``, as they do of ``g``. Network, products and the truth without a strategy stay the same.

    Parameters
    ----------
    n_users, n_edges, n_products, n_topics
        Sizes, met exactly. Every user has at least one out-edge, so nobody is isolated.
    base_rate
        Mean activation probability.
    product_effect
        Weight ``e`` of the topics: at 0 the product does not matter, at 2 it decides.
    degree_shape
        Percentiles 50, 90, 99 and 100 of the out-degree, up to the common factor that gives ``n_edges`` in sum.
    n_strategies, strategy_effect
        Number of strategies, and the weight ``f`` of their effects: at 0 the choice of a strategy does not matter.

    Examples
    --------
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> box.graph.n_nodes, box.graph.n_edges, box.users.shape, box.products.shape
    (100, 800, (100, 14), (5, 10))
    >>> users, items, times = box.action_log([3], rng=0, starters=2)  # a cascade of product 3, from two users
    >>> int((times == 0).sum())
    2
    """
    n_users = check_count("n_users", n_users, 2, 10_000_000)
    n_edges = check_count("n_edges", n_edges, 1, 100_000_000)
    n_products = check_count("n_products", n_products, 1, 1_000_000)
    n_topics = check_count("n_topics", n_topics, 1, 1000)
    if not n_users <= n_edges <= n_users * (n_users - 1):
        raise InputError(
            f"must lie between n_users and n_users·(n_users − 1); got {n_edges} edges for {n_users} users.",
            argument="n_edges",
        )
    if max(n_edges, n_users, n_products) * n_topics > 1_000_000_000:
        raise InputError(f"{n_edges} edges with {n_topics} topics do not fit in memory. Ask for fewer of either.")
    check_share("base_rate", base_rate, zero=False, one=False)
    check_number("product_effect", product_effect, low=-100.0, high=100.0)
    hint = "It holds the percentiles 50, 90, 99 and 100."
    if (np.diff(check_array("degree_shape", degree_shape, (4,), low=1.0, hint=hint)) < 0).any():
        raise InputError(
            f"must hold four percentiles from 1 up, in order; got {shown(degree_shape)}.", argument="degree_shape"
        )
    n_strategies = check_count("n_strategies", n_strategies, 0, 1000)
    strategy_effect = check_number("strategy_effect", strategy_effect, high=20.0)
    generator = as_generator(rng)
    # Every draw below comes from this one generator: another order would be another network for the same seed.
    members = community_members(n_users, max(1, round(n_users**0.5 / 4)), generator)
    degrees = skewed_degrees(n_users, n_edges, degree_shape, generator)
    attraction = np.exp(correlated(np.log(degrees), 0.5, generator))
    graph = Graph.from_edges(*draw_edges(degrees, members, attraction, _MIXING, generator))
    influence = correlated(np.log(graph.out_degree), _HUB_INFLUENCE, generator)
    susceptibility = generator.standard_normal(n_users)
    topic_traits = draw_traits(members, n_topics, generator)
    truth = edge_topics(graph, influence, _SUSCEPTIBILITY * susceptibility, product_effect, topic_traits, base_rate)
    mixtures = generator.dirichlet(np.full(n_topics, _CONCENTRATION), size=n_products)
    seen = (mixtures + 1e-3) * np.exp(0.2 * _FEATURE_NOISE * generator.standard_normal(mixtures.shape))
    strategy_traits = draw_traits(members, n_strategies, generator)
    by_source, by_topic = strategy_effects(strategy_effect, strategy_traits, mixtures, generator)
    traits = np.hstack([topic_traits, strategy_traits])
    return Sandbox(
        graph=graph,
        users=observable_features(graph, influence, susceptibility, traits, _FEATURE_NOISE, generator),
        products=seen / seen.sum(axis=1, keepdims=True),
        mixtures=mixtures,
        truth=TopicAwareIC(truth),
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


class Effects(TypedDict, total=False):
    """How much the product matters, and the strategies; see :func:`make_sandbox`, which has the defaults."""

    product_effect: float
    n_strategies: int
    strategy_effect: float


def digg_like(scale: float = 1.0, rng: RngLike = 0, **effects: Unpack[Effects]) -> Sandbox:
    """Generate a network of the size of the paper's Digg: 2,843 users, 75,895 edges, 1,000 stories.

    The out-degrees follow those of the public Digg 2009 subset (percentiles 50/90/99/100: 2/95/277/457). The paper's
    Table 2 has 1/8/101, which would leave more than half of its 75,895 edges to 28 users.

    ``scale`` is a factor on all three sizes; ``effects`` are ``product_effect``, ``n_strategies`` and
    ``strategy_effect`` of :func:`make_sandbox`.

    Examples
    --------
    >>> box = digg_like(scale=0.1, product_effect=2.0)
    >>> box.graph.n_nodes, box.graph.n_edges, len(box.names)
    (284, 7590, 100)
    """
    sizes, shape = _scaled(scale, 2_843, 75_895, 1_000), (2.0, 95.0, 277.0, 457.0)
    return make_sandbox(*sizes, base_rate=0.02, degree_shape=shape, rng=rng, **effects)


def flixster_like(scale: float = 1.0, rng: RngLike = 0, **effects: Unpack[Effects]) -> Sandbox:
    """Generate a network of the size of the paper's Flixster: 29,384 users, 371,722 edges, 100 movies.

    The out-degrees have the shape of the paper's Table 2 (percentiles 50/90/99: 9/154/2064), scaled down together:
    as they stand they need at least 38 edges per user, and the paper's own counts have 12.7. The parameters are those
    of :func:`digg_like`.

    Examples
    --------
    >>> box = flixster_like(scale=0.01)
    >>> box.graph.n_nodes, box.graph.n_edges, len(box.names)
    (294, 3717, 1)
    """
    sizes, shape = _scaled(scale, 29_384, 371_722, 100), (9.0, 154.0, 2064.0, 4000.0)
    return make_sandbox(*sizes, base_rate=0.03, degree_shape=shape, rng=rng, **effects)


def _scaled(scale: float, users: int, edges: int, products: int) -> tuple[int, int, int]:
    scale = check_number("scale", scale, low=1e-6, high=1000.0, hint="Use 1.0 for the paper's size.")
    n = max(10, round(users * scale))
    return n, min(max(n, round(edges * scale)), n * (n - 1)), max(1, round(products * scale))


def generate_dataset(name: str, *, scale: float = 1.0, rng: RngLike = 0) -> Dataset:
    """Generate a network with an action log.

    Times are steps of the cascades, and the window is one step. The truth behind the log is not part of it.

    ``name`` is ``digg_like``, ``flixster_like`` or ``sandbox``; ``scale`` is a factor on its sizes.

    Examples
    --------
    >>> data = generate_dataset("digg_like", scale=0.01)
    >>> data.name, data.graph.n_nodes
    ('digg_like', 28)
    """
    check_choice("name", name, GENERATORS)
    scale = check_number("scale", scale, low=1e-6, high=1000.0)
    generator = as_generator(rng)
    if name == "sandbox":
        sizes = (max(10, round(500 * scale)), max(20, round(5000 * scale)), max(2, round(50 * scale)))
        made = make_sandbox(*sizes, rng=generator)
    else:
        made = {"digg_like": digg_like, "flixster_like": flixster_like}[name](scale, generator)
    log = ActionLog.from_arrays(*made.action_log(None, generator), range(len(made.names)))
    report = Report(steps=(f"generated: {name}, scale {scale:g}",))
    return Dataset(made.graph, log, name, _WINDOW, report)
