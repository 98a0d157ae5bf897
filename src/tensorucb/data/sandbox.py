"""Generated networks whose truth is known: for examples, tests and experiments without private data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_choice, check_count, check_number, check_rows, check_share, shown
from tensorucb.data._dataset import ActionLog, Dataset
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
# Percentiles 50, 90, 99 and 100 of the out-degree, up to a factor.
_DEGREES = (3.0, 25.0, 100.0, 250.0)
_LEVELS = (0.0, 0.5, 0.9, 0.99, 1.0)
_RANDOM_PASSES = 12
_CLIP = 2.5
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
    degree_shape: tuple[float, float, float, float] = _DEGREES,
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
    members = _community_members(n_users, max(1, round(n_users**0.5 / 4)), generator)
    degrees = _skewed_degrees(n_users, n_edges, degree_shape, generator)
    attraction = np.exp(_correlated(np.log(degrees), 0.5, generator))
    graph = Graph.from_edges(*_draw_edges(degrees, members, attraction, _MIXING, generator))
    influence = _correlated(np.log(graph.out_degree), _HUB_INFLUENCE, generator)
    susceptibility = generator.standard_normal(n_users)
    topic_traits = _draw_traits(members, n_topics, generator)
    truth = _edge_topics(graph, influence, _SUSCEPTIBILITY * susceptibility, product_effect, topic_traits, base_rate)
    mixtures = generator.dirichlet(np.full(n_topics, _CONCENTRATION), size=n_products)
    seen = (mixtures + 1e-3) * np.exp(0.2 * _FEATURE_NOISE * generator.standard_normal(mixtures.shape))
    strategy_traits = _draw_traits(members, n_strategies, generator)
    by_source, by_topic = _strategy_effects(strategy_effect, strategy_traits, mixtures, generator)
    traits = np.hstack([topic_traits, strategy_traits])
    return Sandbox(
        graph=graph,
        users=_observable_features(graph, influence, susceptibility, traits, _FEATURE_NOISE, generator),
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


class _Plan(NamedTuple):
    """What a generated network is like at scale 1; the other parameters are those of `make_sandbox`."""

    users: int
    edges: int
    products: int
    base_rate: float
    degree_shape: tuple[float, float, float, float]
    fewest_edges: int = 0
    fewest_products: int = 1

    def make(self, scale: float, rng: RngLike, effects: Effects) -> Sandbox:
        """The network, with ``scale`` as a factor on its three sizes."""
        scale = check_number("scale", scale, low=1e-6, high=1000.0, hint="Use 1.0 for the full size.")
        users = max(10, round(self.users * scale))
        edges = min(max(users, self.fewest_edges, round(self.edges * scale)), users * (users - 1))
        products = max(self.fewest_products, round(self.products * scale))
        return make_sandbox(
            users, edges, products, base_rate=self.base_rate, degree_shape=self.degree_shape, rng=rng, **effects
        )


_PLANS = {
    "digg_like": _Plan(2_843, 75_895, 1_000, 0.02, (2.0, 95.0, 277.0, 457.0)),
    "flixster_like": _Plan(29_384, 371_722, 100, 0.03, (9.0, 154.0, 2064.0, 4000.0)),
    "sandbox": _Plan(500, 5_000, 50, 0.03, _DEGREES, 20, 2),
}


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
    return _PLANS["digg_like"].make(scale, rng, effects)


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
    return _PLANS["flixster_like"].make(scale, rng, effects)


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
    check_choice("name", name, _PLANS)
    generator = as_generator(rng)
    made = _PLANS[name].make(scale, generator, {})
    log = ActionLog.from_arrays(*made.action_log(None, generator), range(len(made.names)))
    return Dataset(made.graph, log, name, _WINDOW, Report(steps=(f"generated: {name}, scale {scale:g}",)))


# -- the parts of a network: letters are n nodes, m edges, v a node; traits have a column per topic or strategy --


def _skewed_degrees(n: int, m: int, shape: Sequence[float], rng: np.random.Generator) -> I64:
    """Out-degrees in 1..n-1 with sum ``m`` and percentiles 50, 90, 99, 100 in the ratios of ``shape``."""
    knots = np.log([1.0, *shape])
    weights = np.exp(np.interp((np.arange(n) + 0.5) / n, _LEVELS, knots))

    def scaled(factor: float) -> I64:
        return np.clip(np.rint(factor * weights), 1, n - 1).astype(np.int64)

    low, high = 0.0, float(n)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if scaled(middle).sum() <= m else (low, middle)
    degrees = rng.permutation(scaled(low))
    missing = m - int(degrees.sum())
    while missing > 0:
        # One edge each to the best connected nodes that have room, which moves no percentile much.
        room = np.flatnonzero(degrees < n - 1)
        order = room[np.argsort(-degrees[room], kind="stable")][:missing]
        degrees[rng.permutation(order)] += 1
        missing -= order.size
    return degrees


def _community_members(n: int, communities: int, rng: np.random.Generator) -> I64:
    """A community for each node; sizes vary by a factor of a few, and none is empty."""
    sizes = np.exp(0.5 * rng.standard_normal(communities))
    members = rng.choice(communities, size=n, p=sizes / sizes.sum())
    members[rng.permutation(n)[:communities]] = np.arange(communities)
    return members.astype(np.int64)


def _draw_edges(
    degrees: I64, members: I64, attraction: F64, mixing: float, rng: np.random.Generator
) -> tuple[I64, I64]:
    """Distinct targets for each source's ``degrees`` edges, no self-loops.

    A target is drawn in proportion to ``attraction``, inside the source's community except for a share ``mixing`` of
    the edges. Hubs exhaust their community: what is still missing after a few passes is drawn evenly from all others.
    """
    n = degrees.size
    # By community, so that a community is one stretch of the cumulative attraction, and a uniform number in that
    # stretch picks one of its members in proportion to attraction.
    order = np.argsort(members, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(attraction[order])])
    ends = np.searchsorted(members[order], np.arange(members.max() + 2))
    keys, missing = np.empty(0, dtype=np.int64), degrees.copy()
    for turn in range(_RANDOM_PASSES):
        if not missing.any():
            break
        source = np.repeat(np.arange(n), missing)
        anywhere = rng.random(source.size) < mixing + (1 - mixing) * turn / _RANDOM_PASSES
        low = np.where(anywhere, 0.0, cumulative[ends[members[source]]])
        high = np.where(anywhere, cumulative[-1], cumulative[ends[members[source] + 1]])
        place = np.searchsorted(cumulative, low + rng.random(source.size) * (high - low), side="right") - 1
        target = order[np.minimum(place, n - 1)]
        # An edge as one number, so that repeats of earlier passes go as well.
        keys = np.unique(np.concatenate([keys, (source * n + target)[source != target]]))
        missing = degrees - np.bincount(keys // n, minlength=n)
    rest = [_fill(keys, int(v), int(missing[v]), n, rng) for v in np.flatnonzero(missing)]
    keys = np.sort(np.concatenate([keys, *rest]))
    return keys // n, keys % n


def _fill(keys: I64, v: int, count: int, n: int, rng: np.random.Generator) -> I64:
    """``count`` further edges of ``v``, evenly from the nodes that it does not reach yet."""
    start, stop = np.searchsorted(keys, [v * n, (v + 1) * n])
    free = np.ones(n, dtype=bool)
    free[keys[start:stop] % n] = False
    free[v] = False
    return v * n + rng.choice(np.flatnonzero(free), size=count, replace=False)


def _standardised(values: F64) -> F64:
    # Plainer than the one of tensorucb._columns, whose rounding would change every generated network.
    deviation = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def _correlated(values: F64, correlation: float, rng: np.random.Generator) -> F64:
    """Standard normal noise with the given correlation to ``values``."""
    noise = rng.standard_normal(values.size)
    return np.asarray(correlation * _standardised(values) + (1.0 - correlation**2) ** 0.5 * noise)


def _draw_traits(members: I64, count: int, rng: np.random.Generator) -> F64:
    """Standardised traits of each user, ``(n, count)``; half of their variance is shared by the community."""
    shared = rng.standard_normal((int(members.max()) + 1, count))
    traits = shared[members] + rng.standard_normal((members.size, count))
    return np.clip(_standardised(traits), -_CLIP, _CLIP)


def _strategy_effects(weight: float, traits: F64, mixtures: F64, rng: np.random.Generator) -> tuple[F64, F64]:
    """What each strategy adds to logits: by source, its main effect included, and by topic."""
    n = traits.shape[1]
    if n == 0:
        return traits, np.zeros((mixtures.shape[1], 0))
    main, topics = np.asarray(rng.standard_normal(n)), rng.standard_normal((mixtures.shape[1], n))
    # A mixture's shares sum to 1, so what is taken from all topics is taken from every product.
    of_products = mixtures @ topics
    deviation = of_products.std(axis=0)
    topics = (topics - of_products.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return weight / 3.0**0.5 * (_standardised(main) + traits), weight / 3.0**0.5 * topics


def _probability(logit: NDArray[np.float32], base: float) -> NDArray[np.float32]:
    return np.asarray(1.0 / (1.0 + np.exp(-(logit + np.float32(base)))))


def _edge_topics(
    graph: Graph, source_effect: F64, target_effect: F64, product_effect: float, traits: F64, base_rate: float
) -> NDArray[np.float32]:
    """``(n_edges, n_topics)`` true probabilities with the mean ``base_rate``."""
    g = traits.astype(np.float32)
    a, b = g[graph.sources], g[graph.targets]
    # e·(a + b + a·b)/√3, in place: with ten topics these arrays are the largest of all.
    logit = a * b
    logit += a
    logit += b
    logit *= np.float32(product_effect / 3.0**0.5)
    logit += (source_effect[graph.sources] + target_effect[graph.targets]).astype(np.float32)[:, None]
    sample = logit[:: max(1, graph.n_edges // 20_000)]
    base, high = -60.0, 60.0
    for _ in range(40):  # bisection on some of the edges
        middle = 0.5 * (base + high)
        too_high = _probability(sample, middle).mean(dtype=np.float64) > base_rate
        base, high = (base, middle) if too_high else (middle, high)
    for _ in range(3):  # Newton's method from there to all edges' answer
        p = _probability(logit, base)
        mean = float(p.mean(dtype=np.float64))
        base += (base_rate - mean) / (mean - float((p * p).mean(dtype=np.float64)))
    return _probability(logit, base).astype(np.float32, copy=False)


def _observable_features(
    graph: Graph, influence: F64, susceptibility: F64, traits: F64, noise: float, rng: np.random.Generator
) -> F64:
    """What a policy may see of the users: a noisy view of what drives them, and their degrees."""
    hidden = np.column_stack([influence, susceptibility, traits])
    seen = _standardised(hidden + noise * rng.standard_normal(hidden.shape))
    degrees = _standardised(np.log1p(np.column_stack([graph.out_degree, graph.in_degree])))
    users = np.column_stack([seen[:, :2], degrees, seen[:, 2:]])
    return np.asarray(users / np.linalg.norm(users, axis=1).max())
