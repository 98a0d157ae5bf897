"""Constraints in real campaigns: opt-outs, cooldown, quotas, a budget, a hold-out that measures the lift, and why."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.policies import LinUCB

DAY = 86_400.0


def main() -> None:
    sandbox = make_sandbox(n_users=300, n_edges=3000, n_products=5, rng=0)
    rng = np.random.default_rng(0)
    now = [1_800_000_000.0]
    campaign = tu.create_campaign(
        "launch",
        graph=sandbox.graph,
        users=sandbox.users,
        policy=LinUCB(exploration=0.3),
        products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
        costs=rng.uniform(5, 20, 300).round(),
        groups=rng.choice(["north", "south", "west"], 300),
        objective="direct",
        window=7 * DAY,
        storage="memory://",
        clock=lambda: now[0],
    )
    product = sandbox.names[0]
    first = campaign.ask(product, k=6, exclude=[1, 2, 3], must_include=[10], quotas={"north": 2, "south": 2, "west": 2})
    print(f"opt-outs, a partner and quotas: {first.seeds}")

    now[0] += DAY
    second = campaign.ask(product, k=6, cooldown=timedelta(days=30))
    print(f"nobody of the last 30 days:     {second.seeds}")
    third = campaign.ask(product, budget=40.0, cooldown=timedelta(days=30))
    print(f"as many as 40 buys:             {third.seeds}")
    print()
    for user in (first.seeds[0], third.seeds[0], 1):
        print(f"{user} in round two: {second.explain(user).text}")
    reasons = [first.explain(user) for user in campaign.graph.ids.tolist()]
    crowded_out = max((r for r in reasons if r.status == "group_quota"), key=lambda reason: reason.score)
    print(f"{crowded_out.user} in round one: {crowded_out.text}")

    # A quarter of the chosen is not contacted. Followers of both buy by themselves at 5 %; a contact adds 10 points.
    for _ in range(20):
        now[0] += DAY
        ask = campaign.ask(product, k=8, holdout=0.25)
        graph = campaign.graph
        reached = np.zeros(graph.n_nodes, dtype=bool)
        reached[graph.targets[graph.out_edges(graph.rows(list(ask.contacted)))]] = True
        buys = rng.random(graph.n_nodes) < np.where(reached, 0.15, 0.05)
        campaign.tell(ask.id, [{"user": user, "time": now[0] + 3600} for user in graph.ids[buys].tolist()])
        campaign.close(ask.id)
    lift = campaign.lift()
    print(
        f"\nlift: {lift.contacted_rate:.1%} of {lift.contacted_followers} followers against {lift.held_out_rate:.1%} "
        f"of {lift.held_out_followers}: {lift.difference:+.1%} (90 %: {lift.low:+.1%} to {lift.high:+.1%})"
    )

    # What would we have done? Recorded beside what somebody else decided.
    shadow = campaign.ask(product, k=4, shadow=[20, 21, 22, 23])
    print(f"shadow: they contacted {shadow.contacted}, we would have contacted {shadow.seeds}")


if __name__ == "__main__":
    main()
