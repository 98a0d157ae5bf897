"""The campaigns that this process has opened, each once for all threads, and what is done beside the requests.

Calls run in threads, off the event loop. Those that choose or learn take turns on their campaign's model, so they have
a few threads of their own, and never keep readers and tellers waiting. Everything that counts is in the store: another
worker on the same database sees the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread

from tensorucb.campaign import Campaign, load_campaign
from tensorucb.campaign._attention import names_in_use
from tensorucb.campaign._webhook import WEBHOOK
from tensorucb.errors import TensorUCBError, UnknownIdError, call
from tensorucb.service._problems import Refusal, missing
from tensorucb.service._settings import ServiceSettings
from tensorucb.store import open_store
from tensorucb.work import Engine

T = TypeVar("T")

_THREADS, _CHOOSING = 24, 4
_OPEN = 128  # campaigns kept between calls
TICK = 1.0  # seconds between looks at the deadlines of rounds, and at the log for those who watch it
_log = logging.getLogger("tensorucb.service")


class OpenCampaigns:
    """The campaigns of a store by name, and the threads in which they are used."""

    def __init__(self, settings: ServiceSettings, engine: Engine | None = None) -> None:
        self.settings, self._engine = settings, engine
        self.store = open_store(settings.storage, read_only=settings.read_only)
        self.stopping = asyncio.Event()
        self._threads = anyio.CapacityLimiter(_THREADS)
        # The workers of a cluster hold the samples of one choice at a time.
        self._choosing = anyio.CapacityLimiter(_CHOOSING if engine is None else 1)
        self._opening = threading.Lock()
        self._open: dict[str, Campaign] = {}
        self._delivering: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def aside(self, call: Callable[[], T], *, chooses: bool = False) -> T:
        """Run a call in a thread; one that ``chooses`` or learns may have to wait for others who do."""
        return await anyio.to_thread.run_sync(call, limiter=self._choosing if chooses else self._threads)

    async def together(self, key: Hashable, call: Callable[[], T]) -> T:
        """Run a call in a thread for all who want the same: one at a time, and who comes meanwhile shares the next one.

        So many who read the same thing at once cost as much as two, and each gets what was true after they came.
        """
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._in_turn(key, call))
        result: T = await asyncio.shield(task)  # one who goes away takes it from nobody
        return result

    async def _in_turn(self, key: Hashable, call: Callable[[], T]) -> T:
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            del self._waiting[key]
            return await self.aside(call)

    def call(self, name: str, work: Callable[[Campaign], T]) -> T:
        """Call something with the campaign of that name, as it is now."""
        campaign = self._campaign(name)
        try:
            return work(campaign)
        except UnknownIdError:
            # Somebody may have deleted it, and perhaps created another one of that name.
            with self.store.read() as session:
                record = session.campaign(name)
            if record is not None and record.campaign == campaign._handle.record.campaign:
                raise
        with self._opening:
            self._open.pop(name, None)
        return work(self._campaign(name))

    def _campaign(self, name: str) -> Campaign:
        with self._opening:
            campaign = self._open.pop(name, None)
            if campaign is None:
                try:
                    campaign = load_campaign(name, storage=self.store, engine=self._engine)
                except UnknownIdError:
                    raise missing("there is no campaign of this name; ", call("campaigns"), " lists them.") from None
            self._open[name] = campaign
            if len(self._open) > _OPEN:
                self._open.pop(next(iter(self._open)))
        return campaign

    def names_in_use(self) -> list[str]:
        """The names of the campaigns that may need a person."""
        with self.store.read() as session:
            return names_in_use(session, time.time())

    async def keep_closing(self) -> None:
        """Close rounds whose deadline has passed, learn them, and send to webhooks, until the service stops."""
        while not self.stopping.is_set():
            with _logged():
                due, told = await self.aside(self._due)
                for name in due:
                    with _logged():
                        await self.aside(partial(self.call, name, _close_due), chooses=True)
                for name in set(told) - self._delivering.keys():
                    # A receiver that is slow keeps nobody else waiting.
                    task = asyncio.create_task(self._deliver(name))
                    self._delivering[name] = task
                    task.add_done_callback(lambda _, name=name: self._delivering.pop(name))  # type: ignore[misc]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK)
        await asyncio.gather(*self._delivering.values())

    def _due(self) -> tuple[list[str], list[str]]:
        """Names of the campaigns with rounds to close, and of those with a webhook: no other one is opened for it."""
        with self.store.read() as session:
            return session.due_campaigns(time.time()), session.campaigns_with(WEBHOOK)

    async def _deliver(self, name: str) -> None:
        with _logged():
            await self.aside(lambda: self.call(name, Campaign.deliver))


def tag_of(campaign: Campaign) -> str:
    """Changes with every event of a campaign's log."""
    with campaign._handle.read() as view:
        return f"{view.number}-{view.ledger.seq}"


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong is logged, and tried again a moment later."""
    try:
        yield
    except (TensorUCBError, Refusal) as error:
        _log.warning("rounds that are due could not be closed, or told of: %s", error)
    except Exception:
        _log.exception("rounds that are due could not be closed, or told of")


def _close_due(campaign: Campaign) -> None:
    if campaign.expire(time.time()):
        campaign.sync()
