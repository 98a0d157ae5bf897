"""What contacting people changes: followers of contacted users against followers of those held out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from tensorucb.errors import StateError

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign

__all__ = ["Lift", "lift"]

_LEVEL = 0.9


@dataclass(frozen=True)
class Lift:
    """Response rates of followers over all rounds with a hold-out that are not cancelled.

    A follower responds by a node event within the round's window. Those who follow both a contacted and a held-out
    user, or were chosen themselves, are left out. Node events are needed: edge responses tell nothing about the
    followers of a user who was not contacted.

    Attributes
    ----------
    contacted_rate, held_out_rate
        Share of the followers who acted.
    contacted_followers, held_out_followers
        How many followers these shares are of, counted once a round.
    difference
        ``contacted_rate - held_out_rate``.
    low, high
        Ends of its normal interval at ``level``.
    """

    contacted_rate: float
    held_out_rate: float
    contacted_followers: int
    held_out_followers: int
    difference: float
    low: float
    high: float
    level: float = _LEVEL


def lift(campaign: Campaign) -> Lift:
    """Compare response rates of followers of contacted and of held-out users."""
    totals = np.zeros((2, 2))  # contacted or held out; followers, responders
    heard = 0
    with campaign._lock, campaign.store.read() as session:
        world = campaign._current(session)
        graph = world.graph
        rounds = [r for r in campaign._ledger.rounds.values() if r.payload["holdout"] and r.status != "cancelled"]
        for record in rounds:
            payload = record.payload
            events = session.node_events(campaign._record.campaign, record.number)
            end = np.inf if payload["window"] is None else record.opened + payload["window"]
            inside = (events.times >= record.opened) & (events.times <= end)
            heard += events.users.size
            acted = np.zeros(graph.n_nodes, dtype=np.bool_)
            acted[world.rows(events.users[inside])] = True
            arms = np.zeros((2, graph.n_nodes), dtype=np.bool_)
            for arm, keys in enumerate((payload["contacted"], payload["holdout"])):
                arms[arm, graph.targets[graph.out_edges(world.rows(keys))]] = True
            arms[:, world.rows(payload["seeds"])] = False
            clear = arms & ~(arms[0] & arms[1])
            totals[:, 0] += clear.sum(axis=1)
            totals[:, 1] += (clear & acted).sum(axis=1)
    if not rounds:
        raise StateError("no round has a hold-out; open rounds with ask(…, holdout=0.2) to measure the lift.")
    if heard == 0:
        raise StateError(
            "the lift needs node events (user, time) of the followers of contacted and held-out users; none were told. "
            "Edge responses say nothing about those who were held out."
        )
    if (totals[:, 0] == 0).any():
        raise StateError("one of the groups has no followers of its own yet, so there is nothing to compare.")
    rates = totals[:, 1] / totals[:, 0]
    half = NormalDist().inv_cdf((1 + _LEVEL) / 2) * float(np.sqrt((rates * (1 - rates) / totals[:, 0]).sum()))
    difference = float(rates[0] - rates[1])
    return Lift(
        float(rates[0]),
        float(rates[1]),
        int(totals[0, 0]),
        int(totals[1, 0]),
        difference,
        difference - half,
        difference + half,
    )
