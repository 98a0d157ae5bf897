"""Opt-outs, costs and reasons over HTTP and with the client."""

from __future__ import annotations

import httpx
import pytest

from service.conftest import Serve
from tensorucb import Graph, create_campaign
from tensorucb.client import Client
from tensorucb.errors import InputError, UnknownIdError


def test_opt_outs_over_http(client: httpx.Client) -> None:
    said = {"users": ["person-001", "zoe"]}
    report = client.post("/campaigns/spring/opt-outs", json=said).json()
    assert report == {"users": 1, "unknown": 1, "changed": 2, "in_open_rounds": 0, "still_out": 0}
    assert client.get("/campaigns/spring/opt-outs").json()["items"] == [
        {"id": "person-001", "name": None, "cost": None}
    ]
    assert client.get("/campaigns/spring/users/person-001").json()["why_not"] == "has opted out"
    assert client.get("/campaigns/spring").json()["opted_out"] == 1
    refused = client.post("/campaigns/spring/rounds", json={"product": "tea", "users": ["person-001"]})
    assert refused.status_code == 422
    assert "names 'person-001', who has opted out" in refused.json()["detail"]
    assert client.post("/campaigns/spring/opt-ins", json=said).json()["changed"] == 2
    assert client.get("/campaigns/spring/users/person-001").json()["why_not"] is None
    assert client.post("/campaigns/autumn/opt-outs", json={**said, "everywhere": True}).status_code == 200
    assert client.get("/campaigns/spring").json()["opted_out"] == 1
    preview = client.post("/campaigns/spring/preview", json={"product": "tea", "k": 29, "audience_rest": "7d"}).json()
    assert "person-001" not in preview["seeds"]
    assert preview["fatigue"] is None
    costs = client.post("/campaigns/autumn/strategies/costs", json={"costs": {"letter": 2.5}}).json()
    assert costs["items"] == [{"id": "letter", "name": None, "cost": 2.5}]


def test_opt_outs_with_the_client(serve: Serve, storage: str, tmp_path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\nann,cid\nbob,cid\ncid,ann\n")
    (tmp_path / "users.csv").write_text("user,ok\nann,1\nbob,0\ncid,1\n")
    with Client(str(serve(storage).base_url).removesuffix("/api/v1/")) as client:
        campaign = client.create_campaign(
            "winter",
            edges=tmp_path / "edges.csv",
            users=tmp_path / "users.csv",
            consent="ok",
            contact_group="all",
            contact_cap="1/7d",
        )
        assert campaign.why_not("bob") == "has given no consent"
        (tmp_path / "out.csv").write_text("customer_id;since\nann;2026-01-01\n")
        assert campaign.opt_out(tmp_path / "out.csv").users == 1
        assert campaign.opted_out() == ("ann",)
        assert campaign.status().no_consent == 1
        with pytest.raises(InputError, match="who has opted out"):
            campaign.ask(users=["ann"])
        assert campaign.opt_in(["ann", "bob"]).changed == 2
        campaign.add_users(["dan", "eve"], sources=["dan"], targets=["ann"], consent=["yes", "no"])
        assert [campaign.why_not(user) for user in ("dan", "eve")] == [None, "has given no consent"]
        asked = campaign.ask(k=1, audience_rest="7d")
        assert asked.fatigue is None
        assert "contact cap until" in (campaign.why_not(asked.seeds[0]) or "")
        autumn = client.campaign("autumn")
        autumn.set_costs({"letter": 3.0})
        assert autumn.ask("tea", 2, strategies=["letter"]).cost == 6.0


def test_people_whose_ids_are_long_numbers(serve: Serve, storage: str) -> None:
    longest = 2**63 - 1
    create_campaign("numbers", graph=Graph.from_edges([longest, -longest], [1, 1]), storage=storage).disconnect()
    with Client(str(serve(storage).base_url).removesuffix("/api/v1/")) as client:
        campaign = client.campaign("numbers")
        asked = campaign.ask(k=1, candidates=[longest])
        assert campaign.explain(asked, longest).user == longest
        assert [campaign.why_not(user) for user in (longest, -longest)] == [None, None]
        for stranger in (longest - 1, str(longest + 1)):
            with pytest.raises(UnknownIdError):
                campaign.why_not(stranger)
