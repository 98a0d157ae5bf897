"""Worlds that are not as the model has them, each made from a simulated one and played by `run_policy` like any other.

What is told differs, or how contacts add up, or the world changes from round to round:

>>> from studies.changed_worlds import CHANGES
>>> from tensorucb.data import make_sandbox
>>> from tensorucb.experiments import Environment, run_policy
>>> from tensorucb.policies import HighDegree
>>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0))
>>> run_policy(CHANGES["two contacts needed"](world, 100), HighDegree(), rounds=5)["spread"].len()
5

A world here has the direct objective and one-hop feedback. Whatever is random follows from (seed, run, round), so all
policies of a run meet the same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tensorucb.arrays import F64, I64
from tensorucb.experiments import Environment, Optimum, WorldWithNewcomers

# Purposes of derived random streams: (seed, purpose, run, round).
_THRESHOLDS, _SHIFT, _UNLOGGED = 71, 72, 73
# Round worlds that are kept, so that S* of a round is found once for all policies of a run.
_KEPT_ROUNDS = 256
# First users from which the best choice is built where no single user brings anybody.
_STARTS = 3


def expected(world: Environment, product: int) -> F64:
    """The truth, inside of (0, 1)."""
    return np.clip(world.probabilities(product), 1e-9, 1.0 - 1e-9)


class ChangedWorld(Environment):
    """The same network, users, products and rounds; another truth, or another way to respond or to tell."""

    def __init__(self, world: Environment, name: str, probabilities: Callable[[int], F64] | None = None) -> None:
        super().__init__(
            world.graph,
            world.users,
            world.products,
            world.probabilities if probabilities is None else probabilities,
            settings=world.settings,
            product_rows=world.product_rows,
            name=f"{world.name}, {name}",
        )


def responses(world: Environment, edges: I64, responds: NDArray[np.bool_]) -> F64:
    """A follower that responds is told as a response to everybody who contacted it."""
    return responds[world.graph.targets[edges]].astype(np.float64)


class ToldPerUser(ChangedWorld):
    """Contacts add up as independent coins, and what is told is who responded: a 1 on all its contacted in-edges."""

    def __init__(self, world: Environment) -> None:
        super().__init__(world, "told per user")

    def observe(self, product: int, rows: Any, strategies: Any = None, **numbers: int) -> tuple[I64, F64]:
        """Edges of the seeds, and who responded."""
        edges, outcomes = super().observe(product, rows, strategies, **numbers)
        responds = np.zeros(self.graph.n_nodes, dtype=np.bool_)
        responds[self.graph.targets[edges[outcomes > 0.0]]] = True
        return edges, responses(self, edges, responds)


class Unlogged(ChangedWorld):
    """A share of those who respond are never told; they count as reached."""

    def __init__(self, world: Environment, share: float = 0.2) -> None:
        super().__init__(world, f"{share:.0%} of the responses unlogged")
        self.share = share

    def observe(self, product: int, rows: Any, strategies: Any = None, **numbers: int) -> tuple[I64, F64]:
        """What the round shows, less what is lost."""
        edges, outcomes = super().observe(product, rows, strategies, **numbers)
        lost = _generator(_UNLOGGED, **numbers).random(self.graph.n_nodes) < self.share
        return edges, np.where(lost[self.graph.targets[edges]], 0.0, outcomes)


class DoseWorld(ChangedWorld):
    """A world in which a follower responds by what all its contacts come to; told per user.

    A subclass says what an edge contributes, two numbers that are summed over a follower's contacts, and the chance of
    a response for these sums.
    """

    def parts(self, p: F64) -> tuple[F64, F64]:
        """The two numbers of each edge."""
        raise NotImplementedError

    def chance(self, first: F64, second: F64) -> F64:
        """The probability of a response, of the sums over a follower's contacts."""
        raise NotImplementedError

    def evaluate(self, product: int, rows: Any, strategies: Any = None) -> float:
        """Exact expected reach, seeds included."""
        seeds = np.asarray(rows)
        chances = self._chances(product, self.graph.out_edges(seeds))
        chances[seeds] = 1.0
        return float(chances.sum())

    def _chances(self, product: int, edges: I64) -> F64:
        targets, n = self.graph.targets[edges], self.graph.n_nodes
        first, second = (np.bincount(targets, part[edges], n) for part in self.parts(expected(self, product)))
        return np.where(np.bincount(targets, minlength=n) > 0, self.chance(first, second), 0.0)

    def _compute_optimum(self, product: int) -> Optimum:
        """The best of a few greedy choices, which begin with different users; greedy has no guarantee here."""
        sources, targets, n = self.graph.sources, self.graph.targets, self.graph.n_nodes
        first, second = self.parts(expected(self, product))
        p = expected(self, product)
        # What a user could bring together with others.
        together = np.bincount(sources, p * (np.bincount(targets, p, n)[targets] - p), n)
        found: list[Optimum] = []
        for start in np.argsort(-together, kind="stable")[:_STARTS].tolist():
            chosen = [start]
            while len(chosen) < self.settings.k:
                edges = self.graph.out_edges(np.array(chosen))
                sums = [np.bincount(targets[edges], part[edges], n) for part in (first, second)]
                now = self._chances(product, edges)
                now[chosen] = 1.0
                more = self.chance(sums[0][targets] + first, sums[1][targets] + second) - now[targets]
                gain = np.bincount(sources, np.maximum(more, 0.0), n) + 1.0 - now
                gain[chosen] = -np.inf
                chosen.append(int(np.argmax(gain)))
            rows = np.array(chosen)
            found.append(Optimum(rows, self.evaluate(product, rows)))
        return max(found, key=lambda optimum: optimum.spread)


class TwoContacts(DoseWorld):
    """A follower responds only if at least two of its contacts' coins succeed."""

    def __init__(self, world: Environment) -> None:
        super().__init__(world, "two contacts needed")

    def parts(self, p: F64) -> tuple[F64, F64]:
        """Of no success: the logarithm; of exactly one: the odds."""
        return np.log1p(-p), p / (1.0 - p)

    def chance(self, first: F64, second: F64) -> F64:
        """That of two successes or more."""
        return 1.0 - np.exp(first) * (1.0 + second)

    def observe(self, product: int, rows: Any, strategies: Any = None, **numbers: int) -> tuple[I64, F64]:
        """Edges of the seeds, and who responded."""
        edges, coins = super().observe(product, rows, strategies, **numbers)
        successes = np.bincount(self.graph.targets[edges], coins, self.graph.n_nodes)
        return edges, responses(self, edges, successes >= 2.0)


class LinearThreshold(DoseWorld):
    """A follower responds if its contacts' weights reach a threshold, drawn uniformly in each round.

    Weights are the truth's probabilities, scaled down where those of a follower's in-edges sum to more than 1.
    """

    def __init__(self, world: Environment) -> None:
        super().__init__(world, "linear threshold")

    def parts(self, p: F64) -> tuple[F64, F64]:
        """The weight; the second is not used."""
        total = np.bincount(self.graph.targets, p, self.graph.n_nodes)
        weights = p / np.maximum(total, 1.0)[self.graph.targets]
        return weights, np.zeros_like(p)

    def chance(self, first: F64, second: F64) -> F64:
        """That of a threshold below the sum of weights."""
        return np.minimum(first, 1.0)

    def observe(self, product: int, rows: Any, strategies: Any = None, **numbers: int) -> tuple[I64, F64]:
        """Edges of the seeds, and who responded."""
        edges = self.graph.out_edges(np.asarray(rows))
        thresholds = _generator(_THRESHOLDS, **numbers).random(self.graph.n_nodes)
        return edges, responses(self, edges, self._chances(product, edges) > thresholds)


class NoisyRounds(ChangedWorld):
    """All logits of a round are shifted by one normal number; the best choice of a round knows it."""

    def __init__(self, world: Environment, deviation: float = 0.7) -> None:
        super().__init__(world, f"noisy rounds, deviation {deviation:g}")
        self.deviation = deviation
        self._rounds = lru_cache(maxsize=_KEPT_ROUNDS)(self._shifted)

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world with this round's shift."""
        return self._rounds(round_number, seed, run)

    def _shifted(self, round_number: int, seed: int, run: int) -> Environment:
        shift = _generator(_SHIFT, seed=seed, run=run, round_number=round_number).normal(0.0, self.deviation)
        return ChangedWorld(self, "one round", lambda product: expit(logit(expected(self, product)) + shift))


class Fatigue(ChangedWorld):
    """Each of the last ``memory`` rounds in which a follower was contacted halves its probability to respond.

    The best choice is that of a rested audience, the same for all policies.
    """

    def __init__(self, world: Environment, memory: int = 5) -> None:
        super().__init__(world, f"fatigue, memory {memory}")
        self.memory = memory
        self._contacted: list[I64] = []

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world as those who were contacted lately let it be."""
        if round_number == 0:
            self._contacted = []
        times = np.zeros(self.graph.n_nodes)
        for followers in self._contacted[-self.memory :]:
            times[followers] += 1.0
        factor = (0.5**times)[self.graph.targets]
        return _TiredRound(self, lambda product: factor * self.probabilities(product))

    def contacted(self, followers: I64) -> None:
        """Remember who was contacted in the round that has just been played."""
        self._contacted.append(followers)


class _TiredRound(ChangedWorld):
    def __init__(self, world: Fatigue, probabilities: Callable[[int], F64]) -> None:
        super().__init__(world, "one round", probabilities)
        self._world = world
        self.optimum = world.optimum

    def observe(self, product: int, rows: Any, strategies: Any = None, **numbers: int) -> tuple[I64, F64]:
        """What the round shows; the world remembers who was contacted."""
        edges, outcomes = super().observe(product, rows, strategies, **numbers)
        self._world.contacted(np.unique(self.graph.targets[edges]))
        return edges, outcomes


class Drift(ChangedWorld):
    """One world up to ``change`` rounds, another one on the same network from then on."""

    def __init__(self, before: Environment, after: Environment, change: int) -> None:
        what = after.name.removeprefix(f"{before.name}, ")
        super().__init__(before, f"{what} after {change} rounds")
        self.before, self.after, self.change = before, after, change

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world before the change, or after it."""
        return self.before if round_number < self.change else self.after


def sources_reversed(world: Environment) -> Environment:
    """The strongest source becomes the weakest, the second the second weakest, and so on.

    A source's strength is the mean logit of its out-edges over some products; a source gets the strength of the one at
    the same place from the other end. Targets and products keep what is theirs.
    """
    graph = world.graph
    some = world.product_rows[:: max(1, world.product_rows.size // 20)].tolist()
    mean = np.mean([logit(expected(world, product)) for product in some], axis=0)
    strength = np.bincount(graph.sources, mean, graph.n_nodes) / np.maximum(graph.out_degree, 1)
    ascending = np.flatnonzero(graph.out_degree)
    ascending = ascending[np.argsort(strength[ascending], kind="stable")]
    change = np.zeros(graph.n_nodes)
    change[ascending] = strength[ascending[::-1]] - strength[ascending]
    shift = change[graph.sources]
    return ChangedWorld(world, "sources reversed", lambda product: expit(logit(expected(world, product)) + shift))


def _generator(purpose: int, *, seed: int, run: int, round_number: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose, run, round_number])


Change = Callable[[Environment, int], Environment]
# Name -> what makes the world of a simulated one and the number of rounds to be played.
CHANGES: dict[str, Change] = {
    "as it is": lambda world, rounds: world,
    "told per user": lambda world, rounds: ToldPerUser(world),
    "two contacts needed": lambda world, rounds: TwoContacts(world),
    "linear threshold": lambda world, rounds: LinearThreshold(world),
    "noisy rounds": lambda world, rounds: NoisyRounds(world),
    "fatigue": lambda world, rounds: Fatigue(world),
    "a fifth unlogged": lambda world, rounds: Unlogged(world),
    "drift": lambda world, rounds: Drift(world, sources_reversed(world), rounds // 2),
    "newcomers": lambda world, rounds: WorldWithNewcomers(world, arrival=max(1, rounds // 2)),
}
