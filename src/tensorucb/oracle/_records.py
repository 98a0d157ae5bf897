"""What callers hand in and get back: `Constraints`, `Sampling`, `Selection` and `PairSelection`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice, check_instance, check_number, check_share
from tensorucb.choices import Algorithm
from tensorucb.errors import InputError, UnknownIdError, argument
from tensorucb.graph import Graph

QUALITY = 14.0
_BYTES_PER_MEMBER = 12  # stored, reduced to candidates, and inverted


@dataclass(frozen=True, eq=False)
class Constraints:
    """Who may be chosen, who must be, what it may cost, and how many of each group.

    Parameters
    ----------
    candidates, exclude, must_include
        Ids: who may be a seed (default all), who may not, and who must be. The factor ``1 - 1/e`` stays,
        against the best choice that obeys them.
    costs, budget
        What seeding each node costs, and what all seeds may cost together. Factor ``(1 - 1/e)/2`` without ``k``,
        ``(1 - 1/√e)/2`` with it. Fewer seeds than ``k`` come back if money runs out. For :func:`select_pairs`
        costs have one row per strategy.
    groups
        A label for each node, in the order of ``graph.ids``.
    quotas, minima
        The most and the fewest seeds of each group: a mapping, or one number for all. Groups that the mapping leaves
        out are not limited. Factor ``1/2``; quotas together with a budget ``1/5``. Minima together with a budget are
        obeyed too, but no share of the best is known beforehand.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges([0, 0, 1, 1, 2], [3, 4, 3, 4, 4])
    >>> rules = tu.Constraints(groups=list("aabbb"), minima={"b": 1}, exclude=[3, 4])
    >>> tu.select_seeds(graph, [0.9] * 5, 2, objective="direct", constraints=rules).seeds.tolist()
    [0, 2]
    """

    candidates: ArrayLike | None = None
    exclude: ArrayLike | None = None
    must_include: ArrayLike | None = None
    costs: ArrayLike | None = None
    budget: float | None = None
    groups: ArrayLike | None = None
    quotas: Mapping[Any, int] | int | None = None
    minima: Mapping[Any, int] | int | None = None

    def by_row(self, graph: Graph) -> Constraints:
        """The same with row numbers in place of ids."""
        rows: dict[str, Any] = {}
        for name in ("candidates", "exclude", "must_include"):
            ids = getattr(self, name)
            try:
                rows[name] = None if ids is None else graph.rows(ids)
            except UnknownIdError as error:
                raise UnknownIdError(argument(name), ": ", *error.parts()) from None
        return replace(self, **rows)


def check_constraints(constraints: object) -> Constraints:
    """The constraints of a call; None are none."""
    wanted = "a tensorucb.Constraints or None"
    return Constraints() if constraints is None else check_instance("constraints", constraints, Constraints, wanted)


@dataclass(frozen=True)
class Sampling:
    """How the cascade objective is sampled; the direct objective needs no samples.

    Parameters
    ----------
    algorithm
        ``"opim"`` (OPIM-C, stops on a measured certificate) or ``"tim"`` (TIM+, the paper's), which takes neither
        quotas or minima nor a budget.
    epsilon, delta
        Sampling may cost at most ``epsilon`` of the greedy factor, with probability at least ``1 - delta`` (default
        ``1 / n_nodes``).
    quality
        ``opim`` goes on sampling until the noise of its choice (the standard errors of the seeds' gains added up, and
        three times that of their whole coverage) is at most ``1 / quality`` of the coverage; 0 stops at the
        certificate. With the default the seeds' spread is within 1 % of TIM+'s on average, for any number of seeds.
        Where seeds chosen by direct gain alone cover nearly as much, 9/14 of it is enough.
    max_memory
        Bytes for stored RR sets. When they are used up the run stops, and ``ratio`` tells what is certified by then.

    Examples
    --------
    >>> import tensorucb as tu
    >>> star = tu.Graph.from_edges(["hub"] * 3, ["a", "b", "c"])
    >>> tu.select_seeds(star, [1.0] * 3, 1, sampling=tu.Sampling(algorithm="tim"), rng=0).algorithm
    'tim'
    """

    algorithm: Algorithm = "opim"
    epsilon: float = 0.1
    delta: float | None = None
    quality: float = QUALITY
    max_memory: float = 2.0**31

    def __post_init__(self) -> None:
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        epsilon = check_number("epsilon", self.epsilon, low=1e-4, high=1.0, hint="The usual value is 0.1.")
        delta = 0.5 if self.delta is None else check_share("delta", self.delta, zero=False, one=False)
        if epsilon == 1.0 or delta < 1e-100:
            raise InputError(
                f"must be below 1 and delta at least 1e-100; got {epsilon:g} and {delta:g}.", argument="epsilon"
            )
        check_number("quality", self.quality, high=1e6, hint=f"The usual value is {QUALITY:g}.")
        check_number("max_memory", self.max_memory, low=2.0**20, high=2.0**60, hint="It is a number of bytes.")

    def failure(self, users: int) -> float:
        """The failure probability of a choice among so many users."""
        return 1.0 / max(users, 2) if self.delta is None else float(self.delta)

    @property
    def most_members(self) -> int:
        """How many members of RR sets ``max_memory`` has room for."""
        return int(min(self.max_memory, 2.0**40)) // _BYTES_PER_MEMBER


def check_sampling(sampling: object) -> Sampling:
    """The sampling of a call; None is the default."""
    wanted = "a tensorucb.Sampling or None"
    return Sampling() if sampling is None else check_instance("sampling", sampling, Sampling, wanted)


@dataclass(frozen=True)
class Selection:
    """Chosen seeds with their certificate.

    Attributes
    ----------
    seeds
        The caller's ids, in the order of choice.
    rows
        The same as row numbers of the graph.
    spread
        Estimate of the objective (expected active users, or their expected value), from samples that had no part in
        the choice; exact for the direct objective.
    lower, upper
        With probability at least ``1 - delta`` the objective of ``seeds`` is at least ``lower``, and no
        admissible seed set exceeds ``upper``.
    ratio
        ``lower / upper``: the share of the best possible that is certified for these seeds.
    rr_sets
        RR sets sampled in all (0 for the direct objective).
    algorithm
        ``opim``, ``tim`` or ``direct``.
    gains
        What each seed added when it was chosen, estimated on the samples used for the choice (so a little high);
        0 for seeds that add no more than noise and were taken for their direct gain. Seeds fixed beforehand, which the
        samples stop at, share what they cover: a sample counts for the one it met first.
    guarantee
        One sentence on what is guaranteed.

    Examples
    --------
    >>> from tensorucb import Graph, select_seeds
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "dan"])
    >>> pick = select_seeds(graph, [1.0, 1.0, 0.5], 2, objective="direct")
    >>> pick.seeds.tolist(), pick.gains.tolist(), pick.ratio
    (['ann', 'dan'], [3.0, 1.0], 1.0)
    >>> pick.guarantee
    'exact greedy: at least 1 - 1/e of the best admissible choice; here at least 1.000 of it.'
    """

    seeds: NDArray[Any]
    rows: NDArray[np.int64]
    spread: float
    lower: float
    upper: float
    ratio: float
    rr_sets: int
    algorithm: str
    gains: NDArray[np.float64]
    guarantee: str


@dataclass(frozen=True)
class PairSelection(Selection):
    """Chosen users, each with the strategy to contact the user with; the certificate is about these pairs.

    Attributes
    ----------
    strategies
        The strategy of each seed: row numbers of ``probabilities``.
    cost
        What all pairs cost together; None where no costs were given.

    Examples
    --------
    >>> from tensorucb import Graph, select_pairs
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["cid", "dan", "dan"])
    >>> pick = select_pairs(graph, [[0.9, 0.9, 0.1], [0.1, 0.1, 0.8]], 2, objective="direct")
    >>> pick.seeds.tolist(), pick.strategies.tolist()
    (['ann', 'bob'], [0, 1])
    """

    strategies: NDArray[np.int64]
    cost: float | None
