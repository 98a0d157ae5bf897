"""Why a policy chose these seeds, in terms of what it believes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.checks import plain
from tensorucb.errors import ShapeError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_seeds
from tensorucb.policies import Policy
from tensorucb.policies._base import check_policy_object

_STRONGEST = 3


@dataclass(frozen=True)
class Follower:
    """A neighbour of a seed, and how likely it is to respond."""

    id: Any
    probability: float


@dataclass(frozen=True)
class SeedReason:
    """Why one user was chosen."""

    id: Any
    followers: int
    expected: float
    """Direct responses expected from what has been seen so far, ``Σ_j p_ij``."""
    gain: float
    """Those of them that earlier seeds would not have brought anyway."""
    explored: float
    """Responses that the exploration bonus adds in a round like any other: what the policy hopes to find out.

    Below 0 only where Thompson sampling drew less than is believed.
    """
    strongest: tuple[Follower, ...]
    """The followers most likely to respond."""

    def row(self) -> dict[str, Any]:
        """The reason as JSON values."""
        return asdict(self)


def explain_seeds(graph: Graph, policy: Policy, product: ArrayLike, rows: ArrayLike) -> list[SeedReason]:
    """A reason for each seed, in the order of choice.

    ``product`` holds the product's features, ``rows`` the chosen rows.

    Examples
    --------
    >>> import tensorucb as tu
    >>> box, policy = tu.data.make_sandbox(60, 400, 5, rng=0), tu.policies.HighDegree()
    >>> policy.bind(box.graph, None, rng=0)
    >>> [reason.id for reason in explain_seeds(box.graph, policy, box.products[0], [3, 5])]
    [3, 5]
    """
    check_graph(graph)
    check_policy_object("policy", policy)
    seeds = check_seeds(graph, "rows", rows)
    prediction = policy.prediction(product)
    believed = prediction.expected()
    if believed.size != graph.n_edges:
        raise ShapeError(f"the policy is bound to a graph of {believed.size} edges; this one has {graph.n_edges}.")
    # Both in a round like any other; `believed` is an average over rounds, and may be larger than either.
    bonus = np.asarray(policy.score(product)) - prediction.probabilities()
    untouched = np.ones(graph.n_nodes)
    untouched[seeds] = 0.0  # seeds need no convincing
    reasons = []
    for row in seeds.tolist():
        edges = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
        targets, p = graph.targets[edges], believed[edges]
        order = np.argsort(-p, kind="stable")[:_STRONGEST]
        reasons.append(
            SeedReason(
                id=plain(graph.ids[row]),
                followers=int(targets.size),
                expected=float(p.sum()),
                gain=float((p * untouched[targets]).sum()),
                explored=float(bonus[edges].sum()),
                strongest=tuple(Follower(plain(graph.ids[targets[i]]), float(p[i])) for i in order),
            )
        )
        untouched[targets] *= 1.0 - p
    return reasons
