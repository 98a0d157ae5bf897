"""
Constraints, and does contact change anything?
==============================================

Opt-outs, a cooldown, quotas and a budget; then a hold-out that measures what contact really changes.
"""

import altair as alt
import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.policies import LinUCB

# %%
# Users have a cost and a group. The campaign is kept in memory, with a clock of our own.

DAY = 86_400.0
now = 1_800_000_000.0
rng = np.random.default_rng(0)
sandbox = make_sandbox(n_users=300, n_edges=3000, n_products=5, rng=0)
campaign = tu.create_campaign(
    "launch",
    graph=sandbox.graph,
    users=sandbox.users,
    policy=LinUCB(exploration=0.3),
    products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
    costs=rng.uniform(5, 20, 300).round(),
    groups=rng.choice(["north", "south", "west"], 300),
    window="7d",
    storage="memory://",
    clock=lambda: now,
)
product = sandbox.names[0]

# %%
# Every constraint is an argument of ``ask``.

first = campaign.ask(product, k=6, exclude=[1, 2, 3], must_include=[10], quotas={"north": 2, "south": 2, "west": 2})
print(f"opt-outs, a partner and quotas: {first.seeds}")
now += DAY
second = campaign.ask(product, k=6, cooldown="30d")
print(f"nobody of the last 30 days:     {second.seeds}")
third = campaign.ask(product, budget=40.0, cooldown="30d")
print(f"as many as 40 buys:             {third.seeds}")

# %%
# Why was somebody chosen, and somebody else not?

for user in (first.seeds[0], third.seeds[0], 1):
    print(f"{user} in round two: {second.explain(user).text}")
reasons = [first.explain(user) for user in campaign.graph.ids.tolist()]
crowded_out = max((reason for reason in reasons if reason.status == "group_quota"), key=lambda reason: reason.score)
print(f"{crowded_out.user} in round one: {crowded_out.text}")

# %%
# A quarter of the chosen users is not contacted. In this world followers buy by themselves at 5 %, and a contact adds
# 10 points: the lift should find them, and its interval should get narrower as rounds are added.

found = []
for number in range(20):
    now += DAY
    ask = campaign.ask(product, k=8, holdout=0.25)
    graph = campaign.graph
    reached = np.zeros(graph.n_nodes, dtype=bool)
    reached[graph.targets[graph.out_edges(graph.rows(ask.contacted))]] = True
    buys = rng.random(graph.n_nodes) < np.where(reached, 0.15, 0.05)
    campaign.tell(ask.id, [{"user": user, "time": now + 3600} for user in graph.ids[buys].tolist()])
    campaign.close(ask, early=True)
    lift = campaign.lift()
    found.append({"round": number + 1, "low": lift.low, "difference": lift.difference, "high": lift.high})
print(
    f"lift: {lift.contacted_rate:.1%} of {lift.contacted_followers} followers against {lift.held_out_rate:.1%} "
    f"of {lift.held_out_followers}: {lift.difference:+.1%} (90 %: {lift.low:+.1%} to {lift.high:+.1%})"
)

# %%
# The dashed line is the truth.

base = alt.Chart(alt.Data(values=found[2:])).encode(x=alt.X("round:Q", title="Rounds with a hold-out so far"))
percent = alt.Axis(format="+.0%")
band = base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q", title="Lift, in points", axis=percent), y2="high:Q")
truth = (
    alt.Chart(alt.Data(values=[{"truth": 0.10}]))
    .mark_rule(strokeDash=[6, 4], color="#d55e00", strokeWidth=2)
    .encode(y="truth:Q")
)
lifted = alt.layer(band, base.mark_line(strokeWidth=3).encode(y="difference:Q"), truth).properties(
    width=600, height=280, title="What contact changes, with its 90 % interval"
)
lifted

# %%
# Somebody else chose? A shadow round records what we would have done beside it, and learns from theirs.

shadow = campaign.ask(product, k=4, shadow=[20, 21, 22, 23])
print(f"shadow: they contacted {shadow.contacted}, we would have contacted {shadow.seeds}")
