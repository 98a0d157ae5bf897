"""``tensorucb select``: seeds for a network of the caller's own."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._network import Objective
from tensorucb.cli._options import Json, Seed, Threads, finite, listed_ids
from tensorucb.cli._output import emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorucb.graph import Graph
    from tensorucb.oracle import Selection

__all__ = ["select"]


class Algorithm(StrEnum):
    """How the cascade's seeds are found."""

    opim = "opim"
    tim = "tim"
    imm = "imm"


def _epsilon(value: float) -> float:
    factor = 1.0 - 1.0 / math.e
    if not 0.0 < value < factor:
        raise typer.BadParameter(
            f"{value:g} is not between 0 and 1 - 1/e = {factor:.3f}, the factor it is taken from. Usual is 0.1."
        )
    return value


def select(
    edges: Annotated[Path, typer.Argument(help="Edge list: .csv, .tsv (also .gz) or .parquet.", show_default=False)],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many seeds.")] = 10,
    probability: Annotated[str | None, typer.Option(help="Column that holds each edge's probability.")] = None,
    weighted_cascade: Annotated[
        bool, typer.Option("--weighted-cascade", help="Probability 1 / in-degree of the target (the default).")
    ] = False,
    uniform: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="The same probability for all edges.", callback=finite)
    ] = None,
    source: Annotated[str, typer.Option(help="Column of the users who influence.")] = "source",
    target: Annotated[str, typer.Option(help="Column of the users who are influenced.")] = "target",
    objective: Annotated[
        Objective, typer.Option(help="cascade: all who are reached; direct: by the seeds alone.")
    ] = Objective.cascade,
    algorithm: Annotated[
        Algorithm | None,
        typer.Option(help="For the cascade; direct is solved by exact greedy.", show_default="opim"),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="What sampling may cost of the guarantee.", callback=_epsilon)] = 0.1,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="Who must not be a seed: an id as it is, or @FILE with one on each line; @@ann is the id @ann. "
            "Repeatable.",
            metavar="ID|@FILE",
        ),
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Pick the K users to seed in a network of your own, with a certificate of how good they are."""
    ways = [name for name, given in _ways(probability, weighted_cascade, uniform) if given]
    if len(ways) > 1:
        raise typer.BadParameter(f"{' and '.join(ways)} exclude each other; give one.")
    if objective is Objective.direct and algorithm is not None:
        raise typer.BadParameter(
            f"--algorithm {algorithm.value} is for --objective cascade; direct is solved by exact greedy. Leave it out."
        )
    columns = () if probability is None else (probability,)
    with Progress("select"):
        from tensorucb.graph import Graph
        from tensorucb.oracle import select_seeds

        graph = Graph.read(edges, source=source, target=target, attributes=columns, self_loops="drop")
        pick = select_seeds(
            graph,
            _probabilities(graph, probability, uniform),
            k,
            objective=objective.value,
            algorithm=(algorithm or Algorithm.opim).value,
            epsilon=epsilon,
            exclude=listed_ids(graph, exclude, "--exclude"),
            threads=threads,
            rng=seed,
        )
    if json:
        emit_json(_document(graph, pick, objective.value))
    else:
        _print(graph, pick)


def _ways(probability: str | None, weighted_cascade: bool, uniform: float | None) -> list[tuple[str, bool]]:
    return [
        ("--probability", probability is not None),
        ("--weighted-cascade", weighted_cascade),
        ("--uniform", uniform is not None),
    ]


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


def _document(graph: Graph, pick: Selection, objective: str) -> dict[str, Any]:
    return {
        "seeds": pick.seeds.tolist(),
        "gains": pick.gains.tolist(),
        "out_degrees": graph.out_degree[pick.rows].tolist(),
        "spread": pick.spread,
        "lower": pick.lower,
        "upper": pick.upper,
        "ratio": pick.ratio,
        "rr_sets": pick.rr_sets,
        "objective": objective,
        "algorithm": pick.algorithm,
        "guarantee": pick.guarantee,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "dropped_self_loops": graph.dropped_self_loops,
        "merged_edges": graph.merged_edges,
    }


def _print(graph: Graph, pick: Selection) -> None:
    degrees = graph.out_degree[pick.rows]
    rows = [
        (rank, shown(name), f"{gain:,.1f}", f"{degree:,}")
        for rank, (name, gain, degree) in enumerate(zip(pick.seeds, pick.gains, degrees, strict=True), start=1)
    ]
    title = f"{graph.n_nodes:,} users, {graph.n_edges:,} edges\n"
    print_table(("Rank", "User", "Gain", "Out-degree"), rows, words=("User",), title=title)
    if graph.dropped_self_loops or graph.merged_edges:
        say(f"Left out: {graph.dropped_self_loops:,} self-loops and {graph.merged_edges:,} repeats of an edge.")
    say(_certificate(pick))


def _certificate(pick: Selection) -> str:
    sampled = f", {pick.rr_sets:,} samples" if pick.rr_sets else ""
    return (
        f"Reach: {pick.spread:,.1f} users, at least {pick.lower:,.1f}; no other choice exceeds {pick.upper:,.1f} "
        f"({pick.algorithm}{sampled}).\nCertificate: {pick.guarantee}"
    )
