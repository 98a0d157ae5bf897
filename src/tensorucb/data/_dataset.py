"""`Dataset`: a network and the log of who acted on which item; its checksum, its figures, the paper's preparation."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.checks import check_count, check_flag, check_instance, check_rows, check_text, shown
from tensorucb.errors import InputError, ShapeError, argument
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.graph._ids import id_array
from tensorucb.moments import Duration, check_times, duration
from tensorucb.reports import Report
from tensorucb.rng import RngLike, as_generator

# Exposures that `describe` can count in a second or so.
_CHEAP = 50_000_000


@dataclass(frozen=True, eq=False)
class ActionLog:
    """Actions (votes, ratings, purchases), sorted by item, then time, then user; one per user and item.

    Build it with :meth:`from_arrays`, which sorts and checks.

    Parameters
    ----------
    users, items
        Row of the graph's node that acted, and number of the item acted on, an index into ``item_ids``.
    times
        When, in seconds (whole numbers stay int64, otherwise float64); `from_arrays` also takes datetimes.
    item_ids
        The caller's id of each item.

    Examples
    --------
    >>> log = ActionLog.from_arrays(users=[2, 0, 2], items=[1, 0, 1], times=[30, 10, 20], item_ids=["tea", "cocoa"])
    >>> log.users.tolist(), log.times.tolist()  # user 2 acted on cocoa twice: the earlier action counts
    ([0, 2], [10, 20])
    """

    users: I32
    items: I32
    times: I64 | F64
    item_ids: NDArray[Any]

    @classmethod
    def from_arrays(cls, users: ArrayLike, items: ArrayLike, times: ArrayLike, item_ids: ArrayLike) -> ActionLog:
        """A log from arrays in any order; of a repeated user and item the earliest is kept."""
        ids = id_array(item_ids, "item_ids")
        user_rows = check_rows("users", users, 2**31 - 1, hint="They are rows of the graph.")
        item_numbers = check_rows("items", items, ids.size, hint="They are indices into item_ids.")
        moments = check_times("times", times)
        if not user_rows.shape == item_numbers.shape == moments.shape:
            raise ShapeError(
                "users, items and times must be of one length; "
                f"got {user_rows.shape}, {item_numbers.shape} and {moments.shape}."
            )
        order = np.lexsort((user_rows, moments, item_numbers))
        user_rows, item_numbers = user_rows[order], item_numbers[order]
        keys = item_numbers * (int(user_rows.max(initial=0)) + 1) + user_rows
        first = np.sort(np.unique(keys, return_index=True)[1])
        return cls(user_rows[first].astype(np.int32), item_numbers[first].astype(np.int32), moments[order][first], ids)

    @classmethod
    def empty(cls) -> ActionLog:
        """A log without actions, for data sets that are a graph alone."""
        return cls.from_arrays([], [], np.empty(0, dtype=np.int64), [])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.users.size)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.item_ids.size)

    @cached_property
    def item_offsets(self) -> I64:
        """Actions ``item_offsets[i]:item_offsets[i + 1]`` are on item ``i``, in the order of time."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.items, minlength=self.n_items))]).astype(np.int64)

    def __repr__(self) -> str:
        users = np.unique(self.users).size
        return f"ActionLog({self.n_actions:,} actions of {users:,} users on {self.n_items:,} items)"

    def interactions(self, n_nodes: int) -> I64:
        """Number of actions of each of ``n_nodes`` users."""
        n_nodes = check_count("n_nodes", n_nodes, int(self.users.max(initial=-1)) + 1, 2**31 - 1)
        return np.bincount(self.users, minlength=n_nodes).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A network and the log of its users' actions.

    Parameters
    ----------
    graph, log
        The users, and for each the users that they can influence; and who acted on what, and when. The log's users are
        rows of ``graph``. It is empty where there is no log.
    window
        How long after another an action counts as an activation: a timedelta, or a text such as ``"7d"``, kept as a
        timedelta; ``None`` for any time after (Section "Datasets" of the paper: 7 days for Flixster, none for Digg).
    report
        What was read, what was left out, and why.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> data = generate_dataset("sandbox", scale=0.05)
    >>> data.name, str(data.window), data.log.n_items > 0
    ('sandbox', '0:00:01', True)
    """

    graph: Graph
    log: ActionLog
    name: str = "data"
    window: Duration | None = None
    report: Report = field(default_factory=Report)

    def __post_init__(self) -> None:
        check_graph(self.graph)
        check_instance("log", self.log, ActionLog, "an ActionLog", "ActionLog.from_arrays makes one.")
        self.log.interactions(self.graph.n_nodes)  # refuses a log with more users than the graph
        check_text("name", self.name)
        if self.window is not None:
            # Past the frozen dataclass: a text is kept as a timedelta.
            object.__setattr__(self, "window", timedelta(seconds=duration("window", self.window)))
        check_instance("report", self.report, Report, "a Report")

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.graph.n_nodes:,} users, {self.graph.n_edges:,} edges, "
            f"{self.log.n_items:,} items, {self.log.n_actions:,} actions)"
        )

    @property
    def window_seconds(self) -> float | None:
        """The window in seconds, as the log counts."""
        return None if self.window is None else duration("window", self.window)


def check_dataset(dataset: Any) -> Dataset:
    """A `Dataset`."""
    hint = "read_dataset and generate_dataset make one."
    return check_instance("dataset", dataset, Dataset, "a Dataset", hint)


def _fingerprint(array: NDArray[Any]) -> bytes:
    """Bytes of an array that do not depend on the machine, on the width of its strings, or on the kind of object."""
    if array.dtype.kind in "iu":
        return b"i" + np.ascontiguousarray(array, dtype="<i8").tobytes()
    if array.dtype.kind == "f":
        return b"f" + np.ascontiguousarray(array, dtype="<f8").tobytes()
    return b"s" + b"".join(len(word).to_bytes(4, "little") + word for word in (str(v).encode() for v in array.tolist()))


def checksum(dataset: Dataset) -> str:
    """SHA-256 of the content, for manifests and as a key of caches: 64 hexadecimal digits, the same on every machine.

    Network, ids, log and window count. The name, the report and the order of the files' rows do not.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> len(checksum(generate_dataset("sandbox", scale=0.05)))
    64
    """
    graph, log = check_dataset(dataset).graph, dataset.log
    digest = hashlib.sha256(f"tensorucb dataset 1, window {dataset.window_seconds!r}".encode())
    for array in (graph.ids, graph.sources, graph.targets, log.item_ids, log.users, log.items, log.times):
        data = _fingerprint(np.asarray(array))
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Description:
    """Figures of a data set (Table 2 of the paper: the first five).

    ``exposures`` counts pairs of an edge and an item where the source acted, ``trials`` those where the target had
    not acted before, and ``activations`` those where the target then acted, within the window if there is one. The
    last two are ``None`` where counting would take long.
    """

    n_users: int
    n_edges: int
    out_degree_50: float
    out_degree_90: float
    out_degree_99: float
    out_degree_max: int
    n_products: int
    n_actions: int
    n_acting_users: int
    window: float | None
    exposures: int
    trials: int | None
    activations: int | None

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON-ready values."""
        return asdict(self)


def _trials_and_activations(dataset: Dataset) -> tuple[int, int]:
    graph, log = dataset.graph, dataset.log
    acted = np.full(graph.n_nodes, np.inf)
    horizon = np.inf if dataset.window_seconds is None else dataset.window_seconds
    trials = activations = 0
    for start, stop in zip(log.item_offsets[:-1], log.item_offsets[1:], strict=True):
        users, times = log.users[start:stop], log.times[start:stop].astype(np.float64)
        acted[users] = times
        lag = acted[graph.targets[graph.out_edges(users)]] - np.repeat(times, graph.out_degree[users])
        trials += int((lag >= 0).sum())
        activations += int(((lag > 0) & (lag <= horizon) & np.isfinite(lag)).sum())
        acted[users] = np.inf
    return trials, activations


def describe(dataset: Dataset) -> Description:
    """The figures of a data set; percentiles of the out-degree are over all users, interpolated.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> describe(generate_dataset("sandbox", scale=0.05)).n_edges
    250
    """
    graph, log = check_dataset(dataset).graph, dataset.log
    degree = graph.out_degree
    p50, p90, p99 = (float(value) for value in np.percentile(degree, [50, 90, 99]))
    exposures = int(degree[log.users].sum())
    trials, activations = _trials_and_activations(dataset) if exposures <= _CHEAP else (None, None)
    network = (graph.n_nodes, graph.n_edges, p50, p90, p99, int(degree.max()))
    actions = (log.n_items, log.n_actions, int(np.unique(log.users).size), dataset.window_seconds)
    return Description(*network, *actions, exposures, trials, activations)


def prepare(
    dataset: Dataset,
    *,
    min_interactions: int = 50,
    drop_isolated: bool = True,
    window: Duration | None = "keep",
    n_products: int | None = None,
    rng: RngLike = None,
) -> Dataset:
    """Drop users with few interactions and isolated users, and sample products, as the paper does (Section "Datasets").

    Users are judged on the whole log, before products are drawn. The steps are added to the report.

    Parameters
    ----------
    min_interactions
        Users with fewer actions in the whole log are dropped, with their edges. 0 keeps everyone.
    drop_isolated
        Drop users that no edge joins to another user that is left.
    window
        The activation window (``"7d"`` or a timedelta), ``None`` for none, ``"keep"`` for the data set's own.
    n_products, rng
        Keep that many products, drawn at random from those with an action; ``None`` keeps all.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> data = generate_dataset("sandbox", scale=0.2)
    >>> prepare(data, min_interactions=0, n_products=4, rng=0).log.n_items
    4
    """
    graph, log = check_dataset(dataset).graph, dataset.log
    min_interactions = check_count("min_interactions", min_interactions, 0)
    drop_isolated = check_flag("drop_isolated", drop_isolated)
    chosen_window = dataset.window
    if not (isinstance(window, str) and window == "keep"):
        if window is not None:
            duration("window", window)
        chosen_window = window
    active = log.interactions(graph.n_nodes) >= min_interactions
    edges = active[graph.sources] & active[graph.targets]
    if not edges.any():
        raise InputError(
            f"no edge of {shown(dataset.name)} joins two users with {min_interactions} interactions or more.",
            advice=("Lower ", argument("min_interactions"), "."),
        )
    keep = active
    if drop_isolated:
        keep = np.zeros(graph.n_nodes, dtype=bool)
        keep[graph.sources[edges]] = keep[graph.targets[edges]] = True
    smaller = graph.subgraph(graph.ids[keep])
    items = np.unique(log.items[keep[log.users]])
    if n_products is not None:
        n_products = check_count("n_products", n_products, 1, items.size)
        items = np.sort(as_generator(rng).choice(items, n_products, replace=False))
    actions = keep[log.users] & np.isin(log.items, items)
    new_users = (np.cumsum(keep) - 1)[log.users[actions]].astype(np.int32)
    new_items = np.searchsorted(items, log.items[actions]).astype(np.int32)
    final_log = ActionLog(new_users, new_items, log.times[actions], log.item_ids[items])
    few = int((~active).sum())
    report = dataset.report.then(
        f"{few:,} users dropped: fewer than {min_interactions} interactions",
        f"{graph.n_nodes - few - smaller.n_nodes:,} users dropped: isolated",
        f"{graph.n_edges - smaller.n_edges:,} edges dropped with them",
        f"{log.n_items - final_log.n_items:,} items dropped: "
        + ("no action left" if n_products is None else f"no action left, or not among the {n_products} drawn"),
        f"{log.n_actions - final_log.n_actions:,} actions dropped with these users and items",
    )
    return Dataset(smaller, final_log, dataset.name, chosen_window, report)
