"""The campaigns of this process: who works on which, in threads off the event loop.

A campaign has several lines of work, each with a `Campaign` object and threads of its own: choosing (ask, preview,
close), telling, reading, and counting (progress, lift, export). Within a line calls take turns; lines never wait for
each other, so that a slow ask delays neither responses nor readers. Everything that counts is in the store: another
worker on the same database sees the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import anyio.to_thread

from tensorucb.campaign import Campaign, CampaignProgress, load_campaign
from tensorucb.errors import TensorUCBError, call
from tensorucb.service._problems import Refusal, missing
from tensorucb.service._settings import ServiceSettings
from tensorucb.store import open_store
from tensorucb.store._protocol import CampaignRecord
from tensorucb.work import Engine

Line = Literal["choose", "tell", "read", "count"]
T = TypeVar("T")

_THREADS: dict[Line, int] = {"choose": 4, "tell": 8, "read": 8, "count": 4}
_HELD = 128  # campaign objects kept between calls
_KEPT = 16  # results kept between calls, of all campaigns together
TICK = 1.0  # seconds between looks at the deadlines of rounds, and at the log for those who watch it
_PRUNE = 3600.0  # seconds between looks at old answers
LASTS = 86_400.0  # seconds that an answer is kept for a caller who asks again with the same key
_log = logging.getLogger("tensorucb.service")


class Desk:
    """Hands each call to the campaign and the thread that it belongs to."""

    def __init__(self, settings: ServiceSettings, engine: Engine | None = None) -> None:
        self.settings, self._engine = settings, engine
        self.store = open_store(settings.storage, read_only=settings.read_only)
        self.stopping = asyncio.Event()
        self._limits = {line: anyio.CapacityLimiter(count) for line, count in _THREADS.items()}
        if engine is not None:  # the workers of a cluster hold the samples of one choice at a time
            self._limits["choose"] = anyio.CapacityLimiter(1)
        self._turns: weakref.WeakValueDictionary[tuple[Line, str], asyncio.Lock] = weakref.WeakValueDictionary()
        self._campaigns: dict[tuple[Line, str], tuple[int, Campaign]] = {}
        self._caching = threading.Lock()  # threads of all lines share the two dictionaries of what is kept
        self._progress: dict[str, tuple[str, CampaignProgress]] = {}
        self._seen: dict[str, tuple[float, str]] = {}
        self._kept: dict[tuple[str, str], tuple[Any, Any]] = {}

    async def aside(self, call: Callable[[], T], line: Line = "read") -> T:
        """Run a call that belongs to no campaign; one that writes or takes long must not take the readers' threads."""
        return await anyio.to_thread.run_sync(call, limiter=self._limits[line])

    async def run(self, line: Line, name: str, call: Callable[[Campaign], T]) -> T:
        """Run a call on a campaign, when it is its turn in that line."""
        turn = self._turns.setdefault((line, name), asyncio.Lock())
        async with turn:
            return await anyio.to_thread.run_sync(lambda: call(self._campaign(line, name)), limiter=self._limits[line])

    def record(self, name: str) -> CampaignRecord:
        """The campaign of that name as the store has it now."""
        with self.store.read() as session:
            found = session.campaign(name)
        if found is None:
            raise missing("there is no campaign of this name; ", call("campaigns"), " lists them.")
        return found

    def _campaign(self, line: Line, name: str) -> Campaign:
        """The object of a line; a new one if somebody deleted the campaign and created another of that name."""
        number = self.record(name).campaign
        with self._caching:
            held = self._campaigns.pop((line, name), None)
        if held is None or held[0] != number:
            engine = self._engine if line == "choose" else None
            held = number, load_campaign(name, storage=self.store, engine=engine)
        with self._caching:
            self._campaigns[line, name] = held
            while len(self._campaigns) > _HELD:
                self._campaigns.pop(next(iter(self._campaigns)))
        return held[1]

    def kept(self, what: str, name: str, tag: Any, make: Callable[[], T]) -> T:
        """What was made of a campaign for the same tag before; otherwise it is made now and kept."""
        with self._caching:
            held = self._kept.pop((what, name), None)
        found: T = held[1] if held is not None and (held[0] is tag or held[0] == tag) else make()
        with self._caching:
            self._kept[what, name] = tag, found
            while len(self._kept) > _KEPT:
                self._kept.pop(next(iter(self._kept)))
        return found

    def tag(self, name: str) -> str:
        """Changes with every event of a campaign's log."""
        record = self.record(name)
        with self.store.read() as session:
            return f"{record.campaign}-{session.last_event(record.campaign)}"

    async def watched(self, name: str) -> str:
        """The tag, looked up once for all who watch the campaign."""
        held = self._seen.get(name)
        if held is None or time.monotonic() - held[0] >= TICK / 2:
            self._seen = {key: value for key, value in self._seen.items() if time.monotonic() - value[0] < 10 * TICK}
            held = self._seen[name] = time.monotonic(), await self.aside(lambda: self.tag(name))
        return held[1]

    async def progress(self, name: str) -> tuple[str, CampaignProgress]:
        """How a campaign is going, and its tag; counted again only if the log has grown."""

        def counted(campaign: Campaign) -> tuple[str, CampaignProgress]:
            tag = self.tag(name)
            held = self._progress.get(name)
            if held is None or held[0] != tag:
                held = self._progress[name] = tag, campaign.progress()
            return held

        return await self.run("count", name, counted)

    async def keep_closing(self) -> None:
        """Close rounds whose deadline has passed, and learn them, until the service stops; old answers go too."""
        pruned = float("-inf")
        while not self.stopping.is_set():
            with _logged():
                if time.monotonic() - pruned > _PRUNE:
                    pruned = time.monotonic()
                    await self.aside(self._prune, "tell")
                for name in await self.aside(self._due):
                    with _logged():
                        await self.run("choose", name, _close_due)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK)

    def _prune(self) -> None:
        with self.store.write() as session:
            session.prune_answers(time.time() - LASTS)

    def _due(self) -> list[str]:
        """Names of the campaigns with rounds to close: no other one is loaded for it."""
        with self.store.read() as session:
            return session.due_campaigns(time.time())

    def names(self) -> list[str]:
        """The names of all campaigns."""
        with self.store.read() as session:
            return [record.name for record in session.campaigns()]

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong is logged, and tried again a moment later."""
    try:
        yield
    except (TensorUCBError, Refusal) as error:
        _log.warning("rounds that are due could not be closed: %s", error)
    except Exception:
        _log.exception("rounds that are due could not be closed")


def _close_due(campaign: Campaign) -> None:
    if campaign.expire(time.time()):
        campaign.sync()
