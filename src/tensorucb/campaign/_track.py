"""The track record of a campaign's forecasts: what closed rounds were expected to bring, and what they brought."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._forecast import Forecast, Outcome
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._world import World
from tensorucb.store._protocol import EdgeResponses, NodeEvents, RoundRecord, Session

__all__ = ["Past", "TrackRecord", "product_label", "responders"]

# Rounds looked back on, so that an ask does not take longer as a campaign grows older.
_WINDOW = 200


@dataclass(frozen=True)
class Past:
    """The last rounds: outcomes of those with a forecast, oldest first, and keys of the users contacted in any."""

    outcomes: tuple[Outcome, ...] = ()
    contacted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def product_label(vectors: Any) -> str:
    """What tells products apart: their features, however they were given."""
    return json.dumps(vectors)


def responders(world: World, record: RoundRecord, told: EdgeResponses, acted: NodeEvents) -> int:
    """How many users responded to a round: the number that `Reach` forecasts.

    Distinct followers of the contacted users, not contacted themselves, of whom an edge outcome of 1 was told or who
    acted within the window.
    """
    graph, payload = world.graph, record.payload
    contacted = world.rows(payload["contacted"])
    responded = np.zeros(graph.n_nodes, dtype=np.bool_)
    responded[world.rows(told.targets[told.outcomes > 0.0])] = True
    if acted.users.size:
        edges = graph.out_edges(np.sort(contacted))
        follows = np.zeros(graph.n_nodes, dtype=np.bool_)
        follows[graph.targets[edges[world.born[edges] <= record.number]]] = True
        end = np.inf if payload["window"] is None else record.opened + payload["window"]
        rows = world.rows(acted.users[(acted.times >= record.opened) & (acted.times <= end)])
        responded[rows[follows[rows]]] = True
    responded[contacted] = False
    return int(np.count_nonzero(responded))


class TrackRecord:
    """Counts the responders of closed rounds, each once as long as nothing new is told about it."""

    def __init__(self) -> None:
        self._counted: dict[tuple[int, int, int], Outcome] = {}

    def past(self, session: Session, ledger: Ledger, world: World) -> Past:
        """The last rounds as the log has them now."""
        last = ledger.next_number()
        numbered = (ledger.rounds.get(number) for number in range(max(1, last - _WINDOW), last))
        closed = [record for record in numbered if record is not None and record.status == "closed"]
        counted = {}
        for record in closed:
            if record.payload.get("forecast") is not None:
                key = (record.number, record.revision, world.revision)
                counted[key] = self._counted.get(key) or self._count(session, ledger.campaign, world, record)
        self._counted = counted
        keys = [key for record in closed for key in record.payload["contacted"]]
        return Past(tuple(counted.values()), np.unique(np.array(keys, dtype=np.int64)))

    def _count(self, session: Session, campaign: int, world: World, record: RoundRecord) -> Outcome:
        told = session.edge_responses(campaign, record.number)
        acted = session.node_events(campaign, record.number)
        payload, count = record.payload, responders(world, record, told, acted)
        shown = payload["reach"]
        ours = payload["kind"] == "ask" and payload["objective"] == "direct"
        covered = shown["low"] <= count <= shown["high"] if ours else None
        return Outcome(Forecast(**payload["forecast"]), product_label(payload["product"]["vectors"]), count, covered)
