"""Forgetting a person: out of the table of users, the network, every response, round, explanation and event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb.campaign._core import ERASING
from tensorucb.campaign._explain import Evidence
from tensorucb.campaign._world import World, drop_user
from tensorucb.checks import check_id
from tensorucb.errors import StoreError, UnknownIdError
from tensorucb.store._protocol import RoundRecord, Session

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign

__all__ = ["ForgetReport", "forget"]

_TELLING = 6  # bytes; shorter ids turn up in any file by chance


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


def forget(campaign: Campaign, user: int | str) -> ForgetReport:
    """Remove a person from the log and the model, and prove it by replay."""
    user = check_id("user", user)
    with campaign._lock:
        before = campaign.model_hash()
        removed = _erase(campaign, user)
        campaign._world, campaign._model = None, campaign._fresh_model()
        _purge(campaign, user)
        after, replay = campaign.model_hash(), campaign.replay_hash()
        with campaign.store.read() as session:
            ids = session.users(campaign._record.campaign)[1]
            elsewhere = _elsewhere(session, campaign._record.campaign, user)
    files, absent = _search(campaign.store.url, user, ids)
    proven = after == replay and user not in ids and absent is not False
    counts = (0, 0) if removed is None else removed
    return ForgetReport(*counts, before, after, replay, proven, files, absent, elsewhere, removed is None)


def _erase(campaign: Campaign, user: int | str) -> tuple[int, int] | None:
    """Numbers of responses and rounds that named the user; None if only a purge is left to do."""
    number = campaign._record.campaign
    with campaign.store.write() as session:
        world = campaign._current(session)
        try:
            row = int(world.graph.rows([user])[0])
        except UnknownIdError:
            if not session.blobs(number, ERASING):
                raise
            return None
        # In the same transaction: whoever comes after a crash can see that the files still hold somebody.
        session.put_blob(number, f"{ERASING}{world.revision:08d}", b"")
        return _remove(campaign, session, world, row)


def _purge(campaign: Campaign, user: int | str) -> None:
    number = campaign._record.campaign
    with campaign.store.read() as session:
        # Only these: somebody else may forget while this purge runs, and their mark must outlive it.
        marks = session.blobs(number, ERASING)
    try:
        campaign.store.purge()
    except StoreError as error:
        raise StoreError(
            f"{user!r} is gone from the log and the model, but the store's files may still hold the id ({error}) "
            "Then open the campaign or forget the same id again: that finishes it."
        ) from error
    with campaign.store.write() as session:
        session.delete_blobs(number, marks)


def _elsewhere(session: Session, number: int, user: int | str) -> tuple[str, ...]:
    """Other campaigns with a user of this id; as text, since one file's 7 is another's "7"."""
    others = [record for record in session.campaigns() if record.campaign != number]
    return tuple(
        record.name for record in others if any(str(known) == str(user) for known in session.users(record.campaign)[1])
    )


def _remove(campaign: Campaign, session: Session, world: World, row: int) -> tuple[int, int]:
    number, key = campaign._record.campaign, int(world.keys[row])
    smaller = drop_user(world, row)
    responses = session.erase_user(number, key)
    campaign._put_world(session, smaller)
    touched = 0
    for record in campaign._ledger.rounds.values():
        changed = _without(record, key)
        touched += changed is not record
        # On another network a round that could not be learned is tried again.
        payload = {name: value for name, value in changed.payload.items() if name != "quarantined"}
        if changed is not record or len(payload) < len(changed.payload):
            session.put_round(number, replace(changed, payload=payload))
    for name in session.blobs(number, "explain-"):
        evidence = Evidence.from_blob(session.blob(number, name) or b"")
        session.put_blob(number, name, evidence.without(key).to_blob())
    for event in session.events(number):
        kept = [item for item in event.payload.get("items", []) if key not in item["users"]]
        if len(kept) < len(event.payload.get("items", [])):
            session.replace_event_payload(number, event.seq, {**event.payload, "items": kept})
        elif event.kind == "quarantined":
            # The reason is a policy's error message, which may name anybody.
            session.replace_event_payload(number, event.seq, {**event.payload, "reason": ""})
    payload = {"responses": responses, "rounds": touched, "world": smaller.revision}
    session.append_event(number, "forgotten", None, payload, campaign.clock())
    return responses, touched


def _without(record: RoundRecord, key: int) -> RoundRecord:
    """The round without this user; the same object if it never held them."""
    payload: Mapping[str, Any] = record.payload
    # Rounds of older versions do not say who was demanded.
    lists = {name: payload.get(name, []) for name in ("contacted", "holdout", "must_include")}
    if not any(key in keys for keys in (payload["seeds"], *lists.values())):
        return record
    kept = [i for i, seed in enumerate(payload["seeds"]) if seed != key]
    others = {name: [k for k in keys if k != key] for name, keys in lists.items()}
    chosen = {name: [payload[name][i] for i in kept] for name in ("seeds", "gains")}
    changed = {**payload, **others, **chosen}
    if "strategies" in payload:
        given = payload["strategies"]
        told = zip(payload["contacted"], given["contacted"], strict=True)
        mine = {"seeds": [given["seeds"][i] for i in kept], "contacted": [place for k, place in told if k != key]}
        changed["strategies"] = {**given, **mine}
    return replace(record, payload=changed)


def _search(url: str, user: int | str, ids: list[int | str]) -> tuple[tuple[str, ...], bool | None]:
    if not url.startswith("sqlite:///"):
        return (), None
    path = Path(url.removeprefix("sqlite:///"))
    files = [p for p in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if p.exists()]
    names = tuple(str(p) for p in files)
    if not isinstance(user, str) or len(user.encode()) < _TELLING or any(user in str(other) for other in ids):
        return names, None
    return names, not any(user.encode() in p.read_bytes() for p in files)
