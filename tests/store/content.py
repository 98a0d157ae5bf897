"""Small campaigns for the tests, and all that a session shows of them; free of pytest, which children need not load."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

# private: a session of the store takes and gives these records
from tensorucb.store._protocol import NOBODY, Preference, Responses, RoundRecord, TokenRecord

__all__ = [
    "ROUND",
    "Preference",
    "Responses",
    "TokenRecord",
    "content",
    "edge_rows",
    "edges",
    "fill",
    "node_rows",
    "nodes",
    "told",
]

ROUND = RoundRecord(1, "r-1", "open", 10.5, None, None, 1, None, {"seeds": [1, 2]})


def edges(*rows):
    """Rows of (source, target, outcome, time, event id), possibly an amount, as columns, in the order given."""
    whole = [row if len(row) == 6 else (*row, math.nan) for row in rows]
    sources, targets, outcomes, times, event_ids, amounts = zip(*whole, strict=True) if whole else [()] * 6
    names = np.full(len(whole), None, dtype=object)
    names[:] = event_ids
    return Responses(
        np.array(sources, dtype=np.int64),
        np.array(targets, dtype=np.int64),
        np.array(outcomes, dtype=np.float64),
        np.array(times, dtype=np.float64),
        np.array(amounts, dtype=np.float64),
        names,
    )


def nodes(*rows):
    """Rows of (user, time, event id), possibly an amount."""
    return edges(*((NOBODY, user, 1.0, *rest) for user, *rest in rows))


def told(session, number, at, upto=None):
    """What a round was told, with event ids."""
    return session.responses(number, at, at, upto, event_ids=True)[at]


def edge_rows(columns):
    by_edge = columns.by_edge
    return [(*row, name) for row, name in zip(by_edge.contents, by_edge.event_ids, strict=True)]


def node_rows(columns):
    actions = columns.actions
    assert set(actions.outcomes) <= {1.0}
    return [(row[1], row[3], name) for row, name in zip(actions.contents, actions.event_ids, strict=True)]


def content(session):
    """All that a session shows, as plain values."""
    found = []
    for record in session.campaigns():
        number = record.campaign
        rounds = session.rounds(number)
        found.append(
            (
                record,
                [(name, session.blob(number, name)) for name in session.blobs(number)],
                session.users(number),
                session.events(number),
                rounds,
                [edge_rows(told(session, number, at.number)) for at in rounds],
                [node_rows(told(session, number, at.number)) for at in rounds],
                [amounts(session, number, at.number) for at in rounds],
                [session.explanation(number, at.number) for at in rounds],
                session.preferences(number),
            )
        )
    return found


def amounts(session, number, at):
    """The amounts of a round's responses and node events; None where none was told."""
    rows = told(session, number, at)
    columns = rows.by_edge.amounts, rows.actions.amounts
    return [[None if math.isnan(amount) else amount for amount in column.tolist()] for column in columns]


def fill(session, name="spring"):
    """A small campaign with something in every table; its number."""
    number = session.insert_campaign(name, {"policy": "tensor_ucb", "seed": 7}, 1.25).campaign
    session.put_blob(number, "graph", bytes(range(256)))
    session.put_blob(number, "snapshot/3", b"")
    session.add_users(number, [7, "7", "Zoë ✓", -(2**63)])
    seq = session.append_event(number, "ask", 1, {"k": 2, "seeds": [7, "7"]}, 10.5)
    session.put_round(number, replace(ROUND, request_id="ask-1", deadline=99.5))
    session.put_explanation(number, 1, b"why")
    by_edge = edges((2, 1, 1, 11.5, "e-1", 9.99), (0, 3, 0, math.nan, None))
    session.add_responses(
        number, 1, Responses.joined([by_edge, nodes((3, 12.5, "n-1", 0.0), (3, math.nan, None))]), seq
    )
    session.put_preferences(number, [Preference(5, "no", 12.0), Preference(2**63 - 1, "yes", 13.5)])
    session.append_event(number, "note", None, {}, 11.0)
    return number
