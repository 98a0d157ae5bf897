"""Campaigns on SQLite: replay, durable tells in bulk and one by one, each beside the bare minimum in the same run.

The references: the policy alone fed from memory, and plain ``sqlite3`` with the same durability writing the same rows.
Wall time where the disk takes part.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.hot_paths import measurement, plain_database, plain_insert, telling
from tensorucb.campaign import Ask, Campaign, create_campaign
from tensorucb.campaign._catalogue import Context
from tensorucb.campaign._round import round_id
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB, Policy, TensorUCB
from tensorucb.store._protocol import Responses

_DEGREE = 100
_CONTACTED = 50


def _network(users: int) -> Graph:
    rng = np.random.default_rng(0)
    targets = np.concatenate([rng.choice(users - 1, _DEGREE, replace=False) for _ in range(users)])
    sources = np.repeat(np.arange(users), _DEGREE)
    return Graph.from_edges(sources, np.where(targets >= sources, targets + 1, targets), nodes=np.arange(users))


def _campaign(folder: str, name: str, graph: Graph, policy: Policy) -> Campaign:
    rng = np.random.default_rng(1)
    return create_campaign(
        name,
        graph=graph,
        users=rng.normal(size=(graph.n_nodes, 10)) / 3,
        policy=policy,
        storage=f"sqlite:///{folder}/{name}.db",
        objective="direct",
    )


def _product(number: int) -> np.ndarray:
    return np.random.default_rng([2, number]).dirichlet(np.full(10, 0.3))


def _responses(graph: Graph, users: np.ndarray, number: int) -> pl.DataFrame:
    edges = graph.out_edges(np.sort(users))
    outcomes = (np.random.default_rng([3, number]).random(edges.size) < 0.05).astype(np.int64)
    return pl.DataFrame({"source": graph.sources[edges], "target": graph.targets[edges], "outcome": outcomes})


def _filled(campaign: Campaign, rounds: int) -> list[tuple[np.ndarray, pl.DataFrame]]:
    """Rounds with every follower's answer, and what was told."""
    graph, told = campaign.graph, []
    rng = np.random.default_rng(4)
    for number in range(rounds):
        users = rng.choice(graph.n_nodes, _CONTACTED, replace=False)
        ask = campaign.ask(_product(number), 1, shadow=users)
        frame = _responses(graph, users, number)
        campaign.tell(ask.id, frame)
        told.append((_product(number), frame))
        _close_without_learning(campaign, ask.id)
    return told


def _close_without_learning(campaign: Campaign, round_id: str) -> None:
    with campaign._handle.write() as view:
        view.finish(view.round(round_id), "closed", time.time())


def _replay(name: str, policy: Policy, graph: Graph, rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        with _campaign(folder, "replay", graph, LinUCB()) as writer:
            told = _filled(writer, rounds)
        return _replayed(folder, name, policy, graph, told, sum(frame.height for _, frame in told))


def _replayed(
    folder: str, name: str, policy: Policy, graph: Graph, told: list[tuple[np.ndarray, pl.DataFrame]], rows: int
) -> dict[str, object]:
    from tensorucb.campaign._model import policy_spec
    from tensorucb.store import open_store

    with open_store(f"sqlite:///{folder}/replay.db") as store:
        # The same log, learned by the policy in question.
        with store.write() as session:
            record = session.campaign("replay")
            assert record is not None
        campaign = Campaign(store, "replay")
        campaign._handle.record = type(record)(
            record.campaign, record.name, {**record.settings, "policy": policy_spec(policy)}, record.created
        )
        campaign._handle.model = campaign._handle.fresh_model()
        started = time.process_time()
        campaign.replay_hash()
        ours = time.process_time() - started
        with campaign._handle.read() as view:
            users = view.network.users
    policy.bind(graph, users, np.random.default_rng([0, 0]))
    started = time.process_time()
    for product, frame in told:
        edges = graph.edge_between(frame["source"].to_numpy(), frame["target"].to_numpy())
        policy.update(product, edges, frame["outcome"].to_numpy())
    return measurement("campaign", f"replay of {rows:,} responses, {name}", ours, time.process_time() - started, "s")


def _single(graph: Graph, tells: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, _campaign(folder, "single", graph, LinUCB()) as campaign:
        users = np.arange(_CONTACTED)
        ask = campaign.ask(_product(0), 1, shadow=users)
        campaign.tell(ask.id, _responses(graph, users, 0).tail(1))  # kernels are loaded on first use
        rows = _responses(graph, users, 0).head(tells).rows()
        ours = []
        for s, t, y in rows:
            started = time.perf_counter()
            campaign.tell(ask.id, [{"source": s, "target": t, "outcome": y}])
            ours.append(time.perf_counter() - started)
        plain, bare = plain_database(folder), []
        for number, row in enumerate(rows):
            started = time.perf_counter()
            plain_insert(plain, number, [row])
            bare.append(time.perf_counter() - started)
        plain.close()
    return measurement("campaign", "one tell, 99th percentile", _percentile(ours), _percentile(bare), "ms")


def _purchases(graph: Graph, products: list[str], start: float, rows: int) -> pl.DataFrame:
    """What a shop sold in two weeks: a tenth of it are the campaign's products, a fifth was bought by guests."""
    rng = np.random.default_rng(6)
    names = np.array([*products, *(f"other {i}" for i in range(9 * len(products)))])
    users = rng.integers(0, graph.n_nodes * 5 // 4, rows)
    return pl.DataFrame(
        {
            "user": users,
            "item": names[rng.integers(0, names.size, rows)],
            "time": start + rng.integers(0, 1209600, rows),
        }
    )


def _log(graph: Graph, rows: int) -> dict[str, object]:
    """A log of purchases told to 20 rounds; beside polars reading it and a bare insert of the accepted rows."""
    products, start = [f"product {i}" for i in range(5)], 1.7e9
    with tempfile.TemporaryDirectory() as folder:
        campaign = create_campaign(
            "log",
            graph=graph,
            policy=LinUCB(),
            users=np.ones((graph.n_nodes, 1)),
            products={name: _product(i) for i, name in enumerate(products)},
            storage=f"sqlite:///{folder}/log.db",
            window="7d",
            clock=lambda: start,
        )
        rng, path = np.random.default_rng(7), Path(folder) / "log.csv"
        for number in range(20):
            campaign.ask(products[number % 5], 1, shadow=rng.choice(graph.n_nodes, _CONTACTED, replace=False))
        log = _purchases(graph, products, start, rows)
        log.with_columns(pl.from_epoch(pl.col("time").cast(pl.Int64)).dt.to_string("iso:strict")).write_csv(path)
        campaign.tell_log(log.head(100))  # kernels are loaded on first use
        started = time.perf_counter()
        report = campaign.tell_log(path)
        ours = time.perf_counter() - started
        campaign.disconnect()
        plain, started = plain_database(folder), time.perf_counter()
        pl.read_csv(path, try_parse_dates=True)
        plain_insert(plain, 0, [(i, 0, 0) for i in range(report.accepted)])
        bare = time.perf_counter() - started
        plain.close()
    what = (
        f"tell_log of a CSV file with {rows:,} purchases, {report.accepted:,} accepted, beside read_csv and executemany"
    )
    return measurement("campaign", what, rows / ours, rows / bare, "rows/s")


def _history(graph: Graph, rows: int) -> dict[str, object]:
    """Edge responses of past campaigns from a CSV file; beside polars reading it and a bare insert of the rows."""
    products, rng = [f"product {i}" for i in range(5)], np.random.default_rng(8)
    chosen = rng.choice(graph.n_edges, min(rows, graph.n_edges), replace=False)
    ends = {"source": graph.sources[chosen], "target": graph.targets[chosen]}
    told = {"outcome": rng.integers(0, 2, chosen.size), "product": np.array(products)[rng.integers(0, 5, chosen.size)]}
    with tempfile.TemporaryDirectory() as folder:
        catalogue = {name: _product(i) for i, name in enumerate(products)}
        settings = {"users": np.ones((graph.n_nodes, 1)), "products": catalogue, "storage": Path(folder) / "h.db"}
        path = Path(folder) / "history.csv"
        frame = pl.DataFrame({**ends, **told})
        frame.write_csv(path)
        for name in ("first", "history"):  # the first time kernels are loaded
            with create_campaign(name, graph=graph, policy=LinUCB(), **settings) as campaign:
                started = time.perf_counter()
                campaign.import_history(path if name == "history" else frame.head(100))
                ours = time.perf_counter() - started
        plain, started = plain_database(folder), time.perf_counter()
        plain_insert(plain, 0, pl.read_csv(path).select("source", "target", "outcome").rows())
        bare = time.perf_counter() - started
        plain.close()
    what = f"import_history of a CSV file with {chosen.size:,} responses, beside read_csv, executemany"
    return measurement("campaign", what, chosen.size / ours, chosen.size / bare, "responses/s")


def _logged(campaign: Campaign, rounds: int) -> None:
    """Closed rounds with their responses, written as one transaction: what ask, tell and close leave in the log."""
    graph, number, rng = campaign.graph, campaign._handle.record.campaign, np.random.default_rng(5)
    pattern = campaign.ask(_product(0), 2)
    campaign.close(pattern.id)
    with campaign._handle.write() as view:
        session, first = view.session, view.round(pattern.id)
        for at in range(2, rounds + 1):
            users = np.sort(rng.choice(graph.n_nodes, 2, replace=False)).astype(np.int64)
            context = Context(None, None, (_product(at % 20),))
            identifier = round_id(campaign._handle.record, at)
            session.append_event(number, "asked", at, {"id": identifier}, 0.0)
            told = _responses(graph, users, at)
            columns = (told[name].to_numpy().astype(np.int64) for name in ("source", "target"))
            seq = session.append_event(number, "told", at, {"id": identifier, "late": 0}, 0.0)
            nothing, nameless = np.full(told.height, np.nan), np.full(told.height, None, dtype=object)
            rows = Responses(*columns, told["outcome"].to_numpy().astype(np.float64), nothing, nothing, nameless)
            session.add_responses(number, at, rows, seq)
            seq = session.append_event(number, "closed", at, {"id": identifier}, 0.0)
            entry = {"number": at, "id": identifier, "revision": seq, "context": context, "gains": np.zeros(2)}
            view.put_round(replace(first, **entry, chosen=users, contacted=users))


def _milliseconds(calls: list[Callable[[], object]]) -> float:
    spent = []
    for call in calls:
        started = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - started))
    return statistics.median(spent)


def _life(campaign: Campaign, times: int) -> dict[str, float]:
    """Milliseconds of an ask, a tell of 20 responses and a close, each the median of several rounds."""
    asks: list[Ask] = []
    spent = {"ask": _milliseconds([lambda: asks.append(campaign.ask(_product(3), 2))] * times)}
    frames = [_responses(campaign.graph, np.array(ask.contacted), 1).head(20) for ask in asks]
    spent["tell"] = _milliseconds([partial(campaign.tell, a.id, f) for a, f in zip(asks, frames, strict=True)])
    spent["close"] = _milliseconds([partial(campaign.close, ask.id) for ask in asks])
    return spent


def _long(graph: Graph, few: int, many: int) -> list[dict[str, object]]:
    """A short and a long campaign: each call, and an ask after a late response to round 1."""
    rows, lives = [], []
    for count in (few, many):
        with tempfile.TemporaryDirectory() as folder, _campaign(folder, "long", graph, TensorUCB()) as campaign:
            _logged(campaign, count)
            campaign.sync()
            campaign.ask(_product(1), 2)  # kernels are loaded on first use
            lives.append(_life(campaign, 9))
            if count == many:
                times = min(count, 100)
                what = f"slowest of {times} asks, each after a late response to another of {many} rounds"
                rows.append(measurement("campaign", what, *_starved(campaign, times), "ms"))
    short, long = lives
    grown = [
        measurement("campaign", f"{name} at {many} rounds, beside {few}", long[name], short[name], "ms")
        for name in short
    ]
    return [*grown, *rows]


def _starved(campaign: Campaign, times: int) -> tuple[float, float]:
    """Milliseconds of the slowest ask, each after one late response to another closed round; and of a usual ask."""
    closed = [ask for ask in campaign.rounds() if ask.status == "closed"]
    usual = _milliseconds([lambda: campaign.ask(_product(3), 2)] * 5)
    worst = 0.0
    for at in np.linspace(0, len(closed) - 1, times).astype(int).tolist():
        followers = _responses(campaign.graph, np.array(closed[at].contacted), at)["target"]
        report = campaign.tell(closed[at].id, [{"user": followers[0], "time": closed[at].opened + 60.0}])
        assert report.late == 1
        worst = max(worst, _milliseconds([lambda: campaign.ask(_product(3), 2)]))
    return worst, usual


def _percentile(seconds: list[float]) -> float:
    return 1000 * statistics.quantiles(seconds, n=100)[98]


def run(quick: bool = False) -> list[dict[str, object]]:
    """All measurements; ``quick``: a hundredth of the responses."""
    graph = _network(200 if quick else 2000)
    rounds = 2 if quick else 200
    rows = [row.document() for row in telling(2 if quick else 40)]
    rows.append(_replay("TensorUCB", TensorUCB(), graph, rounds))
    rows += _long(graph, 10, 40) if quick else _long(graph, 40, 2000)
    size = 10_000 if quick else 1_000_000
    return [*rows, _single(graph, 50 if quick else 500), _log(graph, size), _history(graph, size)]
