"""``tensorucb select``: seeds for a network of the caller's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from tensorucb.choices import Algorithm, Model, Objective
from tensorucb.cli import _options as opt
from tensorucb.cli._output import Answer, Block, Table, count, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorucb.graph import Graph
    from tensorucb.oracle import Selection


def _epsilon(value: float) -> float:
    factor = 1.0 - 1.0 / math.e
    opt.refuse(
        not 0.0 < value < factor,
        f"{value:g} is not between 0 and 1 - 1/e = {factor:.3f}, the factor it is taken from. Usual is 0.1.",
    )
    return value


def select(
    edges: Path = Argument(..., help="Edge list: .csv, .tsv (also .gz) or .parquet.", metavar="EDGES"),
    k: int = Option(10, "--k", "-k", min=1, help="How many seeds."),
    probability: str | None = Option(None, help="Column that holds each edge's probability.", metavar="COLUMN"),
    weighted_cascade: bool = Option(False, help="Probability 1 / in-degree of the target (the default)."),
    uniform: float | None = Option(None, min=0.0, max=1.0, help="The same probability for all edges."),
    source: str = Option("source", help="Column of the users who influence.", metavar="COLUMN"),
    target: str = Option("target", help="Column of the users who are influenced.", metavar="COLUMN"),
    objective: Objective = Option("cascade", help="cascade: all who are reached; direct: by the seeds alone."),
    algorithm: Algorithm | None = Option(
        None, help="For the cascade; direct is solved by exact greedy.", show_default="opim"
    ),
    model: Model = Option("ic", help="How a cascade spreads: ic, independent cascades; lt, linear thresholds."),
    epsilon: float = Option(0.1, help="What sampling may cost of the guarantee.", callback=_epsilon),
    redundancy: float = Option(
        0.0,
        min=0.0,
        max=1.0,
        help="How far a second contact of the same user brings nothing new: 0 each edge counts, 1 the strongest.",
    ),
    exclude: list[str] | None = Option(
        None,
        help="Who must not be a seed: an id as it is, or @FILE with one on each line; @@ann is the id @ann. "
        "Repeatable.",
        metavar=opt.IDS,
    ),
    seed: opt.Seed = 0,
    threads: int | None = Option(
        None, min=1, max=1024, help="Threads; the answer is the same.", show_default="all cores"
    ),
    engine: opt.EngineName = "local",
    address: opt.Address = None,
) -> Answer:
    """Pick the K users to seed in a network of your own, with a certificate of how good they are."""
    ways = {
        "--probability": probability is not None,
        "--weighted-cascade": weighted_cascade,
        "--uniform": uniform is not None,
    }
    given = [way for way, is_given in ways.items() if is_given]
    opt.refuse(len(given) > 1, f"{' and '.join(given)} exclude each other; give one.")
    opt.refuse(
        objective == "direct" and algorithm is not None,
        f"--algorithm {algorithm} is for --objective cascade; direct is solved by exact greedy. Leave it out.",
    )
    opt.refuse(
        model == "lt" and (objective == "direct" or redundancy > 0.0),
        "--model lt goes with --objective cascade and without --redundancy. Leave one of them out.",
    )
    columns = () if probability is None else (probability,)
    with opt.opened_engine(engine, address) as where, Progress("select"):
        from tensorucb.graph import Graph
        from tensorucb.oracle import Constraints, Sampling, select_seeds

        graph = Graph.read(edges, source=source, target=target, attributes=columns, self_loops="drop")
        pick = select_seeds(
            graph,
            _probabilities(graph, probability, uniform),
            k,
            objective=objective,
            constraints=Constraints(exclude=opt.listed_ids(graph, exclude, "--exclude")),
            redundancy=redundancy,
            model=model,
            sampling=Sampling(algorithm=algorithm or "opim", epsilon=epsilon),
            rng=seed,
            threads=threads,
            engine=where,
        )
    return Answer(_document(graph, pick, objective, model), _picked(graph, pick))


def _probabilities(graph: Graph, column: str | None, uniform: float | None) -> NDArray[Any]:
    import numpy as np

    if column is not None:
        values = graph.attributes[column]
        if values.dtype.kind not in "fiub":
            raise InputError(f"column {column!r} must hold numbers between 0 and 1; it holds {values.dtype}.")
        return values.astype(np.float64)
    if uniform is not None:
        return np.full(graph.n_edges, uniform)
    return 1.0 / graph.in_degree[graph.targets]


def _document(graph: Graph, pick: Selection, objective: str, model: str) -> dict[str, Any]:
    return {
        "seeds": pick.seeds.tolist(),
        "gains": pick.gains.tolist(),
        "out_degrees": graph.out_degree[pick.rows].tolist(),
        **{name: getattr(pick, name) for name in ("spread", "lower", "upper", "ratio", "rr_sets")},
        "objective": objective,
        "model": model,
        "algorithm": pick.algorithm,
        "guarantee": pick.guarantee,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "dropped_self_loops": graph.dropped_self_loops,
        "merged_edges": graph.merged_edges,
    }


def _picked(graph: Graph, pick: Selection) -> Iterator[Block]:
    degrees = graph.out_degree[pick.rows]
    rows = [
        (rank, shown(name), f"{gain:,.1f}", f"{degree:,}")
        for rank, (name, gain, degree) in enumerate(zip(pick.seeds, pick.gains, degrees, strict=True), start=1)
    ]
    title = f"{graph.n_nodes:,} users, {graph.n_edges:,} edges\n"
    yield Table(("Rank", "User", "Gain", "Out-degree"), rows, words=("User",), title=title)
    if graph.dropped_self_loops or graph.merged_edges:
        loops, repeats = count(graph.dropped_self_loops, "self-loop"), count(graph.merged_edges, "repeated edge")
        yield f"Left out: {loops} and {repeats}."
    sampled = f", {pick.rr_sets:,} samples" if pick.rr_sets else ""
    yield (
        f"Reach: {pick.spread:,.1f} users, at least {pick.lower:,.1f}; no other choice exceeds {pick.upper:,.1f} "
        f"({pick.algorithm}{sampled}).\nCertificate: {pick.guarantee}"
    )
