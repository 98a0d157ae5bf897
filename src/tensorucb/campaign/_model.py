"""The model of a campaign: a policy, and the rounds that it has learned. The log says which rounds these are.

Events of the kind ``learned`` name rounds, each as it was told up to an event. So a model is a function of the log up
to the last such event, in every process. A snapshot is a copy of it that saves learning these rounds again.

An ask adds the rounds that have closed since, and learns nothing again. A late response changes a round that was
learned already. A short past is then learned again by the tell that brought it, after its commit; a long one when a
round closes and a twentieth of it has changed, or when `Campaign.sync` is called. This happens in a policy apart, so
that nobody who asks waits for it.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tensorucb import policies
from tensorucb.arrays import F64, I64
from tensorucb.campaign._ledger import Pair
from tensorucb.campaign._network import Network
from tensorucb.campaign._reach import of_sources
from tensorucb.campaign._round import Round
from tensorucb.campaign._told import learned
from tensorucb.checks import refusal
from tensorucb.errors import FileFormatError, InputError, StateError
from tensorucb.files import pack_state, state_digest, unpack_state
from tensorucb.policies import Policy, PolicyState
from tensorucb.policies._base import check_policy_object
from tensorucb.store._protocol import Responses

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View

SNAPSHOTS = "snapshot-"

# Work is counted in observed edges; a round counts as its own edges and this many more.
_ROUND = 200
# A past of so much work is learned again at once; of a longer one, this share must have changed.
_SHORT, _SHARE = 40_000, 0.05
_LONG = 1.0  # seconds of learning after which a snapshot is worth its bytes
_REASON = 300  # characters of an error that the log keeps
_ABSTRACT = ("UCBPolicy", "Policy")

Caller = Literal["tell", "close", "sync"]
"""Who brings the model up to date."""


def policy_spec(policy: Policy) -> dict[str, Any]:
    """The policy's type and arguments as JSON; a policy among the arguments is described in the same way.

    A policy of this package can be built again from it. One of another package, or around one of another package, can
    only be recognised by it.
    """
    check_policy_object("policy", policy)
    kind, settings = type(policy), getattr(policy, "settings", None)
    name, arguments = kind.__name__, dict(settings()) if callable(settings) else {}
    if name not in policies.__all__ or getattr(policies, name) is not kind:
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "own": False, "arguments": arguments}
    inner = {key: policy_spec(value) for key in arguments if isinstance(value := getattr(policy, key, None), Policy)}
    foreign = [spec["type"] for spec in inner.values() if not spec["own"]]
    title = f"{name} around {', '.join(foreign)}" if foreign else name
    return {"type": title, "own": not foreign, "arguments": {**arguments, **inner}}


def build_policy(spec: Mapping[str, Any], policy: Policy | None) -> Policy:
    """The policy of a spec; one of another package must be passed as ``policy`` and fit."""
    if policy is not None:
        passed_spec = policy_spec(policy)
        if json.dumps(passed_spec, sort_keys=True) != json.dumps(dict(spec), sort_keys=True):
            raise InputError(
                f"the campaign was created with policy {spec['type']} and arguments {spec['arguments']}; "
                f"got {passed_spec['type']} with {passed_spec['arguments']}. "
                "Pass the same, or none for one of this package."
            )
        if not spec["own"]:
            return policy
    if not spec["own"]:
        raise StateError(
            f"the campaign's policy {spec['type']} is not of this package. "
            "Load it in Python, with load_campaign(…, policy=…)."
        )
    return policy_named(spec["type"], spec["arguments"])


def policy_named(name: Any, settings: str | Mapping[str, Any]) -> Policy:
    """A policy by its name; an argument ``policy`` is the name of another, or its ``type`` and ``arguments``."""
    if not _is_policy(name):  # only the one that is named is loaded
        raise refusal("policy", f"one of {', '.join(filter(_is_policy, policies.__all__))}", name)
    wanted = f"the arguments of {name} as a JSON object"
    try:
        arguments = json.loads(settings) if isinstance(settings, str) else settings
        if not isinstance(arguments, dict):
            raise refusal("policy_settings", wanted, arguments)
        inner = arguments.get("policy")
        if isinstance(inner, str | dict):
            spec = {"type": inner} if isinstance(inner, str) else inner
            arguments = {**arguments, "policy": policy_named(spec.get("type"), spec.get("arguments", {}))}
        built: Policy = getattr(policies, name)(**arguments)
        return built
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"must be {wanted} ({error}).", argument="policy_settings") from error


def _is_policy(name: Any) -> bool:
    return name in policies.__all__ and name not in _ABSTRACT and hasattr(getattr(policies, name), "bind")


class DamagedSnapshotWarning(RuntimeWarning):
    """A stored snapshot is damaged; the model was learned again from the log instead."""


class UnlearnableRoundWarning(RuntimeWarning):
    """A round could not be learned; the model goes on without it, and ``status()`` names it."""


class _UnlearnableError(Exception):
    """The policy refused a round, or was left with something that is not a number."""


def learns_again(view: View, caller: Caller) -> bool:
    """Whether a past that has changed is learned again now: a short one always, a long one only now and then."""
    now, known = view.ledger.in_order, view.ledger.known
    if known == now:
        return False
    changed = len(set(now).symmetric_difference(known)) // 2 or 1
    return caller == "sync" or (caller == "close" and changed >= _SHARE * len(now)) or _short(view, now)


def _short(view: View, pairs: Sequence[Pair]) -> bool:
    """Whether so much may be learned again within one tell."""
    degrees, rounds = view.network.graph.out_degree, view.ledger.rounds
    if len(pairs) * _ROUND > _SHORT:
        return False
    return sum(_ROUND + int(degrees[rounds[number].contacted].sum()) for number, _ in pairs) <= _SHORT


class Model:
    """A policy and the rounds that it has learned, one after the other.

    ``pairs`` are these rounds in order, each with the event up to which it was told. ``network`` is the network that
    the policy is bound to; None if it holds nothing that can be built on. ``replayed`` says how many rounds the last
    `follow` learned and ``slow`` whether that took long. Without ``snapshots`` it goes on from none of the store.
    """

    def __init__(self, policy: Policy, seed: int, snapshots: bool = True) -> None:
        self.policy = policy
        self._seed = seed
        self._snapshots = snapshots
        self.network: Network | None = None
        self.pairs: list[Pair] = []
        self.damaged: set[str] = set()
        self.replayed = 0
        self.slow = False

    def leads_to(self, network: Network, pairs: Sequence[Pair]) -> bool:
        """Whether learning more rounds makes this model one that has learned exactly ``pairs``."""
        bound = self.network is not None and self.network.revision == network.revision
        return bound and self.pairs == list(pairs[: len(self.pairs)])

    def begin(self, network: Network) -> None:
        """Bind again, with nothing learned."""
        with self._unsafe(network):
            self.policy.bind(network.graph, network.users, np.random.default_rng([self._seed, 0]))
            self.pairs = []

    def follow(self, view: View, pairs: Sequence[Pair]) -> None:
        """Learn what is missing of ``pairs``, from a snapshot or from nothing if it has learned something else."""
        started = time.perf_counter()
        if not self.leads_to(view.network, pairs):
            self._resume(view, pairs)
        missing = pairs[len(self.pairs) :]
        self.learn(view, missing)
        self.replayed = len(missing)
        self.slow = time.perf_counter() - started > _LONG

    def learn(self, view: View, pairs: Sequence[Pair]) -> None:
        """Learn some more rounds; those that cannot be learned are left out, and the view is told.

        Whether the policy still gives numbers is looked at once, at the end.
        """
        if not pairs:
            return
        after = [*self.pairs, *pairs]
        try:
            with self._unsafe(self.network):
                for pair in pairs:
                    self._take(view, pair)
                self._check_scores(view.ledger.rounds[pairs[-1][0]])
                self.pairs = after
        except _UnlearnableError:
            self._one_by_one(view, after)

    def lesson(self, network: Network, record: Round, told: Responses) -> tuple[I64, F64]:
        """Edges and outcomes that a closed round teaches a policy that has learned the rounds before it."""

        def believed() -> F64:
            products, places = record.contexts(), record.places(network)
            means = np.stack([self.policy.prediction(product).expected() for product in products])
            return of_sources(network.graph, means, places)

        return learned(network, record, told, believed)

    def state_hash(self) -> str:
        """SHA-256 of the policy's state in canonical form."""
        state = self.policy.state()
        return state_digest(json.dumps(dict(state.settings), sort_keys=True), state.arrays)

    def to_blob(self, view: View) -> bytes:
        """The model as bytes. This looks at the policy's state too, and leaves out rounds which spoiled that."""
        try:
            state = self._checked_state()
        except _UnlearnableError:
            self._one_by_one(view, self.pairs)
            state = self.policy.state()
        knows = {"world": view.network.revision, "rounds": self.pairs, "state": dict(state.settings)}
        return pack_state("snapshot", knows, state.arrays, compressed=True)

    def _resume(self, view: View, pairs: Sequence[Pair]) -> None:
        """Begin again, from the newest snapshot whose rounds are the first of ``pairs``, if there is one."""
        self.begin(view.network)
        for name in reversed(view.session.blobs(view.number, SNAPSHOTS)) if self._snapshots else ():
            if name in self.damaged or count_of(name) > len(pairs):
                continue
            try:
                settings, arrays = unpack_state(
                    view.session.blob(view.number, name) or b"", "snapshot", f"snapshot {name}"
                )
                rounds = [(int(number), int(event)) for number, event in settings["rounds"]]
                if settings["world"] != view.network.revision or rounds != list(pairs[: len(rounds)]):
                    continue
                with self._unsafe(view.network):
                    self.policy.restore(PolicyState(settings["state"], arrays))
                    self.pairs = rounds
                return
            except (FileFormatError, InputError, KeyError, TypeError, ValueError) as error:
                self.damaged.add(name)
                self.begin(view.network)
                warnings.warn(f"{error} The model is learned again from the log.", DamagedSnapshotWarning, stacklevel=2)

    @contextmanager
    def _unsafe(self, network: Network | None) -> Iterator[None]:
        """While this block runs, the model counts as empty: an interrupted policy must not be built on."""
        self.network = None
        yield
        self.network = network

    def _one_by_one(self, view: View, pairs: Sequence[Pair]) -> None:
        """Learn these rounds again, to find out which of them it was that cannot be learned."""
        self._resume(view, pairs)
        with self._unsafe(self.network):
            state = self.policy.state()
            for pair in pairs[len(self.pairs) :]:
                record = view.ledger.rounds[pair[0]]
                try:
                    self._take(view, pair)
                    self._check_scores(record)
                    state = self._checked_state()
                except _UnlearnableError as error:
                    self.policy.restore(state)
                    view.leave_out(pair, str(error))
                    warnings.warn(
                        f"round {record.id} could not be learned and is left out of the model ({error}). The campaign "
                        "goes on; cancel the round if nobody needs it.",
                        UnlearnableRoundWarning,
                        stacklevel=2,
                    )
                else:
                    self.pairs = [*self.pairs, pair]

    def _take(self, view: View, pair: Pair) -> None:
        """Let the policy learn one round."""
        network, record = view.network, view.ledger.rounds[pair[0]]
        with _blamed():
            products, places = record.contexts(), record.places(network)
            # Credit is a matter of the whole round; then each strategy teaches what was done with it, in a fixed order.
            edges, outcomes = self.lesson(network, record, view.told(*pair))
            used = sorted(set(places[record.contacted].tolist())) or [0]
            for at in used:
                own = slice(None) if len(products) == 1 else places[network.graph.sources[edges]] == at
                history: dict[str, Any] = {}
                if record.kind == "history" and getattr(self.policy, "weighs_history", False):
                    history = {"passive": True}
                self.policy.update(products[at], edges[own], outcomes[own], **history)

    def _check_scores(self, record: Round) -> None:
        # A policy whose scoring changes what it knows must not be asked more often than by its caller.
        if not getattr(self.policy, "pure", False):
            return
        with _blamed():
            scores = np.asarray(self.policy.score(record.contexts()[0]))
        if not np.isfinite(scores).all():
            raise _UnlearnableError("afterwards the policy's scores were not all numbers")

    def _checked_state(self) -> PolicyState:
        with _blamed():
            state = self.policy.state()
        for name, array in state.arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise _UnlearnableError(f"afterwards the policy's state had NaN or infinity in {name!r}")
        return state


@contextmanager
def _blamed() -> Iterator[None]:
    """Whatever a policy raises, of this package or another, means that the round cannot be learned."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise _UnlearnableError(f"{type(error).__name__}: {error}"[:_REASON]) from error


def snapshot_name(event: int, count: int) -> str:
    """The blob of the model after an event of the log, which had learned so many rounds."""
    return f"{SNAPSHOTS}{event:010d}-{count:08d}"


def count_of(name: str) -> int:
    """How many rounds the model of a snapshot had learned."""
    return int(name.rsplit("-", 1)[1])


def prunable(names: Sequence[str]) -> list[str]:
    """Snapshots to delete: all but one at each doubling of the distance to the newest.

    So late data, however old, replays at most about twice the rounds since then.
    """
    newest = max((count_of(name) for name in names), default=0)
    keep: dict[int, str] = {}
    for name in sorted(names, key=count_of):
        # The oldest of each distance stays: it grows into the next one as new snapshots come.
        keep.setdefault((newest - count_of(name)).bit_length(), name)
    return sorted(set(names) - set(keep.values()))
