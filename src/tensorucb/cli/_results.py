"""Results of experiments as commands show them: a table on stdout, and in files for ``--csv`` and ``--latex``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb.cli._output import print_table, say, shown

if TYPE_CHECKING:
    from tensorucb.experiments._paper import PaperResults

Rows = Sequence[Mapping[str, Any]]
Printed = tuple[Sequence[str], Sequence[Sequence[str]]]  # columns and cells
_REGRET = (
    "Average regret per round up to round T: what the best seeds, chosen by someone who knows every probability, would "
    "have reached beyond the policy's, in users; {sign} half of the 90 % interval over {over}. "
    "{ours}% of best: users reached, as a share of what the best seeds reach."
)
_RESPONDERS = (
    "Average up to round T of the distinct responders per round: followers of the seeds who acted on the item in the "
    "log; {sign} half of the 90 % interval over {over}. {ours}% of best: as a share of greedy "
    "coverage by someone who knows who acted. People who would have acted anyway count, so this is no effect of "
    "contact."
)


def write_tables(rows: Rows, printed: Printed, csv: Path | None, latex: Path | None) -> None:
    """Write the files of ``--csv`` (all columns and digits) and ``--latex`` (what is printed), if asked for."""
    from tensorucb.experiments._files import write_csv, write_latex

    if csv is not None:
        write_csv(csv, rows)
    if latex is not None:
        write_latex(latex, *printed)


def plus_minus() -> str:
    """``±``, where stdout can show it."""
    try:
        "±".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "+-"
    return "±"


def explained(rows: Rows, *, replay: bool, networks: int, sign: str = "±") -> str:
    """What the columns of the table of results mean."""
    over = "networks" if networks > 1 else "runs"
    compared = any(name.endswith("_minus_ours") for name in rows[0])
    ours = f"Minus ours: the same, less TensorUCB's in the same {over}. " if compared else ""
    return (_RESPONDERS if replay else _REGRET).format(sign=sign, over=over, ours=ours)


def print_decisions(rows: Rows, *, title: str, networks: int = 1, replay: bool = False) -> None:
    """The table of a comparison, which fits into 80 columns."""
    from tensorucb.experiments._results import printed_table

    columns, cells = printed_table(rows, sign=plus_minus())
    print_table(
        columns,
        [[shown(policy), *numbers] for policy, *numbers in cells],
        words=("Policy",),
        title=title,
        caption="\n" + explained(rows, replay=replay, networks=networks, sign=plus_minus()),
    )


def network_table(results: PaperResults) -> Printed:
    """The statistics of the network beside those of the paper's."""
    from tensorucb.experiments._paper import network_statistics

    cells = [
        (
            name.replace("out-degree", "out-degree, percentile"),
            f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}",
            f"{digg:,}",
            f"{flixster:,}",
        )
        for name, here, digg, flixster in network_statistics(results.graph)
    ]
    return ("Quantity", results.name, "Paper, Digg", "Paper, Flixster"), cells


def print_reproduction(results: PaperResults, rows: Rows, size: str) -> None:
    """The results of the paper's targets, one table each; ``rows`` are those of the regret, ``size`` its length."""
    name = shown(results.name)
    if "table-network" in results.targets:
        columns, cells = network_table(results)
        print_table([shown(column) for column in columns], cells, words=(columns[0],))
    if "fig-degrees" in results.targets:
        degree = results.graph.out_degree
        say(f"\nOut-degrees: mean {degree.mean():.1f}, largest {int(degree.max()):,}.")
    if rows:
        print_decisions(rows, title=f"\nRegret on {name}, {size}\n")
    for label, experiment in (results.rank or {}).items():
        finals = [(rank, f"{float(experiment.final(rank).mean):.2f}") for rank in experiment.policies]
        print_table(("Rank", "regret"), finals, words=("Rank",), title=f"\n{shown(label)} by rank\n")
    if results.runtime is not None:
        largest = max(row["users"] for row in results.runtime)
        times = [
            (shown(row["policy"]), f"{row['milliseconds']:.1f}") for row in results.runtime if row["users"] == largest
        ]
        print_table(("Policy", "ms per round"), times, words=("Policy",), title=f"\nTime with {largest:,} users\n")
    if results.bound is not None:
        last = results.bound.row(-1, named=True)
        say(
            f"\nTheorem 1 after {last['round']} rounds: its bound is {last['bound_at_c_used']:,.0f} at the c in use, "
            f"{last['c_used']:g}, and {last['bound_at_c_needed']:,.0f} at the least c for which it holds, "
            f"{last['c_needed']:,.1f}; the cumulative regret measured is {last['TensorUCB (paper)']:,.0f}."
        )
