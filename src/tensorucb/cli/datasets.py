"""``tensorucb datasets``: what can be generated, what a directory holds, and generated data in files."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._output import Answer, Next, Table, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._research import MinActions, prepared

if TYPE_CHECKING:
    from tensorucb.data import Description

_SHOP = "a shop: 400 users, purchases up to today, 60 products with text columns, as CSV"
_HOLDS = "Can be read from a directory that holds"
_SIZES = (400, 5000, 60)
_RENAMED = (
    *("--column", "actions.user=buyer", "--column", "actions.item=article", "--column", "actions.time=bought_on"),
    *("--consent", "email_optin"),
)

datasets = opt.Commands("Look at and check networks and action logs; generate synthetic ones.")

FORMS = {"plain": "edges.csv and actions.csv (or followers, purchases; also .tsv, .gz, .ndjson, .parquet)"}


def _figures(figures: Description) -> list[tuple[str, str]]:
    """Rows of the table for people; the first five are the paper's Table 2."""
    from tensorucb.moments import duration_text

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
        ("activation window", "none" if figures.window is None else duration_text(figures.window)),
        ("exposures", f"{figures.exposures:,}"),
    ]
    counted = {"trials": figures.trials, "activations": figures.activations}
    return rows + [(name, "not counted" if value is None else f"{value:,}") for name, value in counted.items()]


@datasets.add("list")
def list_datasets() -> Answer:
    """Name the data sets that can be generated, and the forms that can be read."""
    from tensorucb.data.sandbox import GENERATORS

    generated = {**GENERATORS, "shop": _SHOP}
    return Answer(
        {"generated": generated, "forms": FORMS},
        Table(("Name", "Can be generated"), list(generated.items()), words=("Name", "Can be generated")),
        Next("tensorucb datasets make NAME --out DIR"),
        "",
        Table(("Form", _HOLDS), list(FORMS.items()), words=("Form", _HOLDS)),
    )


@datasets.add("describe")
def describe_dataset(
    directory: Path = Argument(..., help="The directory with the files.", metavar="DIR"),
    min_actions: MinActions = 0,
    strict: bool = Option(False, help="Fail at the first malformed row."),
) -> Answer:
    """Read a data set, say what was left out and why, and print its figures (the paper's Table 2)."""
    with Progress("datasets describe"):
        from tensorucb.data import checksum, describe, read_dataset

        dataset = prepared(read_dataset(directory, strict=strict), min_actions)
        figures = describe(dataset)
        digest = checksum(dataset)
    name = shown(dataset.name)
    return Answer(
        {"name": dataset.name, "figures": figures.as_dict(), "report": dataset.report.as_dict(), "checksum": digest},
        Table((name, ""), [*_figures(figures), ("checksum", digest[:16])], words=(name,)),
        f"\n{dataset.report}",
    )


@datasets.add("make")
def make_dataset(
    name: Annotated[str, Argument(help="digg_like, flixster_like, sandbox or shop.", metavar="NAME")],
    out: opt.OutDirectory,
    scale: float = Option(1.0, "--scale", help="Factor on all sizes."),
    seed: opt.Seed = 0,
    csv: bool = Option(False, help="Write CSV instead of Parquet."),
    dirty: bool = Option(
        False, help="Write a shop as its systems export it: renamed columns, semicolons, €12.99, wrong rows, consent."
    ),
) -> Answer:
    """Generate a network with an action log and write it in the plain form.

    `shop` writes what `tensorucb create NAME --data DIR` takes: followers, purchases up to today, products and users,
    and purchases of the next days for `tensorucb tell`. It is always CSV.
    """
    opt.refuse(dirty and name != "shop", "--dirty is for a shop; leave it out.")
    with Progress("datasets make"):
        if name == "shop":
            files, about = _make_shop(out, scale, seed, dirty)
            following = ["tensorucb", "create", "spring", "--data", str(out), *(_RENAMED if dirty else ())]
        else:
            files, about = _make_log(name, out, scale, seed, csv=csv)
            following = ["tensorucb", "datasets", "describe", str(out)]
    until = f" until {about['today']}" if "today" in about else ""
    return Answer(
        {"name": name, "scale": scale, "seed": seed, "files": [str(path) for path in files], **about},
        f"{name}: {about['n_users']:,} users, {about['n_edges']:,} edges, {about['n_products']:,} products, "
        f"{about['n_actions']:,} actions{until}",
        [f"  {shown(path)}" for path in files],
        Next(shlex.join(following)),
    )


def _make_log(name: str, out: Path, scale: float, seed: int, *, csv: bool) -> tuple[list[Path], dict[str, Any]]:
    """Write a network with its action log; returns the files, and what is in them."""
    from tensorucb.data import checksum, generate_dataset, write_dataset
    from tensorucb.data.sandbox import GENERATORS

    opt.refuse(name not in GENERATORS, f"no generator is called {name!r}; choose {', '.join(GENERATORS)} or shop.")
    dataset = generate_dataset(name, scale=scale, rng=seed)
    graph, log = dataset.graph, dataset.log
    sizes = {"n_users": graph.n_nodes, "n_edges": graph.n_edges, "n_products": log.n_items, "n_actions": log.n_actions}
    return write_dataset(dataset, out, form="csv" if csv else "parquet"), {**sizes, "checksum": checksum(dataset)}


def _make_shop(out: Path, scale: float, seed: int, dirty: bool) -> tuple[list[Path], dict[str, Any]]:
    """Write a shop; returns the files, and what is in them."""
    from tensorucb.data import make_shop

    opt.refuse(not 0.1 <= scale <= 100.0, f"--scale of a shop must be from 0.1 to 100; got {scale:g}.")
    users, edges, products = (round(size * scale) for size in _SIZES)
    today = datetime.now(UTC).date().isoformat()
    shop = make_shop(users, edges, products, today=today, rng=seed)
    sizes = {"n_users": users, "n_edges": shop.followers.height, "n_products": products}
    return shop.write(out, dirty=dirty), {"today": today, **sizes, "n_actions": shop.purchases.height}
