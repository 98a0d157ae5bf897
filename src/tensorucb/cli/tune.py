"""``tensorucb tune``: settings for a new data set, without hand-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._output import check_output_file, emit_json, print_to, progress_bar
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from tensorucb.experiments import Tuning

__all__ = ["tune"]


def tune(
    data: Annotated[Path, typer.Option(help="Directory with a network and an action log.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy to tune, e.g. TensorUCB; may be repeated.", show_default="TensorUCB"),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Validation rounds each setting is tried on.")] = 50,
    k: Annotated[int, typer.Option(min=1, help="Seeds a round.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Sets everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="TOML file for the settings, for `reproduce --settings`.")] = Path(
        "tensorucb-settings.toml"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the choice as JSON.")] = False,
) -> None:
    """Choose c and R for a data set on simulated rounds, print what was tried and chosen, and keep it in a file.

    The rounds are played against a truth fitted to the log (topic-aware cascades); user features come from every fifth
    item, rounds from the others.
    """
    from tensorucb import experiments
    from tensorucb.data import read_dataset

    contestants = experiments.paper_policies()
    wanted = policy or ["TensorUCB"]
    unknown = [name for name in wanted if name not in contestants]
    if unknown:
        raise InputError(f"there is no policy {unknown[0]!r} to tune. Known: {', '.join(contestants)}.")
    check_output_file(out)
    note = print_to(err=True)
    environment = experiments.environment_from_dataset(
        read_dataset(data),
        settings=experiments.WorldSettings(k=k, seed=seed),
        tell=lambda line: note.print(f"[dim]{line} …[/dim]"),
    )
    with progress_bar("tune") as report:
        found = experiments.tune(
            environment, {name: contestants[name] for name in wanted}, rounds=rounds, seed=seed, report=report
        )
    experiments.write_settings(out, found)
    described = environment.describe()
    if json:
        emit_json({"environment": described, "settings": str(out), "trials": _trials(found)})
        return
    _print(found, described)
    typer.echo(f"Settings: {out}")


def _trials(found: Tuning) -> list[dict[str, Any]]:
    return [
        {"policy": label, "setting": setting, "average_regret": regret, "chosen": chosen}
        for label, setting, regret, chosen in found.rows()
    ]


def _print(found: Tuning, described: dict[str, Any]) -> None:
    from rich.table import Table

    console = print_to()
    console.print(
        f"{described['name']}: {described['n_nodes']:,} users with {described['user_features']} features, "
        f"{described['n_edges']:,} edges, {described['campaign_products']} products"
    )
    table = Table("Policy", "Setting", "Average regret", "")
    for label, setting, regret, chosen in found.rows():
        table.add_row(label, setting, f"{regret:.2f}", "[bold]chosen[/bold]" if chosen else "")
    console.print(table)
