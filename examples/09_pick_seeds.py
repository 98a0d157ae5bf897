"""
Pick seeds in a network, with a certificate
===========================================

You know the probabilities, or have estimates of them: who should be seeded, and how good is that choice?
"""

import altair as alt
import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import spread

# %%
# A network with one probability per edge, in the order of ``graph.sources`` and ``graph.targets``.

sandbox = make_sandbox(2000, 20_000, 1, rng=0)
graph, probabilities = sandbox.graph, sandbox.probabilities(0)

# %%
# Ten seeds. ``lower`` and ``upper`` enclose what they reach and what any ten could reach, with high probability.

pick = tu.select_seeds(graph, probabilities, 10, rng=0)
print(pick.seeds)
print(f"reaches {pick.spread:.0f} users; at least {pick.lower:.0f}, and no choice more than {pick.upper:.0f}")
print(pick.guarantee)

# %%
# How far more seeds would get, beside simply taking the best connected users.

order = np.argsort(-graph.out_degree)
rows = []
for k in (1, 2, 5, 10, 20, 40):
    pick = tu.select_seeds(graph, probabilities, k, rng=0)
    connected = spread(graph, probabilities, order[:k], runs=2000, rng=0).mean
    rows += [{"k": k, "users": pick.spread, "choice": "select_seeds"}]
    rows += [{"k": k, "users": connected, "choice": "best connected"}]
spreads = (
    alt.Chart(alt.Data(values=rows))
    .mark_line(point=True, strokeWidth=3)
    .encode(
        x=alt.X("k:Q", title="Seeds"),
        y=alt.Y("users:Q", title="Users reached"),
        color=alt.Color("choice:N", title=None),
    )
    .properties(width=600, height=280, title="What more seeds bring")
)
spreads
