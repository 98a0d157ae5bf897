"""All tables and figures on uncertainty: ``python -m studies.uncertainty --out DIR``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.uncertainty.figures import figures
from studies.uncertainty.study import FULL, PARTS, QUICK, run_study
from studies.uncertainty.tables import write_tables
from tensorucb.files import atomic_write
from tensorucb.plots import specification


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and write CSV, Markdown, PNG and SVG; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.uncertainty", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory for tables and figures; made if missing")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone (may be repeated)")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], metavar="DIR",
        help="measure TensorUCB on this data set as well, in the part on policies (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small version, to see that everything works")
    parser.add_argument("--seed", type=int, default=0, help="sets everything random (default 0)")
    options = parser.parse_args(arguments)
    if options.seed < 0:
        parser.error(f"--seed must not be negative; got {options.seed}")
    size, parts = QUICK if options.quick else FULL, options.only or PARTS
    if options.data and "policies" not in parts:
        parser.error("--data belongs to the part policies, which --only leaves out")
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.process_time()

    def report(what: str) -> None:
        print(f"{time.process_time() - start:6.1f} s  {what}", file=sys.stderr, flush=True)

    tables = run_study(size, parts=parts, data=options.data, seed=options.seed, report=report)
    report("tables and figures")
    paths = write_tables(options.out, tables)
    for name, chart in figures(tables).items():
        paths += _save(chart, options.out, name)
    report("done")
    for path in paths:
        print(path)
    return 0


def _save(chart: Any, directory: Path, name: str) -> list[Path]:
    """PNG and SVG in the house theme; smaller than the reports' figures, since these live beside the text."""
    import vl_convert

    document = specification(chart)
    document["config"]["aria"] = False
    png, svg = directory / f"{name}.png", directory / f"{name}.svg"
    with atomic_write(png) as file:
        file.write(vl_convert.vegalite_to_png(document, scale=1.1, allowed_base_urls=[]))
    with atomic_write(svg) as file:
        file.write(vl_convert.vegalite_to_svg(document, allowed_base_urls=[]).encode())
    return [png, svg]


if __name__ == "__main__":
    sys.exit(main())
