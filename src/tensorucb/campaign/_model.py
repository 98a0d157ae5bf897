"""The model is a pure function of the log: a fold over closed rounds, and snapshots that make it quick.

While the past is being learned again (somebody told an old round something), the model goes on answering from the
fold that it has, and builds a second one, a bounded part with each call. See docs/design.md.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorucb.campaign._fold import Fold, pairs_of, state_hash
from tensorucb.campaign._network import Network, unseal
from tensorucb.campaign._round import Round
from tensorucb.errors import FileFormatError, InputError
from tensorucb.policies import Policy

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View
    from tensorucb.store._session import Session

SNAPSHOTS = "snapshot-"
SERVED = "served"
"""The blob that names the snapshot from which asks are answered while the past is learned again."""

_LONG = 1.0  # seconds of replay after which a snapshot is worth its bytes

# Work is counted in observed edges; a round counts as its own edges and this many more.
_ROUND = 200
_AT_ONCE = 40_000
IN_ASK, IN_CLOSE = 1_200, 8_000
"""How much of a changed past an ask and a close learn on the way: about as much as they take themselves."""


class DamagedSnapshotWarning(RuntimeWarning):
    """A stored snapshot is damaged; the model was learned again from the log instead.

    Examples
    --------
    >>> import warnings
    >>> from tensorucb.campaign import DamagedSnapshotWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DamagedSnapshotWarning)  # stop instead of learning again from the log
    """


Snapshot = tuple[str, bytes]
"""A snapshot to be stored: its blob's name and bytes."""


class Model:
    """A policy with what it learned from the log; it is bound again whenever learning starts again.

    ``another`` makes a second policy like it, for the second fold. ``spec`` (type and arguments) and ``seed`` are part
    of what snapshots depend on. A snapshot is due whenever the number of learned rounds passes a multiple of ``every``.

    ``damaged`` names stored snapshots that cannot be read, ``served`` the last snapshot of the fold that answers, and
    ``replayed`` says how many rounds the last `sync` learned.
    """

    def __init__(
        self, policy: Policy, another: Callable[[], Policy], spec: Mapping[str, Any], seed: int, every: int
    ) -> None:
        self._serving = Fold(policy, seed)
        self._building: Fold | None = None
        self._another = another
        self._spec = json.dumps(dict(spec), sort_keys=True)
        self._seed = seed
        self._every = every
        self.damaged: set[str] = set()
        self.served = ""
        self.replayed = 0

    @property
    def policy(self) -> Policy:
        """The policy that answers."""
        return self._serving.policy

    def state_hash(self) -> str:
        """SHA-256 of what the policy has learned."""
        return state_hash(self.policy.state())

    def hashes(self, view: View) -> list[str]:
        """Hashes of all lengths of the order of learning as it is now."""
        return view.ledger.hashes(f"{self._spec}|{self._seed}|{view.network.revision}")

    def serves(self, network: Network) -> bool:
        """Whether it can answer for this network without learning first."""
        return self._serving.bound(network) and self._serving.complete

    def behind(self, view: View) -> int:
        """How many rounds the answering policy has not learned as they are now."""
        if not self._serving.bound(view.network):
            return view.ledger.unlike(())
        current = self._serving.hash == self.hashes(view)[-1]
        return 0 if current else view.ledger.unlike(self._serving.pairs)

    def sync(self, view: View, *, budget: int | None = None, snapshots: bool = True) -> list[Snapshot]:
        """Learn what is new, and again what has changed; returns the snapshots worth storing.

        ``budget`` is how much to learn at most, if there is much to learn and an older model can answer meanwhile;
        None: learn to the end. ``snapshots`` says whether stored ones may be used. See "Two folds" in docs/design.md.
        """
        self.replayed, serving, network, ledger = 0, self._serving, view.network, view.ledger
        wanted, new = self.hashes(view), not serving.bound(network)
        if new:
            self._building = None
        elif serving.complete and serving.hash == wanted[-1]:
            return []
        names = self._valid(view, wanted) if snapshots else []
        best = max(self._usable(network, wanted), key=lambda fold: len(fold.pairs), default=None)
        start = max(len(best.pairs) if best else 0, _count(names[0]) if names else 0)
        much = not self._little(network, ledger.to_learn(start))
        if budget is not None and much and (self.serves(network) or self._restored(view)):
            if serving.current(network, wanted) and len(serving.pairs) >= start:
                return self._forward(view, self._slice(network, ledger.to_learn(len(serving.pairs)), budget))
            due = self._beside(view, names, _AT_ONCE if new else budget)
            building = self._building
            if new and building is not None and building.current(network, self.hashes(view)):
                # This process may end after its first call, and its work must not be lost.
                due.append(self._snapshot(building, view))
            return due
        if best is None or len(best.pairs) < start:
            self._resume(serving, view, names)
        elif best is not serving:
            serving.take_over(best)
        self._building = None
        return self._forward(view, ledger.to_learn(len(serving.pairs)))

    def lag(self, view: View) -> int:
        """How many rounds the next ask would not have learned as they are now."""
        network, wanted = view.network, self.hashes(view)
        counts = [_count(name) for name in self._valid(view, wanted)[:1]]
        counts += [len(fold.pairs) for fold in self._usable(network, wanted)]
        if self._little(network, view.ledger.to_learn(max(counts, default=0))):
            return 0
        if self.serves(network):
            return self.behind(view)
        name = self._served_name(view)
        return view.ledger.unlike(pairs_of(view.session.blob(view.number, name) or b"")) if name else 0

    def _usable(self, network: Network, wanted: Sequence[str]) -> list[Fold]:
        """The folds that have learned the first rounds of the log as they are now."""
        return [fold for fold in (self._serving, self._building) if fold is not None and fold.current(network, wanted)]

    def _forward(self, view: View, records: Sequence[Round]) -> list[Snapshot]:
        """Learn more rounds in the fold that answers."""
        due = self._learn(self._serving, view, records)
        self._serving.complete = True
        return due

    def _beside(self, view: View, names: Sequence[str], budget: int) -> list[Snapshot]:
        """The past has changed: learn some new rounds in the fold that answers, some of the past in the second."""
        network, ledger = view.network, view.ledger
        serving, building = self._serving, self._building
        due = self._learn(serving, view, self._slice(network, serving.following(ledger), budget))
        if building is None or not building.bound(network) or (names and _count(names[0]) > len(building.pairs)):
            building = self._building = Fold(self._another(), self._seed)
            self._resume(building, view, names)
        due += self._learn(building, view, self._slice(network, building.following(ledger), budget))
        if not building.following(ledger):
            serving.take_over(building)
            self._building = None
            due.append(self._snapshot(serving, view))
        return due

    def _little(self, network: Network, records: Sequence[Round]) -> bool:
        """Whether so much may be learned within one call."""
        return len(records) <= 2 * self._every or len(self._slice(network, records, _AT_ONCE)) == len(records)

    def _slice(self, network: Network, records: Sequence[Round], budget: int) -> Sequence[Round]:
        """The first rounds, at least one, up to an amount of work."""
        spent = 0
        for count, record in enumerate(records):
            degrees = network.graph.out_degree[network.rows(record.contacted)]
            spent += _ROUND + int(degrees.sum())
            if spent > budget:
                return records[: max(count, 1)]
        return records

    def _learn(self, fold: Fold, view: View, records: Sequence[Round]) -> list[Snapshot]:
        """Learn rounds, with a stop at each count that deserves a snapshot."""
        started, due, first = time.perf_counter(), [], len(fold.pairs)
        self.replayed += len(records)
        stops = self._stops(first, first + len(fold.following(view.ledger)))
        done = 0
        for stop in [*(count - first for count in stops if count - first < len(records)), len(records)]:
            fold.learn(view, records[done:stop])
            done = stop
            # A round that was left out shifts the count: then the next stop comes soon enough.
            if len(fold.pairs) in stops and self._keeps(fold, view):
                due.append(self._snapshot(fold, view))
        late = len(fold.pairs) not in stops and time.perf_counter() - started > _LONG
        if late and len(fold.pairs) > first and self._keeps(fold, view):
            due.append(self._snapshot(fold, view))
        return due

    def _keeps(self, fold: Fold, view: View) -> bool:
        """Whether a snapshot of this fold is of use: a changed past is worth it only for the fold that answers."""
        return fold is self._serving or fold.current(view.network, self.hashes(view))

    def _stops(self, first: int, last: int) -> list[int]:
        """Which counts in (first, last] deserve a snapshot: those that would outlive `prunable` at the end."""
        newest, stops = last - last % self._every, dict[int, int]()
        for count in range(first - first % self._every + self._every, newest + 1, self._every):
            stops.setdefault((newest - count).bit_length(), count)
        return list(stops.values())

    def _valid(self, view: View, wanted: Sequence[str]) -> list[str]:
        """Stored snapshots of the log as it is now, newest first."""
        names = (name for name in reversed(view.session.blobs(view.number, SNAPSHOTS)) if name not in self.damaged)
        return [name for name in names if _fits(name, wanted)]

    def _resume(self, fold: Fold, view: View, names: Sequence[str]) -> None:
        """Begin again, from the newest of these snapshots that can be read, or from nothing."""
        fold.begin(view.network, self.hashes(view)[0])
        for name in names:
            if self._read(fold, view, name):
                return

    def _served_name(self, view: View) -> str:
        """The snapshot of a model that answered others, if there is one."""
        name = served_name(view.session, view.number)
        return "" if name in self.damaged or name not in view.session.blobs(view.number, SNAPSHOTS) else name

    def _restored(self, view: View) -> bool:
        """Whether a model that answered others can answer now."""
        name = self._served_name(view)
        if not name:
            return False
        self._serving.begin(view.network, self.hashes(view)[0])
        self._serving.complete = self._read(self._serving, view, name)
        return self._serving.complete

    def _read(self, fold: Fold, view: View, name: str) -> bool:
        """Whether the fold could go on from this snapshot; if not, it has begun again with nothing."""
        try:
            fold.from_blob(view.network, view.session.blob(view.number, name) or b"", name)
        except (FileFormatError, InputError, KeyError, TypeError, ValueError) as error:
            self.damaged.add(name)
            fold.begin(view.network, self.hashes(view)[0])
            warnings.warn(f"{error} The model is learned again from the log.", DamagedSnapshotWarning, stacklevel=2)
            return False
        return True

    def _snapshot(self, fold: Fold, view: View) -> Snapshot:
        data = fold.to_blob(view)  # this may leave out rounds, so the name comes after it
        name = _name(len(fold.pairs), fold.hash)
        if fold is self._serving:
            self.served = name
        return name, data


def served_name(session: Session, campaign: int) -> str:
    """The snapshot that the store calls served; none where the note of it is damaged."""
    try:
        return str(unseal(session.blob(campaign, SERVED) or b"", SERVED, "the note of the served snapshot")[0]["name"])
    except FileFormatError:
        return ""


def _name(count: int, basis: str) -> str:
    return f"{SNAPSHOTS}{count:08d}-{basis[:32]}"


def _count(name: str) -> int:
    return int(name.removeprefix(SNAPSHOTS).split("-")[0])


def _fits(name: str, wanted: Sequence[str]) -> bool:
    """Whether a snapshot is one of the log as it is now."""
    return _count(name) < len(wanted) and name == _name(_count(name), wanted[_count(name)])


def prunable(names: list[str], wanted: list[str], served: str = "") -> list[str]:
    """Snapshots to delete: those of a log that has changed since, and all but one at each doubling of the distance.

    So late data, however old, replays at most about twice the rounds since then. The one that is ``served`` stays.
    """
    valid = [name for name in names if _fits(name, wanted)]
    newest = max((_count(name) for name in valid), default=0)
    keep: dict[int, str] = {}
    for name in sorted(valid):
        # The oldest of each bucket stays: it grows into the next one as new snapshots come.
        keep.setdefault((newest - _count(name)).bit_length(), name)
    return sorted(set(names) - set(keep.values()) - {served})
