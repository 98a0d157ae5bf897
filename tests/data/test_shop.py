"""The generated shop: tables that fit each other, and a truth that shows in them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tensorucb.data import make_shop, read_dataset
from tensorucb.errors import InputError


@pytest.fixture(scope="module")
def shop():
    return make_shop(200, 2000, 40, today="2026-05-20", rng=3)


def test_the_tables_fit_each_other(shop):
    people = set(shop.users["user"])
    assert set(shop.followers["source"]) | set(shop.followers["target"]) <= people
    assert set(shop.purchases["user"]) <= people
    assert set(shop.purchases["product"]) <= set(shop.products["product"])
    new = set(shop.products["product"].gather(shop.new))
    assert len(new) == 10
    assert not new & set(shop.purchases["product"])
    assert new & set(shop.later["product"])


def test_past_purchases_end_before_today_and_later_ones_begin_after(shop):
    assert shop.purchases["time"].max() < "2026-05-20"
    assert shop.later["time"].min() > "2026-05-20"
    assert shop.purchases["time"].is_sorted()


def test_some_later_buyers_are_not_in_the_network(shop):
    strangers = shop.later.filter(pl.col("user").str.starts_with("guest-"))
    assert 0.05 < strangers.height / shop.later.height < 0.08


def test_the_category_is_mostly_the_strongest_theme(shop):
    names = ["tea", "coffee", "outdoor", "beauty", "kitchen", "games"]
    strongest = [names[k] for k in np.argmax(shop.sandbox.mixtures, axis=1)]
    right = np.mean([a == b for a, b in zip(strongest, shop.products["category"], strict=True)])
    assert right > 0.75  # nine in ten are right by design, of 40


def test_the_same_seed_gives_the_same_files(tmp_path):
    first, second = (make_shop(40, 300, 12, rng=1).write(tmp_path / name) for name in "ab")
    assert [path.name for path in first] == [
        "followers.csv",
        "purchases.csv",
        "products.csv",
        "users.csv",
        "purchases-later.csv",
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_files_as_systems_export_them(tmp_path):
    first, second = (make_shop(40, 300, 12, rng=1).write(tmp_path / name, dirty=True) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    other = make_shop(40, 300, 12, rng=2).write(tmp_path / "c", dirty=True)
    assert first[0].read_bytes() != other[0].read_bytes()
    texts = {path.name: path.read_bytes() for path in first}
    assert texts["followers.csv"].startswith("\ufeffFollower;Followee;since\r\n".encode())
    soon, later = (set(texts[f"purchases-week{n}.csv"].split(b"\r\n")) for n in (1, 2))
    orders = {line for line in soon if line.startswith(b"O0")}
    assert orders < later


def test_it_is_a_data_set_of_the_plain_form(shop, tmp_path):
    shop.write(tmp_path)
    data = read_dataset(tmp_path)
    assert data.graph.n_edges == shop.followers.height
    assert data.log.n_actions == shop.purchases.height
    day = np.datetime64("2026-05-20", "s").astype(int)
    assert day - 150 * 86400 < data.log.times.min() <= data.log.times.max() < day


@pytest.mark.parametrize("today", ["soon", "2026-13-01"])
def test_today_must_be_a_day(today):
    with pytest.raises(InputError, match="today must be a day such as '2026-05-20'"):
        make_shop(40, 300, 12, today=today)


def test_a_file_is_no_directory(shop, tmp_path):
    (tmp_path / "shop").write_text("")
    with pytest.raises(InputError, match="is a file"):
        shop.write(tmp_path / "shop")
