"""`check_policy`: what every policy must do, whoever wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_callable, check_count
from tensorucb.errors import TensorUCBError
from tensorucb.files import pack_state, unpack_state
from tensorucb.graph import Graph
from tensorucb.oracle import SeedOracle
from tensorucb.policies._base import Policy, PolicyState
from tensorucb.policies.prediction import Prediction

_Answers = list[tuple[F64, I64]]
# The methods of a policy, and the arguments that they are called with.
ARGUMENTS = {
    "bind": ["graph", "users", "rng"],
    "prediction": ["product"],
    "score": ["product"],
    "choose": ["product", "k", "oracle"],
    "update": ["product", "edges", "outcomes"],
    "state": [],
    "restore": ["state"],
}


def check_policy(factory: Callable[[], Policy], *, rounds: int = 6, k: int = 3, modes: int = 1, seed: int = 0) -> None:
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
    rounds, k
        Length of the campaign, and seeds per round.
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
    exam = _Exam(factory, make_playground(modes=modes, k=k, seed=seed), rounds)
    exam.follows_the_protocol()
    exam.says_what_it_believes()
    exam.repeats_itself()
    exam.continues_after_a_file()
    exam.knows_only_what_it_was_told()
    exam.reads_without_writing()
    exam.takes_batches_of_rounds()
    exam.scores_every_edge_again()
    exam.answers_to_the_product()
    exam.respects_the_candidates()
    exam.lives_through_odd_feedback()
    exam.refuses_bad_input()


def _same_answers(one: _Answers, two: _Answers) -> bool:
    return all(np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in zip(one, two, strict=True))


def _same_state(one: PolicyState, two: PolicyState) -> bool:
    same_names = set(one.arrays) == set(two.arrays)
    same_arrays = same_names and all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)
    return dict(one.settings) == dict(two.settings) and same_arrays


class _Exam:
    """Each method demands one thing of new policies; those that come first are taken for granted by the later ones."""

    def __init__(self, factory: Callable[[], Policy], world: Playground, rounds: int) -> None:
        self.factory = factory
        self.world = world
        self.rounds = rounds
        policy = factory()
        self.name = policy.name
        self.pure = bool(getattr(policy, "pure", True))

    def require(self, condition: object, text: str) -> None:
        # Not a plain assert: the check must also hold under `python -O`.
        if not condition:
            raise AssertionError(f"{self.name}: {text}")

    def expect_error(self, what: str, call: Callable[[], object]) -> None:
        try:
            call()
        except TensorUCBError as error:
            self.require(len(str(error)) > 10, f"{what}: the error must say what was wrong; got {str(error)!r}.")
            return
        except Exception as error:
            text = f"{what} must raise an error of tensorucb.errors; got {type(error).__name__}: {error}"
            raise AssertionError(f"{self.name}: {text}") from error
        self.require(False, f"{what} must raise an error of tensorucb.errors; it passed silently.")

    def oracle(self, allowed: I64 | None = None) -> SeedOracle:
        return SeedOracle(self.world.graph, objective="direct", candidates=allowed, rng=0)

    def bound(self) -> Policy:
        policy = self.factory()
        policy.bind(self.world.graph, self.world.users, self.world.seed)
        return policy

    def scored(self, policy: Policy, product: Any) -> F64:
        """The policy's scores, which must be sound."""
        scores = policy.score(product)
        fits = isinstance(scores, np.ndarray) and scores.shape == (self.world.graph.n_edges,)
        self.require(fits, f"score must give one number per edge; got {getattr(scores, 'shape', type(scores))}.")
        self.require(scores.dtype == np.float64, f"score must give float64; got {scores.dtype}.")
        self.require(np.isfinite(scores).all(), "score gave NaN or infinity.")
        low, high = float(scores.min()), float(scores.max())
        self.require(low >= 0.0 and high <= 1.0, f"scores must lie in [0, 1]; got {low:.4g}..{high:.4g}.")
        return scores

    def chosen(self, policy: Policy, product: Any, allowed: I64 | None = None) -> I64:
        """The policy's seeds, which must be sound."""
        k, n = self.world.k, self.world.graph.n_nodes
        seeds = np.asarray(policy.choose(product, k, self.oracle(allowed)))
        self.require(np.issubdtype(seeds.dtype, np.integer), f"seeds must be rows; got dtype {seeds.dtype}.")
        distinct = seeds.shape == (k,) and np.unique(seeds).size == k
        self.require(distinct, f"choose must give k = {k} distinct rows; got {seeds.tolist()}.")
        inside = 0 <= int(seeds.min()) <= int(seeds.max()) < n
        self.require(inside, f"seeds must be rows of the graph; got {seeds.tolist()}.")
        return seeds.astype(np.int64)

    def ask(self, policy: Policy, t: int) -> tuple[F64, I64]:
        """What the policy answers in round ``t``, told nothing about it."""
        product = self.world.product(t)
        return self.scored(policy, product), self.chosen(policy, product)

    def play(self, policy: Policy, rounds: range) -> _Answers:
        """Rounds of the campaign; what the policy answered in each."""
        answers = []
        for t in rounds:
            answers.append(self.ask(policy, t))
            policy.update(self.world.product(t), *self.world.feedback(t, answers[-1][1]))
        return answers

    def through_a_file(self, policy: Policy) -> Policy:
        """A policy of another seed that took over this one's state from the bytes of a file."""
        saved = policy.state()
        data = pack_state("policy", saved.settings, saved.arrays)
        copy = self.factory()
        copy.bind(self.world.graph, self.world.users, self.world.seed + 1)
        copy.restore(PolicyState(*unpack_state(data, "policy")))
        self.require(_same_state(copy.state(), saved), "restore followed by state gave another state.")
        return copy

    # -- the demands --

    def follows_the_protocol(self) -> None:
        policy = self.factory()
        self.require(isinstance(policy, Policy), f"must have name and methods {sorted(ARGUMENTS)}.")
        self.require(isinstance(policy.name, str) and policy.name, "name must be a non-empty string.")
        for method, names in ARGUMENTS.items():
            parameters = list(inspect.signature(getattr(policy, method)).parameters.values())
            taken = [parameter.name for parameter in parameters[: len(names)]]
            self.require(taken == names, f"{method} must take {names}; it takes {taken}.")
            spare = [p.name for p in parameters[len(names) :] if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
            self.require(not spare, f"{method} demands {spare}, which nobody will pass.")
        self.expect_error("score before bind", lambda: policy.score(self.world.product(0)))

    def says_what_it_believes(self) -> None:
        """A prediction holds one probability per edge, exploration left out."""
        policy, edges = self.bound(), self.world.graph.n_edges
        for t in range(self.rounds):
            prediction = policy.prediction(self.world.product(t))
            self.require(isinstance(prediction, Prediction), f"prediction must give a Prediction; got {prediction!r}.")
            expected = prediction.expected()
            sound = expected.shape == (edges,) and bool(((expected >= 0.0) & (expected <= 1.0)).all())
            self.require(sound, "what is expected must be one probability per edge, none of them NaN.")
            self.require(0.0 <= prediction.redundancy <= 1.0, "the redundancy must lie in [0, 1].")
            policy.update(self.world.product(t), *self.world.feedback(t, self.ask(policy, t)[1]))

    def repeats_itself(self) -> None:
        one = self.bound()
        two = self.bound()
        rounds = range(self.rounds)
        first, second = self.play(one, rounds), self.play(two, rounds)
        self.require(_same_answers(first, second), "two runs with one seed gave different scores or seeds.")
        self.require(_same_state(one.state(), two.state()), "two runs with one seed ended in different states.")
        two.bind(self.world.graph, self.world.users, self.world.seed)
        again = self.play(two, rounds)
        self.require(_same_answers(first, again), "bind must start again; traces of the first campaign remained.")

    def continues_after_a_file(self) -> None:
        half = max(1, self.rounds // 2)
        rest = range(half, self.rounds + 1)
        policy = self.through_a_file(self.bound())
        self.play(policy, range(half))
        copy, kept = self.through_a_file(policy), policy.state()
        went_on, resumed = self.play(policy, rest), self.play(copy, rest)
        self.require(_same_answers(went_on, resumed), "after save and load it did not go on bit for bit.")
        self.require(_same_state(policy.state(), copy.state()), "after save and load it ended in another state.")
        policy.restore(kept)
        again = self.play(policy, rest)
        self.require(_same_answers(went_on, again), "a state must be a copy; learning on changed it.")

    def knows_only_what_it_was_told(self) -> None:
        """Nothing may differ when the truth is put in reach, nor (if pure) when nobody asks between two updates."""
        plain = self.bound()
        baited = self.factory()
        told = self.bound()
        self.play(plain, range(self.rounds))
        baited.bind(self.world.baited_graph, self.world.users, self.world.seed)
        self.play(baited, range(self.rounds))
        text = "its state changed when the true probabilities were an attribute of the graph: it reads them."
        self.require(_same_state(plain.state(), baited.state()), text)
        for t in range(self.rounds if self.pure else 0):
            told.update(self.world.product(t), *self.world.last_feedback[t])
        text = "replaying the updates alone gave another state: it must depend only on what it was told."
        self.require(not self.pure or _same_state(plain.state(), told.state()), text)

    def reads_without_writing(self) -> None:
        # The world's arrays are read-only, so writing to an argument has raised before we come here.
        policy, product = self.bound(), self.world.product(0)
        self.play(policy, range(self.rounds))
        before, first = policy.state(), self.scored(policy, product)
        kept = first.copy()
        first[:] = 0.5
        same = np.array_equal(kept, self.scored(policy, product))
        self.require(not self.pure or same, "score gave two answers without an update in between.")
        self.chosen(policy, product)
        same = _same_state(before, policy.state())
        self.require(not self.pure or same, "score or choose changed the state; say pure = False.")

    def takes_batches_of_rounds(self) -> None:
        """Many rounds asked before the first is told, then all told in a row; twice, the second time with knowledge."""
        policy, told = self.bound(), self.bound()
        half = max(2, self.rounds // 2)
        for batch in (range(half), range(half, 2 * half)):
            asked = [self.ask(policy, t) for t in batch]
            same = not self.pure or _same_answers(asked, [self.ask(policy, t) for t in batch])
            self.require(same, "asked for a batch of rounds twice, it gave other answers.")
            for t, (_, seeds) in zip(batch, asked, strict=True):
                feedback = self.world.feedback(t, seeds)
                policy.update(self.world.product(t), *feedback)
                told.update(self.world.product(t), *feedback)
            same = not self.pure or _same_state(policy.state(), told.state())
            self.require(same, "told a batch of rounds after asking for all of them, it learned something else.")

    def scores_every_edge_again(self) -> None:
        """Scores belong to the caller and follow the state at every edge, not only at those observed."""
        policy, product = self.bound(), self.world.product(0)
        held = self.scored(policy, product)
        before = held.copy()
        self.scored(policy, self.world.product(1))
        self.require(np.array_equal(held, before), "the next call of score changed the array that the last one gave.")
        unseen = np.ones(self.world.graph.n_edges, dtype=np.bool_)
        for t in range(self.rounds):
            edges, outcomes = self.world.feedback(t, self.chosen(policy, self.world.product(t)))
            policy.update(self.world.product(t), edges, outcomes)
            unseen[edges] = False
        self.require(np.array_equal(held, before), "update changed an array that score gave before.")
        after, copied = self.scored(policy, product), self.scored(self.through_a_file(policy), product)
        text = "after an update its scores are not those of its state: some edges keep old ones."
        self.require(np.array_equal(after, copied), text)
        if getattr(policy, "shares_parameters", False) and unseen.any():
            moved = (after != before)[unseen].any()
            self.require(moved, "says that edges share parameters, but no unobserved edge was rescored.")

    def answers_to_the_product(self) -> None:
        policy = self.bound()
        for t in range(2 * len(self.world.products)):
            policy.update(self.world.product(t), *self.world.whole_feedback(t))
        says = getattr(policy, "uses_product", None)
        if says is not None and self.pure:
            differ = not np.array_equal(policy.score(self.world.product(0)), policy.score(self.world.product(1)))
            text = f"says that it {'uses' if says else 'ignores'} the product, but"
            self.require(differ == says, f"{text} two products' scores are {'not ' * differ}the same.")

    def respects_the_candidates(self) -> None:
        policy, allowed = self.bound(), np.arange(1, self.world.graph.n_nodes, 3, dtype=np.int64)
        for t in range(self.rounds):
            seeds = self.chosen(policy, self.world.product(t), allowed)
            stray = np.setdiff1d(seeds, allowed).tolist()
            self.require(not stray, f"chose {stray}, which are not among the oracle's candidates.")
            policy.update(self.world.product(t), *self.world.feedback(t, seeds))

    def lives_through_odd_feedback(self) -> None:
        policy, (every, outcomes) = self.bound(), self.world.whole_feedback(0)
        for edges, values in (
            (every[:0], outcomes[:0]),
            (every, outcomes),
            (every[:1], outcomes[:1]),
            (np.repeat(every[:3], 4), np.tile([0.0, 1.0, 0.25], 4)),
            (every[::-1], np.zeros_like(outcomes)),
            (every, np.ones_like(outcomes)),
            (every[:0], outcomes[:0]),
        ):
            policy.update(self.world.product(0), edges, values)
            self.scored(policy, self.world.product(1))
        self.chosen(policy, self.world.product(0))

    def refuses_bad_input(self) -> None:
        world = self.world
        policy = self.bound()
        product = world.product(0)
        oracle = self.oracle()
        self.play(policy, range(2))
        before, one = policy.state(), np.zeros(1, dtype=np.int64)
        longer = np.append(product, 1.0) if world.modes == 1 else [np.append(part, 1.0) for part in product]
        missing = PolicyState({}, {"nonsense": np.zeros(1)})
        for what, call in (
            ("a product with NaN", lambda: policy.score(np.full(world.products.shape[1], np.nan))),
            ("a product with other dimensions", lambda: policy.score(longer)),
            ("a product that is a matrix", lambda: policy.score(np.ones((2, 2)))),
            ("k = 0", lambda: policy.choose(product, 0, oracle)),
            ("more seeds than nodes", lambda: policy.choose(product, world.graph.n_nodes + 1, oracle)),
            ("an edge out of range", lambda: policy.update(product, one + world.graph.n_edges, [1.0])),
            ("a negative edge", lambda: policy.update(product, one - 1, [1.0])),
            ("edges that are not whole", lambda: policy.update(product, [0.5], [1.0])),
            ("lengths that differ", lambda: policy.update(product, one, [1.0, 0.0])),
            ("an outcome of 2", lambda: policy.update(product, one, [2.0])),
            ("an outcome of NaN", lambda: policy.update(product, one, [np.nan])),
            ("a foreign state", lambda: policy.restore(missing)),
        ):
            self.expect_error(what, call)
            self.require(_same_state(before, policy.state()), f"{what} was refused, but changed the state.")
        fresh = self.factory()
        self.expect_error("users with a row too few", lambda: fresh.bind(world.graph, world.users[1:], 0))
        self.expect_error("users with NaN", lambda: fresh.bind(world.graph, world.users * np.nan, 0))
        if getattr(fresh, "needs_users", False):
            self.expect_error("no users", lambda: fresh.bind(world.graph, None, 0))


# -- the campaign --


@dataclass
class Playground:
    """A network with a hidden truth; policies get `graph`, `users`, a product and feedback, nothing else."""

    graph: Graph
    baited_graph: Graph
    users: F64
    products: F64
    truth: F64
    modes: int
    k: int
    seed: int
    last_feedback: dict[int, tuple[I64, F64]] = field(default_factory=dict)

    def product(self, t: int) -> Any:
        """The product of round ``t``, which take turns: a vector, or ``modes`` of them."""
        vector = self.products[t % len(self.products)]
        return vector if self.modes == 1 else [vector, *([self.products[t % 2]] * (self.modes - 1))]

    def feedback(self, t: int, seeds: I64) -> tuple[I64, F64]:
        """Out-edges of the seeds in the order of the seeds, and their coins."""
        offsets = self.graph.out_offsets
        edges = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in seeds]).astype(np.int64)
        outcomes = self.whole_feedback(t)[1][edges]
        _freeze(edges, outcomes)
        self.last_feedback[t] = edges, outcomes
        return edges, outcomes

    def whole_feedback(self, t: int) -> tuple[I64, F64]:
        """The coins of all edges."""
        # One coin per edge and round, so that equal seeds get equal outcomes.
        coins = np.random.default_rng([self.seed, t]).random(self.graph.n_edges)
        live: NDArray[np.bool_] = coins < self.truth[t % len(self.products)]
        return np.arange(self.graph.n_edges, dtype=np.int64), live.astype(np.float64)


def _freeze(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.setflags(write=False)


def make_playground(*, modes: int, k: int, seed: int, nodes: int = 40, degree: int = 6) -> Playground:
    """A ring with random chords, users with 4 features, 4 products over 3 topics."""
    rng = np.random.default_rng([seed, 1])
    ring = np.arange(nodes)
    hops = rng.integers(2, nodes, size=(nodes, degree))
    sources = np.concatenate([ring, np.repeat(ring, degree)])
    targets = np.concatenate([(ring + 1) % nodes, ((ring[:, None] + hops) % nodes).ravel()])
    bare = Graph.from_edges(sources, targets, self_loops="drop")
    users = rng.normal(size=(nodes, 4)) / 2.0
    # Products 0 and 1 have different main topics, and so different cells.
    products = rng.dirichlet(np.ones(3), size=4) * 0.5 + 0.5 * np.eye(3)[[0, 1, 2, 0]]
    truth = products @ np.clip(rng.beta(1.0, 6.0, size=(3, bare.n_edges)), 0.0, 1.0)
    baited = Graph.from_edges(bare.sources, bare.targets, attributes={"probability": truth[0]})
    _freeze(users, products, truth)
    return Playground(bare, baited, users, products, truth, modes, k, seed)
