"""The campaigns of a store: open, list, copy and delete them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensorucb.campaign._handle import ERASING, TALLY, find_campaign
from tensorucb.campaign._ledger import LEARNED
from tensorucb.campaign._model import SNAPSHOTS
from tensorucb.campaign._people import copied_preferences
from tensorucb.campaign._webhook import WEBHOOK
from tensorucb.checks import check_path, check_slug, check_text, refusal, shown
from tensorucb.errors import InputError, StoreError
from tensorucb.store import open_store

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store

STORAGE = "sqlite:///campaigns.db"


@dataclass(frozen=True)
class CampaignInfo:
    """A campaign in the list of all.

    Attributes
    ----------
    name, policy
        Its name, and the type of its policy.
    created
        Unix seconds.
    rounds, open
        How many rounds there are, and how many of them are open.
    """

    name: str
    policy: str
    created: float
    rounds: int
    open: int


@contextmanager
def opened(
    storage: str | os.PathLike[str] | Store, *, make: bool, keep: bool = False, name: str = "storage"
) -> Iterator[Store]:
    """The store at an address, closed after the block; with ``keep`` only if the block fails.

    A store that the caller opened is left open.
    """
    if isinstance(storage, os.PathLike):
        store: Store = open_store(f"sqlite:///{check_path(name, storage)}", create=make)
    elif isinstance(storage, str):
        store = open_store(storage, create=make)
    elif hasattr(storage, "read") and hasattr(storage, "write"):
        yield storage
        return
    else:
        raise refusal(name, "a storage URL, the path of a SQLite file or an open store", storage)
    try:
        yield store
    except BaseException:
        store.close()
        raise
    if not keep:
        store.close()


def campaign_exists(name: str, storage: str | os.PathLike[str] | Store) -> bool:
    """Whether there is a campaign of that name; a store that cannot be opened has none."""
    try:
        with opened(storage, make=False) as store, store.read() as session:
            return session.campaign(name) is not None
    except StoreError:
        return False


def list_campaigns(storage: str | os.PathLike[str] | Store = STORAGE) -> list[CampaignInfo]:
    """List the campaigns of a store, oldest first.

    Examples
    --------
    >>> from tensorucb.store import open_store
    >>> list_campaigns(open_store("memory://"))
    []
    """
    with opened(storage, make=False) as store, store.read() as session:
        lines, rounds = [], session.round_counts()
        for record in session.campaigns():
            counts = rounds.get(record.campaign, {})
            policy = str(record.settings["policy"]["type"])
            open_rounds = counts.get("open", 0)
            lines.append(CampaignInfo(record.name, policy, record.created, sum(counts.values()), open_rounds))
        return lines


def copy_campaign(
    name: str,
    new_name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    to: str | os.PathLike[str] | Store | None = None,
) -> None:
    """Copy a campaign with its whole log under a new name, into the same store or another one.

    What the model knows is not copied: the copy learns and counts its rounds as they are. Nor is a webhook: a copy
    tells nobody. Opt-outs go along; in another store also those of its users who opted out of all campaigns here. A
    copy in the same store leaves the group of campaigns with a common contact cap, where the same contacts would count
    twice.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann"], ["bob"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="sqlite:///copies.db")
    >>> tu.copy_campaign("spring", "rehearsal", storage="sqlite:///copies.db")
    >>> sorted(info.name for info in tu.list_campaigns(storage="sqlite:///copies.db"))
    ['rehearsal', 'spring']
    """
    check_text("name", name)
    if name == check_slug("new_name", new_name) and to is None:
        raise InputError(f"a copy in the same store needs another name than {shown(name)}.")
    with opened(storage, make=False) as source, source.read() as old:
        record = find_campaign(old, source, name)
        rounds = old.rounds(record.campaign)
        events = old.events(record.campaign)
        names = [n for n in old.blobs(record.campaign) if not n.startswith((SNAPSHOTS, ERASING, WEBHOOK, TALLY))]
        blobs = {name: old.blob(record.campaign, name) for name in names}
        reasons = {r.number: old.explanation(record.campaign, r.number) for r in rounds}
        told = old.responses(record.campaign, 1, len(rounds), event_ids=True)
        users = old.users(record.campaign)
        preferences = copied_preferences(old, record.campaign, users, other_store=to is not None)
        left = () if to is not None else ("contact_group",)
        settings = {name: value for name, value in record.settings.items() if name not in left}
    # Only now, so that no file is made for a campaign that does not exist.
    with opened(storage, make=False) if to is None else opened(to, make=True, name="to") as store, store.write() as new:
        number = new.insert_campaign(new_name, settings, record.created).campaign
        for blob_name, data in blobs.items():
            new.put_blob(number, blob_name, data or b"")
        new.put_preferences(number, preferences)
        seqs = {
            event.seq: new.append_event(number, event.kind, event.round, event.payload, event.created)
            for event in events
            if event.kind != LEARNED
        }
        last = max(seqs.values(), default=0)
        for r in rounds:
            revision = seqs.get(r.revision, last)
            new.put_round(number, replace(r, revision=revision))
            reason = reasons[r.number]
            if reason is not None:
                new.put_explanation(number, r.number, reason)
            new.add_responses(number, r.number, told[r.number], revision)


def delete_campaign(name: str, *, storage: str | os.PathLike[str] | Store = STORAGE) -> None:
    """Delete a campaign with its users, rounds, responses and log; it cannot be undone.

    The store's files are rewritten, so that nothing of the campaign stays in them. Exports and backups are not touched.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann"], ["bob"])
    >>> tu.create_campaign("spring", graph=graph, storage="sqlite:///deleted.db").disconnect()
    >>> tu.delete_campaign("spring", storage="sqlite:///deleted.db")
    >>> tu.list_campaigns(storage="sqlite:///deleted.db")
    []
    """
    check_text("name", name)
    with opened(storage, make=False) as store:
        with store.write() as session:
            session.delete_campaign(find_campaign(session, store, name).campaign)
        try:
            store.purge()
        except StoreError as error:
            raise StoreError(
                f"the campaign {name!r} is deleted, but the store's files may still hold parts of it ({error}) "
                "Then call tensorucb.store.open_store(…).purge()."
            ) from error
