"""``tensorucb tune``: settings for a new data set, without hand-tuning."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from tensorucb.cli import _options as opt
from tensorucb.cli import _research as research
from tensorucb.cli._output import emit_json, print_table, say, say_next, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._results import write_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def tune(
    data: Path = Option(..., help="Directory with a network and an action log.", metavar="DIR"),
    policy: research.PolicyNames = None,
    rounds: int = Option(50, help="Validation rounds each setting is tried on.", callback=opt.counted),
    k: opt.SeedsPerRound = 10,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    out: Path = Option(
        Path("tensorucb-settings.toml"),
        help="TOML file for the settings, for `reproduce --settings`.",
        callback=opt.writable_file,
    ),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
    json: opt.Json = False,
) -> None:
    """Choose c and R for a data set of your own on simulated rounds, and keep them in a file.

    The rounds are played against a truth fitted to the log (topic-aware cascades); user features come from every fifth
    item, rounds from the others. Without --policy TensorUCB is tuned. What was tried is kept beside the file of --out,
    so that a stopped command goes on where it was, if it is run again.
    """
    with Progress("tune") as progress:
        from tensorucb import experiments
        from tensorucb.data import read_dataset
        from tensorucb.experiments._contestants import contestants, paper_policies
        from tensorucb.experiments._files import read_settings, write_settings

        earlier = read_settings(out) if out.exists() else {}
        # In the form in which `reproduce --settings` uses them.
        known = {**contestants(), **paper_policies("ours")[0]}
        policies = research.chosen_policies(known, policy or ["TensorUCB"])
        world = experiments.WorldSettings(k=k, seed=seed)
        kept = out.with_name(f"{out.stem}-runs")
        dataset = read_dataset(data)
        environment = experiments.environment_from_dataset(dataset, settings=world, cache=kept, report=progress)
        options: Any = {"rounds": rounds, "seed": seed, "jobs": jobs, "directory": kept, "report": progress}
        tuning = experiments.tune(environment, policies, **options)
        write_settings(out, tuning, earlier)
        names = ("policy", "setting", "average_regret", "chosen")
        rows = [dict(zip(names, row, strict=True)) for row in tuning.rows()]
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
    print_table(*printed, words=("Policy", "Setting", "Chosen"), title=title)
    say(f"Settings: {shown(out)}")
    following = ["tensorucb", "reproduce", "fig-regret", "--data", str(data), "--features", "ours"]
    following += ["--settings", str(out)]
    say_next(shlex.join(following))


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of what was tried."""
    cells = [
        [shown(row["policy"]), shown(row["setting"]), f"{row['average_regret']:.2f}", "chosen" if row["chosen"] else ""]
        for row in rows
    ]
    return ["Policy", "Setting", "Average regret", "Chosen"], cells
