"""``tensorucb bench``: the hot paths on this machine, each beside a reference in the same run."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from tensorucb.cli import _options as opt
from tensorucb.cli._output import emit_json, print_table
from tensorucb.cli._progress import Progress


def bench(
    quick: Annotated[bool, Option("--quick", help="A tenth of the size, to see that everything runs.")] = False,
    json: opt.Json = False,
) -> None:
    """Time the hot paths on this machine, each beside a reference, and beside other libraries where installed."""
    with Progress("bench") as progress:
        from tensorucb.cli._bench import all_rows, missing

        rows = all_rows(quick, progress)
    if json:
        emit_json({"quick": quick, "missing": missing(), "rows": [row.document() for row in rows]})
        return
    cells = [(row.what, row.beside, *map(_number, (row.ours, row.reference, row.ratio)), row.unit) for row in rows]
    told = "Ratio: how many times as fast as the reference ours is. Sizes are users / edges of the network."
    if absent := missing():
        told += f" Not installed: {', '.join(absent)}; `pip install 'tensorucb[bench]'` adds their rows."
    columns = ("What", "Beside", "Ours", "Reference", "Ratio", "Unit")
    print_table(columns, cells, words=("What", "Beside", "Unit"), caption=f"\n{told}")


def _number(value: float) -> str:
    return f"{value / 1e6:.3g}M" if value >= 1e6 else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
