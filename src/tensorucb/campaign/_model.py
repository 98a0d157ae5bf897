"""The model is a pure function of the log: a fold over closed rounds, and snapshots that make it quick."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._credit import credits
from tensorucb.campaign._ledger import Ledger, canonical, prefix_hashes
from tensorucb.campaign._policy import state_hash
from tensorucb.campaign._store import EdgeResponses, NodeEvents, RoundRecord, Session
from tensorucb.campaign._world import World, seal, unseal
from tensorucb.errors import FileFormatError, InputError
from tensorucb.policies import Policy, PolicyState, Product
from tensorucb.policies.beliefs import expected_probabilities

__all__ = ["DamagedSnapshotWarning", "Model", "Snapshot", "as_product", "learned", "prunable"]

SNAPSHOTS = "snapshot-"
_LONG = 1.0  # seconds of replay after which a snapshot is worth its bytes


class DamagedSnapshotWarning(RuntimeWarning):
    """A stored snapshot is damaged; the model was learned again from the log instead."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot to be stored: its blob's name and bytes."""

    name: str
    data: bytes


def as_product(payload: Mapping[str, Any]) -> Product:
    """The product's feature vectors, as policies take them."""
    vectors = [np.array(vector, dtype=np.float64) for vector in payload["product"]["vectors"]]
    return vectors[0] if len(vectors) == 1 else vectors


def learned(
    world: World,
    record: RoundRecord,
    told: EdgeResponses,
    acted: NodeEvents,
    probabilities: Callable[[], NDArray[np.float64]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges and outcomes that a closed round teaches, in graph order.

    All out-edges of the contacted users, silence being 0; of an imported round only the edges that were told. What
    was told of an edge and the credit from node events combine by maximum.
    """
    graph, payload = world.graph, record.payload
    told_edges, told_outcomes = _told(world, told)
    if payload["learn"] == "told":
        order = np.argsort(told_edges, kind="stable")
        return told_edges[order], told_outcomes[order]
    edges = graph.out_edges(np.sort(world.rows(payload["contacted"])))
    # An edge that joined later was not silent in this round, but may have been told.
    edges = edges[(world.born[edges] <= record.number) | np.isin(edges, told_edges)]
    outcomes = np.zeros(edges.size)
    if acted.users.size:
        known = np.isin(acted.users, world.keys)
        users = world.rows(acted.users)
        window = payload["window"]
        outcomes = credits(
            payload["credit"], graph, edges, users, acted.times[known], record.opened, window, probabilities
        )
    if told_edges.size:
        at = np.searchsorted(edges, told_edges)
        at[at == edges.size] = 0
        held = edges[at] == told_edges if edges.size else np.zeros(told_edges.size, dtype=np.bool_)
        outcomes[at[held]] = np.maximum(outcomes[at[held]], told_outcomes[held])
    return edges, outcomes


def _told(world: World, told: EdgeResponses) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if told.sources.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    known = np.isin(told.sources, world.keys) & np.isin(told.targets, world.keys)
    edges = world.graph.edge_between(world.rows(told.sources[known]), world.rows(told.targets[known]))
    outcomes = told.outcomes[known]
    return edges[edges >= 0], outcomes[edges >= 0]


class Model:
    """A policy with what it learned from the first rounds of the canonical order.

    Parameters
    ----------
    policy
        The policy; bound anew whenever learning starts again.
    spec
        The policy's type and arguments, part of what snapshots depend on.
    seed
        The campaign's seed.
    every
        A snapshot is due whenever the number of learned rounds passes a multiple of this.
    """

    def __init__(self, policy: Policy, spec: Mapping[str, Any], seed: int, every: int) -> None:
        self.policy = policy
        self._spec = json.dumps(dict(spec), sort_keys=True)
        self._seed = seed
        self._every = every
        self._world: World | None = None
        self._hashes: list[str] = []
        self.damaged: set[str] = set()
        self.replayed = 0

    @property
    def hash(self) -> str:
        """Hash of the rounds and the world that the policy has learned from."""
        return self._hashes[-1] if self._hashes else ""

    def state_hash(self) -> str:
        """SHA-256 of what the policy has learned."""
        return state_hash(self.policy.state())

    def prefixes(self, world: World, ledger: Ledger) -> list[str]:
        """Hashes of all lengths of the canonical order as it is now."""
        return prefix_hashes(f"{self._spec}|{self._seed}|{world.revision}", canonical(ledger))

    def sync(self, session: Session, ledger: Ledger, world: World, *, snapshots: bool = True) -> list[Snapshot]:
        """Learn what is new; learn again from the last valid point where the past has changed.

        Returns the snapshots worth storing.
        """
        records, wanted = canonical(ledger), self.prefixes(world, ledger)
        done = len(self._hashes) - 1
        if not (self._world is not None and 0 <= done < len(wanted) and self._hashes[-1] == wanted[done]):
            done = self._resume(session, ledger.campaign, world, wanted, use=snapshots)
        started, first, due = time.perf_counter(), done, []
        self.replayed = len(records) - done
        for count, record in enumerate(records[done:], done + 1):
            # Interrupted half-way, the policy holds nobody knows what: the next sync must not build on it.
            self._hashes = []
            self._learn(session, ledger.campaign, record)
            self._hashes = wanted[: count + 1]
            if count % self._every == 0:
                due.append(self._snapshot(count))
        total = len(records)
        if time.perf_counter() - started > _LONG and total > first and total % self._every:
            due.append(self._snapshot(total))
        return due

    def _learn(self, session: Session, campaign: int, record: RoundRecord) -> None:
        assert self._world is not None
        product = as_product(record.payload)
        edges, outcomes = learned(
            self._world,
            record,
            session.edge_responses(campaign, record.number),
            session.node_events(campaign, record.number),
            lambda: expected_probabilities(self.policy, product),
        )
        self.policy.update(product, edges, outcomes)

    def _resume(self, session: Session, campaign: int, world: World, wanted: list[str], *, use: bool) -> int:
        """Bind anew and restore the newest snapshot that fits; returns how many rounds it covers."""
        self._world, self._hashes = world, []
        self._bind(world)
        names = session.blobs(campaign, SNAPSHOTS) if use else []
        for name in reversed(names):
            count = _count(name)
            if count < len(wanted) and name == _name(count, wanted[count]) and name not in self.damaged:
                state = self._read(session.blob(campaign, name) or b"", name, wanted[count])
                if state is not None:
                    self._hashes = wanted[: count + 1]
                    return count
        self._hashes = wanted[:1]
        return 0

    def _bind(self, world: World) -> None:
        self.policy.bind(world.graph, world.users, np.random.default_rng([self._seed, 0]))

    def _read(self, data: bytes, name: str, wanted: str) -> PolicyState | None:
        assert self._world is not None
        try:
            settings, arrays = unseal(data, "snapshot", f"snapshot {name}")
            if settings["basis"] != wanted:
                raise FileFormatError(f"snapshot {name} holds another state than its name says.")
            state = PolicyState(settings["state"], arrays)
            self.policy.restore(state)
        except (FileFormatError, InputError, KeyError, TypeError) as error:
            self.damaged.add(name)
            self._bind(self._world)
            warnings.warn(f"{error} The model is learned again from the log.", DamagedSnapshotWarning, stacklevel=2)
            return None
        return state

    def _snapshot(self, count: int) -> Snapshot:
        state = self.policy.state()
        basis = self._hashes[-1]
        data = seal("snapshot", {"basis": basis, "state": dict(state.settings)}, state.arrays)
        return Snapshot(_name(count, basis), data)


def _name(count: int, basis: str) -> str:
    return f"{SNAPSHOTS}{count:08d}-{basis[:32]}"


def _count(name: str) -> int:
    return int(name.removeprefix(SNAPSHOTS).split("-")[0])


def prunable(names: list[str], wanted: list[str]) -> list[str]:
    """Snapshots to delete: those of a past that is no more, and all but one at each doubling of the distance.

    So late data, however old, replays at most about twice the rounds since then.
    """
    valid = [n for n in names if _count(n) < len(wanted) and n == _name(_count(n), wanted[_count(n)])]
    newest = max((_count(name) for name in valid), default=0)
    keep: dict[int, str] = {}
    for name in sorted(valid):
        # The oldest of each bucket stays: it grows into the next one as new snapshots come.
        keep.setdefault((newest - _count(name)).bit_length(), name)
    return sorted(set(names) - set(keep.values()))
