"""`Dataset`: a network and the log of its users' actions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_instance, check_text
from tensorucb.data._log import ActionLog
from tensorucb.data._report import Report
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_seconds


@dataclass(frozen=True, eq=False)
class Dataset:
    """A network and the log of its users' actions.

    Parameters
    ----------
    graph
        Who can influence whom.
    log
        Who acted on what, and when; users are rows of ``graph``. Empty where there is no log.
    name
        What to call the data in reports.
    window
        Seconds within which an action after another counts as an activation; ``None`` for any time after
        (Section "Datasets" of the paper: 7 days for Flixster, none for Digg).
    report
        What was read, what was left out, and why.
    """

    graph: Graph
    log: ActionLog
    name: str = "data"
    window: float | None = None
    report: Report = field(default_factory=Report)

    def __post_init__(self) -> None:
        check_graph(self.graph)
        check_instance("log", self.log, ActionLog, "an ActionLog", "ActionLog.from_arrays makes one.")
        self.log.interactions(self.graph.n_nodes)  # refuses a log with more users than the graph
        check_text("name", self.name)
        if self.window is not None:
            check_seconds("window", self.window)
        check_instance("report", self.report, Report, "a Report")

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.graph.n_nodes:,} users, {self.graph.n_edges:,} edges, "
            f"{self.log.n_items:,} items, {self.log.n_actions:,} actions)"
        )


def _fingerprint(array: NDArray[Any]) -> bytes:
    """Bytes of an array that do not depend on the machine, on the width of its strings, or on the kind of object."""
    if array.dtype.kind in "iu":
        return b"i" + np.ascontiguousarray(array, dtype="<i8").tobytes()
    if array.dtype.kind == "f":
        return b"f" + np.ascontiguousarray(array, dtype="<f8").tobytes()
    return b"s" + b"".join(len(word).to_bytes(4, "little") + word for word in (str(v).encode() for v in array.tolist()))


def checksum(dataset: Dataset) -> str:
    """SHA-256 of the content: network, ids, log and window. The name, the report and the files' order do not count.

    Parameters
    ----------
    dataset
        The data set.

    Returns
    -------
    str
        64 hexadecimal digits, the same on every machine; for manifests and as a key of caches.
    """
    check_instance("dataset", dataset, Dataset, "a Dataset")
    graph, log = dataset.graph, dataset.log
    window = None if dataset.window is None else float(dataset.window)
    digest = hashlib.sha256(f"tensorucb dataset 1, window {window!r}".encode())
    for array in (graph.ids, graph.sources, graph.targets, log.item_ids, log.users, log.items, log.times):
        data = _fingerprint(np.asarray(array))
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
