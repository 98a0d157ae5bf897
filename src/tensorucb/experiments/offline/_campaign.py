"""`LoggedCampaign`: rounds that were played, and how probable it was to contact each user in them.

On disk it is four Parquet tables with the caller's ids, which any warehouse can write. `bandit_feedback` gives the form
of the Open Bandit Pipeline, whose estimators and learners take it as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_choice, check_count, check_instance, check_path, check_rows, shown_path
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.files import atomic_write
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph

if TYPE_CHECKING:
    import polars as pl

Sampling = Literal["independent", "fixed_size", "unknown"]

_USERS = "It has one entry per user."
_META = "campaign.json"
_COLUMNS = {
    "rounds": ("round", "product", "design"),
    "contacts": ("round", "user"),
    "responses": ("round", "source", "target", "outcome"),
    "propensities": ("design", "user", "propensity"),
}


@dataclass(frozen=True)
class LoggedRound:
    """One round of a log, in rows and edge numbers of the graph.

    Attributes
    ----------
    product, contacts
        The product's features, (d3,), and the rows of the users who were contacted.
    edges, outcomes
        The edges observed and their outcomes in [0, 1]. An out-edge of a contacted user which is not listed
        counts as one without a response.
    propensities
        (n,) the probability, before the draw, that the logging policy contacts each user in this round.

    Examples
    --------
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> told.contacts
    [0]
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

    Examples
    --------
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> LoggedCampaign.from_rounds(Graph.from_edges([0, 1], [2, 2]), [told, told]).n_rounds
    2
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
        check_choice("sampling", self.sampling, get_args(Sampling))
        n, m = self.graph.n_nodes, self.graph.n_edges
        found: dict[str, Any] = {
            "propensities": check_array("propensities", self.propensities, ("D", n), low=0.0, high=1.0, hint=_USERS),
            "products": check_array("products", self.products, ("T", "d"), hint="One row per round."),
            "contacts": check_rows("contacts", self.contacts, n, hint="Use graph.rows(ids)."),
            "edges": check_rows("edges", self.edges, m, hint="Use graph.edge_rows(sources, targets)."),
            "design": check_rows("design", self.design, len(self.propensities), hint="It names rows of propensities."),
        }
        same = "One per edge observed."
        found["outcomes"] = check_array("outcomes", self.outcomes, found["edges"].shape, low=0.0, high=1.0, hint=same)
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if self.design.size != len(self.products):
            raise ShapeError(f"design must have one entry per round; got {self.design.size} for {len(self.products)}.")
        self._check_parts("contacts", self.contacts, self.contact_offsets, n)
        self._check_parts("edges", self.edges, self.edge_offsets, m)
        rounds = np.repeat(np.arange(self.n_rounds), np.diff(self.contact_offsets))
        never = np.flatnonzero(self.propensities[self.design[rounds], self.contacts] <= 0.0)
        if never.size:
            raise InputError(
                f"user {self.graph.ids[self.contacts[never[0]]]} was contacted in round {rounds[never[0]]} with "
                "propensity 0. Log the probability that the logging policy really used."
            )

    def _check_parts(self, name: str, values: I64, offsets: I64, size: int) -> None:
        """Refuse offsets that do not cut ``values`` into rounds, and rounds that list one of them twice."""
        whole = offsets.shape == (self.n_rounds + 1,) and offsets[0] == 0 and offsets[-1] == values.size
        if not whole or (np.diff(offsets) < 0).any():
            raise ShapeError(f"the offsets of {name} must rise from 0 to {values.size} in {self.n_rounds} steps.")
        keys = np.repeat(np.arange(self.n_rounds), np.diff(offsets)) * np.int64(size) + values
        distinct, counts = np.unique(keys, return_counts=True)
        if distinct.size < keys.size:
            key = int(distinct[counts > 1][0])
            raise InputError(f"round {key // size} lists {key % size} twice in {name}. Keep it once.")

    @classmethod
    def from_rounds(
        cls, graph: Graph, rounds: Sequence[LoggedRound], *, sampling: Sampling = "unknown"
    ) -> LoggedCampaign:
        """A campaign from its rounds; equal propensities are kept once."""
        if not rounds:
            raise InputError("a logged campaign needs at least one round; got none.")
        distinct: dict[bytes, tuple[int, F64]] = {}
        design = np.empty(len(rounds), dtype=np.int64)
        for t, r in enumerate(rounds):
            vector = check_propensities(r.propensities, graph.n_nodes)
            design[t] = distinct.setdefault(vector.tobytes(), (len(distinct), vector))[0]
        return cls(
            graph,
            [r.product for r in rounds],  # type: ignore[arg-type]  # checked and turned into an array there
            _joined([r.contacts for r in rounds]),
            _offsets([np.size(r.contacts) for r in rounds]),
            _joined([r.edges for r in rounds]),
            np.concatenate([np.ravel(r.outcomes) for r in rounds]),
            _offsets([np.size(r.edges) for r in rounds]),
            np.array([vector for _, vector in distinct.values()]),
            design,
            sampling,
        )

    @property
    def n_rounds(self) -> int:
        """Number of rounds, T."""
        return int(self.design.size)

    def round(self, t: int) -> LoggedRound:
        """Round ``t``, from 0."""
        check_count("round", t, 0, self.n_rounds - 1)
        told = slice(int(self.edge_offsets[t]), int(self.edge_offsets[t + 1]))
        contacts = self.contacts[self.contact_offsets[t] : self.contact_offsets[t + 1]]
        propensities = self.propensities[self.design[t]]
        return LoggedRound(self.products[t], contacts, self.edges[told], self.outcomes[told], propensities)

    def take(self, rounds: ArrayLike) -> LoggedCampaign:
        """The campaign of these rounds alone, in the order given."""
        parts = [self.round(t) for t in np.asarray(rounds).tolist()]
        return LoggedCampaign.from_rounds(self.graph, parts, sampling=self.sampling)


def check_propensities(values: ArrayLike, n: int) -> F64:
    """One probability per user."""
    return check_array("propensities", values, (n,), low=0.0, high=1.0, hint=_USERS)


def _offsets(sizes: ArrayLike) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[ArrayLike]) -> I64:
    # Without the empty ones: an empty list would turn all numbers into floats.
    return np.concatenate([np.empty(0, dtype=np.int64), *(np.ravel(part) for part in parts if np.size(part))])


def write_campaign(campaign: LoggedCampaign, directory: str | os.PathLike[str]) -> list[Path]:
    """Write ``rounds``, ``contacts``, ``responses``, ``propensities`` (Parquet) and ``campaign.json``.

    Ids are the caller's, so the files do not depend on the graph's row numbers. A user who is not in ``propensities``
    has propensity 0.

    Examples
    --------
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> log = LoggedCampaign.from_rounds(Graph.from_edges([0, 1], [2, 2]), [told, told])
    >>> [path.name for path in write_campaign(log, "past")]
    ['rounds.parquet', 'contacts.parquet', 'responses.parquet', 'propensities.parquet', 'campaign.json']
    """
    import polars as pl

    check_instance("campaign", campaign, LoggedCampaign, "a LoggedCampaign", "log_campaign makes one.")
    graph, rounds = campaign.graph, np.arange(campaign.n_rounds)
    design, user = np.nonzero(campaign.propensities)
    tables = {
        "rounds": {"round": rounds, "product": campaign.products.tolist(), "design": campaign.design},
        "contacts": {
            "round": np.repeat(rounds, np.diff(campaign.contact_offsets)),
            "user": graph.ids[campaign.contacts],
        },
        "responses": {
            "round": np.repeat(rounds, np.diff(campaign.edge_offsets)),
            "source": graph.ids[graph.sources[campaign.edges]],
            "target": graph.ids[graph.targets[campaign.edges]],
            "outcome": campaign.outcomes,
        },
        "propensities": {"design": design, "user": graph.ids[user], "propensity": campaign.propensities[design, user]},
    }
    folder, written = check_path("directory", directory), []
    for name, columns in tables.items():
        written.append(folder / f"{name}.parquet")
        with atomic_write(written[-1]) as file:
            pl.DataFrame(columns).write_parquet(file)
    with atomic_write(folder / _META) as file:
        file.write(json.dumps({"sampling": campaign.sampling, "version": 1}).encode() + b"\n")
    return [*written, folder / _META]


def read_campaign(directory: str | os.PathLike[str], graph: Graph) -> LoggedCampaign:
    """Read what `write_campaign` wrote, or tables of the same columns.

    Rounds are numbered 0..T-1. Within a round, contacts and responses keep the order of their file.

    Examples
    --------
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> graph = Graph.from_edges([0, 1], [2, 2])
    >>> paths = write_campaign(LoggedCampaign.from_rounds(graph, [told, told]), "kept")
    >>> read_campaign("kept", graph).n_rounds
    2
    """
    folder = check_path("directory", directory)
    check_graph(graph)
    tables = {name: _table(folder / f"{name}.parquet", columns) for name, columns in _COLUMNS.items()}
    order = tables["rounds"].sort("round")
    rounds = order.height
    if order["round"].to_list() != list(range(rounds)):
        raise FileFormatError(f"{folder / 'rounds.parquet'} must number its rounds 0..{rounds - 1}, each once.")
    told, contacted = (tables[name].sort("round", maintain_order=True) for name in ("responses", "contacts"))
    offered = tables["propensities"]
    designs = int(offered["design"].max() or 0) + 1 if offered.height else 1  # type: ignore[arg-type]
    propensities = np.zeros((designs, graph.n_nodes))
    propensities[offered["design"].to_numpy(), graph.rows(_ids(offered["user"]))] = offered["propensity"].to_numpy()
    products: Any = order["product"].to_list()
    return LoggedCampaign(
        graph,
        products,
        graph.rows(_ids(contacted["user"])),
        _counted(contacted["round"], rounds, "contacts"),
        graph.edge_rows(_ids(told["source"]), _ids(told["target"])),
        told["outcome"].to_numpy(),
        _counted(told["round"], rounds, "responses"),
        propensities,
        order["design"].to_numpy(),
        _sampling(folder / _META),
    )


def _table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(
            f"cannot read {shown_path(path)}: {error}. A logged campaign needs it as Parquet."
        ) from error
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise FileFormatError(
            f"{shown_path(path)} lacks the columns {', '.join(missing)}; it has {', '.join(frame.columns)}."
        )
    holes = [name for name in columns if frame[name].null_count()]
    if holes:
        raise FileFormatError(f"{shown_path(path)} has empty cells in {', '.join(holes)}. Fill or drop those rows.")
    return frame.select(columns)


def _ids(column: pl.Series) -> Any:
    import polars as pl

    return column.to_list() if column.dtype == pl.String else column.to_numpy()


def _counted(rounds: pl.Series, count: int, name: str) -> I64:
    numbers = rounds.to_numpy().astype(np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise FileFormatError(f"{name} names round {int(numbers.max())}, but rounds has only 0..{count - 1}.")
    return _offsets(np.bincount(numbers, minlength=count))


def _sampling(path: Path) -> Sampling:
    if not path.exists():
        return "unknown"
    try:
        value: Sampling = json.loads(path.read_text(encoding="utf-8"))["sampling"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path} is not a campaign's description ({error!r}). Write it again.") from error
    return value


def bandit_feedback(log: LoggedCampaign) -> dict[str, Any]:
    """A log as the dictionary that the Open Bandit Pipeline calls bandit feedback, one row for each contact.

    A row's ``context`` is the product's features, its ``action`` the row of the contacted user in the graph, its
    ``reward`` the number of followers who responded, and its ``pscore`` the probability of contacting that user in that
    round. That library thinks of one action at a time; a round here contacts several users, so ``round`` says which
    rows belong together, for errors clustered by round.

    Examples
    --------
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> found = bandit_feedback(LoggedCampaign.from_rounds(Graph.from_edges([0, 1], [2, 2]), [told, told]))
    >>> found["n_rounds"], found["action"].tolist(), found["reward"].tolist(), found["pscore"].tolist()
    (2, [0, 0], [1.0, 1.0], [0.5, 0.5])
    """
    check_instance("log", log, LoggedCampaign, "a LoggedCampaign")
    n = log.graph.n_nodes
    rounds = np.repeat(np.arange(log.n_rounds), np.diff(log.contact_offsets))
    observed = np.repeat(np.arange(log.n_rounds), np.diff(log.edge_offsets))
    # The contact through which each response came; further on in a cascade there is none.
    contacts, sources = rounds * n + log.contacts, observed * n + log.graph.sources[log.edges]
    order = np.argsort(contacts)
    places = order[np.minimum(np.searchsorted(contacts, sources, sorter=order), order.size - 1)]
    direct = contacts[places] == sources
    return {
        "n_rounds": int(rounds.size),
        "n_actions": n,
        "context": log.products[rounds],
        "action_context": None,
        "action": log.contacts.copy(),
        "position": np.zeros(rounds.size, dtype=np.int64),
        "reward": np.bincount(places[direct], weights=log.outcomes[direct], minlength=rounds.size),
        "pscore": log.propensities[log.design[rounds], log.contacts],
        "round": rounds,
    }
