from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

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


HOSTILE = ["<!--<script>", "</script><b>", "<!--", "]]>", "<script>alert(1)//", "<!--<script></script>-->"]


def _hostile_page():
    rows = [{"seed": text, "believed": 2.0, "explored": 0.5} for text in HOSTILE]
    table = Table(HOSTILE, [HOSTILE])
    sections = [Section(text, [Text(text), Code(text), table]) for text in HOSTILE]
    sections.append(Section("Figure", [Figure(plots.seed_reasons(rows), HOSTILE[0])]))
    return Report(HOSTILE[0], lede=HOSTILE[1], sections=sections, footer="the very end").to_html()


def test_no_id_breaks_the_page():
    page = _hostile_page()
    data = re.findall(r'<script type="application/json" id="[^"]+">(.*?)</script>', page, flags=re.DOTALL)
    assert len(data) == 2
    assert not any("<" in text for text in data)
    assert all(text in json.dumps(json.loads(data[0])) for text in HOSTILE)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="Chromium is not installed (Debian: chromium)")
def test_no_id_breaks_the_page_in_a_browser(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "report.html"
    path.write_text(_hostile_page(), encoding="utf-8")
    options = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-quic"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(path.as_uri())
        page.wait_for_selector(".chart svg.marks", timeout=30_000)
        assert page.locator("footer").inner_text() == "the very end"
        assert page.locator("h1").inner_text() == HOSTILE[0]
        assert [page.locator("h2").nth(i).inner_text() for i in range(len(HOSTILE))] == HOSTILE
        assert HOSTILE[0] in page.locator(".chart svg.marks").inner_html().replace("&lt;", "<").replace("&gt;", ">")
        assert errors == []
        browser.close()


def test_table_sets_numbers_right_and_tints_the_best(page):
    assert '<th>policy</th><th class="n">regret</th>' in page
    assert '<tr class="best"><td>x</td><td class="n">1.0</td></tr>' in page


def test_report_without_figures_carries_no_script():
    assert "vegaEmbed" not in Report("plain").to_html()
