"""Campaigns as a shop would have them: with names of products, offers and people, countries, and rounds day by day."""

from __future__ import annotations

import warnings
from collections.abc import Collection

import polars as pl

from campaign.worlds import out_pairs, small_graph
from tensorucb.campaign import copy_campaign, create_campaign, read_campaign_data
from tensorucb.policies import HighDegree

DAY = 86_400.0
START = 1_767_225_600.0  # 2026-01-01
NASTY = "<b>Soap</b>"


def shop(
    storage: str,
    name: str,
    rounds: int,
    *,
    start: float = START,
    pace: float = DAY,
    left_open: Collection[int] = (),
    products: tuple[str, str] = ("Green tea", NASTY),
    people: str = "Ann Number",
    timezone: str = "UTC",
) -> None:
    """A campaign with rounds on successive days, all closed but those whose numbers are ``left_open``.

    It is played in memory and then copied to the store, which saves a thousand commits.
    """
    graph = small_graph()
    ids = graph.ids.tolist()
    tables = {
        "edges": pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]}),
        "users": pl.DataFrame(
            {"user": ids, "full_name": [f"{people}{i:02d}" for i in range(30)], "country": ["France", "Spain"] * 15}
        ),
        "products": pl.DataFrame({"product": ["p1", "p2"], "title": list(products), "kind": ["a", "b"]}),
        "strategies": pl.DataFrame({"strategy": ["s1", "s2"], "name": ["By mail", "By phone"], "cost": [1.0, 2.0]}),
    }
    data = read_campaign_data(
        tables, columns={"products": {"name": "title"}, "users": {"name": "full_name"}}, timezone=timezone
    )
    now = [start]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this policy is quick because it learns nothing of products
        campaign = create_campaign(
            name, data=data, storage="memory://", policy=HighDegree(), clock=lambda: now[0], snapshot_every=1000
        )
    followers_of = {user: sorted({target for _, target in out_pairs(campaign, [user])}) for user in ids}
    with campaign:
        for number in range(rounds):
            ask = campaign.ask(["p1", "p2"][number % 2], k=6, strategies=[["s1", "s2"][number % 2]], holdout=0.2)
            followers = sorted({target for user in ask.contacted for target in followers_of[user]})
            campaign.tell(ask.id, [{"user": user, "time": now[0]} for user in followers[::2]])
            if ask.number not in left_open:
                campaign.close(ask.id)
            now[0] += pace
        copy_campaign(name, name, storage=campaign.store, to=storage)
