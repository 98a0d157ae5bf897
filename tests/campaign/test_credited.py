"""The export's credited edges are what the policy learned; its tables go through polars and pandas and back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, LinUCB


class Witness(LinUCB):
    """Writes down what it is taught."""

    def __init__(self) -> None:
        super().__init__()
        self.lessons = []

    def update(self, product, edges, outcomes):
        self.lessons.append(dict(zip(edges.tolist(), outcomes.tolist(), strict=True)))
        super().update(product, edges, outcomes)


def told_by_node(campaign, ask, rng):
    users = [target for _, target in out_pairs(campaign, ask.contacted)]
    acting = [user for user in sorted(set(users)) if rng.random() < 0.4]  # the same draws for any order of hashes
    campaign.tell(ask.id, [{"user": user, "time": 1000.0 + i} for i, user in enumerate(acting)])
    return {user: 1000.0 + i for i, user in enumerate(acting)}


@pytest.mark.parametrize("rule", ["any", "last", "shared"])
def test_credited_edges_are_what_the_policy_learned(rule, tmp_path):
    witness, rng = Witness(), np.random.default_rng(5)
    campaign = small_campaign(policy=witness, credit=rule, window="500s")
    asks, moments, explicit = [], {}, {}
    for number in range(4):
        ask = campaign.ask("tea" if number % 2 else "soap", 5)
        moments[ask.id] = told_by_node(campaign, ask, rng)
        if number == 1:
            rows = [{**row, "time": 2.0} for row in answers(campaign, ask)[:6]]
            campaign.tell(ask.id, rows)
            explicit = {(row["source"], row["target"]): row["outcome"] for row in rows}
        asks.append(ask)
        campaign.close(ask.id)
    still_open = campaign.ask("tea", 3)
    told_by_node(campaign, still_open, rng)
    campaign.export(tmp_path)
    found = pl.read_parquet(tmp_path / "credited_edges.parquet")
    assert found["round"].unique(maintain_order=True).to_list() == [ask.id for ask in asks]
    ids, graph = campaign.graph.ids, campaign.graph
    for number, (ask, lesson) in enumerate(zip(asks, witness.lessons, strict=True)):
        taught = {(ids[graph.sources[e]].item(), ids[graph.targets[e]].item()): y for e, y in lesson.items()}
        told = explicit if number == 1 else {}
        rows = found.filter(pl.col("round") == ask.id)
        kept = {(row["source"], row["target"]): row["credit"] for row in rows.iter_rows(named=True)}
        assert kept == {edge: y for edge, y in taught.items() if y > 0.0 or edge in told}
        assert rows["product"].unique().to_list() == [ask.product]
        assert rows["strategy"].null_count() == rows.height
        for row in rows.iter_rows(named=True):
            edge = (row["source"], row["target"])
            assert row["time"] == (2.0 if edge in told else moments[ask.id][row["target"]])
    assert {0.0, 1.0} <= set(found.filter(pl.col("round") == asks[1].id)["credit"])


def test_each_credited_edge_has_its_strategy_and_silence_is_not_listed(tmp_path):
    strategies = {"mail": [1.0, 0.0], "visit": [0.0, 1.0]}
    campaign = small_campaign(strategies=strategies)
    ask = campaign.ask("tea", 4, strategies="all", per_user=True)
    source, target = out_pairs(campaign, ask.seeds)[0]
    campaign.tell(ask.id, [{"source": source, "target": target, "outcome": 1}])
    campaign.close(ask.id)
    campaign.export(tmp_path)
    strategy = dict(zip(ask.seeds, ask.strategies, strict=True))[source]
    assert pl.read_parquet(tmp_path / "credited_edges.parquet").rows() == [
        (ask.id, source, target, "tea", strategy, 1.0, None)
    ]


# -- both formats, through other libraries and back --

NAMES = ["007", "=1+1", "'quoted", "a,b", "line\nbreak", 'say "x"', "+49", "-1", "@ann", "Zoë", "1e5", "NA"]


def hostile(kind):
    """A campaign whose users and products have such names, or numbers, and a table of each kind."""
    if kind == "numbers":
        campaign = small_campaign(graph=small_graph(strings=False), products={7: [1.0, 0.0], 8: [0.0, 1.0]})
        product = 7
    else:
        pairs = [(NAMES[i], NAMES[(i + j) % len(NAMES)]) for i in range(len(NAMES)) for j in (1, 2)]
        graph = Graph.from_edges(*zip(*pairs, strict=True), nodes=np.array(NAMES))
        products = {"=tea": [1.0, 0.0], "007": [0.0, 1.0]}
        campaign = small_campaign(graph=graph, policy=HighDegree(), products=products, clock=Clock(1_700_000_000.25))
        product = "007"
    ask = campaign.ask(product, len(campaign.graph.ids) // 2)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.tell(ask.id, [{"user": campaign.graph.ids[-1].item(), "time": 1_700_000_000.5, "event_id": "=x"}])
    campaign.close(ask.id)
    campaign.ask([0.5, 0.5], 2)
    return campaign


def unguarded(frame):
    """The text before a spreadsheet was kept from running it."""
    return frame.with_columns(pl.col(pl.String).str.replace(r"^'('*[=+\-@\t\r])", "$1"))


@pytest.mark.parametrize("kind", ["numbers", "names"])
def test_csv_and_parquet_hold_the_same_for_polars_and_pandas(kind, tmp_path):
    campaign = hostile(kind)
    campaign.export(tmp_path / "parquet")
    campaign.export(tmp_path / "csv", format="csv")
    manifest = json.loads((tmp_path / "csv" / "manifest.json").read_text())
    names = [line["name"].removesuffix(".csv") for line in manifest["files"]]
    assert "credited_edges" in names
    for name, line in zip(names, manifest["files"], strict=True):
        whole = pl.read_parquet(tmp_path / "parquet" / f"{name}.parquet")
        path = tmp_path / "csv" / line["name"]
        assert line["columns"] == {column: str(kind).lower() for column, kind in whole.schema.items()}
        # A CSV file has no types: whoever reads it takes them from the manifest, or 007 becomes 7.
        types = {column: getattr(pl, kind.capitalize()) for column, kind in line["columns"].items()}
        by_polars = unguarded(pl.read_csv(path, schema_overrides=types))
        assert by_polars.equals(whole), name
        again = {"string": "string", "int64": "Int64", "float64": "float64", "boolean": "boolean"}
        by_pandas = pd.read_csv(
            path, dtype={c: again[k] for c, k in line["columns"].items()}, keep_default_na=False, na_values=[""]
        )
        assert unguarded(pl.from_pandas(by_pandas).cast(types)).equals(whole), name
        by_pandas = pd.read_parquet(tmp_path / "parquet" / f"{name}.parquet")
        assert pl.from_pandas(by_pandas).cast(types).equals(whole), name
    columns = {line["name"]: line["columns"] for line in manifest["files"]}
    kept = {"numbers": "int64", "names": "string"}[kind]
    assert columns["users.csv"]["user"] == columns["products.csv"]["product"] == kept
    assert [columns["credited_edges.csv"][name] for name in ("source", "target", "product")] == [kept] * 3
    assert columns["rounds.csv"]["product"] == kept


def test_no_cell_of_a_csv_begins_a_formula(tmp_path):
    campaign = hostile("names")
    for path in campaign.export(tmp_path, format="csv")[:-1]:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                for cell in row:
                    try:
                        float(cell)
                    except ValueError:
                        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), (path.name, cell)


def test_another_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="format must be"):
        small_campaign().export(tmp_path / "out", format="xlsx")
    assert not (tmp_path / "out").exists()
