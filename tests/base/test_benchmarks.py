"""Benchmarks: each row has ours, a reference and a ratio that fits them."""

from __future__ import annotations

import math

from benchmarks.hot_paths import Row, cascades, power_law, reading, selections, telling


def _sound(row):
    fraction = row["ours"] / row["reference"]
    wanted = fraction if row["unit"].endswith("/s") else 1.0 / fraction
    return row["ours"] > 0.0 and row["reference"] > 0.0 and math.isclose(row["ratio"], wanted)


def test_the_ratio_says_how_many_times_as_fast_ours_is():
    assert Row("graph", "read", "NumPy", 2.0, 6.0, "CPU s").ratio == 3.0
    assert Row("store", "tell", "sqlite3", 6.0, 2.0, "responses/s").ratio == 3.0


def test_each_part_gives_rows_beside_a_reference():
    graph = power_law(500, 4_000, 0)
    assert (graph.n_nodes, graph.n_edges) == (500, 4_000)
    rows = [
        *reading(300, 2_000, scattered=True),
        *cascades(graph, 5),
        *selections("small", graph, "wc", (3,)),
        *telling(3),
    ]
    assert all(_sound(row.document()) for row in rows)
    assert {"NumPy", "our TIM+", "sqlite3"} <= {row.beside for row in rows}
    [chosen] = [row for row in rows if row.beside == "our TIM+"]
    spread = float(chosen.what.split("spread ")[1].split()[0])
    assert 0.9 < spread < 1.1
