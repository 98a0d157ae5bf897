"""The study of product columns, on tiny shops."""

from __future__ import annotations

import numpy as np

from studies import columns
from tensorucb.data import make_shop


def test_rows_are_played_on_the_same_rounds_and_regret_is_below_the_best(tmp_path):
    shop = make_shop(60, 500, 12, rng=0)
    shop.write(tmp_path)
    best = []
    for files in columns.FILES.values():
        data, features = columns.read(shop, tmp_path, files)
        assert len(features) == shop.new.size
        regret, most = columns.play(shop, data, features, rounds=3, k=3, seed=0)
        assert (regret >= -1e-9).all()
        assert (regret <= most + 1e-9).all()
        best.append(most)
    assert all(np.array_equal(best[0], other) for other in best)


def test_the_table_has_paired_intervals():
    ours = np.array([[50.0, 60.0, 2.0, 1.0], [50.0, 60.0, 4.0, 3.0]])
    found = dict.fromkeys(columns.FILES, ours) | {"network alone": ours + np.array([0.0, 0.0, 0.0, 1.0])}
    rows = columns.table(found, 60).splitlines()
    assert rows[2].endswith("|  |")
    assert rows[-1].split("|")[-2].strip() == "1.0 ± 0.0"
