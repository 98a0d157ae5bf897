"""`LoggedCampaign`: rounds that were played, and how probable it was to contact each user in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

Sampling = Literal["independent", "fixed_size", "unknown"]


@dataclass(frozen=True)
class LoggedRound:
    """One round of a log, in rows and edge numbers of the graph.

    Attributes
    ----------
    product
        The product's features, (d3,).
    contacts
        Rows of the users who were contacted.
    edges, outcomes
        The edges observed and their outcomes in [0, 1]. An out-edge of a contacted user which is not listed
        counts as one without a response.
    propensities
        (n,) the probability, before the draw, that the logging policy contacts each user in this round.
    """

    product: F64
    contacts: I64
    edges: I64
    outcomes: F64
    propensities: F64


@dataclass(frozen=True)
class LoggedCampaign:
    """Rounds with known propensities: all that the estimators of this sub-package need.

    Build one with `from_rounds`, `log_campaign` or `read_campaign`.

    Attributes
    ----------
    graph
        The network of the contacts and the edges.
    products
        (T, d3) product features, one row per round.
    contacts, contact_offsets
        Contacted rows; those of round t are ``contacts[contact_offsets[t]:contact_offsets[t + 1]]``.
    edges, outcomes, edge_offsets
        Observed edges and their outcomes, in the same way.
    propensities
        (D, n) the distinct vectors of marginal inclusion probabilities.
    design
        (T,) which row of ``propensities`` each round used.
    sampling
        How the contacts of a round depend on each other given the propensities: ``"independent"`` (a coin for each
        user), ``"fixed_size"`` (a fixed number of contacts) or ``"unknown"``.
    """

    graph: Graph
    products: F64
    contacts: I64
    contact_offsets: I64
    edges: I64
    outcomes: F64
    edge_offsets: I64
    propensities: F64
    design: I64
    sampling: Sampling = "unknown"

    def __post_init__(self) -> None:
        """Refuse a log that cannot have happened."""
        if self.sampling not in get_args(Sampling):
            raise InputError(f"sampling must be one of {', '.join(get_args(Sampling))}; got {self.sampling!r}.")
        _check_shapes(self)
        _check_values(self)

    @classmethod
    def from_rounds(
        cls, graph: Graph, rounds: Sequence[LoggedRound], *, sampling: Sampling = "unknown"
    ) -> LoggedCampaign:
        """A campaign from its rounds; equal propensities are kept once."""
        if not rounds:
            raise InputError("a logged campaign needs at least one round; got none.")
        sizes = {np.shape(r.product) for r in rounds}
        if len(sizes) > 1 or len(next(iter(sizes))) != 1:
            raise ShapeError(f"every product must be a vector of one length; got shapes {sorted(sizes)}.")
        vectors: dict[bytes, int] = {}
        distinct: list[F64] = []
        design = np.empty(len(rounds), dtype=np.int64)
        for t, r in enumerate(rounds):
            vector = np.ascontiguousarray(r.propensities, dtype=np.float64)
            if vector.shape != (graph.n_nodes,):
                raise ShapeError(
                    f"propensities of round {t} must have one entry per user, ({graph.n_nodes},); got {vector.shape}."
                )
            design[t] = vectors.setdefault(vector.tobytes(), len(distinct))
            if design[t] == len(distinct):
                distinct.append(vector)
        return cls(
            graph,
            np.array([r.product for r in rounds], dtype=np.float64),
            _joined([r.contacts for r in rounds]),
            _offsets([np.size(r.contacts) for r in rounds]),
            _joined([r.edges for r in rounds]),
            np.concatenate([np.asarray(r.outcomes, dtype=np.float64).ravel() for r in rounds]),
            _offsets([np.size(r.edges) for r in rounds]),
            np.array(distinct),
            design,
            sampling,
        )

    @property
    def n_rounds(self) -> int:
        """Number of rounds, T."""
        return int(self.design.size)

    def round(self, t: int) -> LoggedRound:
        """Round ``t``, from 0."""
        if not 0 <= t < self.n_rounds:
            raise InputError(f"round must lie in 0..{self.n_rounds - 1}; got {t}.")
        told = slice(int(self.edge_offsets[t]), int(self.edge_offsets[t + 1]))
        contacted = slice(int(self.contact_offsets[t]), int(self.contact_offsets[t + 1]))
        return LoggedRound(
            self.products[t],
            self.contacts[contacted],
            self.edges[told],
            self.outcomes[told],
            self.propensities[self.design[t]],
        )

    def take(self, rounds: ArrayLike) -> LoggedCampaign:
        """The campaign of these rounds alone, in the order given."""
        numbers = np.asarray(rounds, dtype=np.int64)
        return LoggedCampaign.from_rounds(self.graph, [self.round(int(t)) for t in numbers], sampling=self.sampling)


def _joined(parts: Sequence[ArrayLike]) -> I64:
    arrays = [np.asarray(part) for part in parts]
    if any(a.size and a.dtype.kind not in "iu" for a in arrays):
        raise InputError("contacts and edges must be whole numbers. Use graph.rows(ids) and graph.edge_rows(…).")
    return np.concatenate([a.astype(np.int64).ravel() for a in arrays])


def _offsets(sizes: Sequence[int]) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _check_shapes(log: LoggedCampaign) -> None:
    rounds, n = log.design.size, log.graph.n_nodes
    if log.products.ndim != 2 or log.products.shape[0] != rounds or rounds == 0:
        raise ShapeError(
            f"products must be ({rounds}, d), one row for each of at least one round; {log.products.shape}."
        )
    if log.propensities.ndim != 2 or log.propensities.shape[1] != n:
        raise ShapeError(f"propensities must be (D, {n}), one column a user; got {log.propensities.shape}.")
    if log.design.min() < 0 or log.design.max() >= log.propensities.shape[0]:
        raise InputError(f"design must name rows of propensities, 0..{log.propensities.shape[0] - 1}.")
    for name, offsets, values in (
        ("contact_offsets", log.contact_offsets, log.contacts),
        ("edge_offsets", log.edge_offsets, log.edges),
    ):
        whole = offsets.shape == (rounds + 1,) and offsets[0] == 0 and offsets[-1] == values.size
        if not whole or (np.diff(offsets) < 0).any():
            raise ShapeError(f"{name} must rise from 0 to {values.size} in {rounds} steps.")
    if log.outcomes.shape != log.edges.shape:
        raise ShapeError(f"edges and outcomes must be of one length; got {log.edges.size} and {log.outcomes.size}.")


def _check_values(log: LoggedCampaign) -> None:
    # Comparisons are written so that NaN fails them.
    if not ((log.propensities >= 0.0) & (log.propensities <= 1.0)).all():
        raise InputError("propensities must lie in [0, 1]; got values outside it, or NaN.")
    if not ((log.outcomes >= 0.0) & (log.outcomes <= 1.0)).all():
        raise InputError("outcomes must lie in [0, 1]; got values outside it, or NaN.")
    for name, values, offsets, size in (
        ("contacts", log.contacts, log.contact_offsets, log.graph.n_nodes),
        ("edges", log.edges, log.edge_offsets, log.graph.n_edges),
    ):
        if values.size and (values.min() < 0 or values.max() >= size):
            raise InputError(f"{name} must lie in 0..{size - 1}; got {int(values.min())}..{int(values.max())}.")
        keys = np.repeat(np.arange(log.n_rounds), np.diff(offsets)) * np.int64(size) + values
        if np.unique(keys).size != keys.size:
            twice, counts = np.unique(keys, return_counts=True)
            key = int(twice[counts > 1][0])
            raise InputError(f"round {key // size} lists {key % size} twice in {name}. Keep it once.")
    rounds = np.repeat(np.arange(log.n_rounds), np.diff(log.contact_offsets))
    drawn = log.propensities[log.design[rounds], log.contacts]
    if not (drawn > 0.0).all():
        bad = int(np.flatnonzero(drawn <= 0.0)[0])
        raise InputError(
            f"user {log.graph.ids[log.contacts[bad]]} was contacted in round {rounds[bad]} with propensity 0. "
            "Log the probability that the logging policy really used."
        )
