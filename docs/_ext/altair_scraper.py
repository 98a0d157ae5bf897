"""Shows the Altair chart with which a block of an example ends, drawn as the package draws its figures."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import altair as alt
from sphinx_gallery.scrapers import figure_rst

from tensorucb.plots import save_figure


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Draw the chart that the block's last line names, if it names one; a notebook shows the same."""
    last = ast.parse(block[1]).body[-1:]
    if not (last and isinstance(last[0], ast.Expr) and isinstance(last[0].value, ast.Name)):
        return ""
    chart = block_vars["example_globals"][last[0].value.id]
    if not isinstance(chart, alt.TopLevelMixin):
        return ""
    path = Path(next(block_vars["image_path_iterator"]))
    _, vector = save_figure(chart, path.parent, path.stem)
    vector.unlink()
    title = chart.to_dict()["title"]
    return str(figure_rst([str(path)], gallery_conf["src_dir"], title if isinstance(title, str) else title["text"]))
