from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from tensorucb import plots
from tensorucb.plots import Code, Figure, Numbers, Report, Section, Table, Text


class Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page() -> str:
    chart = plots.seed_reasons([{"seed": "</script><b>", "believed": 2.0, "explored": 0.5}])
    return Report(
        "A & B",
        lede="<lede>",
        facts=[("seed", "0")],
        numbers=Numbers([("12", "a number")]),
        sections=[
            Section("Part", [Text("one\n\ntwo"), Table(["policy", "regret"], [["x", "1.0"], ["y", "2.0"]], best=0)]),
            Section("Figure", [Figure(chart, "a caption"), Code("tensorucb demo")]),
        ],
    ).to_html()


def test_page_fetches_nothing(page):
    parser = Collector()
    parser.feed(page)
    for tag, attributes in parser.tags:
        assert not {"src", "href", "srcset", "data"} & attributes.keys(), (tag, attributes)
    assert "cdn" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "jsdelivr" not in page
    assert "unpkg" not in page
    assert "@import" not in page
    assert "url(" not in page.split("</style>")[0]


def test_text_is_escaped(page):
    assert "<title>A &amp; B</title>" in page
    assert "&lt;lede&gt;" in page
    assert "</script><b>" not in page


def test_figure_documents_are_valid_json_with_their_theme_apart(page):
    found = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', page, flags=re.DOTALL)
    documents = {name: json.loads(text) for name, text in found}
    assert set(documents) == {"figure-0", "themes"}
    assert documents["figure-0"]["width"] == "container"
    assert "$schema" not in documents["figure-0"]
    assert set(documents["themes"]) == {"light", "dark"}
    assert "</script><b>" in json.dumps(documents["figure-0"])


def test_table_sets_numbers_right_and_tints_the_best(page):
    assert '<th>policy</th><th class="n">regret</th>' in page
    assert '<tr class="best"><td>x</td><td class="n">1.0</td></tr>' in page


def test_report_without_figures_carries_no_script():
    assert "vegaEmbed" not in Report("plain").to_html()
