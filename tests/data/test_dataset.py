"""The log, preparation, figures, writing and checksums."""

from __future__ import annotations

import csv
import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb.data import (
    ActionLog,
    Dataset,
    checksum,
    describe,
    generate_dataset,
    prepare,
    read_dataset,
    write_dataset,
)
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def shared(name: str) -> Dataset:
    if not (DATA / name).is_dir():
        pytest.skip(f"the shared data set {name} is not on this machine")
    return read_dataset(DATA / name)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    n = draw(st.integers(3, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=40))
    pairs = [(a, b if a != b else (b + 1) % n) for a, b in pairs]
    graph = Graph.from_edges([10 * a for a, _ in pairs], [10 * b for _, b in pairs])
    rows = st.tuples(st.integers(0, graph.n_nodes - 1), st.integers(0, 4), st.integers(0, 30))
    actions = draw(st.lists(rows, min_size=1, max_size=60))
    users, items, times = (np.array(column) for column in zip(*actions, strict=True))
    return Dataset(graph, ActionLog.from_arrays(users, items, times, [5, 6, 7, 8, 9]), "drawn")


@settings(deadline=None)
@given(datasets(), st.integers(0, 4))
def test_prepare_keeps_what_it_says(data: Dataset, least: int) -> None:
    counts = data.log.interactions(data.graph.n_nodes)
    keep = counts >= least
    if not (keep[data.graph.sources] & keep[data.graph.targets]).any():
        with pytest.raises(InputError, match="Lower min_interactions"):
            prepare(data, min_interactions=least)
        return
    smaller = prepare(data, min_interactions=least)
    old = data.graph.rows(smaller.graph.ids)
    assert (counts[old] >= least).all()
    assert ((smaller.graph.out_degree + smaller.graph.in_degree) > 0).all()
    np.testing.assert_array_equal(smaller.log.interactions(smaller.graph.n_nodes), counts[old])
    assert np.unique(smaller.log.items).size == smaller.log.n_items
    again = prepare(smaller, min_interactions=least)
    assert checksum(again) == checksum(smaller)


@settings(deadline=None)
@given(datasets(), st.sampled_from([None, 1, 5, 20]))
def test_activations_against_a_plain_loop(data: Dataset, window: int | None) -> None:
    figures = describe(Dataset(data.graph, data.log, "drawn", None if window is None else f"{window}s"))
    when = {(int(u), int(i)): t for u, i, t in zip(data.log.users, data.log.items, data.log.times, strict=True)}
    activations = trials = 0
    for source, target in zip(data.graph.sources.tolist(), data.graph.targets.tolist(), strict=True):
        for item in range(data.log.n_items):
            first, then = when.get((source, item)), when.get((target, item), np.inf)
            if first is not None and then >= first:
                trials += 1
                activations += first < then <= first + (window or np.inf) and then < np.inf
    assert (figures.activations, figures.trials) == (activations, trials)


def test_log_sorts_and_keeps_the_earliest() -> None:
    log = ActionLog.from_arrays([2, 1, 2, 0], [1, 0, 1, 1], [5, 9, 3, 3], ["a", "b"])
    assert log.users.tolist() == [1, 0, 2]
    assert log.items.tolist() == [0, 1, 1]
    assert log.times.tolist() == [9, 3, 3]
    assert log.item_offsets.tolist() == [0, 1, 3]


def test_log_refuses_nonsense() -> None:
    with pytest.raises(ShapeError, match="one length"):
        ActionLog.from_arrays([1], [0, 0], [1], [5])
    with pytest.raises(InputError, match="item_ids"):
        ActionLog.from_arrays([1], [1], [1], [5])
    with pytest.raises(InputError, match="rows of the graph"):
        ActionLog.from_arrays([-1], [0], [1], [5])
    with pytest.raises(InputError, match="finite"):
        ActionLog.from_arrays([1], [0], [np.nan], [5])


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("text_ids", [False, True])
def test_write_and_read_give_the_same(tmp_path: Path, form: str, text_ids: bool) -> None:
    ids = np.array(["x,1", 'say "hi"', "007", "é"]) if text_ids else np.array([4, 9, 2, 7])
    graph = Graph.from_edges(ids[[0, 1, 2, 3]], ids[[1, 2, 3, 0]])
    log = ActionLog.from_arrays([0, 1, 3], [0, 0, 1], [1.5, 2.5, 3.0], ["i", "j"] if text_ids else [3, 8])
    data = Dataset(graph, log, "mine", "7d")
    write_dataset(data, tmp_path / "out", form=form)
    back = read_dataset(tmp_path / "out")
    assert checksum(back) == checksum(data)
    assert (back.name, back.window) == ("mine", timedelta(days=7))
    write_dataset(data, tmp_path / "out", form=form)
    with pytest.raises(InputError, match="already holds"):
        write_dataset(data, tmp_path / "out", form="csv" if form == "parquet" else "parquet")


def test_no_id_in_csv_is_a_formula_and_each_comes_back(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "+1", "-2+3", "@SUM(A1)", "'=x", "''", "'ann'", "plain", "a=b"]
    ids = np.array(names)
    graph = Graph.from_edges(ids, np.roll(ids, 1))
    log = ActionLog.from_arrays(list(range(len(ids))), list(range(len(ids))), np.arange(len(ids)) + 0.5, sorted(names))
    data = Dataset(graph, log, "mine")
    write_dataset(data, tmp_path / "out", form="csv")
    cells = [
        cell for path in tmp_path.glob("out/*.csv") for row in csv.reader(path.read_text().splitlines()) for cell in row
    ]
    assert "'=HYPERLINK(1)" in cells
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == []
    back = read_dataset(tmp_path / "out")
    assert sorted(back.graph.ids.tolist()) == sorted(names)
    assert checksum(back) == checksum(data)
    # Somebody else's file is taken at its word.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "edges.csv").write_text("source,target\n'=x,=y\n")
    assert set(read_dataset(tmp_path / "other").graph.ids.tolist()) == {"'=x", "=y"}


def test_numbers_in_csv_stay_numbers(tmp_path: Path) -> None:
    graph = Graph.from_edges([-5, 3], [3, -5])
    log = ActionLog.from_arrays([0, 1], [0, 0], [-2.5, 3.0], [-7])
    write_dataset(Dataset(graph, log, "mine"), tmp_path, form="csv")
    assert "'" not in (tmp_path / "edges.csv").read_text() + (tmp_path / "actions.csv").read_text()


def test_write_refuses_isolated_users(tmp_path: Path) -> None:
    graph = Graph.from_edges([1], [2], nodes=[1, 2, 3])
    with pytest.raises(InputError, match="1 users"):
        write_dataset(Dataset(graph, ActionLog.empty()), tmp_path)


def test_checksum_sees_content_only() -> None:
    graph = Graph.from_edges([1, 2], [2, 3])
    log = ActionLog.from_arrays([0, 1], [0, 0], [1, 2], [5])
    base = checksum(Dataset(graph, log, "a"))
    assert checksum(Dataset(graph, log, "b")) == base
    assert checksum(Dataset(graph, log, "a", "60s")) == checksum(Dataset(graph, log, "a", "1m")) != base
    assert checksum(Dataset(graph, log, "a", timedelta(seconds=7))) == checksum(Dataset(graph, log, "a", "7s"))
    later = ActionLog.from_arrays([0, 1], [0, 0], [1, 3], [5])
    assert checksum(Dataset(graph, later, "a")) != base
    assert checksum(Dataset(Graph.from_edges([1, 2], [2, 4]), log, "a")) != base
    # Fixed: caches and manifests rely on it.
    assert base == "ec54124895fa2511f1190ce3855310c21678c1a5b57bf075decdb52af616d49a"


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    rows = ["1,2", "2,3", "3,1"]
    acts = ["1,5,9", "2,5,3", "3,6,1"]
    for name, turn in (("a", 1), ("b", -1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edges.csv").write_text("\n".join(["source,target", *rows[::turn]]))
        (tmp_path / name / "actions.csv").write_text("\n".join(["user,item,timestamp", *acts[::turn]]))
    assert checksum(read_dataset(tmp_path / "a")) == checksum(read_dataset(tmp_path / "b"))


def test_prepare_samples_products_and_sets_the_window() -> None:
    data = generate_dataset("sandbox", scale=0.2, rng=1)
    few = prepare(data, min_interactions=0, n_products=4, window="1d", rng=3)
    assert few.log.n_items == 4
    assert few.window == timedelta(days=1)
    assert set(few.log.item_ids.tolist()) <= set(data.log.item_ids.tolist())
    assert checksum(few) == checksum(prepare(data, min_interactions=0, n_products=4, window="1d", rng=3))
    assert checksum(few) != checksum(prepare(data, min_interactions=0, n_products=4, window="1d", rng=4))
    assert prepare(data, min_interactions=0, window=None).window is None
    assert any("items dropped" in step for step in few.report.steps)
    with pytest.raises(InputError, match="n_products"):
        prepare(data, min_interactions=0, n_products=10**6)
    with pytest.raises(InputError, match="window"):
        prepare(data, window=-1.0)
    with pytest.raises(InputError, match="min_interactions"):
        prepare(data, min_interactions=-1)


def test_generated_data_repeat() -> None:
    assert checksum(generate_dataset("sandbox", scale=0.2, rng=5)) == checksum(
        generate_dataset("sandbox", scale=0.2, rng=5)
    )
    with pytest.raises(InputError, match="digg_like"):
        generate_dataset("netflix")


def test_readme_figures_of_digg_core() -> None:
    figures = describe(shared("digg_core"))
    assert (figures.n_users, figures.n_edges, figures.n_products, figures.n_actions) == (2528, 66_460, 256, 53_513)
    assert (figures.out_degree_50, round(figures.out_degree_90, 1), round(figures.out_degree_99)) == (2, 94.6, 277)
    assert (figures.out_degree_max, figures.activations, figures.exposures) == (457, 452_020, 3_779_827)


def test_readme_figures_of_christianity() -> None:
    figures = describe(shared("christianity"))
    assert (figures.n_users, figures.n_edges, figures.n_products, figures.n_actions) == (2897, 35_624, 589, 15_327)
    assert (figures.n_acting_users, figures.activations, figures.exposures) == (1651, 73_427, 1_183_323)
    assert (figures.out_degree_50, figures.out_degree_90, round(figures.out_degree_99)) == (5, 27, 132)


def test_readme_figures_of_nethept() -> None:
    data = shared("nethept")
    # 4 of the 15,233 nodes have no edge.
    assert data.graph.n_nodes == 15_229
    assert data.log.n_actions == 0


@pytest.mark.parametrize(
    ("least", "users", "edges", "actions"),
    [(1, 6647, 89_484, 66_786), (3, 3195, 71_509, 57_248), (4, 2528, 66_460, 53_513), (50, 270, 15_319, 23_828)],
)
def test_preparation_of_digg_gives_the_readme_table(least: int, users: int, edges: int, actions: int) -> None:
    figures = describe(prepare(shared("digg"), min_interactions=least))
    assert (figures.n_users, figures.n_edges, figures.n_actions) == (users, edges, actions)


def test_files_are_plain(tmp_path: Path) -> None:
    names = [os.path.basename(path) for path in write_dataset(generate_dataset("sandbox", scale=0.1), tmp_path)]
    assert names == ["edges.parquet", "actions.parquet", "dataset.json"]


def test_a_log_is_shown_on_one_line():
    log = ActionLog.from_arrays([2, 0, 2], [1, 0, 0], [30, 10, 20], ["tea", "cocoa"])
    assert repr(log) == "ActionLog(3 actions of 2 users on 2 items)"
    assert repr(ActionLog.empty()) == "ActionLog(0 actions of 0 users on 0 items)"
