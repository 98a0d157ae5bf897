"""
Late, doubled and partial responses
===================================

Responses come late, twice, in part, out of order, and as "who bought" only. The model ends up the same.
"""

import tempfile

import altair as alt
import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import observe
from tensorucb.policies import LinUCB

# %%
# Two campaigns with the same settings. A clock of our own lets a week pass at once; a real campaign goes by the
# computer's.

DAY = 86_400.0
now = 1_800_000_000.0
sandbox = make_sandbox(n_users=200, n_edges=2000, n_products=10, rng=0)
graph = sandbox.graph
storage = f"sqlite:///{tempfile.mkdtemp()}/campaigns.db"


def new_campaign(name):
    return tu.create_campaign(
        name,
        graph=graph,
        users=sandbox.users,
        policy=LinUCB(),
        products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
        credit="shared",
        window="7d",
        storage=storage,
        clock=lambda: now,
    )


orderly, messy = new_campaign("orderly"), new_campaign("messy")

# %%
# The same three rounds in both, all open at once. We only learn who bought and when; who persuaded them is shared out
# by believed probability (``credit="shared"``).

asks = [(orderly.ask(name, 4), messy.ask(name, 4)) for name in sandbox.names[:3]]
events = []
for number, (ask, _) in enumerate(asks):
    rng = np.random.default_rng([7, number])
    edges, outcomes = observe(graph, sandbox.probabilities(number), graph.rows(ask.seeds), rng=rng)
    buyers = graph.ids[np.unique(graph.targets[edges[outcomes > 0]])].tolist()
    times = now + rng.uniform(0, 6 * DAY, len(buyers))
    events.append(
        [{"user": u, "time": t, "event_id": f"{number}-{u}"} for u, t in zip(buyers, times.tolist(), strict=True)]
    )

# %%
# The orderly one hears everything in time.

for (ask, _), told in zip(asks, events, strict=True):
    orderly.tell(ask.id, told)
    orderly.close(ask, early=True)

# %%
# The messy one hears half of it, in reverse and twice. Then the week ends, and its rounds close by themselves.

for (_, ask), told in zip(reversed(asks), reversed(events), strict=True):
    messy.tell(ask.id, told[::2])
    print(f"again: {messy.tell(ask.id, told[::2][::-1])}")
now += 8 * DAY
print(f"closed by their deadline: {messy.expire()}")
print(f"the same model? {messy.model_hash() == orderly.model_hash()} (half of the responses are missing)")
half = messy.probabilities(sandbox.names[0])

# %%
# The rest comes after the close. Those rounds are learned again, and the two models agree bit for bit.

for (_, ask), told in zip(asks, events, strict=True):
    print(f"late: {messy.tell(ask.id, told)}")
print(f"the same model? {messy.model_hash() == orderly.model_hash()}")

# %%
# What the two believe of each edge for the first product: apart while responses were missing, on the diagonal now.

believed = orderly.probabilities(sandbox.names[0])
stages = {"half of it told": half, "all of it told": messy.probabilities(sandbox.names[0])}
rows = [
    {"orderly": float(x), "messy": float(y), "when": when}
    for when, beliefs in stages.items()
    for x, y in zip(believed, beliefs, strict=True)
]
beliefs = (
    alt.Chart(alt.Data(values=rows))
    .mark_point(filled=True, opacity=0.5)
    .encode(
        x=alt.X("orderly:Q", title="Believed by the orderly campaign"),
        y=alt.Y("messy:Q", title="Believed by the messy one"),
        color=alt.Color("when:N", title=None),
    )
    .properties(width=420, height=320, title="Late responses end in the same model")
)
beliefs

# %%
# A contradiction is reported with both values, and the first one stands. A row that names somebody unknown is left out;
# a batch of which more than half cannot be used is refused.

round_id, source = asks[0][1].id, asks[0][1].seeds[0]
target = graph.ids[graph.targets[graph.out_edges(graph.rows([source]))[0]]].item()
messy.tell(round_id, [{"source": source, "target": target, "outcome": 1}])
report = messy.tell(round_id, [{"source": source, "target": target, "outcome": 0}])
print(f"contradiction: {report.contradictions[0]}")
try:
    messy.tell(round_id, [{"source": source, "target": 123456, "outcome": 1}])
except ValueError as error:
    print(f"refused: {error}")
