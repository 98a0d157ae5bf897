"""The tables as queries name them, for SQLite and PostgreSQL alike.

The ``migrations`` create them, with their keys and indexes. Responses are clustered by (campaign, round), the way they
are read. There are no foreign keys, which would be checked again for each of a million responses; the session checks
the campaign once and removes its rows with it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

SCHEMA = "0004"
"""The newest revision under ``migrations/versions``; revisions are numbered, so that a newer schema is recognised."""

VERSION_TABLE = "tensorucb_schema"

metadata = sa.MetaData()

_INTEGER, _TEXT, _BYTES = sa.BigInteger(), sa.Text(), sa.LargeBinary()
_REAL: sa.Double[float] = sa.Double()


def _table(name: str, /, **columns: sa.types.TypeEngine[Any]) -> sa.Table:
    """A table whose rows belong to a campaign."""
    return _free(name, campaign=_INTEGER, **columns)


def _free(name: str, /, **columns: sa.types.TypeEngine[Any]) -> sa.Table:
    return sa.Table(f"tensorucb_{name}", metadata, *(sa.Column(key, kind) for key, kind in columns.items()))


campaign = _table("campaign", name=_TEXT, settings=_TEXT, created=_REAL)
blob = _table("blob", name=_TEXT, data=_BYTES)
# An id is an integer or a text, and comes back as what it was.
user = _table("user", user_key=_INTEGER, id_integer=_INTEGER, id_text=_TEXT)
event = _table("event", seq=_INTEGER, kind=_TEXT, round=_INTEGER, payload=_TEXT, created=_REAL)
round_ = _table(
    "round",
    number=_INTEGER,
    id=_TEXT,
    status=_TEXT,
    opened=_REAL,
    deadline=_REAL,
    closed=_REAL,
    revision=_INTEGER,
    request_id=_TEXT,
    payload=_TEXT,
)
edge_response = _table(
    "edge_response",
    round=_INTEGER,
    source=_INTEGER,
    target=_INTEGER,
    outcome=_REAL,
    time=_REAL,
    event_id=_TEXT,
    seq=_INTEGER,
)
node_event = _table("node_event", round=_INTEGER, user_key=_INTEGER, time=_REAL, event_id=_TEXT, seq=_INTEGER)
# How many rows there are in a group that is read together, and the sum of their hashes; `_checksum` says why.
checksum = _table("checksum", part=_TEXT, number=_INTEGER, rows=_INTEGER, sum=_INTEGER)
# What the service answered, for the caller who asks again with the same key; it may quote users, so it goes with them.
answer = _table("answer", key=_TEXT, request=_TEXT, status=_INTEGER, body=_TEXT, created=_REAL, hash=_INTEGER)
token = _free("token", name=_TEXT, role=_TEXT, hash=_TEXT, created=_REAL)
secret = _free("secret", name=_TEXT, value=_TEXT)
# Logins that somebody has ended before their time.
logout = _free("logout", login=_TEXT, ends=_REAL)

OWNED = (checksum, blob, user, event, round_, edge_response, node_event, answer)
"""The tables whose rows belong to a campaign."""
