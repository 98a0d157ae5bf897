"""A log of purchases as history: who showed what to whom, and who bought it then."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.worlds import small_campaign
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.policies import Thompson

DAY = 86400.0


def purchases(campaign, seed=0, rows=120):
    rng = np.random.default_rng(seed)
    users = campaign.graph.ids.tolist()
    return [
        {
            "user": users[rng.integers(len(users))],
            "item": ("tea", "soap", "lamp")[rng.integers(3)],
            "time": float(rng.integers(0, 30)) * DAY,
        }
        for _ in range(rows)
    ]


def trials(campaign, log, product, window):
    """Edge by edge: a follower who had not bought is a trial, and a success if they bought within the window."""
    first = {}
    for row in log:
        if row["item"] == product:
            first[row["user"]] = min(row["time"], first.get(row["user"], np.inf))
    graph = campaign.graph
    found = {}
    for s, t in zip(graph.ids[graph.sources].tolist(), graph.ids[graph.targets].tolist(), strict=True):
        if s in first and first.get(t, np.inf) > first[s]:
            found[s, t] = float(first.get(t, np.inf) - first[s] <= window)
    return found


def told(campaign, number):
    ids = campaign.graph.ids
    with campaign.store.read() as session:
        rows = session.responses(1, number, number)[number]
    ends = zip(ids[rows.sources].tolist(), ids[rows.targets].tolist(), strict=True)
    return dict(zip(ends, rows.outcomes.tolist(), strict=True))


@pytest.mark.parametrize("window", ["3d", None])
def test_followers_who_bought_within_the_window_responded(window):
    campaign = small_campaign(policy=Thompson(), window="7d")
    log = purchases(campaign)
    report = campaign.import_history(log, window=window)
    span = (7 if window is None else 3) * DAY  # without one, the campaign's
    wanted = [trials(campaign, log, product, span) for product in ("tea", "soap")]
    # Ids in a round's responses are distinct, so the columns can be compared as mappings.
    assert [told(campaign, 1), told(campaign, 2)] == wanted
    assert [ask.product for ask in campaign.rounds()] == ["tea", "soap"]
    assert (report.rounds, report.responses) == (2, sum(map(len, wanted)))
    assert 0 < sum(map(sum, (w.values() for w in wanted))) < report.responses
    assert report.other == sum(row["item"] == "lamp" for row in log)
    assert campaign.model_hash() == campaign.replay_hash()


def test_the_same_log_in_any_order_is_imported_once(tmp_path):
    campaign = small_campaign(policy=Thompson())
    log = purchases(campaign)
    first = campaign.import_history(log)
    before = campaign.model_hash()
    lines = [f"{row['user']},{row['item']},{row['time']:.0f}" for row in reversed(log)]
    (tmp_path / "log.csv").write_text("buyer,item,timestamp\n" + "\n".join(lines) + "\n")
    again = campaign.import_history(tmp_path / "log.csv", columns={"user": "buyer"})
    assert (again.rounds, again.responses, again.known_rounds) == (0, 0, first.rounds)
    assert campaign.model_hash() == before


def test_a_log_that_has_grown_is_refused_and_its_new_rows_are_not():
    campaign = small_campaign(policy=Thompson())
    log = purchases(campaign)
    campaign.import_history(log)
    before = campaign.status(), campaign.model_hash()
    later = [{**row, "time": row["time"] + 60 * DAY} for row in purchases(campaign, seed=1, rows=40)]
    with pytest.raises(InputError, match=r"'tea' from 1970-01-01 .* were imported before"):
        campaign.import_history([*log, *later])
    assert (campaign.status(), campaign.model_hash()) == before
    assert campaign.import_history(later).rounds == 2


def test_strangers_and_mixtures():
    campaign = small_campaign(policy=Thompson())
    log = purchases(campaign)
    strange = [*log, {"user": "guest", "item": "tea", "time": 0.0}]
    with pytest.raises(UnknownIdError, match=r"1 of 121 rows .*not in the network \(line 121: 'guest'\)"):
        campaign.import_history(strange, strict=True)
    s, t = (campaign.graph.ids[ends[0]].item() for ends in (campaign.graph.sources, campaign.graph.targets))
    edge = {"source": s, "target": t, "outcome": 1, "product": "tea"}
    with pytest.raises(InputError, match="line 2 is the one and line 1 the other"):
        campaign.import_history([log[0], edge])
    with pytest.raises(InputError, match=r"'product' \(or 'item'\)"):
        campaign.import_history([{"user": s, "time": 1.0}])
    assert campaign.rounds() == ()
    skipped = campaign.import_history(strange, max_left_out=1.0)
    assert skipped.unknown == 1
    assert campaign.import_history(log).known_rounds == 2
    past = campaign.import_history([edge, {**edge, "target": "guest"}, {**edge, "target": s}], max_left_out=1.0)
    assert (past.rounds, past.responses, past.unknown) == (1, 1, 2)
    assert campaign.import_history([{"user": s, "item": "lamp", "time": 1.0}]).other == 1


def test_one_product_for_all_rows_and_forgetting():
    campaign = small_campaign(policy=Thompson())
    log = [{k: v for k, v in row.items() if k != "item"} for row in purchases(campaign)]
    assert campaign.import_history(log, product=[0.5, 0.5], window="1d").rounds == 1
    user = log[0]["user"]
    report = campaign.forget(user)
    assert report.model_after == report.replay
    assert campaign.import_history(log, product=[0.5, 0.5], window="1d", max_left_out=1.0).known_rounds == 1
