"""What people said about being contacted, how often they were contacted, and how tired their followers may be.

``_constraints`` puts all of it together: one reason for each user who may not be chosen. Opt-outs are kept as keyed
hashes of ids, never as ids. So the list may outlive a person who is forgotten, and may name people who have not joined
yet, without saying who they are.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Fatigue, Round
from tensorucb.campaign._tables import columns_named, ids_of, places_of
from tensorucb.campaign._told import of_rounds, responded
from tensorucb.checks import check_flag
from tensorucb.errors import FileFormatError
from tensorucb.graph import Graph
from tensorucb.graph._ids import id_array
from tensorucb.moments import duration, duration_text
from tensorucb.question import Question
from tensorucb.store._protocol import CampaignRecord, Preference

if TYPE_CHECKING:
    from tensorucb.campaign._handle import Handle, View
    from tensorucb.campaign._ledger import Ledger
    from tensorucb.store._session import Session

EVERYWHERE = 0
"""The place in the store of what people said about all campaigns."""
OPT_EVENTS = {"no": "opted_out", "yes": "opted_in"}

_KEY = "people-key"
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
_TIRED_RATIO = 0.75  # tired followers who respond at most so often, as a share of rested ones, need a rest
_ONE_SIDED = 0.842  # standard errors: 80 %
_NEIGHBOURS = 200  # campaigns of the same group whose users are remembered


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
    named = ids_of(users, columns_named(handle.record.settings, "users"))
    names = list(dict.fromkeys(map(str, id_array(named, "users").tolist())))
    check_flag("everywhere", everywhere)
    now = handle.clock()
    with handle.change(now) as view:
        session = view.session
        affected = session.campaigns() if everywhere else [handle.record]
        # A yes is kept only where it says more than that nobody said no.
        kept = answer if answer == "no" or any(record.settings.get("consent") for record in affected) else ""
        changed = _Answers(session, EVERYWHERE if everywhere else view.number).put(names, kept, now)
        still_out = 0
        if answer == "yes" and everywhere:
            for record in affected:
                single = _Answers(session, record.campaign)
                out = [name for name, word in zip(names, single.of(names), strict=True) if word == "no"]
                changed |= single.put(out, "", now)
        elif answer == "yes":
            still_out = int(np.count_nonzero(_Answers(session, EVERYWHERE).of(names) == "no"))
        if changed:
            payload = {"people": len(changed), "everywhere": everywhere}
            for record in affected:
                session.append_event(record.campaign, OPT_EVENTS[answer], None, payload, now)
        rows = places_of(view.network.graph.ids, names)
        rows = rows[rows >= 0]
        addressed = [record.contacted for record in view.ledger.rounds.values() if record.status == "open"]
    in_open = int(np.isin(rows, np.concatenate([rows[:0], *addressed])).sum())
    return OptReport(int(rows.size), len(names) - int(rows.size), len(changed), in_open, still_out)


class _Answers:
    """What people said to one campaign, or (`EVERYWHERE`) about all: ``no`` or ``yes``, by a keyed hash of their id."""

    def __init__(self, session: Session, number: int) -> None:
        self._session, self._number = session, number
        self.records = {record.person: record for record in session.preferences(number)}

    def of(self, ids: Sequence[int | str]) -> NDArray[np.str_]:
        """What each of some people said; empty if nothing."""
        if not self.records:
            return np.full(len(ids), "")
        held = {person: record.answer for person, record in self.records.items()}
        return np.array([held.get(person, "") for person in self.hashes(ids)], dtype=np.str_)

    def put(self, ids: Sequence[int | str], answer: str, now: float) -> set[int | str]:
        """Keep an answer; an empty one takes back what was said. Returns those who had another one."""
        changed = [user for user, held in zip(ids, self.of(ids), strict=True) if held != answer]
        records = [Preference(person, answer, now) for person in self.hashes(changed)]
        self._session.put_preferences(self._number, records)
        return set(changed)

    def hashes(self, ids: Iterable[int | str]) -> list[int]:
        """Who somebody is to this list; 7 is the same person as "7"."""
        digests = (hashlib.blake2b(str(user).encode(), key=self._key, digest_size=8).digest() for user in ids)
        return [int.from_bytes(digest, "big") >> 1 for digest in digests]

    @cached_property
    def _key(self) -> bytes:
        if self._number == EVERYWHERE:
            return hashlib.blake2b(self._session.secret(), person=b"opt-outs").digest()
        data = self._session.blob(self._number, _KEY)
        if data is None:
            raise FileFormatError("the campaign has lost the key of its opt-outs. Use a backup.")
        return data


def put_key(session: Session, number: int) -> None:
    """Give a new campaign the key of its list of opt-outs."""
    session.put_blob(number, _KEY, secrets.token_bytes(32))


def drop_yes(view: View, user: int | str) -> None:
    """Somebody is forgotten: their yes goes with them. A no stays, as a hash, so that it holds if they come back."""
    answers = _Answers(view.session, view.number)
    if answers.of([user])[0] == "yes":
        answers.put([user], "", 0.0)


def copied_preferences(
    session: Session, number: int, ids: Sequence[int | str], *, other_store: bool
) -> list[Preference]:
    """What people said to a campaign, for a copy of it, which has the same key.

    In another store the copy also keeps what its users said here about all campaigns, since the list stays behind.
    """
    own, everywhere = _Answers(session, number), _Answers(session, EVERYWHERE)
    records = dict(own.records)
    out = [user for user, word in zip(ids, everywhere.of(ids), strict=True) if other_store and word == "no"]
    for person, known_as in zip(own.hashes(out), everywhere.hashes(out), strict=True):
        records[person] = Preference(person, "no", everywhere.records[known_as].since)
    return list(records.values())


class Said(NamedTuple):
    """Which users opted out, which of the others gave no consent, and how many people opted out who are no users."""

    opted_out: NDArray[np.bool_]
    no_consent: NDArray[np.bool_]
    unknown: int

    @classmethod
    def of(cls, network: Network) -> Said:
        """What is known before anybody said anything: consent."""
        nobody = np.zeros(network.graph.n_nodes, dtype=np.bool_)
        return cls(nobody, nobody if network.consent is None else ~network.consent, 0)


def said(view: View) -> Said:
    """What the users of a campaign said, here and everywhere; counted again only if somebody said something new."""
    network = view.network

    def read() -> Said:
        opted_out, no_consent, unknown = Said.of(network)
        for number in (view.number, EVERYWHERE):
            answers = _Answers(view.session, number)
            spoken = answers.of(network.graph.ids.tolist())
            out = spoken == "no"
            opted_out = opted_out | out
            no_consent = no_consent & (spoken != "yes")
            unknown += sum(record.answer == "no" for record in answers.records.values()) - int(np.count_nonzero(out))
        return Said(opted_out, no_consent & ~opted_out, unknown)

    return view.memory.cached("said", (view.ledger.people, network.revision), read)


# -- how often they were contacted --


def waits(handle: Handle, view: View, question: Question, now: float) -> dict[str, F64]:
    """Until when each user has to wait, by the reason for it; minus infinity for those who never had to."""
    group = handle.record.settings.get("contact_group")
    members = [handle.record]
    if group is not None:
        members = [each for each in view.session.campaigns() if each.settings.get("contact_group") == group]
    caps = {str(each.settings["contact_cap"]).partition("/") for each in members if "contact_cap" in each.settings}
    limits = [(int(count), duration("contact_cap", span)) for count, _, span in caps]
    until = {"contact_cap": _until_below(view, members, limits, now)}
    if question.cooldown is not None:
        until["cooldown"] = _until_below(view, [handle.record], [(1, question.cooldown)], now)
    if question.audience_rest is not None:
        until["audience_rest"] = _resting(view.network.graph, view.ledger, now, question.audience_rest)
    return until


def _until_below(view: View, members: Sequence[CampaignRecord], limits: Sequence[tuple[int, float]], now: float) -> F64:
    """Until when each user waits to be below all limits: so many contacts by these campaigns in so many seconds."""
    until = np.full(view.network.graph.n_nodes, _NEVER)
    if not limits:
        return until
    rows, times = _contacts(view, members, now - max(span for _, span in limits))
    newest_first = np.lexsort((-times, rows))
    rows, times = rows[newest_first], times[newest_first]
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    for count, span in limits:
        # Whoever has so many contacts has to wait until the oldest of these is long enough ago.
        full = (rank == count - 1) & (times > now - span)
        until[rows[full]] = np.maximum(until[rows[full]], times[full] + span)
    return until


def _contacts(view: View, members: Sequence[CampaignRecord], since: float) -> tuple[I64, F64]:
    """Users contacted after a moment by any of these campaigns, by row, and when; one entry per contact."""
    rows, times = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for member in members:
        own = member.campaign == view.number
        rounds: Iterable[Round] = view.ledger.rounds.values()
        if not own:
            rounds = map(Round.from_row, view.session.rounds_since(member.campaign, since))
        for record in _contacting(rounds, since):
            users = record.contacted if own else _rows_here(view, member.campaign, record.contacted)
            rows.append(users)
            times.append(np.full(users.size, record.opened))
    return np.concatenate(rows), np.concatenate(times)


def _rows_here(view: View, campaign: int, rows: I64) -> I64:
    """The rows in this campaign of users of another one; those whom it does not have are left out."""
    state = view.session.blobs(campaign, "world-")[-1]
    users = view.memory.cached("users", state, lambda: np.array(view.session.users(campaign)), campaign, _NEIGHBOURS)
    here = places_of(view.network.graph.ids, users[rows].tolist())
    return here[here >= 0]


def _contacting(rounds: Iterable[Round], since: float) -> list[Round]:
    """Those of some rounds that contacted their users after a moment."""
    return [r for r in rounds if r.opened > since and r.status != "cancelled" and r.kind != "history"]


# -- their followers --


def _resting(graph: Graph, ledger: Ledger, now: float, rest: float) -> F64:
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


def _followers(graph: Graph, rows: I64) -> NDArray[np.bool_]:
    """Who follows any of these users."""
    followers = np.zeros(graph.n_nodes, dtype=np.bool_)
    followers[graph.targets[graph.out_edges(np.sort(rows))]] = True
    return followers


class Weariness(NamedTuple):
    """How often followers respond who were addressed lately, as a share of when they are rested, and how much at most.

    Followers of the same users are compared, over closed rounds; rounds differ by themselves, so that the upper end (at
    80 %) comes from leaving out one round after another.
    """

    ratio: float
    most: float


def weariness(view: View, now: float) -> Weariness | None:
    """What the last closed rounds say about tired followers; None if they are too few to say anything."""
    graph = view.network.graph
    rounds = _lately(view.ledger, now)[-_COMPARED - _LOOKED_BACK :]
    compared = [at for at, record in enumerate(rounds) if record.status == "closed"][-_COMPARED:]
    if len(compared) < _FEWEST_COMPARED:
        return None
    addressed = of_rounds(view, "addressed", rounds, lambda view, record: _followers(graph, record.contacted))
    told = of_rounds(view, "answers", [rounds[at] for at in compared], _answers)
    sources, places = np.unique(np.concatenate([graph.sources[edges] for edges, _ in told]), return_inverse=True)
    ends = np.cumsum([edges.size for edges, _ in told])
    nobody = np.zeros(graph.n_nodes, dtype=np.bool_)
    # By round and user: followers addressed lately and others, and the responders among them.
    counts = np.zeros((len(compared), 4, sources.size))
    for row, (at, (edges, yes), of) in enumerate(zip(compared, told, np.split(places, ends[:-1]), strict=True)):
        lately = np.logical_or.reduce([nobody, *addressed[max(0, at - _LOOKED_BACK) : at]])
        tired = lately[graph.targets[edges]]
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


def _answers(view: View, record: Round) -> tuple[I64, NDArray[np.bool_]]:
    """The edges of a closed round to users who were not contacted, and whether each of these users responded."""
    graph = view.network.graph
    edges = graph.out_edges(np.sort(record.contacted))
    edges = edges[~np.isin(graph.targets[edges], record.contacted)]
    return edges, responded(view.network, record, view.told(record.number))[graph.targets[edges]]


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
    audience = _followers(graph, contacted)
    audience[contacted] = False
    size = int(np.count_nonzero(audience))
    if len(rounds) < _FEWEST_ROUNDS or not size:
        return None
    times = np.sum([_followers(graph, record.contacted) for record in rounds], axis=0)
    again = int(np.count_nonzero(audience & (times >= _OFTEN)))
    if again < _TIRED_SHARE * size:
        return None
    suggested = None
    if weary is not None and weary.most < _TIRED_RATIO:
        pace = float(np.median(np.diff([*(record.opened for record in rounds), now])))
        length = _rounded_up(_PAUSE * pace)
        until = _resting(graph, ledger, now, length)
        left = int(np.count_nonzero(until[free] <= now))
        if length > (rest or 0.0) and left >= _PLENTY * contacted.size:
            suggested = duration_text(length)
    ratio, most = weary or (None, None)
    return Fatigue(size, again, len(rounds), ratio, most, suggested)


def _rounded_up(seconds: float) -> float:
    """A duration that people would say: whole days, hours, minutes or seconds."""
    unit = next((unit for unit in (_DAY, 3600.0, 60.0) if seconds >= unit), 1.0)
    return float(np.ceil(seconds / unit) * unit)
