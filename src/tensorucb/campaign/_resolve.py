"""Responses resolved: each row's users as graph rows, and its edge number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorucb.arrays import I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import SHOWN, Batch, Part
from tensorucb.checks import (
    plain,
    shown,
)
from tensorucb.errors import UnknownIdError, argument, call


@dataclass(frozen=True)
class Resolved:
    """A checked batch by graph rows and edge numbers, valid for one revision of the network.

    ``sources``, ``targets`` and ``numbers`` belong to ``edges``, ``users`` to ``nodes``. Rows that name somebody or an
    edge that is not in the network are left out; ``unknown`` counts them.
    """

    revision: int
    edges: Part
    nodes: Part
    sources: I64
    targets: I64
    numbers: I64
    users: I64
    unknown: int = 0

    def take(self, edges: I64, nodes: I64) -> Resolved:
        """Some of the rows, by their places."""
        ends = self.sources[edges], self.targets[edges], self.numbers[edges]
        return Resolved(self.revision, self.edges.take(edges), self.nodes.take(nodes), *ends, self.users[nodes])


def resolve(network: Network, batch: Batch, unknown: str) -> Resolved:
    """Look up all users and edges; rows with strangers are refused or left out, as ``unknown`` says."""
    edges, nodes = batch.edges, batch.nodes
    s, t = (
        network.find(column, edges.rows, name, text=batch.text)
        for name, column in zip(("source", "target"), edges.ids, strict=True)
    )
    u = network.find(nodes.ids[0], nodes.rows, "user", text=batch.text)
    numbers, both = np.full(s.size, -1, dtype=np.int64), (s >= 0) & (t >= 0)
    numbers[both] = network.graph.edge_between(s[both], t[both])
    held, acted = np.flatnonzero(numbers >= 0), np.flatnonzero(u >= 0)
    strangers = int(s.size - held.size + u.size - acted.size)
    if strangers and unknown == "refuse":
        raise _refusal(batch, s, t, numbers, u)
    return Resolved(
        network.revision, edges.take(held), nodes.take(acted), s[held], t[held], numbers[held], u[acted], strangers
    )


def _refusal(batch: Batch, s: I64, t: I64, numbers: I64, u: I64) -> UnknownIdError:
    """Say how many rows name strangers, which are the first, and what to do."""
    edges, nodes = batch.edges, batch.nodes
    sources, targets = edges.ids
    people: list[tuple[int, str]] = []
    strangers = []
    columns = ("user", nodes.ids[0], nodes.rows, u), ("source", sources, edges.rows, s)
    for name, column, rows, found in (*columns, ("target", targets, edges.rows, t)):
        at = np.flatnonzero(found < 0)
        strangers.append(rows[at])
        people += [(int(rows[i]), f"{name} {_id(column, i)}") for i in at[:SHOWN].tolist()]
    lost = np.flatnonzero((s >= 0) & (t >= 0) & (numbers < 0))
    pairs = [(int(edges.rows[i]), f"{_id(sources, i)} -> {_id(targets, i)}") for i in lost[:SHOWN].tolist()]
    kinds = (people, np.unique(np.concatenate(strangers)).size, "somebody who"), (pairs, lost.size, "an edge that")
    said = "; ".join(_said(first, count, what, batch.length) for first, count, what in kinds if count)
    return UnknownIdError(
        f"{said}. Nothing was stored.",
        advice=(
            "Add them to the network with ",
            call("add_users"),
            ", or leave these rows out with ",
            argument("unknown", "skip"),
            ".",
        ),
    )


def _id(column: Any, at: int) -> str:
    return shown(plain(column[at]), 40)


def _said(first: list[tuple[int, str]], count: int, what: str, total: int) -> str:
    named = [f"{text} (row {row + 1})" for row, text in sorted(first)[:SHOWN]]
    more = f" and {count - SHOWN:,} more rows" if count > SHOWN else ""
    verb = "row names" if total == 1 else "rows names" if count == 1 else "rows name"
    return f"{count:,} of {total:,} {verb} {what} is not in the network: {', '.join(named)}{more}"
