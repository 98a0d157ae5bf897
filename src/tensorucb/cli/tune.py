"""``tensorucb tune``: settings for a new data set, without hand-tuning."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tensorucb.cli import _options as opt
from tensorucb.cli._output import emit_json, print_table, say, shown
from tensorucb.cli._policies import PolicyNames, chosen_policies
from tensorucb.cli._progress import Progress
from tensorucb.cli._results import write_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import Tuning
    from tensorucb.experiments._tuning import FeatureChoice


def tune(
    data: Annotated[Path, Option(help="Directory with a network and an action log.", metavar="DIR")],
    policy: PolicyNames = None,
    rounds: Annotated[int, Option(help="Validation rounds each setting is tried on.", callback=opt.counted)] = 50,
    k: opt.SeedsPerRound = 10,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    out: Annotated[
        Path, Option(help="TOML file for the settings, for `reproduce --settings`.", callback=opt.writable_file)
    ] = Path("tensorucb-settings.toml"),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
    json: opt.Json = False,
) -> None:
    """Choose c and R for a data set of your own on simulated rounds, and keep them in a file.

    First it is seen which features serve best (the users' past, their place in the network, or both), then c and R are
    chosen with these. The file holds c and R alone, and `reproduce` plays with all features. The rounds are
    played against a truth fitted to the log (topic-aware cascades); user features come from every fifth item, rounds
    from the others. Without --policy TensorUCB is tuned. What was tried is kept beside the file of --out, so that a
    stopped command goes on where it was, if it is run again.
    """
    choices: dict[str, FeatureChoice] = {}
    tuned = []
    with Progress("tune") as progress:
        from tensorucb import experiments
        from tensorucb.data import read_dataset
        from tensorucb.experiments._contestants import contestants, paper_policies
        from tensorucb.experiments._files import read_settings, write_settings
        from tensorucb.experiments._tuning import choose_features

        earlier = read_settings(out) if out.exists() else {}
        # In the form in which `reproduce --settings` uses them.
        known = {**contestants(), **paper_policies("ours")[0]}
        policies = chosen_policies(known, policy or ["TensorUCB"])
        world = experiments.WorldSettings(k=k, seed=seed)
        kept = out.with_name(f"{out.stem}-runs")
        dataset = read_dataset(data)
        environment = experiments.environment_from_dataset(dataset, settings=world, cache=kept, report=progress)
        options: Any = {"rounds": rounds, "seed": seed, "jobs": jobs, "directory": kept, "report": progress}
        for name, contestant in policies.items():
            choices[name] = choose_features(environment, contestant, **options)
            tuned.append(experiments.tune(choices[name].environment, {name: contestant}, **options))
        chosen = {name: policy for found in tuned for name, policy in found.policies.items()}
        trials = {name: tried for found in tuned for name, tried in found.trials.items()}
        tuning = experiments.Tuning(chosen, trials)
        write_settings(out, tuning, earlier)
        rows = _rows(choices, tuning)
        printed = _columns(rows)
        write_tables(rows, printed, csv, latex)
    described = environment.describe()
    if json:
        emit_json({"environment": described, "settings": str(out), "trials": rows})
        return
    title = (
        f"{shown(described['name'])}: {described['n_nodes']:,} users with {described['user_features']} features, "
        f"{described['n_edges']:,} edges, {described['campaign_products']} products"
    )
    print_table(*printed, words=("Policy", "Features", "Setting", "Chosen"), title=title)
    say(f"Settings: {shown(out)}")
    fewer = [f"{shown(name)} with {choice.chosen}" for name, choice in choices.items() if choice.chosen != "everything"]
    if fewer:
        say(f"They were chosen for {', '.join(fewer)}; the next command plays with all features.")
    following = ["tensorucb", "reproduce", "fig-regret", "--data", str(data), "--features", "ours"]
    following += ["--settings", str(out)]
    say(f"Next: {shlex.join(following)}")


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of what was tried."""
    names = ("policy", "features", "setting")
    cells = [
        [*(shown(row[name]) for name in names), f"{row['average_regret']:.2f}", "chosen" if row["chosen"] else ""]
        for row in rows
    ]
    return ["Policy", "Features", "Setting", "Average regret", "Chosen"], cells


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
