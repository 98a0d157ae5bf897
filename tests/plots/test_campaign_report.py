"""The page on how a campaign is going: what its figures show, and how it behaves in a browser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from campaign.worlds import answers, small_campaign
from tensorucb.campaign import Reach
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.plots import Figure, campaign_report
from tensorucb.policies import HighDegree

HOSTILE = ["</script><b>", "<!--<script>", "=1+1", "Zoë", "名前", "x" * 200]
STRATEGIES = {"strategies": {"mail": [1.0, 0.0], "<i>visit": [0.0, 1.0]}, "strategy_costs": {"<i>visit": 2.0}}


@pytest.fixture(scope="module")
def progress():
    """Of a campaign with hold-outs, strategies, costs and hostile ids: four closed rounds and an open one."""
    names = [*HOSTILE, *(f"user-{i}" for i in range(24))]
    rng = np.random.default_rng(0)
    pairs = sorted({(names[i], names[j]) for i, j in rng.integers(0, 30, (150, 2)) if i != j})
    graph = Graph.from_edges(*zip(*pairs, strict=True), nodes=np.array(names))
    products = {HOSTILE[0]: [1.0, 0.0], "tea": [0.0, 1.0]}
    campaign = small_campaign(
        graph=graph, policy=HighDegree(), products=products, costs=np.ones(30), window="100s", **STRATEGIES
    )
    for number in range(5):
        ask = campaign.ask(list(products)[number % 2], 10, strategies="all", holdout=0.2)
        campaign.tell(ask.id, answers(campaign, ask, every=5))
        acting = rng.choice(graph.ids, 8, replace=False)
        campaign.tell(ask.id, [{"user": user, "time": 1001.0} for user in acting.tolist()])
        if number < 4:
            campaign.close(ask.id)
    return campaign.progress()


@pytest.fixture(scope="module")
def page(progress):
    return campaign_report(progress)


def specifications(report):
    return [
        block.chart.to_dict() for section in report.sections for block in section.blocks if isinstance(block, Figure)
    ]


def drawn(progress, rounds, title):
    """The first figure of a section of the page on these rounds."""
    report = campaign_report(replace(progress, rounds=tuple(rounds)))
    (section,) = [section for section in report.sections if section.title == title]
    return next(block.chart.to_dict() for block in section.blocks if isinstance(block, Figure))


def test_the_page_answers_each_question_in_a_section(page):
    assert [section.title for section in page.sections] == [
        "Responses beside expectation",
        "Reach and spending",
        "Can the forecasts be trusted?",
        "Does contact change anything?",
        "Who was contacted most, and what their followers did",
        "Products",
        "Strategies",
    ]


def test_each_figure_says_what_it_shows(page):
    for document in specifications(page):
        assert document["title"]["text"]
        assert len(document["description"]) > 30


def test_the_text_of_the_page_is_harmless(page):
    html = page.to_html()
    assert "</script><b>" not in html
    assert "<i>visit" not in html
    assert "&lt;/script&gt;&lt;b&gt;" in html


def test_a_round_outside_of_its_interval_looks_different(progress):
    reach = Reach(10.0, 5.0, 15.0, objective="direct")
    outcomes = ((10, True, "closed"), (40, False, "closed"), (3, None, "open"))
    rounds = [
        replace(progress.rounds[0], number=i, expected=reach, responders=count, within=within, status=status)
        for i, (count, within, status) in enumerate(outcomes, start=1)
    ]
    document = drawn(progress, rounds, "Responses beside expectation")
    points = document["layer"][2]
    domain, colours = (points["encoding"]["color"]["scale"][name] for name in ("domain", "range"))
    rows = document["layer"][0].get("data", document.get("data"))["values"]
    assert [row["state"] for row in rows] == ["in the interval", "outside of it", "still open"] == domain
    assert len(set(colours)) == len(set(points["encoding"]["shape"]["scale"]["range"])) == 3


def test_a_first_interval_as_wide_as_the_network_does_not_squeeze_the_others(progress):
    wide, usual = Reach(20.0, 0.0, 5000.0, objective="direct"), Reach(20.0, 12.0, 28.0, objective="direct")
    first = replace(progress.rounds[0], expected=wide, responders=18, within=True)
    rounds = [first, *(replace(first, number=i, expected=usual) for i in range(2, 10))]
    document = drawn(progress, rounds, "Responses beside expectation")
    rows = document["layer"][0].get("data", document.get("data"))["values"]
    assert max(row["end"] for row in rows) < 60.0
    assert rows[0]["high"] == 5000.0


def test_sums_end_where_the_totals_are(progress):
    rows = drawn(progress, progress.rounds, "Reach and spending")["layer"][0]["data"]["values"]
    last = {row["what"]: row["sum"] for row in rows}
    assert last["responses"] == progress.closed.responders
    assert last["responses expected"] == pytest.approx(progress.closed.expected)
    assert last["different users who responded"] <= progress.reached


def test_layers_name_an_axis_alike(page):
    """On a phone the page wraps titles, and layers of different ones would be joined with commas."""
    for document in specifications(page):
        for channel in ("x", "y"):
            named = [layer["encoding"].get(channel, {}) for layer in document.get("layer", [])]
            assert len({axis.get("title") for axis in named if "field" in axis}) <= 1, (channel, document["title"])


def test_a_campaign_without_rounds_has_a_page():
    html = campaign_report(small_campaign().progress()).to_html()
    assert "No round has been opened yet." in html
    assert "vegaEmbed" not in html


def test_a_campaign_of_shadow_rounds_has_a_page():
    campaign = small_campaign()
    ask = campaign.ask("tea", 3, shadow=campaign.graph.ids[:3].tolist())
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    report = campaign_report(campaign.progress())
    assert specifications(report) == []
    assert "closed (shadow)" in report.to_html()


def test_something_else_is_refused():
    with pytest.raises(InputError, match="CampaignProgress"):
        campaign_report("spring")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_the_page_in_a_browser(opened, page, tmp_path, width, scheme):
    path = page.save(tmp_path / "report.html")
    tab, complaints = opened(path, viewport={"width": width, "height": 900}, color_scheme=scheme)
    figures = len(specifications(page))
    assert tab.locator(".chart svg.marks[aria-label]").count() == figures
    assert complaints == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert [tab.locator(landmark).count() for landmark in ("main", "header", "footer", "h1")] == [1, 1, 1, 1]
    assert tab.locator("h2").count() == len(page.sections)
    first = tab.locator(".chart svg.marks").first
    assert first.get_attribute("aria-label").startswith("For each of 5 rounds")
    inside = "(e) => e.getBoundingClientRect().right <= document.documentElement.clientWidth"
    assert all(frame.evaluate(inside) for frame in tab.locator("section").all())
    assert "," not in first.locator(".mark-text.role-axis-title").last.text_content()


def test_products_of_one_name_have_places_of_their_own(progress):
    first = progress.products[0]
    products = tuple(replace(first, id=i, name=name) for i, name in enumerate(("tea", "tea", "tea (2)")))
    document = drawn(replace(progress, products=products), progress.rounds, "Products")
    assert len({row["group"] for row in document["layer"][0]["data"]["values"]}) == 3


@pytest.mark.parametrize(("expected", "caption"), [(10, ""), (15, ""), (16, "The 15 products with the most contacts.")])
def test_the_caption_counts_the_products_that_are_drawn(progress, expected, caption):
    first = progress.products[0]
    rates = [first.believed] * expected + [None] * (20 - expected)
    products = tuple(replace(first, id=i, name=f"tea {i}", believed=rate) for i, rate in enumerate(rates))
    report = campaign_report(replace(progress, products=products))
    (section,) = [section for section in report.sections if section.title == "Products"]
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    assert len({row["group"] for row in figure.chart.to_dict()["layer"][0]["data"]["values"]}) == min(15, expected)
    assert figure.caption == caption


def test_many_open_rounds_stand_side_by_side_until_one_is_closed(progress):
    rounds = [replace(entry, status="open", within=None) for entry in daily(progress, 70)]
    document = drawn(replace(progress, calibration=None), rounds, "Responses beside expectation")
    assert {row["state"] for row in document["layer"][0].get("data", document.get("data"))["values"]} == {"still open"}


@pytest.mark.parametrize(
    ("count", "days", "unit", "blocks"),
    [(61, 1.0, "by week", 9), (200, 1.0, "by week", 29), (2000, 0.5, "by month", 33), (90, 0.001, "3 at a time", 30)],
)
def test_many_rounds_are_put_together(progress, count, days, unit, blocks):
    first = next(entry for entry in progress.rounds if entry.status == "closed" and entry.expected is not None)
    start = 1_767_571_200.0  # a Monday
    rounds = [replace(first, number=i + 1, opened=start + 86_400.0 * days * i, responders=i % 7) for i in range(count)]
    document = drawn(progress, rounds, "Responses beside expectation")
    rows = document["layer"][0].get("data", document.get("data"))["values"]
    assert unit in document["title"]["subtitle"]
    assert len(rows) == blocks
    assert sum(row["rounds"] for row in rows) == count
    assert sum(row["responses"] for row in rows) == sum(entry.responders for entry in rounds)
    assert sum(row["expected"] for row in rows) == pytest.approx(count * first.expected.mean)
    x = document["layer"][0]["encoding"]["x"]
    dated = x["type"] == "temporal"
    assert dated == (unit != "3 at a time")
    if dated:  # each label stands where a week or a month begins
        begins = {row["begin"][:10] for row in rows}
        assert {"{year}-{month:02}-{date:02}".format(**label) for label in x["axis"]["values"]} <= begins


def test_lines_have_a_date_axis_where_rounds_are_of_several_days(progress):
    closed = [entry for entry in progress.rounds if entry.status == "closed"]
    daily = [replace(entry, opened=1.7e9 + 86_400.0 * i) for i, entry in enumerate(closed)]
    hourly = [replace(entry, opened=1.7e9 + 60.0 * i) for i, entry in enumerate(closed)]
    for rounds, kind in ((daily, "temporal"), (hourly, "quantitative")):
        document = drawn(progress, rounds, "Reach and spending")
        assert {layer["encoding"]["x"]["type"] for layer in document["layer"]} == {kind}


def daily(progress, count, days=1.0, start=1_767_571_200.0):
    """So many closed rounds, one after so many days each, from a Monday (UTC) on."""
    first = next(entry for entry in progress.rounds if entry.status == "closed" and entry.expected is not None)
    return [replace(first, number=i + 1, opened=start + 86_400.0 * days * i, spend=2.0) for i in range(count)]


def test_rounds_of_several_days_have_dates_below_them(progress):
    def labels(rounds):
        x = drawn(progress, rounds, "Responses beside expectation")["layer"][0]["encoding"]["x"]
        return x["title"], x["axis"].get("labelExpr", "")

    title, said = labels(daily(progress, 5))
    assert title == "Opened"
    assert '"1": "5 Jan"' in said
    assert '"5": "9 Jan"' in said
    title, said = labels(daily(progress, 6, days=0.5))  # two rounds a day: the date stands where a day begins
    assert '"3": "6 Jan"' in said
    assert '"4"' not in said
    assert '"1": "31 Dec 2025"' in labels(daily(progress, 5, start=1_767_139_200.0))[1]
    assert labels(daily(progress, 5, days=0.01)) == ("Round", "")


def test_days_and_weeks_are_those_of_the_campaigns_time_zone(progress):
    rounds = daily(progress, 70, start=1_767_571_200.0 - 3600.0)  # an hour before Monday in UTC, 18:00 in New York
    here = drawn(replace(progress, timezone="America/New_York"), rounds, "Responses beside expectation")
    there = drawn(replace(progress, timezone="Europe/Berlin"), rounds, "Responses beside expectation")
    weeks = [document["layer"][0].get("data", document.get("data"))["values"] for document in (here, there)]
    assert [rows[0]["begin"] for rows in weeks] == ["2025-12-29T00:00:00", "2026-01-05T00:00:00"]
    assert [rows[0]["rounds"] for rows in weeks] == [1, 7]
    html = campaign_report(replace(progress, timezone="America/New_York", rounds=tuple(rounds[:3]))).to_html()
    assert "04\xa0Jan\xa02026" in html


@pytest.mark.parametrize(("section", "at"), [("Reach and spending", 0), ("Can the forecasts be trusted?", 0)])
def test_lines_over_many_rounds_have_a_point_for_each_week(progress, section, at):
    few, many = daily(progress, 60), daily(progress, 70)
    for rounds, points in ((few, 60), (many, 10)):
        held = replace(progress.calibration, rounds=len(rounds))
        document = drawn(replace(progress, calibration=held), rounds, section)
        rows = document["layer"][at].get("data", document.get("data"))["values"]
        assert len({row["round"] for row in rows}) == points
        assert max(row["round"] for row in rows) == len(rounds)
    assert "70 rounds, by week" in document["title"]["subtitle"]
