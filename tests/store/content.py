"""Small campaigns for the tests, and all that a session shows of them; free of pytest, which children need not load."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

# private: a session of the store takes and gives these records
from tensorucb.store._protocol import EdgeResponses, NodeEvents, Preference, RoundRecord, TokenRecord

__all__ = ["ROUND", "Preference", "TokenRecord", "content", "edge_rows", "edges", "fill", "node_rows", "nodes"]

ROUND = RoundRecord(1, "r-1", "open", 10.5, None, None, 1, None, {"seeds": [1, 2]})


def edges(*rows):
    """Rows of (source, target, outcome, time, event id), possibly an amount, as columns, in the order given."""
    columns = _columns(rows, 6)
    return EdgeResponses(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
        np.array(columns[3], dtype=np.float64),
        list(columns[4]),
        np.array(columns[5], dtype=np.float64),
    )


def nodes(*rows):
    columns = _columns(rows, 4)
    times, amounts = (np.array(columns[at], dtype=np.float64) for at in (1, 3))
    return NodeEvents(np.array(columns[0], dtype=np.int64), times, list(columns[2]), amounts)


def _columns(rows, width):
    """Columns of rows; one that is a value short has no amount."""
    whole = [row if len(row) == width else (*row, math.nan) for row in rows]
    return list(zip(*whole, strict=True)) if whole else [[]] * width


def edge_rows(columns):
    times = [None if math.isnan(t) else t for t in columns.times.tolist()]
    return list(
        zip(
            columns.sources.tolist(),
            columns.targets.tolist(),
            columns.outcomes.tolist(),
            times,
            columns.event_ids,
            strict=True,
        )
    )


def node_rows(columns):
    times = [None if math.isnan(t) else t for t in columns.times.tolist()]
    return list(zip(columns.users.tolist(), times, columns.event_ids, strict=True))


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
                [edge_rows(session.edge_responses(number, at.number)) for at in rounds],
                [node_rows(session.node_events(number, at.number)) for at in rounds],
                [amounts(session, number, at.number) for at in rounds],
                [session.explanation(number, at.number) for at in rounds],
                session.preferences(number),
            )
        )
    return found


def amounts(session, number, at):
    """The amounts of a round's responses and node events; None where none was told."""
    told = session.edge_responses(number, at).amounts, session.node_events(number, at).amounts
    return [[None if math.isnan(amount) else amount for amount in column.tolist()] for column in told]


def fill(session, name="spring"):
    """A small campaign with something in every table; its number."""
    number = session.insert_campaign(name, {"policy": "tensor_ucb", "seed": 7}, 1.25).campaign
    session.put_blob(number, "graph", bytes(range(256)))
    session.put_blob(number, "snapshot/3", b"")
    session.add_users(number, [7, "7", "Zoë ✓", -(2**63)])
    seq = session.append_event(number, "ask", 1, {"k": 2, "seeds": [7, "7"]}, 10.5)
    session.put_round(number, replace(ROUND, request_id="ask-1", deadline=99.5))
    session.put_explanation(number, 1, b"why")
    session.add_responses(number, 1, edges((2, 1, 1, 11.5, "e-1", 9.99), (0, 3, 0, math.nan, None)), seq)
    session.add_responses(number, 1, nodes((3, 12.5, "n-1", 0.0), (3, math.nan, None)), seq)
    session.put_preferences(number, [Preference(5, "no", 12.0), Preference(2**63 - 1, "yes", 13.5)])
    session.append_event(number, "note", None, {}, 11.0)
    return number
