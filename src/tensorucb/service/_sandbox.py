"""A campaign that plays itself on a generated network, so that anybody can look at the page; its regret is known."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Self

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign import Ask, Campaign, CampaignData, create_campaign
from tensorucb.campaign._segments import UserColumns
from tensorucb.data import Sandbox, make_sandbox
from tensorucb.diffusion import direct_spread, observe
from tensorucb.errors import TensorUCBError
from tensorucb.oracle import select_seeds
from tensorucb.service._app import run
from tensorucb.service._figures import RoundRegret, write_regret
from tensorucb.service._settings import ServiceSettings

NAME = "sandbox"
_USERS = 1_000
_EDGES = 12_000
_PRODUCTS = 40
_K = 10
_HOLDOUT = 0.2
_WINDOW = "1d"
_DAY = 86_400.0
_STRATEGIES: dict[int | str, float] = {"email": 0.1, "letter": 1.0, "call": 3.0}  # and what each costs
_OFFERS: dict[int | str, str] = {"email": "E-mail", "letter": "Letter by post", "call": "Phone call"}
_GIVEN = ("Ada", "Ben", "Chloe", "Dimitri", "Eleni", "Fatima", "Goran", "Hana", "Ines", "Kwame", "Mei", "Olga")
_FAMILY = ("Andersen", "Becker", "Costa", "Dubois", "Evans", "Garcia", "Haddad", "Ito", "Kowalski", "Moreau", "Novak")
_KINDS = ("Lamp", "Chair", "Desk", "Rug", "Mug", "Kettle", "Pillow", "Mirror")
_LOOKS = ("Oak", "Linen", "Copper", "Glass", "Wool")
_COUNTRIES = ("Germany", "France", "Spain", "Portugal", "Poland")
_BY_THEMSELVES = 0.005  # chance that a follower acts without having been influenced
_PAST = 12  # rounds that are there from the beginning, one per day
_PARTS = 4  # in which the responses of a round come
PACE = 6.0  # seconds from round to round

_log = logging.getLogger("tensorucb.service")


class Truth:
    """What really happens in a sandbox: who responds, and what the best choice would reach."""

    def __init__(self, sandbox: Sandbox, rng: np.random.Generator) -> None:
        self._sandbox, self._rng = sandbox, rng
        self._product = {name: number for number, name in enumerate(sandbox.names)}
        self._strategy = {str(name): number for number, name in enumerate(_STRATEGIES)}
        self._best = cache(self._find_best)

    def responders(self, ask: Ask) -> list[int | str]:
        """Who acts after the contact: followers who are influenced, and some who act by themselves."""
        graph = self._sandbox.graph
        chosen, contacted = graph.rows([*ask.seeds, *ask.held_out]), graph.rows(list(ask.seeds))
        edges, outcomes = observe(graph, self._probabilities(ask), contacted, rng=self._rng)
        followers = np.unique(graph.targets[graph.out_edges(chosen)])
        by_themselves = followers[self._rng.random(followers.size) < _BY_THEMSELVES]
        acted = np.setdiff1d(np.union1d(graph.targets[edges[outcomes > 0]], by_themselves), chosen)
        ids: list[int | str] = graph.ids[self._rng.permutation(acted)].tolist()
        return ids

    def regret(self, ask: Ask) -> RoundRegret:
        """What the choice of a round lost."""
        rows = self._sandbox.graph.rows([*ask.seeds, *ask.held_out])
        reach = self._reach(self._probabilities(ask), rows)
        best = self._best(ask.product, rows.size)
        return RoundRegret(round=ask.id, number=ask.number, reach=reach, best=best, regret=best - reach)

    def _probabilities(self, ask: Ask) -> F64:
        strategy = None if ask.strategies is None else self._strategy[str(ask.strategies[0])]
        return self._sandbox.probabilities(self._product[str(ask.product)], strategy)

    def _reach(self, probabilities: F64, rows: I64) -> float:
        return direct_spread(self._sandbox.graph, probabilities, rows) - rows.size

    def _find_best(self, product: int | str, k: int) -> float:
        graph, number = self._sandbox.graph, self._product[str(product)]
        offers = [self._sandbox.probabilities(number, strategy) for strategy in self._strategy.values()]
        picks = [select_seeds(graph, p, k, objective="direct").seeds for p in offers]
        return max(self._reach(p, graph.rows(pick)) for p, pick in zip(offers, picks, strict=True))


class Player:
    """Plays the campaign ``sandbox`` in a thread: opens a round every ``pace`` seconds, tells responses, closes it."""

    def __init__(self, storage: str, *, name: str = NAME, seed: int = 0, pace: float = PACE) -> None:
        sandbox = make_sandbox(_USERS, _EDGES, _PRODUCTS, n_topics=8, n_strategies=len(_STRATEGIES), rng=seed)
        self._rng = np.random.default_rng([seed, 1])
        self._truth = Truth(sandbox, self._rng)
        self._names, self._pace = sandbox.names, pace
        self._now: float | None = time.time() - (_PAST + 1) * _DAY  # None: the clock's
        self._regret: list[RoundRegret] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="sandbox", daemon=True)
        self.campaign = _created(storage, name, sandbox, seed, self._clock)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # On its first run the choice compiles for a while; a Ctrl-C does not wait for that, and the process ends it.
        self._thread.join(timeout=2.0)
        if not self._thread.is_alive():
            self.campaign.disconnect()

    def _clock(self) -> float:
        return time.time() if self._now is None else self._now

    def _play(self) -> None:
        for _ in range(_PAST):
            if self._stop.is_set():
                return
            self._round(pause=0.0)
            self._now = self._clock() + _DAY
        self._now = None
        while not self._stop.is_set():
            self._round(pause=self._pace / (_PARTS + 1))

    def _round(self, pause: float) -> None:
        """One round. What a visitor did to it (closed, cancelled, deleted) only ends this round."""
        try:
            product = str(self._rng.choice(self._names))
            ask = self.campaign.ask(product, _K, strategies="all", holdout=_HOLDOUT)
            self._regret.append(self._truth.regret(ask))
            write_regret(self.campaign.store, self.campaign.name, self._regret)
            for users in np.array_split(np.array(self._truth.responders(ask)), _PARTS):
                if self._stop.wait(pause):
                    return
                at = self._clock()
                self.campaign.tell(ask.id, [{"user": user, "time": at} for user in users.tolist()])
            if not self._stop.wait(pause):
                self.campaign.close(ask.id)
        except TensorUCBError as error:
            _log.warning("the sandbox's round ended early: %s", error)
            self._stop.wait(self._pace)


def _created(storage: str, name: str, sandbox: Sandbox, seed: int, clock: Callable[[], float]) -> Campaign:
    # As many as products.
    names = [f"{look} {kind.lower()}" for look in _LOOKS for kind in _KINDS]
    data = CampaignData(
        graph=sandbox.graph,
        users=sandbox.users,
        products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
        strategies=dict(zip(_STRATEGIES, sandbox.strategies.tolist(), strict=True)),
        strategy_costs=_STRATEGIES,
        names={"products": dict(zip(sandbox.names, names, strict=True)), "strategies": _OFFERS},
        user_columns=_invented(sandbox.graph.n_nodes, seed),
    )
    return create_campaign(name, data=data, window=_WINDOW, ask={"k": _K}, seed=seed, storage=storage, clock=clock)


def _invented(count: int, seed: int) -> UserColumns | None:
    """Names, countries and ages that say nothing about who responds: a split should show no more than chance does."""
    import polars as pl

    rng = np.random.default_rng([seed, 2])
    names = [f"{_GIVEN[i]} {_FAMILY[j]}" for i, j in rng.integers(0, (len(_GIVEN), len(_FAMILY)), (count, 2)).tolist()]
    columns = {"country": rng.choice(_COUNTRIES, count), "age": rng.integers(18, 80, count)}
    return UserColumns.of(count, pl.Series(names), [pl.Series(name, values) for name, values in columns.items()])


def serve_sandbox(port: int, seed: int, started: Callable[[str], object]) -> None:
    """Serve a campaign that plays itself until a signal says stop; nothing of it is left then.

    ``started`` is called with the address once clients can connect; port 0 is any free one.
    """
    with tempfile.TemporaryDirectory(prefix="tensorucb-sandbox-", ignore_cleanup_errors=True) as folder:
        storage = f"sqlite:///{folder}/{NAME}.db"
        with Player(storage, seed=seed):
            run(ServiceSettings(storage, port=port), started=started)
