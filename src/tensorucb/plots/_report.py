"""What is written: figures as PNG and SVG files, and pages that hold all they show; nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import vl_convert

from tensorucb.files import write_bytes
from tensorucb.plots._theme import theme

# -- figures --


def specification(chart: Any, *, responsive: bool = False) -> dict[str, Any]:
    """The figure as a Vega-Lite document with the house theme; ``responsive`` fits it to its container.

    Examples
    --------
    >>> from tensorucb.plots import degree_distribution, specification
    >>> specification(degree_distribution({"mine": [1, 2, 5]}), responsive=True)["width"]
    'container'
    """
    document: dict[str, Any] = chart.to_dict()
    document["config"] = theme("light")
    if responsive:
        document["width"] = "container"
        document["autosize"] = {"type": "fit-x", "contains": "padding"}
    return document


def page_document(chart: Any, *, responsive: bool = True) -> dict[str, Any]:
    """The figure for a page, which puts its own theme there, light or dark; no address of a schema is needed."""
    document = specification(chart, responsive=responsive)
    return {key: part for key, part in document.items() if key not in ("$schema", "config")}


def save_figure(chart: Any, directory: str | Path, name: str) -> list[Path]:
    """Write ``name.png`` (twice the screen's resolution) and ``name.svg`` into ``directory``.

    Examples
    --------
    >>> from tensorucb.plots import degree_distribution
    >>> [path.name for path in save_figure(degree_distribution({"mine": [1, 2, 5]}), "figures", "degrees")]
    ['degrees.png', 'degrees.svg']
    """
    document = specification(chart)
    document["config"]["aria"] = False  # a description of every point would make the SVG many times larger
    if "layer" in document:  # without what only a pointer would show
        document["layer"] = [layer for layer in document["layer"] if layer.get("name") != "hover"]
        document["params"] = [each for each in document.get("params", ()) if "hover" not in each.get("views", ())]
    release = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    options: dict[str, Any] = {"vl_version": release, "allowed_base_urls": []}
    content = {
        "png": vl_convert.vegalite_to_png(document, scale=2, **options),
        "svg": vl_convert.vegalite_to_svg(document, **options).encode(),
    }
    return [write_bytes(Path(directory) / f"{name}.{suffix}", drawn) for suffix, drawn in content.items()]


# -- pages --


@dataclass(frozen=True)
class Text:
    """Paragraphs, separated by empty lines."""

    text: str


@dataclass(frozen=True)
class Code:
    """A command or some lines to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table; columns of numbers are set right, the row ``best`` is tinted."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    best: int | None = None


@dataclass(frozen=True)
class Figure:
    """An Altair chart with a caption; readers who do not see it hear the chart's ``description``, or else its title."""

    chart: Any
    caption: str = ""


Block = Text | Code | Table | Figure
"""What a section is made of."""


@dataclass(frozen=True)
class Section:
    """A headed part of the report."""

    title: str
    blocks: Sequence[Block]


@dataclass
class Report:
    """A page with a title, a lede, facts, large numbers and sections.

    Parameters
    ----------
    title, lede
        The head of the page.
    facts
        Short (name, value) pairs under it, such as the seed and the number of rounds.
    numbers
        A few large numbers, each with a line that says what it is.

    Examples
    --------
    >>> page = Report("Spring", sections=[Section("Results", [Table(["Policy", "Regret"], [["Random", "2.1"]])])])
    >>> ">Results</h2>" in page.to_html()
    True
    """

    title: str
    lede: str = ""
    facts: Sequence[tuple[str, str]] = ()
    numbers: Sequence[tuple[str, str]] = ()
    sections: list[Section] = field(default_factory=list)
    footer: str = ""

    def to_html(self) -> str:
        """The whole page as text."""
        room = files("tensorucb.plots")
        specs: list[str] = []
        sections = [_section(number, section, specs) for number, section in enumerate(self.sections)]
        documents = [_data(f"figure-{i}", spec) for i, spec in enumerate(specs)]
        documents.append(_data("themes", json.dumps({"light": theme("light"), "dark": theme("dark")})))
        if specs:
            documents.append(f"<script>{_script()}</script>")
        facts = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in self.facts)
        numbers = "".join(
            f"<li><strong>{escape(value)}</strong><span>{escape(what)}</span></li>" for value, what in self.numbers
        )
        return Template((room / "report.html").read_text("utf-8")).substitute(
            title=escape(self.title),
            style=(room / "report.css").read_text("utf-8"),
            lede=f'<p class="lede">{escape(self.lede)}</p>' if self.lede else "",
            facts=f'<ul class="facts">{facts}</ul>' if facts else "",
            numbers=f'<ul class="numbers" aria-label="Key numbers">{numbers}</ul>' if numbers else "",
            sections="".join(sections),
            footer=f"<footer>{escape(self.footer)}</footer>" if self.footer else "",
            documents="\n".join(documents),
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        return write_bytes(path, self.to_html().encode())


@cache
def _script() -> str:
    """The page's script with the libraries that draw; it takes a second to put together."""
    room = files("tensorucb.plots")
    own = [(room / name).read_text("utf-8") for name in ("figures.js", "report.js")]
    return str(vl_convert.javascript_bundle("\n".join(own)))


def _section(number: int, section: Section, specs: list[str]) -> str:
    blocks = "".join(_block(block, section.title, specs) for block in section.blocks)
    name = f"section-{number}"
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(section.title)}</h2>{blocks}</section>\n'


def _block(block: Block, heading: str, specs: list[str]) -> str:
    match block:
        case Text(text):
            return "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n"))
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return _table(block, heading)
    document = page_document(block.chart)
    title = document.get("title", {})
    said = document.pop("description", "") or (title.get("text", "") if isinstance(title, dict) else title)
    specs.append(json.dumps(document))
    caption = f"<figcaption>{escape(block.caption)}</figcaption>" if block.caption else ""
    # The words stand where the figure will be drawn, so that a page without scripts still says something.
    chart = f'<div class="chart" data-spec="figure-{len(specs) - 1}">{escape(str(said))}</div>'
    return f"<figure>{chart}{caption}</figure>"


def _table(table: Table, heading: str) -> str:
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    marks = [' class="n"' if cells and all(map(_is_number, cells)) else "" for cells in columns]
    heads = zip(map(escape, table.columns), marks, strict=True)
    head = "".join(f'<th scope="col"{mark}>{name}</th>' for name, mark in heads)
    body = ""
    for number, row in enumerate(table.rows):
        first, *others = (escape(str(cell)) for cell in row)
        cells = "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(others, marks[1:], strict=True))
        best = ' class="best"' if number == table.best else ""
        body += f'<tr{best}><th scope="row"{marks[0]}>{first}</th>{cells}</tr>'
    # A frame that scrolls must be reachable with the keyboard, and is then read out by its name.
    frame = f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(heading)}, table">'
    return f"{frame}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _is_number(cell: Any) -> bool:
    """Whether a cell holds numbers alone, such as ``1,204``, ``5 %`` or ``3.1 (2.0 – 4.2)``; a missing one may."""
    text = str(cell).translate(_NOT_DIGITS)
    try:
        [float(part) for part in text.split()]
    except ValueError:
        return False
    return bool(text.strip()) or str(cell) in ("", "–")


_NOT_DIGITS = str.maketrans("−", "-", ",±%–()")


def _data(name: str, content: str) -> str:
    # No "<" at all: "</script" would end the element, and "<!--<script" would keep it from ending.
    safe = content.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>'
