"""Raw columns become features: fitted once, stored as JSON and arrays, applied to rows that come later."""

import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorucb.errors import InputError
from tensorucb.features import ProductFeatures, TableFeatures

WORDS = {"tea": "green leaf calm herbal", "coffee": "roasted bean strong espresso", "soap": "clean skin bath fresh"}


def catalogue(n=60, seed=0):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(WORDS), n)
    return pl.DataFrame(
        {
            "category": kinds,
            "price": rng.lognormal(1, 1, n).round(2),
            "tags": [";".join(rng.choice(["new", "eco", "gift"], 2, replace=False)) for _ in range(n)],
            "description": [" ".join(rng.choice(WORDS[kind].split(), 5)) for kind in kinds],
            "released": [f"2025-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}" for _ in range(n)],
            "sku": [f"X{i}" for i in range(n)],
            "organic": rng.random(n) < 0.5,
            "currency": ["EUR"] * n,
        }
    )


def test_each_kind_of_column_is_recognised():
    found = TableFeatures.fit(catalogue())
    assert {column.name: column.kind for column in found.columns} == {
        "category": "category",
        "price": "number",
        "tags": "tags",
        "description": "text",
        "released": "date",
        "organic": "category",
    }
    assert set(found.left_out) == {"sku", "currency"}


def test_the_features_of_a_column_are_shares():
    found = TableFeatures.fit(catalogue())
    rows = found.transform(catalogue(30, seed=1))
    assert rows.min() >= 0.0
    np.testing.assert_allclose(rows.sum(axis=1), len(found.columns))
    assert rows.shape[1] == len(found.labels)


def test_a_category_is_one_hot():
    frame = pl.DataFrame({"kind": ["b", "a", "b", "c", "a"]})
    expected = np.array([[frame["kind"][i] == v for v in "abc"] for i in range(5)], dtype=float)
    np.testing.assert_array_equal(TableFeatures.fit(frame).transform(frame), expected)


def test_a_number_lies_between_the_quantiles_beside_it():
    frame = pl.DataFrame({"price": [1.0, 2.0, 4.0, 8.0]})
    found = TableFeatures.fit(frame)
    np.testing.assert_allclose(found.transform(pl.DataFrame({"price": [1.5]})), [[0.5, 0.5, 0.0, 0.0]])
    # Beyond what was seen it counts as the nearest one.
    np.testing.assert_allclose(found.transform(pl.DataFrame({"price": [1e9]})), [[0.0, 0.0, 0.0, 1.0]])


def test_a_season_comes_back_every_year():
    frame = pl.DataFrame({"day": [date(2020, 1, 1), date(2023, 7, 1), date(2026, 1, 1)]})
    season = TableFeatures.fit(frame).transform(frame)[:, -4:]
    np.testing.assert_allclose(season[0], season[2], atol=0.02)
    assert np.abs(season[0] - season[1]).sum() > 0.5


def test_texts_of_one_kind_resemble_each_other():
    frame = catalogue(120)
    found = TableFeatures.fit(frame.select("description"))
    rows = found.transform(catalogue(60, seed=1).select("description"))
    kinds = np.array(catalogue(60, seed=1)["category"].to_list())
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    likeness, same = units @ units.T, kinds[:, None] == kinds
    assert likeness[same].mean() > likeness[~same].mean() + 0.3


@pytest.mark.parametrize("column", ["category", "tags", "description", "price", "released"])
def test_a_value_that_is_missing_counts_as_the_average(column):
    frame = catalogue()
    found = TableFeatures.fit(frame.select(column))
    nothing = pl.DataFrame({column: [None]}, schema={column: frame.schema[column]})
    np.testing.assert_allclose(found.transform(nothing)[0], found.transform(frame).mean(axis=0), atol=1e-12)


def test_a_category_never_seen_counts_as_the_average():
    found = TableFeatures.fit(pl.DataFrame({"kind": ["a", "a", "b", "b"]}))
    assert found.transform(pl.DataFrame({"kind": ["shoes"]})).tolist() == [[0.5, 0.5]]


def test_what_was_learned_survives_as_json_and_arrays():
    found = TableFeatures.fit(catalogue())
    settings, arrays = found.to_arrays()
    again = TableFeatures.from_arrays(json.loads(json.dumps(settings)), arrays)
    later = catalogue(20, seed=3)
    np.testing.assert_array_equal(again.transform(later), found.transform(later))
    assert again.labels == found.labels
    assert again.left_out == found.left_out


def test_pandas_and_lists_of_tags():
    frame = pl.DataFrame({"price": [1.0, 2.0, 3.0, 5.0], "tags": [["a"], ["a", "b"], ["b"], []]})
    found = TableFeatures.fit(frame)
    pandas = pd.DataFrame({"price": [1.0, 2.0, 3.0, 5.0], "tags": [["a"], ["a", "b"], ["b"], []]})
    np.testing.assert_allclose(found.transform(pandas), found.transform(frame))


@given(
    numbers=st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)), min_size=1, max_size=12),
    words=st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=1, max_size=12),
)
def test_any_table_gives_shares_or_is_left_out(numbers, words):
    size = min(len(numbers), len(words))
    frame = pl.DataFrame(
        {"n": numbers[:size], "w": words[:size]}, schema={"n": pl.Float64, "w": pl.String}, strict=False
    )
    found = TableFeatures.fit(frame)
    rows = found.transform(frame)
    assert np.isfinite(rows).all()
    assert rows.min(initial=0.0) >= 0.0
    np.testing.assert_allclose(rows.sum(axis=1), len(found.columns), atol=1e-9)


def test_wrong_use_is_told():
    frame = catalogue()
    with pytest.raises(InputError, match="no column 'price'"):
        TableFeatures.fit(frame).transform(frame.drop("price"))
    with pytest.raises(InputError, match="kinds names the column 'colour'"):
        TableFeatures.fit(frame, kinds={"colour": "category"})
    with pytest.raises(InputError, match="must be 'number'"):
        TableFeatures.fit(frame, kinds={"price": "money"})
    with pytest.raises(InputError, match="must hold numbers"):
        TableFeatures.fit(frame, kinds={"category": "number"})
    with pytest.raises(InputError, match="must hold dates"):
        TableFeatures.fit(frame, kinds={"category": "date"})


def test_kinds_may_be_told():
    found = TableFeatures.fit(catalogue(), kinds={"sku": "category", "price": "ignore"})
    assert found.left_out["price"] == "as told"
    assert found.left_out["sku"] == "its values do not tell rows apart"  # each of them belongs to one row


def test_dates_with_a_time():
    found = TableFeatures.fit(pl.DataFrame({"at": [datetime(2026, 1, 1, 12), datetime(2026, 5, 1), None]}))
    assert [column.kind for column in found.columns] == ["date"]


@pytest.mark.parametrize("written", ["{:%Y%m%d}", " {:%Y-%m-%d}", "{:%Y-%m-%d} 12:30"])
def test_days_however_they_are_written(written):
    days = [date(2024, 3, 1), date(2025, 1, 1), date(2026, 5, 31)]
    found = TableFeatures.fit(pl.DataFrame({"day": [written.format(day) for day in days]}))
    plain = pl.DataFrame({"day": days})
    np.testing.assert_array_equal(found.transform(plain), TableFeatures.fit(plain).transform(plain))


class TestProducts:
    def table(self):
        return pl.DataFrame({"kind": ["tea", "tea", "tea", "soap", "soap", "soap"]})

    def topics(self):
        return np.array([[0.9, 0.1], [0.8, 0.2], [0.85, 0.15], [0.1, 0.9], [0.2, 0.8], [np.nan, np.nan]])

    def test_known_topics_stay_and_others_follow_from_the_columns(self):
        found = ProductFeatures.fit(self.table(), self.topics())
        rows = found.describe(self.table(), self.topics())
        np.testing.assert_array_equal(rows[:5, :2], self.topics()[:5])
        np.testing.assert_allclose(rows[5, :2].sum(), 1.0)
        assert rows[5, 1] > 0.7  # soap that nobody bought resembles soap that people bought

    def test_without_columns_the_topics_are_the_average_ones(self):
        found = ProductFeatures.fit(None, self.topics())
        np.testing.assert_allclose(found.describe(None, self.topics())[5], np.nanmean(self.topics(), axis=0), atol=1e-5)

    def test_without_a_log_there_are_columns_alone(self):
        assert ProductFeatures.fit(self.table()).describe(self.table()).shape == (6, 2)
        with pytest.raises(InputError, match="need a table or topics"):
            ProductFeatures.fit()

    def test_round_trip(self):
        found = ProductFeatures.fit(self.table(), self.topics())
        settings, arrays = found.to_arrays()
        again = ProductFeatures.from_arrays(json.loads(json.dumps(settings)), arrays)
        np.testing.assert_array_equal(again.describe(self.table()), found.describe(self.table()))
        assert again.labels == found.labels == ("topic 1", "topic 2", "kind: soap", "kind: tea")


def test_a_text_is_described_alone_as_among_others():
    words = np.array([f"word{i}" for i in range(60)])
    texts = [" ".join(row) for row in np.random.default_rng(0).choice(words, (80, 6))]
    table = pl.DataFrame({"text": texts})
    fitted = TableFeatures.fit(table, kinds={"text": "text"})
    alone = np.vstack([fitted.transform(table[row : row + 1]) for row in range(20)])
    assert np.array_equal(alone, fitted.transform(table)[:20])


def test_lists_written_into_text_are_tags_without_their_marks() -> None:
    texts = ['["tea", "eco"]', '["eco", "tea"]', '["soap", "eco"]', '["soap"]', "[]"]
    found = TableFeatures.fit(pl.DataFrame({"labels": texts}))
    assert found.columns[0].settings["values"] == ["eco", "soap", "tea"]


def test_numbers_with_a_decimal_comma_are_no_tags() -> None:
    table = pl.DataFrame({"price": ["€ 12,50", "1.099,99", "8,5"], "colour": ["red", "blue", "red"]})
    found = TableFeatures.fit(table)
    assert "commas" in found.left_out["price"]


def test_a_single_text_is_learned_without_a_warning():
    table = pl.DataFrame({"text": [None, "mint green leaf mint green leaf green mint"]})
    assert np.isfinite(TableFeatures.fit(table, kinds={"text": "text"}).transform(table)).all()
