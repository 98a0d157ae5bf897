"""What people said about being contacted, how often they were contacted, and how tired their followers may be.

`read_people` gives all that a store knows against contacting users, one entry per user; ``_constraints`` makes one
reason for each user of it, of rest periods and of an ask's lists. Opt-outs are kept as keyed hashes of ids, never as
ids. So the list may outlive a person who is forgotten, and may name people who have not joined yet, without saying who
they are.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network, seal, unseal
from tensorucb.campaign._round import Fatigue, Round
from tensorucb.campaign._tables import ids_of, places_of
from tensorucb.campaign._told import responded
from tensorucb.checks import check_flag, refusal
from tensorucb.errors import FileFormatError
from tensorucb.graph import Graph
from tensorucb.graph._ids import id_array
from tensorucb.moments import duration, duration_text
from tensorucb.store._protocol import CampaignRecord, Preference

if TYPE_CHECKING:
    from tensorucb.campaign._handle import Handle, View
    from tensorucb.campaign._ledger import Ledger
    from tensorucb.store._session import Session

NO_CANDIDATE, RESTING, COOLDOWN, CAPPED, EXCLUDED, NO_CONSENT, OPTED_OUT = range(1, 8)
"""Why a user may not be chosen. Where there are several reasons, the largest number counts."""

EVERYWHERE = 0
"""The place in the store of what people said about all campaigns."""
OPT_EVENTS = {"no": "opted_out", "yes": "opted_in"}

_KEY = "people-key"
_CAP = re.compile("([1-9][0-9]{0,8})/(.+)")
_NEVER = -np.inf

# A follower is addressed "again and again" who was addressed in two of the last five rounds before.
_LOOKED_BACK = 5
_OFTEN = 2
_FEWEST_ROUNDS = 3
_TIRED_SHARE = 0.5  # of the followers of a round, from which on it is said
_PAUSE = 2.5  # rounds that the suggested rest is long: those two before the next one are in it
_PLENTY = 2  # users to choose from for each place, which a suggested rest has to leave
_DAY, _REMEMBERED = 86400.0, 180 * 86400.0
# Closed rounds that are compared, and how few of them and of their responders say nothing.
_COMPARED = 20
_FEWEST_COMPARED = 5
_FEWEST_RESPONDERS = 20
_KEPT = 200
_TIRED_RATIO = 0.75  # tired followers who respond at most so often, as a share of rested ones, need a rest
_ONE_SIDED = 0.842  # standard errors: 80 %


class Said(NamedTuple):
    """`OPTED_OUT`, `NO_CONSENT` or 0 for each user, and how many people opted out who are no users of the campaign."""

    codes: NDArray[np.int8]
    unknown: int


@dataclass(frozen=True)
class People:
    """What the store knows against contacting users, by graph row.

    ``said`` holds `OPTED_OUT`, `NO_CONSENT` or 0; ``capped`` until when the contact cap keeps each user from being
    contacted, in unix seconds.
    """

    said: NDArray[np.int8]
    capped: F64

    @classmethod
    def of(cls, network: Network) -> People:
        """What is known before anybody said anything: consent."""
        return cls(_without_consent(network), np.full(network.graph.n_nodes, _NEVER))


def read_people(handle: Handle, view: View, now: float) -> People:
    """What the store knows against contacting users at this moment."""
    return People(said(handle, view).codes, _capped(handle, view, now))


# -- what people said --


@dataclass(frozen=True)
class OptReport:
    """What :meth:`Campaign.opt_out` or :meth:`Campaign.opt_in` did.

    Attributes
    ----------
    users
        How many of the people named are users of the campaign.
    unknown
        How many are not. What they said is kept, in case they join.
    changed
        How many had said something else before, or nothing.
    in_open_rounds
        How many of them are among those to be contacted in open rounds. If they opted out and nobody has written to
        them yet, do not.
    still_out
        After an opt-in: how many are still opted out for all campaigns of the store, which ``everywhere`` undoes.
    """

    users: int
    unknown: int
    changed: int
    in_open_rounds: int
    still_out: int = 0


def opt(handle: Handle, users: ArrayLike, everywhere: bool, answer: Literal["no", "yes"]) -> OptReport:
    """Keep what people said; see `Campaign.opt_out` and `Campaign.opt_in`."""
    named = ids_of(users, handle.record.settings.get("columns", {}).get("users"))
    names = list(dict.fromkeys(map(str, id_array(named, "users").tolist())))
    now = handle.clock()
    number = EVERYWHERE if check_flag("everywhere", everywhere) else handle.record.campaign
    with handle.change(now) as view:
        session = view.session
        campaigns = session.campaigns()
        affected = campaigns if everywhere else [handle.record]
        key = _key_of(session, number)
        people = dict.fromkeys(_hashes(names, key).tolist())
        held = {record.person: record.answer for record in session.preferences(number)}
        # A yes is kept only where it says more than that nobody said no.
        kept = answer == "no" or any(record.settings.get("consent") for record in affected)
        changed = {person for person in people if held.get(person) != (answer if kept else None)}
        _put(session, number, changed, answer if kept else None, now)
        if answer == "yes" and everywhere:
            changed |= _undo_in_campaigns(session, campaigns, names, key)
        if changed:
            payload = {"people": len(changed), "everywhere": everywhere}
            for record in affected:
                session.append_event(record.campaign, OPT_EVENTS[answer], None, payload, now)
        rows = places_of(view.network.graph.ids, names)
        rows = rows[rows >= 0]
        still_out = 0 if answer == "no" or everywhere else _out_everywhere(session, names)
        addressed = _contacted(record for record in view.ledger.rounds.values() if record.status == "open")
    in_open = int(np.isin(rows, addressed).sum())
    return OptReport(int(rows.size), len(names) - int(rows.size), len(changed), in_open, still_out)


def _put(session: Session, number: int, people: Iterable[int], answer: str | None, now: float) -> None:
    if answer is None:
        session.delete_preferences(number, people)
    else:
        session.put_preferences(number, [Preference(person, answer, now) for person in people])


def _undo_in_campaigns(
    session: Session, campaigns: Sequence[CampaignRecord], names: list[str], store_key: bytes
) -> set[int]:
    """Take back what people said to single campaigns; who did, by their hashes for the whole store."""
    undone: set[int] = set()
    everywhere = _hashes(names, store_key).tolist()
    for record in campaigns:
        own = _hashes(names, _key_of(session, record.campaign)).tolist()
        there = dict(zip(own, everywhere, strict=True))
        out = [each.person for each in session.preferences(record.campaign) if each.answer == "no"]
        gone = [person for person in out if person in there]
        session.delete_preferences(record.campaign, gone)
        undone |= {there[person] for person in gone}
    return undone


def _out_everywhere(session: Session, names: list[str]) -> int:
    """How many of these people are opted out for all campaigns."""
    out = [each.person for each in session.preferences(EVERYWHERE) if each.answer == "no"]
    return int(np.isin(_hashes(names, _key_of(session, EVERYWHERE)), out).sum()) if out else 0


def drop_yes(view: View, user: int | str) -> None:
    """Somebody is forgotten: their yes goes with them. A no stays, as a hash, so that it holds if they come back."""
    [person] = _hashes([user], _key_of(view.session, view.number)).tolist()
    yes = [each.person for each in view.session.preferences(view.number) if each.answer == "yes"]
    view.session.delete_preferences(view.number, [person] if person in yes else [])


def said(handle: Handle, view: View) -> Said:
    """What the users of a campaign said, here and everywhere; counted again only if somebody said something new."""
    network = view.network
    return view.memory.cached("said", (view.ledger.people, network.revision), lambda: _read_said(view, network))


def _read_said(view: View, network: Network) -> Said:
    codes = _without_consent(network)
    out = np.zeros(codes.size, dtype=np.bool_)
    unknown = 0
    for number in (view.number, EVERYWHERE):
        records = view.session.preferences(number)
        if not records:
            continue
        hashes = _hashes(network.graph.ids.tolist(), _key_of(view.session, number))
        no, yes = (np.array([r.person for r in records if r.answer == word], dtype=np.int64) for word in ("no", "yes"))
        out |= np.isin(hashes, no)
        codes[np.isin(hashes, yes)] = 0
        unknown += int(np.isin(no, hashes, invert=True).sum())
    codes[out] = OPTED_OUT
    return Said(codes, unknown)


def _without_consent(network: Network) -> NDArray[np.int8]:
    codes = np.zeros(network.graph.n_nodes, dtype=np.int8)
    if network.consent is not None:
        codes[~network.consent] = NO_CONSENT
    return codes


def opted_out(handle: Handle, view: View) -> list[int | str]:
    """Ids of the users who opted out."""
    return view.network.ids(np.flatnonzero(said(handle, view).codes == OPTED_OUT))


def copied_preferences(
    session: Session, number: int, ids: Sequence[int | str], *, other_store: bool
) -> list[Preference]:
    """What people said to a campaign, for a copy of it, which has the same key.

    In another store the copy also keeps what its users said here about all campaigns, since the list stays behind.
    """
    records = {record.person: record for record in session.preferences(number)}
    everywhere = {record.person: record for record in session.preferences(EVERYWHERE) if record.answer == "no"}
    if other_store and everywhere:
        own = _hashes(ids, _key_of(session, number)).tolist()
        there = _hashes(ids, _key_of(session, EVERYWHERE)).tolist()
        for person, known_as in zip(own, there, strict=True):
            if known_as in everywhere:
                records[person] = Preference(person, "no", everywhere[known_as].since)
    return list(records.values())


def _hashes(ids: Iterable[int | str], key: bytes) -> I64:
    """Who somebody is to a list of opt-outs; 7 is the same person as "7"."""
    digests = (hashlib.blake2b(str(user).encode(), key=key, digest_size=8).digest() for user in ids)
    return np.array([int.from_bytes(digest, "big") >> 1 for digest in digests], dtype=np.int64)


def put_key(session: Session, number: int) -> None:
    """Give a new campaign the key of its list of opt-outs."""
    session.put_blob(number, _KEY, seal(_KEY, {"key": secrets.token_hex(32)}, {}))


def _key_of(session: Session, number: int) -> bytes:
    """The key of a list's hashes."""
    if number == EVERYWHERE:
        return hashlib.blake2b(session.secret(), person=b"opt-outs").digest()
    data = session.blob(number, _KEY)
    if data is None:
        raise FileFormatError("the campaign has lost the key of its opt-outs. Use a backup.")
    return bytes.fromhex(unseal(data, _KEY, "the key of the opt-outs")[0]["key"])


# -- how often they were contacted --


def read_cap(value: Any) -> str:
    """A contact cap in its usual spelling: ``2/7d`` is at most two contacts in seven days."""
    parts = _CAP.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        wanted = "a number and a duration such as '2/7d': at most 2 contacts of a user in 7 days"
        raise refusal("contact_cap", wanted, value)
    return f"{int(parts[1])}/{duration_text(duration('contact_cap', parts[2]))}"


def _capped(handle: Handle, view: View, now: float) -> F64:
    """Until when each user may not be contacted because of the caps of the campaign and its group."""
    until = np.full(view.network.graph.n_nodes, _NEVER)
    group = handle.record.settings.get("contact_group")
    members = [handle.record]
    if group is not None:
        members = [each for each in view.session.campaigns() if each.settings.get("contact_group") == group]
    caps = {str(each.settings["contact_cap"]).partition("/") for each in members if "contact_cap" in each.settings}
    limits = [(int(count), duration("contact_cap", span)) for count, _, span in caps]
    if not limits:
        return until
    since = now - max(span for _, span in limits)
    rows, times = _contacts(handle, view, members, since)
    newest_first = np.lexsort((-times, rows))
    rows, times = rows[newest_first], times[newest_first]
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    for count, span in limits:
        # Whoever has so many contacts has to wait until the oldest of these is long enough ago.
        full = (rank == count - 1) & (times > now - span)
        until[rows[full]] = np.maximum(until[rows[full]], times[full] + span)
    return until


def _contacts(handle: Handle, view: View, members: Sequence[CampaignRecord], since: float) -> tuple[I64, F64]:
    """Users contacted after a moment by any of these campaigns, by row, and when; one entry per contact."""
    rows, times = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for member in members:
        own = member.campaign == view.number
        rounds: Iterable[Round] = view.ledger.rounds.values()
        if not own:
            rounds = map(Round.from_row, view.session.rounds_since(member.campaign, since))
        for record in _contacting(rounds, since):
            users = record.contacted if own else _rows_here(handle, view, member.campaign, record.contacted)
            rows.append(users)
            times.append(np.full(users.size, record.opened))
    return np.concatenate(rows), np.concatenate(times)


def _rows_here(handle: Handle, view: View, campaign: int, rows: I64) -> I64:
    """The rows in this campaign of users of another one; those whom it does not have are left out."""
    state = view.session.blobs(campaign, "world-")[-1]
    users = view.memory.cached("users", state, lambda: np.array(view.session.users(campaign)), campaign, _KEPT)
    here = places_of(view.network.graph.ids, users[rows].tolist())
    return here[here >= 0]


def _contacting(rounds: Iterable[Round], since: float) -> list[Round]:
    """Those of some rounds that contacted their users after a moment."""
    return [r for r in rounds if r.opened > since and r.status != "cancelled" and r.kind != "history"]


def _contacted(records: Iterable[Round]) -> I64:
    rows = [record.contacted for record in records]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *rows]))


def last_contacts(ledger: Ledger, n_users: int, since: float) -> F64:
    """When each user was contacted last after a moment; minus infinity for the others."""
    last = np.full(n_users, _NEVER)
    for record in _contacting(ledger.rounds.values(), since):
        last[record.contacted] = np.maximum(last[record.contacted], record.opened)
    return last


# -- their followers --


def resting_until(graph: Graph, ledger: Ledger, now: float, rest: float) -> F64:
    """Until when each user's audience rests: more than half of the followers were addressed less than ``rest`` ago."""
    addressed = np.full(graph.n_nodes, _NEVER)
    for record in _contacting(ledger.rounds.values(), now - rest):
        followers = _followers(graph, record.contacted)
        addressed[followers] = np.maximum(addressed[followers], record.opened)
    edges = np.lexsort((-addressed[graph.targets], graph.sources))
    until = np.full(graph.n_nodes, _NEVER)
    some = np.flatnonzero(graph.out_degree)
    # In the order of who was addressed last, the follower behind the first half decides.
    middle = graph.out_offsets[:-1][some] + graph.out_degree[some] // 2
    until[some] = addressed[graph.targets[edges[middle]]] + rest
    return until


def _followers(graph: Graph, rows: I64) -> NDArray[np.int32]:
    return np.unique(graph.targets[graph.out_edges(np.sort(rows))])


class Weariness(NamedTuple):
    """How often followers respond who were addressed lately, as a share of when they are rested, and how much at most.

    Followers of the same users are compared, over closed rounds; rounds differ by themselves, so that the upper end (at
    80 %) comes from leaving out one round after another.
    """

    ratio: float
    most: float


def weariness(handle: Handle, view: View, now: float) -> Weariness | None:
    """What the last closed rounds say about tired followers; None if they are too few to say anything."""
    graph = view.network.graph
    rounds = _lately(view.ledger, now)[-_COMPARED - _LOOKED_BACK :]
    addressed = [_followers(graph, record.contacted) for record in rounds]
    compared = [at for at, record in enumerate(rounds) if record.status == "closed"][-_COMPARED:]
    if len(compared) < _FEWEST_COMPARED:
        return None
    answers = [_answers(handle, view, rounds[at]) for at in compared]
    sources, places = np.unique(np.concatenate([graph.sources[edges] for edges, _ in answers]), return_inverse=True)
    ends = np.cumsum([edges.size for edges, _ in answers])
    # By round and user: followers addressed lately and others, and the responders among them.
    counts = np.zeros((len(compared), 4, sources.size))
    for row, (at, (edges, yes), of) in enumerate(zip(compared, answers, np.split(places, ends[:-1]), strict=True)):
        tired = np.isin(graph.targets[edges], np.concatenate([[-1], *addressed[max(0, at - _LOOKED_BACK) : at]]))
        for part, some in enumerate((tired, ~tired)):
            counts[row, part] = np.bincount(of[some], minlength=sources.size)
            counts[row, part + 2] = np.bincount(of[some & yes], minlength=sources.size)
    total = counts.sum(axis=0)
    if total[2:].sum() < _FEWEST_RESPONDERS or not (total[0] * total[1]).any():
        return None
    ratio = _log_ratio(total)
    without = np.array([_log_ratio(total - one) for one in counts])
    error = np.sqrt((len(compared) - 1) * np.mean((without - without.mean()) ** 2))
    return Weariness(float(np.exp(ratio)), float(np.exp(ratio + _ONE_SIDED * error)))


def _answers(handle: Handle, view: View, record: Round) -> tuple[I64, NDArray[np.bool_]]:
    """The edges of a closed round to users who were not contacted, and whether each of these users responded."""
    graph = view.network.graph

    def read() -> tuple[I64, NDArray[np.bool_]]:
        edges = graph.out_edges(np.sort(record.contacted))
        edges = edges[~np.isin(graph.targets[edges], record.contacted)]
        responders = responded(view.network, record, view.told(record.number))
        return edges, responders[graph.targets[edges]]

    return view.memory.cached("answers", (record.revision, view.network.revision), read, record.number, _KEPT)


def _log_ratio(counts: F64) -> float:
    """The logarithm of the Mantel-Haenszel ratio of rates of response, stratified by user."""
    tired, fresh, tired_yes, fresh_yes = counts
    everybody = np.maximum(tired + fresh, 1.0)
    return float(
        np.log((tired_yes * fresh / everybody).sum() + 0.5) - np.log((fresh_yes * tired / everybody).sum() + 0.5)
    )


def _lately(ledger: Ledger, now: float) -> list[Round]:
    """The rounds of the last months that contacted somebody, oldest first."""
    return sorted(
        _contacting(ledger.rounds.values(), now - _REMEMBERED), key=lambda record: (record.opened, record.number)
    )


def fatigue_of(
    graph: Graph, ledger: Ledger, contacted: I64, now: float, free: I64, rest: float | None, weary: Weariness | None
) -> Fatigue | None:
    """Whether a round addresses the same followers again and again, and how long a rest would help; None if not.

    ``free`` are the users who may be chosen, ``rest`` is the audience's rest in this round, and ``weary`` what past
    rounds say. A rest is suggested only where these show that tired followers respond less: elsewhere it would cost
    the best users.
    """
    rounds = _lately(ledger, now)[-_LOOKED_BACK:]
    audience = np.setdiff1d(_followers(graph, contacted), contacted)
    if len(rounds) < _FEWEST_ROUNDS or not audience.size:
        return None
    times = np.zeros(graph.n_nodes, dtype=np.int64)
    for record in rounds:
        times[_followers(graph, record.contacted)] += 1
    again = int(np.count_nonzero(times[audience] >= _OFTEN))
    if again < _TIRED_SHARE * audience.size:
        return None
    suggested = None
    if weary is not None and weary.most < _TIRED_RATIO:
        pace = float(np.median(np.diff([*(record.opened for record in rounds), now])))
        length = _rounded_up(_PAUSE * pace)
        until = resting_until(graph, ledger, now, length)
        left = int(np.count_nonzero(until[free] <= now))
        if length > (rest or 0.0) and left >= _PLENTY * contacted.size:
            suggested = duration_text(length)
    return Fatigue(
        audience=int(audience.size),
        again=again,
        rounds=len(rounds),
        ratio=None if weary is None else weary.ratio,
        most=None if weary is None else weary.most,
        rest=suggested,
    )


def _rounded_up(seconds: float) -> float:
    """A duration that people would say: whole days, hours, minutes or seconds."""
    unit = next((unit for unit in (_DAY, 3600.0, 60.0) if seconds >= unit), 1.0)
    return float(np.ceil(seconds / unit) * unit)
