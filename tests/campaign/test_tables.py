"""Features that come as a table: rows find their users and products by id, and an id is never a feature."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from campaign.worlds import small_campaign, small_graph
from tensorucb.errors import InputError, ShapeError

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "lazy": pl.LazyFrame}


def _features(campaign):
    with campaign._handle.read() as view:
        return view.network.users


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("column", ["user", "id"])
def test_rows_of_a_table_of_users_find_their_users(kind, strings, column):
    graph = small_graph(strings=strings)
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    values = np.random.default_rng(1).normal(size=(graph.n_nodes, 2))
    table = kind({"age": values[order, 0], column: graph.ids[order], "visits": values[order, 1]})
    campaign = small_campaign(graph=graph, users=table)
    assert np.array_equal(_features(campaign), values)


def test_a_named_index_of_pandas_is_a_column_of_ids():
    graph = small_graph()
    values = np.arange(2.0 * graph.n_nodes).reshape(-1, 2)
    table = pd.DataFrame(values, columns=["a", "b"], index=pd.Index(graph.ids, name="user")).iloc[::-1]
    assert np.array_equal(_features(small_campaign(graph=graph, users=table)), values)


def test_a_table_without_ids_is_in_the_order_of_the_users():
    graph = small_graph()
    values = np.random.default_rng(1).normal(size=(graph.n_nodes, 2))
    assert np.array_equal(_features(small_campaign(graph=graph, users=pl.DataFrame(values))), values)
    with pytest.raises(ShapeError, match="29 rows for 30 users, and no column 'user'"):
        small_campaign(graph=graph, users=pl.DataFrame(values[1:]))


@pytest.mark.parametrize("strings", [True, False])
def test_ids_that_do_not_fit_are_one_clear_error(strings):
    graph = small_graph(strings=strings)
    ids = graph.ids.tolist()
    stranger = "nobody" if strings else 99
    wrong = {
        "1 of them are missing": ids[1:],
        "1 rows name none of them .the first is row 31": [*ids, stranger],
        "1 of them come more than once": [*ids, ids[3]],
        "name none of them .* come more than once .* are missing": [ids[0], ids[0], stranger],
        "1 rows name none of them .the first is row 1, None": [None, *ids],
    }
    for said, named in wrong.items():
        with pytest.raises(InputError, match=said):
            small_campaign(graph=graph, users=pl.DataFrame({"user": named, "age": np.ones(len(named))}))
    with pytest.raises(InputError, match="a column 'user' and a column 'id'"):
        small_campaign(graph=graph, users=pl.DataFrame({"user": ids, "id": ids, "age": np.ones(30)}))
    with pytest.raises(InputError, match="column 'city' holds something else"):
        small_campaign(graph=graph, users=pl.DataFrame({"user": ids, "city": ["Ulm"] * 30}))


def test_later_users_and_products_find_their_rows_too():
    campaign = small_campaign()
    campaign.add_users(["x", "y"], pd.DataFrame({"user": ["y", "x"], "a": [1.0, 2.0], "b": 0.0, "c": 0.0}))
    assert _features(campaign)[-2:, 0].tolist() == [2.0, 1.0]
    campaign.add_products(["cup", "pot"], pl.DataFrame({"product": ["pot", "cup"], "a": [1.0, 2.0], "b": [0.0, 0.0]}))
    with campaign._handle.read() as view:
        assert view.catalogue("product").features[-2:, 0].tolist() == [2.0, 1.0]
    with pytest.raises(InputError, match="1 of them are missing"):
        campaign.add_users(["v", "w"], pd.DataFrame({"user": ["v"], "a": [1.0], "b": 0.0, "c": 0.0}))
    with pytest.raises(InputError, match="1 rows name none of them"):
        campaign.add_products(["jug"], pd.DataFrame({"id": ["jug", "mug"], "a": [1.0, 2.0], "b": 0.0}))
    with pytest.raises(ShapeError, match="2 rows for 1 users"):
        campaign.add_users(["v"], pl.DataFrame(np.ones((2, 3))))
    with pytest.raises(InputError, match="products must be a mapping"):
        small_campaign(products=["cup"])


def test_an_empty_table_adds_nobody():
    campaign = small_campaign()
    nobody = pl.DataFrame({"user": [], "a": []}, schema={"user": pl.String, "a": pl.Float64})
    campaign.add_users([], nobody, ["person-000"], ["person-029"])
    assert campaign.status().users == 30
    with pytest.raises(InputError, match="1 rows name none of them"):
        campaign.add_users([], pl.DataFrame({"user": ["x"], "a": [1.0]}))
