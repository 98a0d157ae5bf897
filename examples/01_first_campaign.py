"""
A first campaign
================

Ask who to contact, tell what happened, close the round: the choice gets better as the model learns. The network is
generated, so that we can play the customers too, and know how good the choice was.
"""

import tempfile

import altair as alt
import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import direct_spread, observe

# %%
# A network of 300 users with 3,000 edges and 20 products, and a campaign on it. The campaign lives in a SQLite file, so
# that it survives this process.

sandbox = make_sandbox(n_users=300, n_edges=3000, n_products=20, rng=0)
graph = sandbox.graph
storage = f"sqlite:///{tempfile.mkdtemp()}/campaigns.db"
campaign = tu.create_campaign(
    "spring",
    graph=graph,
    users=sandbox.users,
    policy=tu.TensorUCB(),
    products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
    storage=storage,
)

# %%
# What the followers of the contacted users do, and how good a choice was: both by the network's hidden truth, which the
# campaign never sees.


def customers_answer(product, seeds, rng):
    edges, outcomes = observe(graph, sandbox.probabilities(product), graph.rows(seeds), rng=rng)
    yes = edges[outcomes > 0]
    pairs = zip(graph.ids[graph.sources[yes]].tolist(), graph.ids[graph.targets[yes]].tolist(), strict=True)
    return [{"source": source, "target": target, "outcome": 1} for source, target in pairs]


def share_of_best(product, seeds):
    truth = sandbox.probabilities(product)
    best = tu.select_seeds(graph, truth, len(seeds), objective="direct").spread
    return direct_spread(graph, truth, graph.rows(seeds)) / best


# %%
# Thirty rounds. Only those who said yes are told: silence becomes "no" when the round closes.

rng = np.random.default_rng(1)
shares = []
for _ in range(30):
    product = int(rng.integers(20))
    ask = campaign.ask(sandbox.names[product], k=5)
    campaign.tell(ask.id, customers_answer(product, ask.seeds, rng))
    campaign.close(ask.id)
    shares.append(share_of_best(product, ask.seeds))
print(f"share of the best possible reach in rounds 1-5:   {np.mean(shares[:5]):.0%}")
print(f"share of the best possible reach in rounds 21-30: {np.mean(shares[-10:]):.0%}")

# %%
# One point per round, and the mean of five rounds as a line. Rounds differ because products do.

rows = [{"round": i + 1, "share": s, "mean": np.mean(shares[max(0, i - 4) : i + 1])} for i, s in enumerate(shares)]
base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("round:Q", title="Round"))
points = base.mark_point(filled=True, opacity=0.4).encode(y=alt.Y("share:Q", title="Share of the best possible reach"))
learning = alt.layer(points, base.mark_line(strokeWidth=3).encode(y="mean:Q")).properties(
    width=600, height=280, title="The choice gets better"
)
learning

# %%
# Tomorrow, in another process, the address is all that is needed. Every choice can be explained, and so can those who
# were not chosen.

campaign.disconnect()
with tu.load_campaign("spring", storage=storage) as campaign:
    ask = campaign.ask(sandbox.names[0], k=5)
    print(f"round {ask.id}: contact {', '.join(map(str, ask.seeds))}")
    print(f"expected reach {ask.reach.mean:.1f}, 90 % between {ask.reach.low:.1f} and {ask.reach.high:.1f}")
    print(ask.explain())
    other = next(user for user in campaign.graph.ids.tolist() if user not in ask.seeds)
    print(ask.explain(other).text)
