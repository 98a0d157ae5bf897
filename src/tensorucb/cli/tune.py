"""``tensorucb tune``: settings for a new data set, without hand-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._options import MANY, Json, Seed
from tensorucb.cli._output import check_output_file, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import FeatureChoice, Trial, Tuning
    from tensorucb.policies import Policy

__all__ = ["tune"]


def tune(
    data: Annotated[Path, typer.Option(help="Directory with a network and an action log.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy to tune, e.g. TensorUCB; may be repeated.", show_default="TensorUCB"),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=MANY, help="Validation rounds each setting is tried on.")] = 50,
    k: Annotated[int, typer.Option(min=1, max=MANY, help="Seeds per round.")] = 10,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="TOML file for the settings, for `reproduce --settings`.")] = Path(
        "tensorucb-settings.toml"
    ),
    json: Json = False,
) -> None:
    """Choose features, c and R for a data set on simulated rounds, print what was tried, and keep it in a file.

    Features first (the users' past, their place in the network, or both), then c and R with these. The rounds are
    played against a truth fitted to the log (topic-aware cascades); user features come from every fifth item, rounds
    from the others.
    """
    check_output_file(out)
    choices: dict[str, FeatureChoice] = {}
    policies: dict[str, Policy] = {}
    trials: dict[str, Sequence[Trial]] = {}
    with Progress("tune") as progress:
        from tensorucb import experiments
        from tensorucb.data import read_dataset

        # In the form in which `reproduce --settings` uses them.
        contestants = {**experiments.contestants(), **experiments.paper_policies()}
        wanted = policy or ["TensorUCB"]
        unknown = [name for name in wanted if name not in contestants]
        if unknown:
            raise InputError(f"there is no policy {unknown[0]!r} to tune. Known: {', '.join(contestants)}.")
        world = experiments.WorldSettings(k=k, seed=seed)
        environment = experiments.environment_from_dataset(read_dataset(data), settings=world, tell=progress.note)
        for name in wanted:
            options: Any = {"rounds": rounds, "seed": seed, "report": progress}
            choices[name] = experiments.choose_features(environment, contestants[name], **options)
            found = experiments.tune(choices[name].environment, {name: contestants[name]}, **options)
            policies |= found.policies
            trials |= found.trials
        tuning = experiments.Tuning(policies, trials)
        experiments.write_settings(out, tuning)
    rows = _rows(choices, tuning)
    described = environment.describe()
    if json:
        emit_json({"environment": described, "settings": str(out), "trials": rows})
        return
    _print(rows, described)
    say(f"Settings: {shown(out)}")


def _rows(choices: Mapping[str, FeatureChoice], tuning: Tuning) -> list[dict[str, Any]]:
    """What was tried: first the features with the policy's own settings, then settings with the features chosen."""
    names = ("policy", "features", "setting", "average_regret", "chosen")
    rows: list[dict[str, Any]] = []
    for label, choice in choices.items():
        tried = [(label, name, "defaults", regret, name == choice.chosen) for name, regret in choice.regret.items()]
        settings = [
            (label, choice.chosen, setting, regret, chosen)
            for policy, setting, regret, chosen in tuning.rows()
            if policy == label
        ]
        rows += [dict(zip(names, row, strict=True)) for row in tried + settings]
    return rows


def _print(rows: Sequence[Mapping[str, Any]], described: Mapping[str, Any]) -> None:
    names = ("policy", "features", "setting")
    cells = [
        (*(shown(row[name]) for name in names), f"{row['average_regret']:.2f}", "chosen" if row["chosen"] else "")
        for row in rows
    ]
    columns = ("Policy", "Features", "Setting", "Average regret", "")
    title = (
        f"{shown(described['name'])}: {described['n_nodes']:,} users with {described['user_features']} features, "
        f"{described['n_edges']:,} edges, {described['campaign_products']} products"
    )
    print_table(columns, cells, words=("Policy", "Features", "Setting", ""), title=title)
