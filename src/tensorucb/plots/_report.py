"""`Report`: one HTML file that holds everything it shows, scripts included, and fetches nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from tensorucb.files import atomic_write
from tensorucb.plots._export import specification
from tensorucb.plots._theme import theme


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
    """An Altair chart with a caption."""

    chart: Any
    caption: str = ""


@dataclass(frozen=True)
class Numbers:
    """A few large numbers, each with a line that says what it is."""

    items: Sequence[tuple[str, str]]


Block = Text | Code | Table | Figure
"""What a section is made of."""


@dataclass(frozen=True)
class Section:
    """A headed part of the report."""

    title: str
    blocks: Sequence[Block]


@dataclass
class Report:
    """A report: title, lede, facts, large numbers, sections.

    Parameters
    ----------
    title, lede
        The head of the page.
    facts
        Short (name, value) pairs under it, such as the seed and the number of rounds.
    """

    title: str
    lede: str = ""
    facts: Sequence[tuple[str, str]] = ()
    numbers: Numbers | None = None
    sections: list[Section] = field(default_factory=list)
    footer: str = ""

    def to_html(self) -> str:
        """The whole page as text."""
        import vl_convert

        specs: list[str] = []
        body = "".join(_section(section, specs) for section in self.sections)
        room = files("tensorucb.plots")
        documents = [_data(f"figure-{i}", spec) for i, spec in enumerate(specs)]
        documents.append(_data("themes", json.dumps({"light": theme("light"), "dark": theme("dark")})))
        scripts = [vl_convert.javascript_bundle((room / "report.js").read_text("utf-8"))] if specs else []
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(self.title)}</title>",
                f"<style>\n{(room / 'report.css').read_text('utf-8')}</style>\n</head>\n<body>\n<main>",
                self._header(),
                _numbers(self.numbers),
                body,
                f"<footer>{escape(self.footer)}</footer>\n</main>",
                *documents,
                *(f"<script>{script}</script>" for script in scripts),
                "</body>\n</html>\n",
            ]
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        page = self.to_html().encode()
        with atomic_write(path) as file:
            file.write(page)
        return Path(path)

    def _header(self) -> str:
        facts = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in self.facts)
        lede = f'<p class="lede">{escape(self.lede)}</p>' if self.lede else ""
        listed = f'<ul class="facts">{facts}</ul>' if facts else ""
        return f"<header><h1>{escape(self.title)}</h1>{lede}{listed}</header>"


def _numbers(numbers: Numbers | None) -> str:
    if numbers is None:
        return ""
    items = "".join(
        f'<div class="number"><strong>{escape(value)}</strong><span>{escape(what)}</span></div>'
        for value, what in numbers.items
    )
    return f'<div class="numbers">{items}</div>'


def _section(section: Section, specs: list[str]) -> str:
    blocks = "".join(_block(block, specs) for block in section.blocks)
    return f"<section><h2>{escape(section.title)}</h2>{blocks}</section>\n"


def _block(block: Block, specs: list[str]) -> str:
    if isinstance(block, Text):
        return "".join(f"<p>{escape(part.strip())}</p>" for part in block.text.split("\n\n"))
    if isinstance(block, Code):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Table):
        return _table(block)
    document = specification(block.chart, responsive=True)
    # The page names the kind of the document itself; it needs no address of a schema, and gets its theme there.
    for key in ("$schema", "config"):
        document.pop(key, None)
    specs.append(json.dumps(document))
    caption = f"<figcaption>{escape(block.caption)}</figcaption>" if block.caption else ""
    return f'<figure><div class="chart" data-spec="figure-{len(specs) - 1}"></div>{caption}</figure>'


def _table(table: Table) -> str:
    numeric = [
        bool(table.rows) and all(_is_number(row[column]) for row in table.rows) for column in range(len(table.columns))
    ]
    marks = [' class="n"' if right else "" for right in numeric]
    head = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(table.columns, marks, strict=True))
    rows = "".join(
        ('<tr class="best">' if number == table.best else "<tr>")
        + "".join(f"<td{mark}>{escape(str(cell))}</td>" for cell, mark in zip(row, marks, strict=True))
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _is_number(cell: Any) -> bool:
    text = str(cell).replace(",", "").replace("±", "").replace("%", "").replace("–", "").replace("−", "-")
    try:
        [float(part) for part in text.split()]
    except ValueError:
        return False
    return bool(text.strip()) or not str(cell)


def _data(name: str, content: str) -> str:
    # No "<" at all: "</script" would end the element, and "<!--<script" would keep it from ending.
    safe = content.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>'
