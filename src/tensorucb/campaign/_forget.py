"""Forgetting a person: out of the table of users, the network, every response, round, explanation and event.

A user is their graph row in all of these, so those behind the one who goes move up by one, everywhere in the same
transaction. The network then has another revision, and whoever holds rows of an older one reads them again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tensorucb.campaign._documents import put_kept
from tensorucb.campaign._explain import Evidence
from tensorucb.campaign._handle import ERASING, Handle, View
from tensorucb.campaign._history import UsedLog
from tensorucb.campaign._network import drop_user
from tensorucb.campaign._people import drop_yes
from tensorucb.checks import check_id
from tensorucb.errors import StoreError, UnknownIdError

_TELLING = 6  # bytes; shorter ids turn up in any file by chance
_SEARCH = """
import sys
texts = sys.stdin.buffer.read().split(bytes(1))
sys.exit(any(text in data for path in sys.argv[1:] for data in [open(path, "rb").read()] for text in texts))
"""


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
        Files searched for the bytes of the id, and of the name if the campaign knew one.
    bytes_absent
        Whether none of them holds the id or the name. None where that cannot be told: the id is a number, shorter than
        six bytes, or part of another user's id, or the store has no files of its own to read: a PostgreSQL server keeps
        old rows for sessions with an older view, a log and statistics.
    elsewhere
        Names of other campaigns in the same store that know a user of this id; they are left as they are.
    completed
        Whether the id was gone already, and this call only finished the purge of a :meth:`Campaign.forget` that had
        been interrupted or kept from the files by a reader. Opening the campaign again does so too.
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
        handle.memory.clear()
        handle.model = handle.fresh_model()
        try:
            handle.purge()
        except StoreError as error:
            raise StoreError(
                f"{user!r} is gone from the log and the model, but the store's files may still hold the id ({error}) "
                "Then open the campaign or forget the same id again: that finishes it."
            ) from error
        with handle.read() as view:  # of one moment, whatever others close meanwhile
            after, replay = handle.model_hash(), handle.replay_hash()
            ids = view.session.users(view.number)
            kept = [] if view.user_columns is None else [*view.user_columns.names]
            kept += [text for catalogue in view.catalogues() for text in catalogue.names.values()]
            # As text, since one file's 7 is another's "7".
            others = [other for other in view.session.campaigns() if other.campaign != view.number]
            users_by_campaign = {other.name: set(map(str, view.session.users(other.campaign))) for other in others}
    responses, rounds, name = removed or (0, 0, None)
    files, absent = _search(handle.store.url, user, ids, name, [text for text in kept if text is not None])
    proven = after == replay and user not in ids and absent is not False
    elsewhere = tuple(name for name, theirs in users_by_campaign.items() if str(user) in theirs)
    return ForgetReport(
        responses, rounds, before, after, replay, proven, files, absent, elsewhere, completed=removed is None
    )


def _erase(handle: Handle, user: int | str) -> tuple[int, int, str | None] | None:
    """Numbers of responses and rounds that named the user, and their name; None if only a purge is left to do."""
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
        drop_yes(view, user)
        name = view.name(row)
        return *_remove(view, row, now), name


def _remove(view: View, row: int, now: float) -> tuple[int, int]:
    session, number = view.session, view.number
    smaller = drop_user(view.network, row)
    responses = session.erase_user(number, row)
    view.put_network(smaller)
    for name, value in {"user_columns": view.user_columns, "used_log": view.kept("used_log", UsedLog)}.items():
        put_kept(session, number, name, None if value is None else value.without(row))
    touched = 0
    for record in view.ledger.rounds.values():
        touched += record.names(row)
        # On another network a round that could not be learned is tried again.
        view.put_round(replace(record.without(row), quarantined=None))
        data = session.explanation(number, record.number)
        if data is not None:
            session.put_explanation(number, record.number, Evidence.from_blob(data).without(row).to_blob())
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


def _tells(text: int | str | None, others: Iterable[object]) -> bool:
    """Whether a text in a file can only mean this person."""
    return isinstance(text, str) and len(text.encode()) >= _TELLING and not any(text in str(other) for other in others)


def _search(
    url: str, user: int | str, ids: Sequence[int | str], name: str | None, names: Sequence[str]
) -> tuple[tuple[str, ...], bool | None]:
    if not url.startswith("sqlite:///"):
        return (), None
    path = Path(url.removeprefix("sqlite:///")).resolve()
    files = [p for p in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if p.exists()]
    searched = tuple(str(p) for p in files)
    texts = [str(text) for text in (user, name) if _tells(text, [*ids, *names])]
    if not texts:
        return searched, None
    # By another process: closing a file of SQLite's ends all locks that this process has on it, and then others take
    # the store for unused and delete its log.
    wanted = "\0".join(texts).encode()
    absent = subprocess.run([sys.executable, "-I", "-c", _SEARCH, *searched], input=wanted).returncode == 0
    return searched, absent if user in texts or not absent else None
