"""One question, one number: whatever door it is asked at."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaign.worlds import answers, small_campaign
from cli.commands import run_json
from service.serving import serving
from tensorucb.campaign import Campaign
from tensorucb.client import Client
from tensorucb.plots import campaign_report
from tensorucb.policies import LinUCB, LogisticUCB, TensorUCB

POLICIES: dict[str, Callable[[], Any]] = {"TensorUCB": TensorUCB, "LogisticUCB": LogisticUCB, "LinUCB": LinUCB}
COSTS = {"letter": 2.125}


class Doors(NamedTuple):
    """The ways to one campaign."""

    campaign: Campaign
    storage: str
    http: httpx.Client
    client: Any

    def command(self, *line: str) -> Any:
        """What a command says in JSON."""
        return run_json(*line, "--storage", self.storage)

    def get(self, path: str, **params: Any) -> Any:
        """What the service answers."""
        answer = self.http.get(f"/api/v1/campaigns/spring/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()


def as_json(record: Any) -> Any:
    return json.loads(json.dumps(asdict(record)))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    k=st.integers(2, 6),
    holdout=st.sampled_from([0.0, 0.34, 0.5]),
    strategies=st.booleans(),
    products=st.lists(st.sampled_from(["tea", "soap"]), min_size=2, max_size=3),
    every=st.integers(2, 4),
)
def test_the_same_question_has_the_same_answer_at_every_door(policy, k, holdout, strategies, products, every):
    """Python, the command line, HTTP, the client and the report, over some rounds of any kind."""
    offers = {"strategies": {"mail": [1.0, 0.0], "letter": [0.0, 1.0]}, "strategy_costs": COSTS} if strategies else {}
    asks = {"holdout": holdout} if holdout and round(holdout * k) else {}
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/c.db"
        made = small_campaign(
            storage, policy=POLICIES[policy](), clock=time.time, window="20h", ask={"k": k, **asks}, **offers
        )
        with (
            made as campaign,
            serving(storage) as url,
            httpx.Client(base_url=url, timeout=60) as http,
            Client(url) as client,
        ):
            doors = Doors(campaign, storage, http, client.campaign("spring"))
            for product in products:
                _one_round(doors, product, strategies, every)
            _report(doors)


def _one_round(doors: Doors, product: str, strategies: bool, every: int) -> None:
    campaign, graph = doors.campaign, doors.campaign.graph
    question: dict[str, Any] = {"product": product} | ({"strategies": "all"} if strategies else {})
    expected = campaign.preview(**question)
    # What would be chosen, and what to expect of it.
    remote = doors.client.preview(**question)
    posted = doors.http.post("/api/v1/campaigns/spring/preview", json=question).json()
    for name in ("seeds", "held_out", "strategies", "reach", "cost"):
        assert as_json(remote)[name] == posted[name] == as_json(expected)[name]
    asked = doors.command("ask", "spring", "--product", product, *(("--strategies", "all") if strategies else ()))
    ask = campaign.round(asked["id"])
    for name in ("seeds", "held_out", "strategies", "reach", "cost"):
        assert asked[name] == as_json(expected)[name]
    # The round, wherever it is looked up.
    assert doors.client.round(ask.id) == ask
    assert as_json(doors.client.round(ask.id)) == doors.get(f"rounds/{ask.number}")
    # Why.
    reasons = as_json(campaign.explain(ask))
    assert reasons == as_json(expected.explanation) == as_json(doors.client.explain(ask))
    assert reasons == doors.get(f"rounds/{ask.id}/explanation")
    told = doors.command("status", "spring", "--explain", ask.id)
    assert told["seeds"] == reasons["seeds"]
    contacted = [seed for seed in reasons["seeds"] if seed["user"] in ask.contacted]
    assert sum(seed["gain"] for seed in contacted) == pytest.approx(ask.reach.mean, rel=1e-6)
    # A user alone is worth the sum over their edges.
    if not strategies:
        alone = np.bincount(graph.sources, campaign.probabilities(product), graph.n_nodes)
        for seed in reasons["seeds"]:
            assert seed["score"] == pytest.approx(alone[graph.rows([seed["user"]])[0]], rel=1e-6)
        learned = next(entry for entry in doors.get("learned")["products"] if entry["product"] == product)
        for entry in learned["users"]:
            assert entry["expected"] == pytest.approx(alone[graph.rows([entry["user"]])[0]], rel=1e-6)
        one = campaign.preview(product=product, users=[ask.contacted[0]], holdout=0.0)
        assert one.reach.mean == pytest.approx(alone[graph.rows([ask.contacted[0]])[0]], rel=1e-6)
    campaign.tell(ask, answers(campaign, ask, every=every))
    bought = [target for target in graph.ids[::every].tolist() if target not in ask.contacted]
    campaign.tell(ask, [{"user": user, "time": ask.opened + 1.0} for user in bought])
    campaign.close(ask)


def _report(doors: Doors) -> None:
    """How it is going, in numbers and on the page of the report."""
    progress = doors.campaign.progress()
    document = as_json(progress)
    assert document == doors.get("progress") == as_json(doors.client.progress())
    assert document == doors.command("status", "spring")["progress"]
    assert [entry.expected for entry in progress.rounds] == [ask.reach for ask in doors.campaign.rounds()]
    if progress.lift is not None:
        lift = as_json(doors.campaign.lift())
        assert lift == document["lift"] == doors.get("lift") == as_json(doors.client.lift())
        assert lift == doors.command("lift", "spring")
        plan = as_json(doors.campaign.plan_lift("tea", rounds=5, effect=0.1))
        assert plan == doors.get("lift/plan", product="tea", rounds=5, effect=0.1)
        assert plan == as_json(doors.client.plan_lift("tea", rounds=5, effect=0.1))
        line = ("lift", "spring", "--plan", "--product", "tea", "--rounds", "5", "--effect", "0.1")
        assert plan == doors.command(*line)
    with tempfile.TemporaryDirectory() as folder:
        text = campaign_report(progress).save(f"{folder}/report.html").read_text("utf-8")
    for entry in progress.rounds:
        assert f"{entry.expected.mean:,.1f}" in text
        assert f"{entry.expected.low:,.0f} – {entry.expected.high:,.0f}" in text
    if progress.spend is not None:
        assert f"{progress.spend:,.2f}" in text
