"""The worker processes of a Ray cluster, and calls to them that survive the loss of a node.

Ray does not repeat the calls of an actor whose node died. We do: another worker gets the same call, a bounded number
of times, and makes again what the lost one held (see `_worker`).
"""

from __future__ import annotations

import itertools
import re
import socket
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tensorucb import __version__
from tensorucb.checks import check_text, refusal
from tensorucb.engines._worker import Worker
from tensorucb.errors import EngineError, MissingExtraError, StateError
from tensorucb.work import AfterRun

_ATTEMPTS = 4  # of one call, before somebody has to look at the cluster
_CONNECT = 45.0  # seconds in which the cluster must have let us in; less than after which Ray itself gives up
_PATIENCE = 60.0  # seconds in which a worker must have started
_POLL = 2.0  # seconds between two looks at whether the cluster is still there
_START_AGAIN = (
    "Start the head with an address of this machine at which other machines reach it "
    "(`ray start --head --node-ip-address=ADDRESS`), and give that address."
)

Call = tuple[str, tuple[Any, ...]]
"""A worker's method, and its arguments."""


class Crew:
    """One worker for each free CPU of the cluster at ``address``."""

    def __init__(self, address: str) -> None:
        self.address = check_text("address", address)
        self.ray, self._ours = _connected(self.address)
        self._numbers = itertools.count()
        self._workers: dict[int, Any] = {}
        # One thread at a time: it waits for the workers, and replaces those that are lost.
        self._turn = threading.Lock()
        try:
            self._hire()
        except BaseException:
            self.close()
            raise
        self.size = len(self._workers)
        # Which worker owns a shard; another one inherits it if that one is lost.
        self._owners = dict(enumerate(self._workers))

    def on_shards(self, calls: Sequence[tuple[int, Call]]) -> list[Any]:
        """Call methods of shards, each given by its number, at the same time; results in order."""
        full = [("shard", (number, method, *arguments)) for number, (method, arguments) in calls]
        return self.run(full, owner=lambda i: self._owners[calls[i][0]])

    def close(self) -> None:
        """End the workers, and the connection if it was made for them."""
        with self._turn:
            workers, self._workers = self._workers, {}
        if _unreachable(self.address) is None:
            for worker in workers.values():
                self.ray.kill(worker)
        if self._ours:
            self.ray.shutdown()

    def run(
        self, calls: Sequence[Call], done: AfterRun = lambda i, result: None, owner: Callable[[int], int] | None = None
    ) -> list[Any]:
        """Make these calls, each on its owner or the next worker that is free; ``done(i, result)`` after each."""
        with self._turn:
            if not self._workers:
                raise StateError("this engine is closed; make a new one.")
            return self._run(calls, done, owner)

    def _run(self, calls: Sequence[Call], done: AfterRun, owner: Callable[[int], int] | None) -> list[Any]:
        results: list[Any] = [None] * len(calls)
        waiting, attempts = list(range(len(calls))), Counter[int]()
        pending: dict[Any, tuple[int, int]] = {}
        while waiting or pending:
            busy = {worker for _, worker in pending.values()}
            free = [number for number in self._workers if number not in busy]
            while waiting and (owner is not None or free):
                i = waiting.pop(0)
                worker = owner(i) if owner is not None else free.pop()
                method, arguments = calls[i]
                pending[getattr(self._workers[worker], method).remote(*arguments)] = i, worker
            # Shards answer together; elsewhere the first to be free gets the next piece.
            wanted = len(pending) if owner is not None else 1
            ready, _ = self.ray.wait(list(pending), num_returns=wanted, timeout=_POLL)
            if not ready:
                self._check_alive()
            for reference in ready:
                i, worker = pending.pop(reference)
                try:
                    results[i] = self.ray.get(reference)
                except self.ray.exceptions.RayError as error:
                    self._repeatable(error)
                    attempts[i] += 1
                    if attempts[i] == _ATTEMPTS:
                        raise EngineError(
                            f"the Ray cluster at {self.address} lost the same piece of work {_ATTEMPTS} times "
                            f"({_first_line(error)}). Look at its nodes: is there enough memory on each?"
                        ) from error
                    self._replace(worker)
                    waiting.append(i)
                else:
                    done(i, results[i])
        return results

    def _repeatable(self, error: Exception) -> None:
        """Raise what was wrong with the work itself; come back if the machine was."""
        cause = getattr(error, "cause", None)
        if isinstance(error, self.ray.exceptions.RayTaskError) and not isinstance(cause, self.ray.exceptions.RayError):
            raise cause or error from None
        self._check_alive()

    def _replace(self, worker: int) -> None:
        """Let others inherit the shards of a lost worker; new workers come if there are no others."""
        lost = self._workers.pop(worker, None)
        if lost is not None:
            self.ray.kill(lost)  # if only its call was lost, it must not go on
        if not self._workers:
            self._hire()
        heirs = itertools.cycle(sorted(self._workers))
        for shard, owner in self._owners.items():
            if owner not in self._workers:
                self._owners[shard] = next(heirs)

    def _hire(self) -> None:
        """Start a worker on each CPU; those that answer in time are ours."""
        count = max(1, int(self.ray.cluster_resources().get("CPU", 0)))
        actor = self.ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Worker)
        started = [actor.remote() for _ in range(count)]
        releases = {worker.about.remote(): worker for worker in started}
        ready, late = self.ray.wait(list(releases), num_returns=1, timeout=_PATIENCE)
        # The first took as long as a start takes; the others start at the same time.
        more, late = self.ray.wait(late, num_returns=len(late), timeout=_PATIENCE / 6) if late else ([], [])
        for reference in late:
            self.ray.kill(releases[reference])
        for reference in [*ready, *more]:
            try:
                release = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                self._repeatable(error)
                continue
            self._workers[next(self._numbers)] = releases[reference]
            if release != __version__:
                raise EngineError(
                    f"the nodes of the Ray cluster at {self.address} have tensorucb {release} and this process has "
                    f"{__version__}; install the same release on all of them."
                )
        if not self._workers:
            self._check_alive()
            raise EngineError(
                f"no worker could be started on the Ray cluster at {self.address} within {_PATIENCE:.0f} seconds. "
                "Is a CPU free there (`ray status`), and tensorucb installed on its nodes?"
            )

    def _check_alive(self) -> None:
        """Notice that the cluster is gone before Ray ends this process because of it."""
        reason = _unreachable(self.address)
        if reason:
            raise EngineError(
                f"the Ray cluster at {self.address} is gone ({reason}); nothing of this call was kept. "
                "Start the cluster again, then repeat the call."
            )


def _connected(address: str) -> tuple[Any, bool]:
    """The module ``ray``, connected to the cluster, and whether it was not before."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("Ray is not installed: install it with `pip install 'tensorucb[ray]'`.") from None
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise refusal("address", "HOST:PORT of the cluster's head, such as 10.0.0.5:6379", address)
    # Ray takes both of these for this machine's address in its network.
    outside = f"{ray.util.get_node_ip_address()}:{port}" if host in ("127.0.0.1", "localhost") else address
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if connected not in (address, outside):
            raise EngineError(f"this process is connected to the Ray cluster at {connected}; one at a time.")
        return ray, False
    reason = _unreachable(address)
    if reason:
        raise EngineError(
            f"there is no Ray cluster at {address} ({reason}). Start one with `ray start --head`, or check the address."
        )
    reason = _unreachable(outside)
    if reason:  # Ray would wait there for minutes
        raise EngineError(
            f"Ray looks for the cluster at {address} under this machine's own address, {outside}, and nobody "
            f"answers there ({reason}). {_START_AGAIN}"
        )
    try:
        _init(ray, address)
    except TimeoutError:
        raise EngineError(
            f"the Ray cluster at {address} did not let this process in within {_CONNECT:.0f} seconds. Is a node of it "
            f"running on this machine (`ray status`)? {_START_AGAIN}"
        ) from None
    except Exception as error:
        ray.shutdown()
        versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", str(error))
        if len(versions) == 2:
            (theirs, their_python), (ours, our_python) = versions
            raise EngineError(
                f"the Ray cluster at {address} runs Ray {theirs} and Python {their_python}, and this process Ray "
                f"{ours} and Python {our_python}; install the same versions."
            ) from error
        raise EngineError(f"the Ray cluster at {address} does not let us in: {_first_line(error)}.") from error
    return ray, True


def _init(ray: Any, address: str) -> None:
    """Connect to the cluster; a TimeoutError if that takes too long, since some of Ray's own waiting never ends."""
    failure: list[Exception] = []
    given_up = threading.Event()

    def connect() -> None:
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except Exception as error:
            failure.append(error)
        if given_up.is_set():
            ray.shutdown()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join(_CONNECT)
    if thread.is_alive():
        given_up.set()
        raise TimeoutError
    if failure:
        raise failure[0]


def _unreachable(address: str) -> str | None:
    """Why nobody answers at the address; None if somebody does."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5.0):
            return None
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}".rstrip(".") if text else type(error).__name__
