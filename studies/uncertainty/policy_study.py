"""How well policies know what they know, as tables: in a generated world and on data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.calibration import Coverage
from studies.uncertainty.policy import HeldOut, held_out, pooled
from studies.uncertainty.sources import GROUPS, SourceQuestions
from tensorucb.data import make_sandbox, read_dataset
from tensorucb.experiments import Environment, WorldSettings, environment_from_dataset
from tensorucb.policies import Policy, TensorUCB

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Report = Callable[[str], None]
MEASURES = ("true rate", "number of responses")
"""What an interval of a source is held against."""
NEW, PAST = "new", "past"
"""Products that nobody has met, and those on which a data set's user features were counted."""

_ASKED = 12
_BY_SOURCE = ("TensorUCB", "paper, logistic")


def policies() -> dict[str, Callable[[], Policy]]:
    """The policies whose calibration is reported; the first is the package's default, whatever that is."""
    return {
        "TensorUCB": TensorUCB,
        "paper, logistic": lambda: TensorUCB.paper(likelihood="logistic"),
        "paper": lambda: TensorUCB.paper(start="ones"),
        "paper, b = 0": lambda: TensorUCB.paper(start="paper"),
    }


def policy_tables(users: int, *, rounds: int, runs: int, seed: int, report: Report) -> Tables:
    """Calibration of single edges for all policies, and of sources for those which mean probabilities."""
    sandbox = make_sandbox(users, 10 * users, 40, n_topics=5, rng=seed)
    world = Environment.from_sandbox(sandbox, settings=WorldSettings(k=10), product_rows=np.arange(30))
    tables: Tables = {name: [] for name in ("policies", "policy_coverage", "policy_reliability")}
    tables |= {"sources": [], "source_coverage": []}
    for name, build in policies().items():
        report(f"calibration on held-out products: {name}")
        found = pooled([held_out(world, build(), rounds=rounds, run=run, seed=seed) for run in range(runs)])
        for group in _present(found.explored):
            about, pairs = {"policy": name, "edges": group}, found.group(group)
            tables["policies"].append({**about, **pairs.summary()})
            tables["policy_coverage"] += [{**about, **row} for row in _coverage_rows(pairs.coverage())]
            tables["policy_reliability"] += [{**about, **row} for row in _reliability_rows(pairs)]
        if name in _BY_SOURCE:
            _add(tables, by_source(found.sources(), {"world": world.name, "policy": name, "products": NEW}))
    return tables


def data_tables(directory: Path, *, rounds: int, runs: int, seed: int, report: Report) -> Tables:
    """`TensorUCB` by source on a data set: on products kept out of the rounds, and on those of the users' past.

    The environment's own held-out products are the past on which user features were counted. So that some products are
    new to the features as well, a few are taken out of the rounds beside them.
    """
    report(f"features and truth of {directory.name}")
    world = environment_from_dataset(read_dataset(directory))
    new = _spaced(world.product_rows)
    past = _spaced(np.setdiff1d(np.arange(len(world.products)), world.product_rows))
    kept = Environment(
        world.graph, world.users, world.products, world.probabilities,
        settings=world.settings, product_rows=np.setdiff1d(world.product_rows, new), name=world.name,
    )  # fmt: skip
    report(f"calibration on held-out products of {world.name}")
    tables: Tables = {"sources": [], "source_coverage": []}
    asked = {NEW: new, PAST: past}
    answers: dict[str, list[HeldOut]] = {name: [] for name in asked}
    for run in range(runs):
        found = held_out(kept, TensorUCB(), rounds=rounds, run=run, seed=seed, products=np.concatenate([new, past]))
        split = new.size * world.graph.n_edges
        for name, part in zip(asked, (slice(None, split), slice(split, None)), strict=True):
            answers[name].append(found.part(part))
    for name, parts in answers.items():
        _add(tables, by_source(pooled(parts).sources(), {"world": world.name, "policy": "TensorUCB", "products": name}))
    return tables


def by_source(found: SourceQuestions, about: Row) -> Tables:
    """Summary and coverage by both measures for the groups that are there."""
    tables: Tables = {"sources": [], "source_coverage": []}
    for group in _present(found.explored):
        questions = found.group(group)
        row = {**about, "sources": group}
        tables["sources"].append({**row, **questions.summary()})
        for measure, coverage in zip(
            MEASURES, (questions.rate_coverage(), questions.predictive_coverage()), strict=True
        ):
            rows = _coverage_rows(coverage, ("levels", "empirical", "low", "high"))
            tables["source_coverage"] += [{**row, "measure": measure, **values} for values in rows]
    return tables


def _add(tables: Tables, more: Tables) -> None:
    for name, rows in more.items():
        tables[name] += rows


def _present(explored: NDArray[np.bool_]) -> Iterator[str]:
    return (group for group in GROUPS if (explored == (group == "explored")).any())


def _spaced(products: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most a dozen, evenly over their numbers; at least one is left."""
    number = min(_ASKED, products.size - 1)
    return np.asarray(products[np.linspace(0, products.size - 1, number).round().astype(np.int64)])


def _coverage_rows(
    found: Coverage, names: Sequence[str] = ("levels", "empirical", "low", "high", "width")
) -> list[Row]:
    columns = [getattr(found, name).tolist() for name in names]
    return [dict(zip(("nominal", *names[1:]), row, strict=True)) for row in zip(*columns, strict=True)]


def _reliability_rows(pairs: HeldOut) -> list[Row]:
    found = pairs.reliability()
    names = ("predicted", "observed", "low", "high", "count")
    return [
        dict(zip(names, row, strict=True)) for row in zip(*(getattr(found, n).tolist() for n in names), strict=True)
    ]
