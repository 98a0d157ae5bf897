from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from tensorucb import plots
from tensorucb.experiments import Experiment, Interval
from tensorucb.plots import Code, Figure, Report, Section, Table, Text
from tensorucb.policies.registry import REGISTRY


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
        numbers=[("12", "a number")],
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
def test_no_id_breaks_the_page_in_a_browser(opened, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(_hostile_page(), encoding="utf-8")
    page, complaints = opened(path)
    assert page.locator("footer").inner_text() == "the very end"
    assert page.locator("h1").inner_text() == HOSTILE[0]
    assert [page.locator("h2").nth(i).inner_text() for i in range(len(HOSTILE))] == HOSTILE
    assert HOSTILE[0] in page.locator(".chart svg.marks").inner_html().replace("&lt;", "<").replace("&gt;", ">")
    assert complaints == []


@pytest.fixture(scope="module")
def full_report(tmp_path_factory):
    """A page with every kind of figure, with as many policies as `compare` has, and wide tables."""
    names = [*REGISTRY, "product-blind oracle", "my own policy with a name that is rather long"]
    rng = np.random.default_rng(0)
    results = [
        pl.DataFrame({"optimum": np.full(30, 60.0), "regret": 60.0 - rng.normal(50.0 - 2.0 * number, 1.5, 30)}).select(
            pl.lit(name).alias("policy"), pl.lit(run).alias("run"), pl.all()
        )
        for number, name in enumerate(names)
        for run in range(3)
    ]
    experiment = Experiment(pl.concat(results))
    ranks = {r: Interval(*(np.linspace(9, 5 + r / 10, 4) + shift for shift in (0, -0.4, 0.4))) for r in (1, 2, 3, 5, 9)}
    charts = [
        plots.regret_curves(experiment),
        plots.final_regret(experiment),
        plots.rank_curves(ranks, title="TensorUCB (paper) by rank", subtitle="One product, every round"),
        plots.runtime_over_size({name: [1.0 + i, 2.0 + i] for i, name in enumerate(names)}, [15_000, 29_000]),
        plots.bound_chart([1, 2, 3], {"bound at the c it asks for": [1e5, 2e5, 3e8]}, {"TensorUCB": [1.0, 2, 3]}),
        plots.degree_distribution({"digg-like": [1, 1, 5, 80], "another network": [2, 3, 900]}),
        plots.seed_reasons([{"seed": f"user {i}", "believed": 2.0 + i, "explored": 0.5} for i in range(10)]),
    ]
    wide = Table(["Policy", *(f"First {t} rounds" for t in (10, 30, 100, 200))], [["x", *["5.8 (5.2 – 6.3)"] * 4]] * 3)
    sections = [Section("Tables", [wide, Code("tensorucb compare --data a/very/long/path/to/some/data --out out")])]
    sections += [Section(f"Figure {i}", [Figure(chart, "A caption.")]) for i, chart in enumerate(charts)]
    path = tmp_path_factory.mktemp("report") / "report.html"
    facts = [("seeds per round", "10"), ("a", "b" * 60)]
    return Report("A report", lede="w" * 80, facts=facts, numbers=[("1,234 users", "x" * 40)], sections=sections).save(
        path
    )


# The texts that are seen in each drawn figure, with their boxes; a line of text is a box of its own.
TEXTS = """svg => [...svg.querySelectorAll('text')].flatMap(text => text.children.length ? [...text.children] : [text])
  .filter(text => text.textContent && getComputedStyle(text.closest('text')).opacity !== '0')
  .map(text => [text.textContent, text.getBoundingClientRect()])"""
OUTSIDE = f"""() => [...document.querySelectorAll('svg.marks')].flatMap(svg => {{
  const frame = svg.getBoundingClientRect();
  return ({TEXTS})(svg).filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(([text]) => text);
}})"""
COVERED = f"""() => [...document.querySelectorAll('svg.marks')].flatMap(svg => {{
  const texts = ({TEXTS})(svg);
  const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  return texts.flatMap(([text, a], i) => texts.slice(i + 1).filter(([, b]) => covers(a, b)).map(([b]) => [text, b]));
}})"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_no_text_is_cut_or_covered(opened, full_report, width, scheme):
    page, complaints = opened(full_report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(COVERED) == []
    assert complaints == []
    assert (
        page.locator(".chart").evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth).length") == 0
    )


def test_on_a_phone_the_lines_are_named_below_and_beside_them_when_it_is_turned(opened, full_report):
    page, _ = opened(full_report, viewport={"width": 390, "height": 844})
    names = page.locator(".names").first.locator("li").all_inner_texts()
    ours = [name.split(" · ")[0] for name in names if "TensorUCB" in name]
    assert ours == ["TensorUCB (paper, logistic)", "TensorUCB (paper)", "TensorUCB"]
    assert len(names) == len(REGISTRY) + 3
    page.set_viewport_size({"width": 844, "height": 390})
    page.wait_for_function("document.querySelectorAll('.names').length === 0", timeout=30_000)
    page.wait_for_function("document.body.innerText.includes('best possible · 0')", timeout=30_000)


@pytest.mark.slow
def test_the_page_can_be_read_out_and_used_with_the_keyboard(opened, full_report):
    page, _ = opened(full_report)
    for role, count in (("banner", 1), ("main", 1), ("table", 1), ("columnheader", 5), ("rowheader", 3)):
        assert page.get_by_role(role).count() == count, role
    assert page.get_by_role("region", name="Figure 0").count() == 1
    assert page.get_by_role("region", name="Tables, table").get_attribute("tabindex") == "0"
    figure = page.get_by_role("img", name="Average regret so far")
    assert "TensorUCB" in figure.get_attribute("aria-label")


def test_table_sets_numbers_right_and_tints_the_best(page):
    assert '<th scope="col">policy</th><th scope="col" class="n">regret</th>' in page
    assert '<tr class="best"><th scope="row">x</th><td class="n">1.0</td></tr>' in page


def test_report_without_figures_carries_no_script():
    assert "vegaEmbed" not in Report("plain").to_html()
