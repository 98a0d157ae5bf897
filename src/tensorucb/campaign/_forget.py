"""Forgetting a person: out of the table of users, the network, every response, round, explanation and event.

A user is their graph row in all of these, so those behind the one who goes move up by one, everywhere in the same
transaction. The network then has another revision, and whoever holds rows of an older one reads them again.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tensorucb.campaign._explain import Evidence
from tensorucb.campaign._handle import ERASING, Handle, View
from tensorucb.campaign._history import put_used_log, used_log
from tensorucb.campaign._network import drop_user
from tensorucb.checks import check_id
from tensorucb.errors import StoreError, UnknownIdError

_TELLING = 6  # bytes; shorter ids turn up in any file by chance
_SEARCH = "import sys; x = sys.stdin.buffer.read(); sys.exit(any(x in open(p, 'rb').read() for p in sys.argv[1:]))"


@dataclass(frozen=True)
class ForgetReport:
    """What was removed, and the proof.

    Attributes
    ----------
    responses
        Responses that named the user, now gone.
    rounds
        Rounds that had chosen or contacted the user.
    model_before, model_after
        Hash of the model before, and after learning again from what remains.
    replay
        Hash of a second model, learned independently from the whole remaining log.
    proven
        Whether ``replay`` equals ``model_after``, no row of the campaign's table of users holds the id, and no searched
        file does (``bytes_absent`` is not False). Where ``bytes_absent`` is None, as always on PostgreSQL, this is a
        proof of the model and of the live rows alone.
    files
        Files searched for the id's bytes.
    bytes_absent
        Whether none of them holds the id. None where that cannot be told: the id is a number, shorter than six bytes,
        or part of another user's id, or the store has no files of its own to read: a PostgreSQL server keeps old rows
        for sessions with an older view, a log and statistics.
    elsewhere
        Names of other campaigns in the same store that know a user of this id; they are left as they are.
    completed
        Whether the id was gone already, and this call only finished the purge of a :meth:`Campaign.forget` that had
        been interrupted or kept from the files by a reader. Opening the campaign again does so too.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="memory://")
    >>> report = campaign.forget("cid")
    >>> report.proven, campaign.graph.ids.tolist()
    (True, ['ann', 'bob'])
    """

    responses: int
    rounds: int
    model_before: str
    model_after: str
    replay: str
    proven: bool
    files: tuple[str, ...]
    bytes_absent: bool | None
    elsewhere: tuple[str, ...] = ()
    completed: bool = False


def forget(handle: Handle, user: int | str) -> ForgetReport:
    """Remove a person from the log and the model, and prove it by replay."""
    user = check_id("user", user)
    with handle.lock:
        before = handle.model_hash()
        removed = _erase(handle, user)
        handle.network, handle.model = None, handle.fresh_model()
        try:
            handle.purge()
        except StoreError as error:
            raise StoreError(
                f"{user!r} is gone from the log and the model, but the store's files may still hold the id ({error}) "
                "Then open the campaign or forget the same id again: that finishes it."
            ) from error
        with handle.read() as view:  # of one moment, whatever others close meanwhile
            after, replay = handle.model_hash(), handle.replay_hash()
            ids = view.session.users(view.number)[1]
            # As text, since one file's 7 is another's "7".
            others = [other for other in view.session.campaigns() if other.campaign != view.number]
            known = {other.name: set(map(str, view.session.users(other.campaign)[1])) for other in others}
    files, absent = _search(handle.store.url, user, ids)
    proven = after == replay and user not in ids and absent is not False
    elsewhere = tuple(name for name, theirs in known.items() if str(user) in theirs)
    return ForgetReport(*(removed or (0, 0)), before, after, replay, proven, files, absent, elsewhere, removed is None)


def _erase(handle: Handle, user: int | str) -> tuple[int, int] | None:
    """Numbers of responses and rounds that named the user; None if only a purge is left to do."""
    now = handle.clock()
    with handle.write(now) as view:
        network = view.network
        try:
            row = int(network.rows("user", [user])[0])
        except UnknownIdError:
            if not view.session.blobs(view.number, ERASING):
                raise
            return None
        # In the same transaction, so that after a crash the next process sees that the files still hold somebody.
        view.session.put_blob(view.number, f"{ERASING}{network.revision:08d}", b"")
        return _remove(view, row, now)


def _remove(view: View, row: int, now: float) -> tuple[int, int]:
    session, number = view.session, view.number
    smaller = drop_user(view.network, row)
    responses = session.erase_user(number, row)
    view.put_network(smaller)
    used = used_log(session, number)
    if used is not None:
        put_used_log(session, number, used.without(row))
    touched = 0
    for record in view.ledger.rounds.values():
        touched += record.names(row)
        # On another network a round that could not be learned is tried again.
        view.put_round(replace(record.without(row), quarantined=None))
    for name in session.blobs(number, "explain-"):
        evidence = Evidence.from_blob(session.blob(number, name) or b"")
        session.put_blob(number, name, evidence.without(row).to_blob())
    for event in session.events(number):
        if event.kind == "contradiction":
            items = [item for item in event.payload["items"] if row not in item["users"]]
            moved = [{**item, "users": [user - (user > row) for user in item["users"]]} for item in items]
            session.replace_event_payload(number, event.seq, {**event.payload, "items": moved})
        elif event.kind == "quarantined":
            # The reason is a policy's error message, which may name anybody.
            session.replace_event_payload(number, event.seq, {**event.payload, "reason": ""})
    payload = {"responses": responses, "rounds": touched, "world": smaller.revision}
    view.append("forgotten", None, payload, now)
    return responses, touched


def _search(url: str, user: int | str, ids: list[int | str]) -> tuple[tuple[str, ...], bool | None]:
    if not url.startswith("sqlite:///"):
        return (), None
    path = Path(url.removeprefix("sqlite:///")).resolve()
    files = [p for p in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if p.exists()]
    names = tuple(str(p) for p in files)
    if not isinstance(user, str) or len(user.encode()) < _TELLING or any(user in str(other) for other in ids):
        return names, None
    # By another process: closing a file of SQLite's ends all locks that this process has on it, and then others take
    # the store for unused and delete its log.
    search = subprocess.run([sys.executable, "-I", "-c", _SEARCH, *names], input=user.encode())
    return names, search.returncode == 0
