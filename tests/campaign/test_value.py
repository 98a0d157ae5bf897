"""Campaigns by value: what responses are worth decides, is forecast with an interval, and compared with what came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorucb as tu
from campaign.worlds import Clock, small_campaign
from cli.commands import run, run_json
from service.serving import serving
from tensorucb.client import Client
from tensorucb.errors import InputError
from tensorucb.plots import campaign_report
from tensorucb.policies import HighDegree, LinUCB, LogisticUCB, TensorUCB

DAY = 86_400.0


def played(rounds=3, *, scale=1.0, amounts=True, equal=False, order=1, name="spring", storage="memory://", **options):
    """A campaign that was told who bought and for how much; amounts depend on the user."""
    clock = Clock()
    campaign = small_campaign(storage, name=name, clock=clock, window="1d", policy=TensorUCB(), **options)
    ids = campaign.graph.ids
    rng = np.random.default_rng(5)
    for number in range(rounds):
        ask = campaign.ask(("tea", "soap")[number % 2], 4)
        buyers = rng.choice(ids.size, 12, replace=False)
        noise = np.exp(rng.normal(size=12))
        spent = np.full(12, 7.0) if equal else np.where(buyers < 15, 5.0, 90.0) * noise
        rows = {"user": ids[buyers], "time": clock.now + 60.0 + np.arange(12)}
        if amounts:
            rows["amount"] = scale * spent
        campaign.tell(ask.id, {column: values[::order] for column, values in rows.items()})
        clock.now += 2 * DAY
        campaign.close(ask.id)
    return campaign


def test_the_metric_is_one_of_two_and_is_kept():
    with pytest.raises(InputError, match="metric must be 'responders' or 'value'"):
        small_campaign(metric="profit")
    assert small_campaign().settings["metric"] == "responders"
    assert small_campaign(metric="value").settings["metric"] == "value"


def test_values_of_users_change_the_choice_and_only_if_the_metric_is_value():
    graph = tu.Graph.from_edges(["a", "a", "a", "b", "b"], ["p", "q", "r", "s", "t"])
    worth = np.where(np.isin(graph.ids, ["s", "t"]), 100.0, 1.0)
    seeds = {}
    for metric in ("responders", "value"):
        campaign = tu.create_campaign(
            "spring", graph=graph, values=worth, metric=metric, policy=LinUCB(), storage="memory://"
        )
        ask = campaign.ask(k=1)
        seeds[metric] = ask.seeds
        assert ask.reach.revenue is not None
        assert sum(ask.revenues) == pytest.approx(ask.reach.revenue.mean)
    assert seeds == {"responders": ("a",), "value": ("b",)}


def test_a_user_is_not_contacted_because_of_what_they_would_spend_themselves():
    graph = tu.Graph.from_edges(["rich", "a", "a", "a"], ["p", "q", "r", "s"])
    worth = np.where(graph.ids == "rich", 1000.0, 1.0)
    worth[graph.ids == "q"] = 2.0
    campaign = tu.create_campaign("spring", graph=graph, values=worth, metric="value", storage="memory://")
    assert campaign.ask(k=1).seeds == ("a",)


def test_products_have_values_and_a_response_is_worth_the_product_of_both():
    graph = tu.Graph.from_edges(["a", "a"], ["p", "q"])
    campaign = tu.create_campaign(
        "spring",
        graph=graph,
        products={"tea": [1.0, 0.0], "jam": [0.0, 1.0]},
        product_values={"tea": 3.0, "jam": 10.0},
        values=[1.0, 2.0, 4.0],
        storage="memory://",
        clock=Clock(),
    )
    ask = campaign.ask("tea", k=1, candidates=["a"])
    campaign.tell(ask.id, [{"source": "a", "target": "p", "outcome": 1}, {"source": "a", "target": "q", "outcome": 1}])
    campaign.close(ask.id)
    assert campaign.progress().rounds[0].revenue == 3.0 * 2.0 + 3.0 * 4.0
    # Another price counts from now on: a round keeps the one that it was opened with.
    campaign.add_products(["tea"], [[1.0, 0.0]], values=[5.0])
    assert campaign.product_values() == {"tea": 5.0, "jam": 10.0}
    assert campaign.progress().rounds[0].revenue == 18.0
    with pytest.raises(InputError, match="products have values here"):
        campaign.add_products(["nut"], [[1.0, 1.0]])
    with pytest.raises(InputError, match="product_values has no value for 'jam'"):
        tu.create_campaign(
            "other",
            graph=graph,
            products={"tea": [1.0, 0.0], "jam": [0.0, 1.0]},
            product_values={"tea": 3.0},
            storage="memory://",
        )


def test_an_amount_told_counts_more_than_values_and_who_has_neither_counts_as_nothing():
    graph = tu.Graph.from_edges(["a", "a"], ["p", "q"])
    for values, revenue, left in (([1.0, 2.0, 4.0], 9.5 + 4.0, 0), (None, 9.5, 1)):
        campaign = tu.create_campaign("spring", graph=graph, values=values, storage="memory://", clock=Clock())
        ask = campaign.ask(k=1, candidates=["a"])
        campaign.tell(ask.id, {"user": ["p", "q"], "time": [1001.0, 1001.0], "amount": [9.5, None]})
        entry = campaign.progress().rounds[0]
        assert (entry.revenue, entry.without_amount) == (revenue, left)


def test_purchases_within_the_window_add_up_and_edges_that_tell_of_the_same_one_do_not():
    graph = tu.Graph.from_edges(["a", "b", "a"], ["p", "p", "q"])
    campaign = tu.create_campaign("spring", graph=graph, storage="memory://", clock=Clock(), window="1d")
    ask = campaign.ask(users=["a", "b"])
    edges = [{"source": source, "target": "p", "outcome": 1, "amount": 20.0} for source in ("a", "b")]
    campaign.tell(ask.id, edges)
    late = {"user": ["q"] * 3, "time": [1001.0, 1002.0, 1000.0 + 2 * DAY], "amount": [1.0, 2.0, 50.0]}
    campaign.tell(ask.id, late)
    assert campaign.progress().rounds[0].revenue == 23.0


def test_without_amounts_and_values_nothing_speaks_of_money():
    campaign = played(2, amounts=False, metric="value")
    report = campaign.progress()
    assert report.revenue is None
    assert all(entry.revenue is None for entry in report.rounds)
    ask = campaign.ask("tea", 4)
    assert ask.reach.revenue is None
    assert ask.revenues is None
    assert "Revenue" not in str(campaign_report(report).sections)


@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_equal_amounts_choose_the_same_seeds_as_counts(objective):
    by_value = played(4, equal=True, metric="value", objective=objective)
    by_count = played(4, equal=True, metric="responders", objective=objective)
    assert [ask.seeds for ask in by_value.rounds()] == [ask.seeds for ask in by_count.rounds()]
    assert [ask.reach.mean for ask in by_value.rounds()] == [ask.reach.mean for ask in by_count.rounds()]
    last = by_value.ask("tea", 4)
    assert last.seeds == by_count.ask("tea", 4).seeds
    assert last.reach.revenue.mean > 0.0


def test_amounts_told_change_no_decision_of_a_campaign_by_responders():
    told, plain = played(5), played(5, amounts=False)
    assert [ask.seeds for ask in told.rounds()] == [ask.seeds for ask in plain.rounds()]
    assert [ask.gains for ask in told.rounds()] == [ask.gains for ask in plain.rounds()]
    assert told.model_hash() == plain.model_hash()
    assert told.progress().revenue.closed > 0.0
    assert told.ask("tea", 4).reach.revenue is not None


@given(st.floats(0.01, 1000.0), st.sampled_from(["responders", "value"]))
@settings(max_examples=8, deadline=None)
def test_other_units_of_money_change_numbers_by_their_factor_and_no_choice(scale, metric):
    first, second = played(3, metric=metric), played(3, scale=scale, metric=metric)
    one, two = first.ask("tea", 4), second.ask("tea", 4)
    assert one.seeds == two.seeds
    for name in ("mean", "low", "high"):
        amount, scaled = getattr(one.reach.revenue, name), getattr(two.reach.revenue, name)
        assert scaled == pytest.approx(scale * amount, rel=1e-6, abs=1e-9 * scale)
    assert second.progress().revenue.closed == pytest.approx(scale * first.progress().revenue.closed)


def test_the_order_of_rows_changes_nothing():
    first, second = played(3, metric="value"), played(3, order=-1, metric="value")
    assert first.ask("tea", 4) == second.ask("tea", 4)


def test_large_buyers_are_found():
    """Users 15 and above spend 18 times as much: who has more of them as followers should bring more per response.

    By chance the correlation over 30 users would have a deviation of 0.18.
    """
    campaign = played(12, metric="value")
    graph = campaign.graph
    shares = np.bincount(graph.sources, graph.targets >= 15, graph.n_nodes) / np.maximum(graph.out_degree, 1)
    followed = np.flatnonzero(graph.out_degree)
    reaches = [campaign.preview("tea", users=[user]).reach for user in graph.ids[followed].tolist()]
    worth = np.array([reach.revenue.mean / reach.mean for reach in reaches])
    assert np.corrcoef(np.log(worth), shares[followed])[0, 1] > 0.6


def test_a_single_large_order_says_little_about_its_buyer():
    graph = tu.Graph.from_edges(["a", "a", "b", "b"], ["p", "q", "s", "t"])
    campaign = tu.create_campaign("spring", graph=graph, metric="value", policy=HighDegree(), storage="memory://")
    rows = {"user": ["p", "q", "s", "t"], "amount": [10.0, 12.0, 9.0, 1000.0]}
    for _ in range(2):
        # Nobody buys twice in the first round: all are taken for alike. The second one tells who spends much.
        ask = campaign.ask(users=["a", "b"])
        campaign.tell(ask.id, {**rows, "time": [ask.opened] * 4})
        campaign.close(ask.id)
        reach = {user: campaign.preview(users=[user]).reach for user in ("a", "b")}
        each = {user: one.revenue.mean / one.mean for user, one in reach.items()}
        if ask.number == 1:
            assert each["a"] == pytest.approx(each["b"])
            assert each["a"] == pytest.approx(np.mean(rows["amount"]))
    assert each["b"] > 2.0 * each["a"]


@pytest.mark.parametrize("by", ["log", "edges"])
def test_amounts_of_imported_history_are_learned(by):
    graph = tu.Graph.from_edges(["a", "a", "b", "b"], ["p", "q", "s", "t"])
    products = {"tea": [1.0]}
    campaign = tu.create_campaign("spring", graph=graph, products=products, metric="value", storage="memory://")
    if by == "log":
        log = {"user": list("apqbst"), "time": np.arange(6.0), "item": ["tea"] * 6, "amount": [1, 3, 3, 1, 90, 95]}
        campaign.import_history(log, window="1h")
    else:
        edges = {"source": list("aabb"), "target": list("pqst"), "outcome": [1] * 4, "amount": [3, 3, 90, 95]}
        campaign.import_history({**edges, "product": ["tea"] * 4})
    ask = campaign.ask("tea", k=1)
    assert ask.reach.revenue.mean == pytest.approx(ask.reach.mean * (3 + 3 + 90 + 95) / 4, rel=0.6)
    assert campaign.progress().revenue is None  # history is no revenue of this campaign


def test_every_door_shows_the_same_money(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    costs = np.full(30, 2.0)
    with played(5, metric="value", costs=costs, storage=storage, ask={"holdout": 0.25}) as campaign:
        before = campaign.preview("tea", 4)
        ask = campaign.ask("tea", 4, deadline=4e9)  # the service must not close it
        assert ask.reach.revenue == campaign.round(ask.id).reach.revenue
        seeds = ask.explain().seeds
        assert {seed.metric for seed in seeds} == {"value"}
        contacted = [seed for seed in seeds if seed.status == "chosen"]
        assert sum(seed.gain for seed in contacted) == pytest.approx(ask.reach.revenue.mean)
        assert "of expected revenue" in seeds[0].text
        assert before.reach.revenue.mean > 0.0
        assert ask.return_on_cost.mean == pytest.approx(ask.reach.revenue.mean / ask.cost)
        progress, lift = campaign.progress(), campaign.lift()
        paid = [(entry.revenue, entry.spend) for entry in progress.rounds if entry.status == "closed"]
        revenue, spend = map(sum, zip(*paid, strict=True))
        assert progress.revenue.closed == pytest.approx(revenue)
        assert progress.revenue.return_on_cost == pytest.approx(revenue / spend)
        assert progress.revenue.low <= progress.revenue.return_on_cost <= progress.revenue.high
        assert progress.lift == lift
        assert lift.revenue.low <= lift.revenue.difference <= lift.revenue.high
        assert lift.revenue.difference == pytest.approx(lift.revenue.contacted - lift.revenue.held_out)
        with serving(storage) as url, Client(url) as client:
            remote = client.campaign("spring")
            assert remote.progress() == progress
            assert remote.lift() == lift
            assert remote.round(ask.id) == ask
        said = run_json("status", "spring", "--storage", storage)
        assert said["progress"]["revenue"]["closed"] == progress.revenue.closed
        printed = run("status", "spring", "--storage", storage).stdout
        assert f"Revenue: {progress.revenue.text[:20]}" in printed
        assert "Revenue per follower" in run("lift", "spring", "--storage", storage).stdout
        page = campaign_report(progress).save(tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"{progress.revenue.closed:,.2f}" in page


def test_a_person_who_is_forgotten_takes_their_value_and_amounts_along():
    campaign = played(3, metric="value", values=np.arange(1.0, 31.0))
    gone = campaign.graph.ids[3].item()
    assert campaign.forget(gone).proven
    assert campaign.values.tolist() == [value for value in np.arange(1.0, 31.0) if value != 4.0]
    assert campaign.ask("tea", 4).reach.revenue is not None


def test_values_and_metric_come_from_files_and_over_http(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,p\na,q\na,r\nb,s\nb,t\n")
    people = "".join(f"{user},{100 if user in 'st' else 1}\n" for user in "abpqrst")
    (tmp_path / "users.csv").write_text(f"user,basket\n{people}")
    (tmp_path / "products.csv").write_text("product,kind,margin\ntea,food,2\njam,food,3\n")
    storage = f"sqlite:///{tmp_path}/c.db"
    columns = ["--column", "users.value=basket", "--column", "products.value=margin"]
    options = ["--metric", "value", "--policy", "LinUCB", "--storage", storage]
    made = run("create", "spring", "--data", tmp_path, *columns, *options).stdout
    assert "What a response is worth: column basket." in made
    assert "What a response is worth: column margin of products.csv." in made
    assert "decides by what responses are worth" in made
    first = run_json("ask", "spring", "--product", "tea", "-k", "1", "--storage", storage)
    assert first["seeds"] == ["b"]
    printed = run("ask", "spring", "--product", "tea", "-k", "1", "--storage", storage).stdout
    assert "Expected revenue" in printed
    with serving(storage) as url, Client(url) as client:
        campaign = client.create_campaign(
            "other",
            edges=tmp_path / "edges.csv",
            users=tmp_path / "users.csv",
            products=tmp_path / "products.csv",
            columns={"users": {"value": "basket"}, "products": {"value": "margin"}},
            policy="LinUCB",
            metric="value",
        )
        ask = campaign.ask("tea", k=1)
        assert ask.seeds == ("b",)
        assert list(ask.reach.revenue.__dict__.values()) == list(first["reach"]["revenue"].values())
        campaign.add_users(["z"], values=[7.0])
        rows = {"user": ["s"], "time": [ask.opened + 1.0], "spent": [12.5]}
        assert campaign.tell(ask.id, rows, columns={"amount": "spent"}).accepted == 1
        assert campaign.progress().rounds[0].revenue == 12.5
        assert campaign.progress().metric == "value"


@pytest.mark.slow
def test_intervals_of_the_revenue_hold_about_as_often_as_promised():
    """120 rounds of four campaigns in the world of the study; 90 % are promised, the standard error is 3 points."""
    from studies.revenue import arms, make_world, play

    world = make_world(100)
    held = np.concatenate([play(world, options, 30, 100)["held"] for options in arms(world).values()])
    assert 0.8 <= held.mean() <= 0.98


def test_value_wins_on_value_where_those_who_respond_often_spend_little():
    from studies.revenue import arms, make_world, play

    world = make_world(7)
    found = {name: play(world, arms(world)[name], 15, 7) for name in ("responders", "value, amounts and groups")}
    counts, value = found.values()
    assert value["revenue"].mean() > 1.2 * counts["revenue"].mean()
    assert value["responders"].mean() < counts["responders"].mean()


def test_the_lift_of_the_revenue_holds_0_where_contact_changes_nothing():
    """40 campaigns in which anybody buys, whoever is contacted, for log-normal amounts: 90 % are promised."""
    covered = 0
    for seed in range(40):
        clock, rng = Clock(), np.random.default_rng(seed)
        campaign = small_campaign(policy=HighDegree(), clock=clock, window="1d", seed=seed)
        for _ in range(3):
            ask = campaign.ask("tea", users=rng.permutation(campaign.graph.ids)[:12].tolist(), holdout=0.4)
            buyers = rng.choice(30, 10, replace=False)
            amounts = np.exp(1.2 * rng.normal(size=10))
            rows = {"user": campaign.graph.ids[buyers], "time": np.full(10, clock.now + 1.0), "amount": amounts}
            campaign.tell(ask.id, rows)
            clock.now += 2 * DAY
            campaign.close(ask.id)
        lift = campaign.lift().revenue
        covered += lift.low <= 0.0 <= lift.high
    assert covered >= 33  # 36 are promised; fewer than 33 in one of twenty such tests


def test_logistic_policies_choose_by_value_too():
    campaign = small_campaign(
        policy=LogisticUCB(), metric="value", values=np.where(np.arange(30) < 3, 1000.0, 1.0), clock=Clock()
    )
    ask = campaign.ask("tea", 3)
    graph = campaign.graph
    followers = set(graph.targets[graph.out_edges(np.sort(graph.rows(ask.seeds)))].tolist())
    assert followers & {0, 1, 2}
