"""``tensorucb datasets``: what can be generated, what a directory holds, and generated data in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._network import MinActions, Preparation
from tensorucb.cli._options import HELP, Json, Seed, finite
from tensorucb.cli._output import check_output_directory, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress

if TYPE_CHECKING:
    from tensorucb.data import Description

__all__ = ["app"]

app = typer.Typer(
    name="datasets",
    help="Look at and check networks and action logs; generate synthetic ones.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings=HELP,
)

FORMS = {
    "plain": "edges.csv and actions.csv (also .csv.gz, .parquet)",
    "Digg 2009": "digg_friends.csv and digg_votes1.csv",
    "Flixster": "links.txt and Ratings.timed.txt, or edges.csv and nodes.csv",
}


def _figures(figures: Description) -> list[tuple[str, str]]:
    """Rows of the table for people; the first five are the paper's Table 2."""
    rows = [
        ("users |V|", f"{figures.n_users:,}"),
        ("edges |E|", f"{figures.n_edges:,}"),
        ("out-degree, 50th percentile", f"{figures.out_degree_50:g}"),
        ("out-degree, 90th percentile", f"{figures.out_degree_90:.1f}".removesuffix(".0")),
        ("out-degree, 99th percentile", f"{figures.out_degree_99:.1f}".removesuffix(".0")),
        ("out-degree, largest", f"{figures.out_degree_max:,}"),
        ("products", f"{figures.n_products:,}"),
        ("actions", f"{figures.n_actions:,}"),
        ("users who acted", f"{figures.n_acting_users:,}"),
        ("activation window", "none" if figures.window is None else f"{figures.window:g} s"),
        ("exposures", f"{figures.exposures:,}"),
    ]
    counted = {"trials": figures.trials, "activations": figures.activations}
    return rows + [(name, "not counted" if value is None else f"{value:,}") for name, value in counted.items()]


@app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """Name the data sets that can be generated, and the forms that can be read."""
    from tensorucb.data._generate import GENERATORS

    if as_json:
        emit_json({"generated": GENERATORS, "forms": FORMS})
        return
    say("Generated with `tensorucb datasets make NAME --out DIR`:")
    for name, text in GENERATORS.items():
        say(f"  {name:15} {text}")
    say("\nRead from a directory that holds:")
    for name, text in FORMS.items():
        say(f"  {name:15} {text}")


@app.command("describe")
def describe_dataset(
    directory: Annotated[Path, typer.Argument(help="The directory with the files.", metavar="DIR")],
    min_actions: MinActions = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first malformed row.")] = False,
    as_json: Json = False,
) -> None:
    """Read a data set, say what was left out and why, and print its figures (the paper's Table 2)."""
    with Progress("datasets describe"):
        from tensorucb.data import checksum, describe, read_dataset

        dataset = Preparation(min_actions)(read_dataset(directory, strict=strict))
        figures = describe(dataset)
        digest = checksum(dataset)
    if as_json:
        emit_json(
            {
                "name": dataset.name,
                "figures": figures.as_dict(),
                "report": dataset.report.as_dict(),
                "checksum": digest,
            }
        )
        return
    name = shown(dataset.name)
    print_table((name, ""), [*_figures(figures), ("checksum", digest[:16])], words=(name,))
    say(f"\n{dataset.report}")


@app.command("make")
def make_dataset(
    name: Annotated[str, typer.Argument(help="digg_like, flixster_like or sandbox.", metavar="NAME")],
    out: Annotated[Path, typer.Option("--out", help="The directory to write to.", metavar="DIR")],
    scale: Annotated[float, typer.Option("--scale", help="Factor on all sizes.", callback=finite)] = 1.0,
    seed: Seed = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of Parquet.")] = False,
    as_json: Json = False,
) -> None:
    """Generate a network with an action log and write it in the plain form."""
    check_output_directory(out)
    with Progress("datasets make"):
        from tensorucb.data import checksum, generate_dataset, write_dataset
        from tensorucb.data._generate import GENERATORS

        if name not in GENERATORS:
            raise typer.BadParameter(f"no generator is called {name!r}; choose {', '.join(GENERATORS)}.")
        dataset = generate_dataset(name, scale=scale, rng=seed)
        files = write_dataset(dataset, out, form="csv" if csv else "parquet")
        written: dict[str, Any] = {
            "name": name,
            "scale": scale,
            "seed": seed,
            "files": [str(path) for path in files],
            "n_users": dataset.graph.n_nodes,
            "n_edges": dataset.graph.n_edges,
            "n_products": dataset.log.n_items,
            "n_actions": dataset.log.n_actions,
            "checksum": checksum(dataset),
        }
    if as_json:
        emit_json(written)
        return
    say(f"{dataset!r}")
    for path in files:
        say(f"  {shown(path)}")
