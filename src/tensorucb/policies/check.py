"""`check_policy`: what every policy must do, whoever wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_callable, check_count
from tensorucb.errors import TensorUCBError
from tensorucb.files import pack_state, unpack_state
from tensorucb.policies._base import Policy, PolicyState
from tensorucb.policies._check_world import TopK, World, make_world
from tensorucb.policies.beliefs import expected_probabilities

__all__ = ["check_policy"]

Factory = Callable[[], Policy]
_ARGUMENTS = {
    "bind": ["graph", "users", "rng"],
    "score": ["product"],
    "choose": ["product", "k", "oracle"],
    "update": ["product", "edges", "outcomes"],
    "state": [],
    "restore": ["state"],
}


def check_policy(factory: Factory, *, rounds: int = 6, k: int = 3, modes: int = 1, seed: int = 0) -> None:
    """Run a policy through a small campaign and demand what experiments and campaigns rely on.

    It must follow the protocol; give every edge a finite score in [0, 1] and choose k distinct rows among those
    the oracle allows; repeat itself for a seed; go on bit for bit after its state went through a file; be a function
    of what it was told, not of the truth; leave its arguments alone; take rounds in batches, many asked before any is
    told; score every edge again after an update; live through empty, partial and repeated feedback; and refuse bad
    input with an error of the package, unchanged by it.

    A policy may say what it is by attributes: ``needs_users`` (bind refuses None), ``uses_product`` (scores must, or
    must not, differ between products), ``pure`` (False: `score` or `choose` may advance the state) and
    ``shares_parameters`` (True: what it learns of some edges must move the scores of others, never observed).

    Parameters
    ----------
    factory
        Makes a new, unbound policy, always with the same settings.
    rounds
        Length of the campaign.
    k
        Seeds a round.
    modes
        Vectors a product consists of.
    seed
        Of the generated network and of the policy.

    Raises
    ------
    AssertionError
        Naming the policy and what it did not do.

    Examples
    --------
    >>> from tensorucb.policies import HighDegree, check_policy
    >>> check_policy(HighDegree)
    """
    check_callable("factory", factory, "a function that makes a policy")
    rounds, k = check_count("rounds", rounds, 1, 10_000), check_count("k", k, 1, 20)
    modes, seed = check_count("modes", modes, 1, 10), check_count("seed", seed, 0, 2**63 - 1)
    world = make_world(modes=modes, k=k, seed=seed)
    for check in (
        _follows_the_protocol,
        _repeats_itself,
        _continues_after_a_file,
        _knows_only_what_it_was_told,
        _reads_without_writing,
        _believes_what_it_scores,
        _takes_batches_of_rounds,
        _scores_every_edge_again,
        _answers_to_the_product,
        _respects_the_candidates,
        _lives_through_odd_feedback,
        _refuses_bad_input,
    ):
        check(factory, world, rounds)


def _require(condition: bool, policy: Policy, text: str) -> None:
    # Not a plain assert: the check must also hold under `python -O`.
    if not condition:
        raise AssertionError(f"{policy.name}: {text}")


def _bound(factory: Factory, world: World) -> Policy:
    policy = factory()
    policy.bind(world.graph, world.users, world.seed)
    return policy


def _scored(policy: Policy, world: World, product: Any) -> F64:
    scores = policy.score(product)
    fits = isinstance(scores, np.ndarray) and scores.shape == (world.graph.n_edges,)
    _require(fits, policy, f"score must give one number per edge; got {getattr(scores, 'shape', type(scores))}.")
    _require(scores.dtype == np.float64, policy, f"score must give float64; got {scores.dtype}.")
    _require(bool(np.isfinite(scores).all()), policy, "score gave NaN or infinity.")
    inside = float(scores.min()) >= 0.0 and float(scores.max()) <= 1.0
    _require(inside, policy, f"scores must lie in [0, 1]; got {scores.min():.4g}..{scores.max():.4g}.")
    return scores


def _chosen(policy: Policy, world: World, product: Any, oracle: TopK) -> I64:
    seeds = np.asarray(policy.choose(product, world.k, oracle))
    _require(np.issubdtype(seeds.dtype, np.integer), policy, f"seeds must be rows; got dtype {seeds.dtype}.")
    distinct = seeds.shape == (world.k,) and np.unique(seeds).size == world.k
    _require(distinct, policy, f"choose must give k = {world.k} distinct rows; got {seeds.tolist()}.")
    inside = int(seeds.min()) >= 0 and int(seeds.max()) < world.graph.n_nodes
    _require(inside, policy, f"seeds must be rows of the graph; got {seeds.tolist()}.")
    return seeds.astype(np.int64)


def _ask(policy: Policy, world: World, t: int) -> tuple[F64, I64]:
    """What the policy answers in round ``t``, told nothing about it."""
    product = world.product(t)
    return _scored(policy, world, product), _chosen(policy, world, product, TopK(world.graph))


def _play(policy: Policy, world: World, rounds: range) -> list[tuple[F64, I64]]:
    """Rounds of the campaign; what the policy answered in each."""
    answers = []
    for t in rounds:
        scores, seeds = _ask(policy, world, t)
        policy.update(world.product(t), *world.feedback(t, seeds))
        answers.append((scores, seeds))
    return answers


def _same_answers(one: list[tuple[F64, I64]], two: list[tuple[F64, I64]]) -> bool:
    return all(np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in zip(one, two, strict=True))


def _same_state(one: PolicyState, two: PolicyState) -> bool:
    same_arrays = set(one.arrays) == set(two.arrays) and all(
        np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays
    )
    return dict(one.settings) == dict(two.settings) and same_arrays


def _is_pure(policy: Policy) -> bool:
    return bool(getattr(policy, "pure", True))


def _follows_the_protocol(factory: Factory, world: World, rounds: int) -> None:
    policy = factory()
    _require(isinstance(policy, Policy), policy, f"must have name and methods {sorted(_ARGUMENTS)}.")
    _require(isinstance(policy.name, str) and bool(policy.name), policy, "name must be a non-empty string.")
    for method, names in _ARGUMENTS.items():
        parameters = list(inspect.signature(getattr(policy, method)).parameters.values())
        given = [parameter.name for parameter in parameters[: len(names)]]
        _require(given == names, policy, f"{method} must take {names}; it takes {given}.")
        spare = [p.name for p in parameters[len(names) :] if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
        _require(not spare, policy, f"{method} demands {spare}, which nobody will pass.")
    _expect_error(policy, "score before bind", lambda: policy.score(world.product(0)))


def _repeats_itself(factory: Factory, world: World, rounds: int) -> None:
    one, two = _bound(factory, world), _bound(factory, world)
    first, second = _play(one, world, range(rounds)), _play(two, world, range(rounds))
    _require(_same_answers(first, second), one, "two runs with one seed gave different scores or seeds.")
    _require(_same_state(one.state(), two.state()), one, "two runs with one seed ended in different states.")
    two.bind(world.graph, world.users, world.seed)
    again = _play(two, world, range(rounds))
    _require(_same_answers(first, again), one, "bind must start again; traces of the first campaign remained.")


def _through_a_file(factory: Factory, world: World, policy: Policy) -> Policy:
    """A policy of another seed that took over this one's state from the bytes of a file."""
    saved = policy.state()
    data = pack_state("policy", saved.settings, saved.arrays)
    copy = factory()
    copy.bind(world.graph, world.users, world.seed + 1)
    copy.restore(PolicyState(*unpack_state(data, "policy")))
    _require(_same_state(copy.state(), saved), policy, "restore followed by state gave another state.")
    return copy


def _continues_after_a_file(factory: Factory, world: World, rounds: int) -> None:
    half = max(1, rounds // 2)
    policy = _through_a_file(factory, world, _bound(factory, world))
    _play(policy, world, range(half))
    copy, kept = _through_a_file(factory, world, policy), policy.state()
    went_on, resumed = (_play(p, world, range(half, rounds + 1)) for p in (policy, copy))
    _require(_same_answers(went_on, resumed), policy, "after save and load it did not go on bit for bit.")
    _require(_same_state(policy.state(), copy.state()), policy, "after save and load it ended in another state.")
    policy.restore(kept)
    again = _play(policy, world, range(half, rounds + 1))
    _require(_same_answers(went_on, again), policy, "a state must be a copy; learning on changed it.")


def _knows_only_what_it_was_told(factory: Factory, world: World, rounds: int) -> None:
    """Nothing may differ when the truth is put in reach, nor (if pure) when nobody asks between two updates."""
    plain = _bound(factory, world)
    _play(plain, world, range(rounds))
    baited = factory()
    baited.bind(world.baited_graph, world.users, world.seed)
    _play(baited, world, range(rounds))
    text = "its state changed when the true probabilities were an attribute of the graph: it reads them."
    _require(_same_state(plain.state(), baited.state()), plain, text)
    if not _is_pure(plain):
        return
    told = _bound(factory, world)
    for t in range(rounds):
        told.update(world.product(t), *world.last_feedback[t])
    text = "replaying the updates alone gave another state: it must depend only on what it was told."
    _require(_same_state(plain.state(), told.state()), plain, text)


def _reads_without_writing(factory: Factory, world: World, rounds: int) -> None:
    # The world's arrays are read-only, so writing to an argument has raised before we come here.
    policy = _bound(factory, world)
    _play(policy, world, range(rounds))
    if not _is_pure(policy):
        return
    before, product = policy.state(), world.product(0)
    first = _scored(policy, world, product)
    kept = first.copy()
    first[:] = 0.5
    second = _scored(policy, world, product)
    _require(np.array_equal(kept, second), policy, "score gave two answers without an update in between.")
    _chosen(policy, world, product, TopK(world.graph))
    _require(_same_state(before, policy.state()), policy, "score or choose changed the state; say pure = False.")


def _believes_what_it_scores(factory: Factory, world: World, rounds: int) -> None:
    """A policy with ``beliefs`` must give there what its other methods give, since a campaign takes them from it."""
    policy = _bound(factory, world)
    beliefs = getattr(policy, "beliefs", None)
    if not callable(beliefs):
        return
    for t in range(rounds):
        product, oracle = world.product(t), TopK(world.graph)
        both, (scores, seeds) = beliefs(product), _ask(policy, world, t)
        mean = expected_probabilities(policy, product)
        _require(np.array_equal(both.optimistic, scores), policy, "beliefs().optimistic must equal score().")
        _require(np.array_equal(both.mean, mean), policy, "beliefs().mean must equal expected_probabilities().")
        same = np.array_equal(oracle(both.optimistic, world.k), seeds)
        _require(same, policy, "a policy with beliefs() must choose through the oracle by its scores.")
        policy.update(product, *world.feedback(t, seeds))


def _takes_batches_of_rounds(factory: Factory, world: World, rounds: int) -> None:
    """Many rounds asked before the first is told, then all told in a row; twice, from the start and with knowledge."""
    policy, told = _bound(factory, world), _bound(factory, world)
    half = max(2, rounds // 2)
    for batch in (range(half), range(half, 2 * half)):
        asked = [_ask(policy, world, t) for t in batch]
        if _is_pure(policy):
            again = [_ask(policy, world, t) for t in batch]
            _require(_same_answers(asked, again), policy, "asked for a batch of rounds twice, it gave other answers.")
        for t, (_, seeds) in zip(batch, asked, strict=True):
            feedback = world.feedback(t, seeds)
            policy.update(world.product(t), *feedback)
            told.update(world.product(t), *feedback)
        text = "told a batch of rounds after asking for all of them, it learned otherwise than from the updates alone."
        _require(not _is_pure(policy) or _same_state(policy.state(), told.state()), policy, text)


def _scores_every_edge_again(factory: Factory, world: World, rounds: int) -> None:
    """Scores belong to the caller and follow the state at every edge, not only at those observed."""
    policy, product = _bound(factory, world), world.product(0)
    held = _scored(policy, world, product)
    before = held.copy()
    _scored(policy, world, world.product(1))
    _require(np.array_equal(held, before), policy, "the next call of score changed the array that the last one gave.")
    unseen = np.ones(world.graph.n_edges, dtype=np.bool_)
    for t in range(rounds):
        edges, outcomes = world.feedback(t, _chosen(policy, world, world.product(t), TopK(world.graph)))
        policy.update(world.product(t), edges, outcomes)
        unseen[edges] = False
    _require(np.array_equal(held, before), policy, "update changed an array that score gave before.")
    copy = _through_a_file(factory, world, policy)
    after = _scored(policy, world, product)
    text = "after an update its scores are not those of its state: some edges keep old ones."
    _require(np.array_equal(after, _scored(copy, world, product)), policy, text)
    if getattr(policy, "shares_parameters", False) and unseen.any():
        moved = bool((after != before)[unseen].any())
        _require(moved, policy, "says that edges share parameters, but no unobserved edge was rescored.")


def _answers_to_the_product(factory: Factory, world: World, rounds: int) -> None:
    policy = _bound(factory, world)
    uses_product = getattr(policy, "uses_product", None)
    for t in range(2 * world.n_products):
        policy.update(world.product(t), *world.whole_feedback(t))
    if uses_product is None or not _is_pure(policy):
        return
    differ = not np.array_equal(policy.score(world.product(0)), policy.score(world.product(1)))
    text = "says that it uses the product, but" if uses_product else "says that it ignores the product, but"
    _require(differ == uses_product, policy, f"{text} two products' scores are {'not ' * differ}the same.")


def _respects_the_candidates(factory: Factory, world: World, rounds: int) -> None:
    policy = _bound(factory, world)
    allowed = np.arange(1, world.graph.n_nodes, 3, dtype=np.int64)
    for t in range(rounds):
        seeds = _chosen(policy, world, world.product(t), TopK(world.graph, allowed))
        stray = np.setdiff1d(seeds, allowed).tolist()
        _require(not stray, policy, f"chose {stray}, which are not among the oracle's candidates.")
        policy.update(world.product(t), *world.feedback(t, seeds))


def _lives_through_odd_feedback(factory: Factory, world: World, rounds: int) -> None:
    policy, nothing = _bound(factory, world), np.empty(0)
    everything, outcomes = world.whole_feedback(0)
    for edges, values in (
        (nothing.astype(np.int64), nothing),
        (everything, outcomes),
        (everything[:1], outcomes[:1]),
        (np.repeat(everything[:3], 4), np.tile([0.0, 1.0, 0.25], 4)),
        (everything[::-1], np.zeros_like(outcomes)),
        (everything, np.ones_like(outcomes)),
        (nothing.astype(np.int64), nothing),
    ):
        policy.update(world.product(0), edges, values)
        _scored(policy, world, world.product(1))
    _chosen(policy, world, world.product(0), TopK(world.graph))


def _expect_error(policy: Policy, what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except TensorUCBError as error:
        _require(len(str(error)) > 10, policy, f"{what}: the error must say what was wrong; got {str(error)!r}.")
        return
    except Exception as error:
        text = f"{what} must raise an error of tensorucb.errors; got {type(error).__name__}: {error}"
        raise AssertionError(f"{policy.name}: {text}") from error
    raise AssertionError(f"{policy.name}: {what} must raise an error of tensorucb.errors; it passed silently.")


def _refuses_bad_input(factory: Factory, world: World, rounds: int) -> None:
    policy, product, oracle = _bound(factory, world), world.product(0), TopK(world.graph)
    _play(policy, world, range(2))
    before, n, m = policy.state(), world.graph.n_nodes, world.graph.n_edges
    one: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    longer = [np.append(part, 1.0) for part in (product if isinstance(product, list) else [product])]
    missing = PolicyState({}, {"nonsense": np.zeros(1)})
    for what, call in (
        ("a product with NaN", lambda: policy.score(np.full(world.products.shape[1], np.nan))),
        ("a product with other dimensions", lambda: policy.score(longer if len(longer) > 1 else longer[0])),
        ("a product that is a matrix", lambda: policy.score(np.ones((2, 2)))),
        ("k = 0", lambda: policy.choose(product, 0, oracle)),
        ("more seeds than nodes", lambda: policy.choose(product, n + 1, oracle)),
        ("an edge out of range", lambda: policy.update(product, one + m, [1.0])),
        ("a negative edge", lambda: policy.update(product, one - 1, [1.0])),
        ("edges that are not whole", lambda: policy.update(product, [0.5], [1.0])),
        ("lengths that differ", lambda: policy.update(product, one, [1.0, 0.0])),
        ("an outcome of 2", lambda: policy.update(product, one, [2.0])),
        ("an outcome of NaN", lambda: policy.update(product, one, [np.nan])),
        ("a foreign state", lambda: policy.restore(missing)),
    ):
        _expect_error(policy, what, call)
        _require(_same_state(before, policy.state()), policy, f"{what} was refused, but changed the state.")
    fresh = factory()
    _expect_error(fresh, "users with a row too few", lambda: fresh.bind(world.graph, world.users[1:], 0))
    _expect_error(fresh, "users with NaN", lambda: fresh.bind(world.graph, world.users * np.nan, 0))
    if getattr(fresh, "needs_users", False):
        _expect_error(fresh, "no users", lambda: fresh.bind(world.graph, None, 0))
