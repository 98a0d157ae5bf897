"""A campaign from the files that a team has: what is read, what is left out, and what stays with the campaign."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorucb as tu
from tensorucb.campaign import CampaignData, read_campaign_data

# private: what a store still knows of somebody who was forgotten shows nowhere else
from tensorucb.campaign._history import UsedLog
from tensorucb.data import make_shop
from tensorucb.errors import FileFormatError, InputError, UnknownIdError
from tensorucb.policies import HighDegree, LinUCB

EDGES = "source,target\n" + "".join(f"u{i},u{(i * 5 + j) % 12}\n" for i in range(12) for j in (1, 2, 3))


@pytest.fixture(scope="module")
def shop_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    make_shop(150, 1500, 40, rng=0).write(folder)
    return folder


@pytest.fixture(scope="module")
def shop_data(shop_folder):
    return read_campaign_data(shop_folder)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


# -- reading --


def test_a_shop_is_read_and_the_report_says_so(shop_data):
    assert repr(shop_data) == "CampaignData(150 users, 1,500 edges, 40 products)"
    told = "\n".join(shop_data.report)
    assert "Network: 150 users, 1,500 edges." in told
    assert "category (category), tags (tags), price (number), released (date), description (text)" in told
    assert "Nobody has bought 10 of the products yet." in told
    assert "What contacting costs: column cost." in told
    assert shop_data.new == tuple(f"p{i:04d}" for i in range(30, 40))
    assert shop_data.users.k == len(shop_data.product_features.labels) == len(shop_data.products["p0000"])
    assert shop_data.costs.shape == (150,)
    assert set(shop_data.groups) == {"Lisbon", "Porto", "Braga", "Faro"}
    assert "age" in shop_data.user_table.labels[0]


def test_columns_and_files_by_other_names(tmp_path):
    (tmp_path / "who.tsv").write_text("leader\tfan\nann\tbob\nbob\tcid\ncid\tann\ndan\tann\n")
    (tmp_path / "bought.csv").write_text(
        "buyer,sku,at\nann,x1,2026-01-02\nbob,x1,2026-01-03T10:00:00+02:00\nzoe,x1,5\n"
    )
    (tmp_path / "stock.ndjson").write_text('{"sku": "x1", "colour": "red"}\n{"sku": "x2", "colour": "blue"}\n')
    columns = {
        "edges": {"source": "leader", "target": "fan"},
        "actions": {"user": "buyer", "item": "sku", "time": "at"},
        "products": {"product": "sku"},
    }
    data = read_campaign_data(
        edges=tmp_path / "who.tsv",
        actions=tmp_path / "bought.csv",
        products=tmp_path / "stock.ndjson",
        columns=columns,
    )
    assert list(data.products) == ["x1", "x2"]
    assert data.new == ("x2",)
    assert "1 left out: a user without a link (line 4)" in "\n".join(data.report)
    campaign = tu.create_campaign("spring", data=data, storage="memory://")
    assert campaign.settings["columns"] == columns
    assert campaign.ask("x2", k=2).seeds


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_columns_may_have_any_name_but_one_meaning(tmp_path, end):
    pl.DataFrame({"reason": ["ann", "bob", "cid"], "text": ["bob", "cid", "ann"]}).write_csv(tmp_path / "edges.csv")
    actions = pl.DataFrame({"line": ["ann", "bob"], "text": ["tea", "tea"], "time": [1, 2]})
    actions.write_csv(tmp_path / "actions.csv") if end == "csv" else actions.write_parquet(tmp_path / "actions.parquet")
    edges = {"source": "reason", "target": "text"}
    data = read_campaign_data(tmp_path, columns={"edges": edges, "actions": {"user": "line", "item": "text"}})
    assert (data.graph.n_edges, list(data.products)) == (3, ["tea"])
    with pytest.raises(InputError, match="names one column or field twice"):
        read_campaign_data(tmp_path, columns={"edges": edges, "actions": {"user": "line", "item": "line"}})


def test_numbers_for_users_stay_numbers_although_strangers_have_names(folder):
    (folder / "edges.csv").write_text("source,target\n1,2\n2,3\n3,1\n3,4\n")
    (folder / "purchases.csv").write_text("user,product,time\n1,a,1\nguest-7,a,2\n007,b,3\n2,b,4\n")
    data = read_campaign_data(folder)
    assert data.graph.ids.tolist() == [1, 2, 3, 4]
    assert "2 left out: a user without a link (lines 3, 4)" in "\n".join(data.report)
    assert read_campaign_data(folder, id_type="str").graph.ids.tolist() == ["1", "2", "3", "4"]


def test_products_of_the_log_and_of_the_table_are_matched_whatever_their_type(folder):
    (folder / "purchases.csv").write_text("user,product,time\nu1,1,1\nu2,2,2\nu3,x,3\n")
    (folder / "products.csv").write_text("product,kind\n1,a\n2,a\n3,b\n4,b\n")
    data = read_campaign_data(folder)
    assert list(data.products) == [1, 2, 3, 4]
    assert data.new == (3, 4)


def test_users_without_a_row_are_average_and_rows_without_an_edge_are_left_out(folder):
    (folder / "users.csv").write_text("user,age,cost\nu0,20,1\nu1,60,3\nzoe,30,9\n")
    data = read_campaign_data(folder)
    told = "\n".join(data.report)
    assert "Left out: 1 of the 3 rows of users.csv, of users without an edge." in told
    assert "10 of them have no row in users.csv" in told
    row = {user: number for number, user in enumerate(data.graph.ids.tolist())}
    features = data.users.features[:, -len(data.user_table.labels) :]
    assert np.allclose(features[row["u5"]], features[[row["u0"], row["u1"]]].mean(axis=0))
    assert data.costs[row["u5"]] == 2.0


def test_a_table_of_users_without_a_row_says_nothing_of_them(folder):
    (folder / "users.csv").write_text("user,age,cost\n")
    data = read_campaign_data(folder)
    assert "12 of them have no row in users.csv" in "\n".join(data.report)
    assert not data.costs.any()


def test_a_table_of_vectors_stays_as_it_is(folder):
    (folder / "products.csv").write_text("product,x,y\ntea,0.25,-0.5\nsoap,1,0\n")
    data = read_campaign_data(folder)
    assert data.products["tea"].tolist() == [0.25, -0.5]
    assert "Features: the numbers of x, y." in "\n".join(data.report)
    campaign = tu.create_campaign("spring", data=data, storage="memory://")
    campaign.add_products(["jam"], pl.DataFrame({"x": [0.5], "y": [0.5]}))
    assert len(campaign.ask("jam", k=1).seeds) == 1
    with pytest.raises(InputError, match="column 'y' holds something else"):
        campaign.add_products(["jam"], pl.DataFrame({"x": [0.5], "y": ["red"]}))


def test_products_of_which_nothing_is_known(folder):
    (folder / "products.csv").write_text("product\ntea\nsoap\n")
    data = read_campaign_data(folder)
    assert np.array(list(data.products.values())).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    (folder / "products.csv").write_text("product\n" + "".join(f"p{i}\n" for i in range(60)))
    assert read_campaign_data(folder).products["p7"].tolist() == [1.0]


def test_kinds_are_taken_as_told(shop_folder):
    kinds = {"products": {"price": "category", "name": "ignore"}, "users": {"age": "ignore"}}
    data = read_campaign_data(shop_folder, kinds=kinds)
    told = "\n".join(data.report)
    assert "Left out: column name, since as told." in told
    assert "price (category)" in told
    assert data.user_table.columns == ()


def test_progress_is_told(shop_folder):
    steps = []
    read_campaign_data(shop_folder, progress=lambda *step: steps.append(step))
    assert [done for done, _, _ in steps] == [0, 1, 2, 3]
    assert {total for _, total, _ in steps} == {3}


# -- what is wrong --


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({}, {}, r"needs an edge list.*edges.csv"),
        (
            {"edges.csv": "a,b\n1,2\n"},
            {},
            r"edges.csv has no column source .*has no column target .*; its columns are a, b",
        ),
        (
            {"edges.csv": EDGES, "actions.csv": "user,thing,when\nu1,a,1\n"},
            {},
            r"actions.csv has no column item .*no column time .*'actions': \{'item': 'NAME'\}.*'actions': \{'time'",
        ),
        ({"edges.csv": EDGES}, {"columns": {"edges": {"source": "from"}}}, r"edges.csv has no column from"),
        ({"edges.csv": EDGES}, {"columns": {"sales": {}}}, "columns names the table 'sales'"),
        ({"edges.csv": EDGES}, {"columns": {"actions": {"price": "x"}}}, "gives a name to 'price'"),
        (
            {"edges.csv": EDGES},
            {"kinds": {"actions": {"x": "text"}}},
            "names the table .*; it may name products, users",
        ),
        ({"edges.csv": EDGES}, {"kinds": {"products": {"x": "text"}}}, "no file of products"),
        ({"edges.csv": EDGES, "followers.csv": EDGES}, {}, "holds both"),
        ({"edges.csv": EDGES, "products.csv": "product,k\na,1\na,2\n"}, {"strict": True}, "before .line 3: 'a'"),
        ({"edges.csv": EDGES, "products.csv": "product,k\n,1\nb,2\n"}, {"max_left_out": 0.4}, "is empty .line 2"),
        ({"edges.csv": EDGES, "products.csv": "name,k\na,1\n"}, {}, "products.csv has no column product .or item, "),
        ({"edges.csv": EDGES, "users.csv": "user,cost\nu1,dear\n"}, {}, "cost is not a number .line 2: 'dear'"),
        ({"edges.csv": EDGES, "users.csv": "user,cost\nu1,-1\n"}, {}, "users.csv: column cost"),
        (
            {"edges.csv": EDGES, "products.csv": "product,k\na,x\nb,y\n"},
            {"kinds": {"products": {"kk": "text"}}},
            "kinds names the column 'kk'",
        ),
        ({"edges.csv": EDGES}, {"id_type": "int"}, "not whole numbers"),
        ({"edges.csv": EDGES}, {"window": -1}, "window"),
    ],
)
def test_errors_name_the_file_and_what_to_do(tmp_path, files, options, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises((InputError, FileFormatError), match=words):
        read_campaign_data(tmp_path, **options)


def test_data_and_graph_exclude_each_other(folder):
    graph = tu.Graph.from_edges(["a"], ["b"])
    with pytest.raises(InputError, match="Leave out graph and products"):
        tu.create_campaign("x", graph=graph, data=folder, products={"a": [1.0]}, storage="memory://")
    with pytest.raises(InputError, match="graph must be"):
        tu.create_campaign("x", storage="memory://")
    with pytest.raises(InputError, match="must be a directory"):
        tu.create_campaign("x", data=folder / "edges.csv", storage="memory://")


# -- the campaign --


def test_one_call_from_a_directory(shop_folder):
    campaign = tu.create_campaign("spring", data=shop_folder, storage="memory://")
    assert campaign.status().policy == "TensorUCB"
    ask = campaign.ask("p0035", k=5, quotas=3, budget=20.0)
    assert ask.product == "p0035"
    assert len(ask.seeds) == 5


def test_what_is_given_beside_the_data_counts_more(shop_folder, shop_data):
    campaign = tu.create_campaign(
        "spring", data=shop_data, policy=HighDegree(), strategies={"email": [1.0]}, window="60s", storage="memory://"
    )
    assert (campaign.strategies(), campaign.settings["window"]) == (("email",), 60.0)


def test_a_campaign_that_exists_is_loaded_without_reading(shop_data, tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage=storage).disconnect()
    with tu.create_campaign("spring", data=tmp_path / "gone", storage=storage, load_if_exists=True) as campaign:
        assert campaign.status().policy == "HighDegree"


def test_without_features_the_network_alone_is_enough():
    graph = tu.Graph.from_edges(list("aabbccdd"), list("bcdabdab"))
    for policy in (None, LinUCB(), HighDegree()):
        campaign = tu.create_campaign("spring", graph=graph, policy=policy, storage="memory://")
        ask = campaign.ask(k=2)
        campaign.close(ask.id)
        campaign.add_users(["new"], None, ["new"], ["a"])
        assert campaign.ask(k=5).seeds
        assert campaign.model_hash() == campaign.replay_hash()


def test_an_ask_without_a_product_names_some(shop_data):
    campaign = tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage="memory://")
    with pytest.raises(InputError, match=r"one of the campaign's 40 products, such as 'p0000', 'p0001', 'p0002'"):
        campaign.ask(k=2)
    with pytest.raises(UnknownIdError, match=r"catalogue of 40, such as 'p0000'"):
        campaign.ask("tea", k=2)


def test_stored_loaded_and_copied_it_describes_newcomers_bit_for_bit_the_same(shop_folder, shop_data, tmp_path):
    stock = pl.read_csv(shop_folder / "products.csv").drop("product").sample(5, seed=1)
    people = pl.read_csv(shop_folder / "users.csv").drop("user", "cost", "group").sample(5, seed=1)
    storage = f"sqlite:///{tmp_path}/c.db"

    def believed(campaign):
        campaign.add_products([f"n{i}" for i in range(5)], stock)
        names = [f"v{i}" for i in range(5)]
        campaign.add_users(names, people, names, ["u00001"] * 5, costs=[1.0] * 5, groups=["Porto"] * 5)
        return np.stack([campaign.probabilities(f"n{i}") for i in range(5)])

    tu.create_campaign("spring", data=shop_data, storage=storage).disconnect()
    tu.copy_campaign("spring", "summer", storage=storage)
    expected = believed(tu.create_campaign("spring", data=shop_data, storage="memory://"))
    assert len(np.unique(expected, axis=0)) == 5
    for name in ("spring", "summer"):
        with tu.load_campaign(name, storage=storage) as campaign:
            np.testing.assert_array_equal(believed(campaign), expected)


def test_a_damaged_blob_is_one_clear_error(shop_data):
    campaign = tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage="memory://")
    with campaign.store._engine.begin() as connection:
        (data,) = connection.exec_driver_sql("SELECT data FROM tensorucb_blob WHERE name = 'product_features'").one()
        damaged = data[:-1] + bytes([data[-1] ^ 1])
        connection.exec_driver_sql("UPDATE tensorucb_blob SET data = ? WHERE name = 'product_features'", (damaged,))
    with pytest.raises(FileFormatError, match="damaged: blob 'product_features' cannot be read as written"):
        campaign.add_products(["new"], pl.DataFrame({"name": ["tea"]}))


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame, pa.table])
def test_products_that_come_later_are_described_as_at_the_creation(shop_folder, shop_data, library):
    rows = pl.read_csv(shop_folder / "products.csv").filter(pl.col("product").is_in(["p0031", "p0032"]))
    campaign = tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage="memory://")
    campaign.add_products(["n1", "n2"], library(rows.drop("product").to_dict(as_series=False)))
    with campaign._handle.read() as view:
        catalogue = view.catalogue("product")
    for new, old in (("n1", "p0031"), ("n2", "p0032")):
        # A product's features do not depend on which others come with it, but for the last bits of a matrix product.
        assert np.allclose(catalogue.vector(new), shop_data.products[old], rtol=0.0, atol=1e-12)


def test_products_that_are_there_keep_their_features(shop_folder, shop_data):
    rows = pl.read_csv(shop_folder / "products.csv")
    campaign = tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage="memory://")
    more = pl.concat([rows, rows.tail(1).with_columns(product=pl.lit("fresh"))])
    campaign.add_products(more["product"], more.drop("product"))
    assert campaign.products()[-1] == "fresh"
    assert len(campaign.products()) == 41
    campaign.add_products(more["product"], more.drop("product"))
    assert len(campaign.products()) == 41
    with pytest.raises(InputError, match="no column 'tags'"):
        campaign.add_products(["x"], rows.head(1).drop("product", "tags"))
    campaign.add_products(["by-number"], [shop_data.products["p0000"]])
    assert len(campaign.products()) == 42


def test_users_that_come_later_have_their_columns_and_are_average_otherwise(shop_data):
    campaign = tu.create_campaign("spring", data=shop_data, storage="memory://")
    ages = pl.DataFrame({"age": [30, None]})
    campaign.add_users(["n1", "n2"], ages, ["n1"], ["u00001"], costs=[1.0, 2.0], groups=["Porto", "Faro"])
    with campaign._handle.read() as view:
        features = view.network.users.features[-2:]
    own = shop_data.users.features.shape[1] - len(shop_data.user_table.labels)
    assert np.allclose(features[:, :own], shop_data.users.features[:, :own].mean(axis=0))
    assert np.array_equal(features[:, own:], shop_data.user_table.transform(ages))
    assert campaign.ask("p0030", k=3, must_include=["n1"]).seeds
    assert campaign.model_hash() == campaign.replay_hash()


def test_a_large_catalogue_takes_known_and_new_products():
    """Look-ups that read the whole catalogue would take minutes here."""
    names = [f"p{i}" for i in range(50_000)]
    graph = tu.Graph.from_edges(["ann"], ["bob"])
    products = {name: [1.0, 1.0] for name in names}
    campaign = tu.create_campaign("spring", graph=graph, policy=HighDegree(), products=products, storage="memory://")
    campaign.add_products([*names[::2], "new"], np.ones((25_001, 2)))
    assert campaign.products() == (*names, "new")
    assert campaign.ask("p49999", k=1).product == "p49999"


# -- the log at the creation, as history --


def test_the_log_at_the_creation_is_not_imported_as_history(shop_folder, shop_data, tmp_path):
    storage = f"sqlite:///{tmp_path / 'c.db'}"
    log, later = (pl.read_csv(shop_folder / f"{name}.csv") for name in ("purchases", "purchases-later"))
    parsed = log.with_columns(pl.col("time").str.to_datetime(time_zone="UTC"))
    with tu.create_campaign("spring", data=shop_data, policy=HighDegree(), storage=storage) as campaign:
        for same in (shop_folder / "purchases.csv", log, parsed, log.sample(50, seed=0)):
            with pytest.raises(InputError, match="the campaign was created from these"):
                campaign.import_history(same, window="7d")
        one = log.filter(pl.col("product") == log["product"][0])
        with pytest.raises(InputError, match=r"would count twice\. Nothing was imported"):
            campaign.import_history(one.drop("product"), one["product"][0])
        assert campaign.status().rounds == 0
        fresh = tu.create_campaign("fresh", data=replace(shop_data, used_log=None), storage=storage)
        both = campaign.import_history(pl.concat([log, later]), window="7d", max_left_out=1.0)
        alone = fresh.import_history(later, window="7d", max_left_out=1.0)
        assert both.used == log.height
        assert (both.rounds, both.responses) == (alone.rounds, alone.responses) != (0, 0)
    tu.copy_campaign("spring", "summer", storage=storage)
    with tu.load_campaign("summer", storage=storage) as campaign:
        with pytest.raises(InputError, match="created from"):
            campaign.import_history(log)
        gone = log["user"][0]
        campaign.forget(gone)  # the marks of somebody who is forgotten go too
        with campaign._handle.read() as view:
            used = view.kept("used_log", UsedLog)
        own = shop_data.used_log.users == shop_data.graph.rows([gone])[0]
        assert own.any()
        assert used.users.size == np.count_nonzero(~own)
        with pytest.raises(InputError, match="created from"):  # and those of everybody else stay theirs
            campaign.import_history(log.filter(pl.col("user") != gone).sample(50, seed=1))


def test_a_log_of_which_a_sample_was_kept_is_refused_as_well(shop_folder, monkeypatch):
    monkeypatch.setattr("tensorucb.campaign._history._MOST_MARKS", 20)
    data = read_campaign_data(shop_folder)
    campaign = tu.create_campaign("spring", data=data, policy=HighDegree(), storage="memory://")
    with pytest.raises(InputError, match="created from 20 of these purchases, or more"):
        campaign.import_history(shop_folder / "purchases.csv")
    assert campaign.import_history(shop_folder / "purchases-later.csv", max_left_out=1.0).rounds > 0


def test_a_campaign_that_kept_no_marks_imports_any_log(shop_folder, shop_data):
    data = replace(shop_data, used_log=None)
    campaign = tu.create_campaign("spring", data=data, policy=HighDegree(), storage="memory://")
    assert campaign.import_history(shop_folder / "purchases.csv").rounds > 0


# -- any table --


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=8), st.one_of(st.none(), st.floats(-1e6, 1e6)), st.sampled_from(["a;b", "b", "", "c"])
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_table_of_products_makes_a_campaign_or_a_clear_error(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("any")
    (folder / "edges.csv").write_text(EDGES)
    lines = [
        json.dumps({"product": f"p{i}", "text": text.encode("utf-8", "ignore").decode(), "number": n, "tags": tags})
        for i, (text, n, tags) in enumerate(rows)
    ]
    (folder / "products.ndjson").write_text("\n".join(lines), encoding="utf-8")
    data = read_campaign_data(folder)
    assert isinstance(data, CampaignData)
    features = np.array(list(data.products.values()))
    assert np.isfinite(features).all()
    assert features.shape[1] >= 1
    campaign = tu.create_campaign("spring", data=data, storage="memory://")
    assert len(campaign.ask("p0", k=1).seeds) == 1


@pytest.mark.parametrize("strange", ["7.5", "x", "07,30\nx"])
def test_a_row_of_users_whose_id_only_resembles_one_is_left_out(tmp_path, strange):
    (tmp_path / "edges.csv").write_text("source,target\n7,8\n8,9\n9,7\n7,9\n")
    (tmp_path / "users.csv").write_text(f"user,age\n7,20\n{strange},30\n8,40\n9,50\n")
    data = read_campaign_data(tmp_path)
    rows = strange.count("\n") + 1
    assert data.graph.n_nodes == 3
    assert f"Left out: {rows} of the {rows + 3} rows of users.csv, of users without an edge." in "\n".join(data.report)


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_lists_in_python_are_tags(frame):
    edges = {"source": ["a", "b", "c"], "target": ["b", "c", "a"]}
    products = {"product": ["tea", "jam", "soap"], "labels": [["eco", "food"], ["food"], None]}
    data = read_campaign_data({"edges": edges, "products": frame(products)})
    assert "  Columns used: labels (tags)." in data.report


def test_a_column_of_several_kinds_is_left_out_of_features_and_splits():
    edges = {"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]}
    users = {"user": ["a", "b", "c", "d"], "city": ["Faro", 1, None, 1], "group": [1, "x", 1, "x"]}
    data = read_campaign_data({"edges": edges, "users": users})
    assert "  Left out: column city, since its type is Object." in data.report
    assert data.groups.tolist() == ["1", "x", "1", "x"]
    assert data.user_columns is None


def test_a_list_that_is_no_number_is_shown_as_it_is():
    products = {"product": ["tea"], "value": [[2, 3]]}
    with pytest.raises(FileFormatError, match=r"value is not a number \(line 1: '\[2, 3\]'\)"):
        read_campaign_data({"edges": {"source": ["a"], "target": ["b"]}, "products": products})
