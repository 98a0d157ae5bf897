"""Other libraries in `tensorucb bench`, where the extra ``bench`` is installed: CyNetDiff, ndlib, MABWiser, river."""

from __future__ import annotations

import array
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorucb.arrays import I64
from tensorucb.graph import Graph

_MODULES = {
    "CyNetDiff": "cynetdiff.models",
    "ndlib": "ndlib.models.epidemics",
    "MABWiser": "mabwiser.mab",
    "river": "river.linear_model",
}
_ROWS = 2_000


def missing() -> list[str]:
    """Names of the libraries that are not installed, or do not load."""
    return [name for name in _MODULES if not _loads(name)]


def _loads(name: str) -> bool:
    try:
        importlib.import_module(_MODULES[name])
    except ImportError:
        return False
    return True


def cascades(graph: Graph, p: float, rows: I64) -> dict[str, Callable[[], object]]:
    """For each library that simulates cascades, a function that runs one from these rows."""
    made: dict[str, Callable[[], object]] = {}
    if _loads("CyNetDiff"):
        made["CyNetDiff"] = _cynetdiff(graph, p, rows)
    if _loads("ndlib"):
        made["ndlib"] = _ndlib(graph, p, rows)
    return made


def _cynetdiff(graph: Graph, p: float, rows: I64) -> Callable[[], object]:
    from cynetdiff.models import IndependentCascadeModel

    starts = array.array("I", graph.out_offsets[:-1].tolist())
    model = IndependentCascadeModel(starts, array.array("I", graph.targets.tolist()), activation_prob=p, rng=0)
    model.set_seeds(rows.tolist())

    def run() -> None:
        model.reset_model()
        model.advance_until_completion()

    return run


def _ndlib(graph: Graph, p: float, rows: I64) -> Callable[[], object]:
    import networkx as nx
    from ndlib.models.epidemics import IndependentCascadesModel
    from ndlib.models.ModelConfig import Configuration

    network = nx.DiGraph()
    network.add_nodes_from(range(graph.n_nodes))
    network.add_edges_from(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    model, settings = IndependentCascadesModel(network, seed=0), Configuration()
    settings.add_model_initial_configuration("Infected", rows.tolist())
    for edge in network.edges:
        settings.add_edge_configuration("threshold", edge, p)
    model.set_initial_status(settings)

    def run() -> None:
        model.reset(infected_nodes=rows.tolist())
        while model.iteration(node_status=False)["node_count"][1]:
            pass

    return run


def learners(width: int) -> dict[str, tuple[float, float]]:
    """For each library that learns from contexts, rows of this width scored and learned per CPU second."""
    rng = np.random.default_rng(0)
    contexts, outcomes = rng.normal(size=(_ROWS, width)), rng.integers(0, 2, _ROWS)
    made = {}
    if _loads("river"):
        made["river, LogisticRegression"] = _river(contexts, outcomes)
    if _loads("MABWiser"):
        made["MABWiser, LinUCB"] = _mabwiser(contexts, outcomes)
    return made


def _rate(call: Callable[[], object]) -> float:
    call()
    started = time.process_time()
    call()
    return _ROWS / (time.process_time() - started)


def _river(contexts: Any, outcomes: Any) -> tuple[float, float]:
    from river.linear_model import LogisticRegression

    model = LogisticRegression()
    rows = [dict(enumerate(row)) for row in contexts.tolist()]
    labels = outcomes.tolist()

    def learn() -> None:
        for row, label in zip(rows, labels, strict=True):
            model.learn_one(row, label)

    return _rate(lambda: [model.predict_proba_one(row) for row in rows]), _rate(learn)


def _mabwiser(contexts: Any, outcomes: Any) -> tuple[float, float]:
    from mabwiser.mab import MAB, LearningPolicy

    model = MAB([0], LearningPolicy.LinUCB(alpha=0.5), seed=0)
    decisions = np.zeros(_ROWS, dtype=int)
    model.fit(decisions, outcomes, contexts)
    learn = _rate(lambda: model.partial_fit(decisions, outcomes, contexts))
    return _rate(lambda: model.predict_expectations(contexts)), learn
