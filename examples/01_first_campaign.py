"""A first campaign: ask who to contact, tell what happened, close; the choice gets better as the model learns.

Run it with `python examples/01_first_campaign.py`. The network is generated, so that we can play the customers too.
"""

from __future__ import annotations

import tempfile

import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import direct_spread, observe

ROUNDS = 30


def customers_answer(sandbox, product: int, seeds, rng) -> list[dict]:
    """What the followers of the contacted users do, by the network's hidden truth."""
    graph = sandbox.graph
    edges, outcomes = observe(graph, sandbox.probabilities(product), graph.rows(list(seeds)), rng=rng)
    sources, targets = graph.ids[graph.sources[edges]], graph.ids[graph.targets[edges]]
    columns = zip(sources.tolist(), targets.tolist(), outcomes.tolist(), strict=True)
    return [{"source": s, "target": t, "outcome": int(y)} for s, t, y in columns if y]


def quality(sandbox, product: int, seeds) -> float:
    """How many users these seeds really activate on average, as a share of the best choice by the hidden truth."""
    truth = sandbox.probabilities(product)
    best = tu.select_seeds(sandbox.graph, truth, len(seeds), objective="direct").spread
    return direct_spread(sandbox.graph, truth, sandbox.graph.rows(list(seeds))) / best


def main() -> None:
    sandbox = make_sandbox(n_users=300, n_edges=3000, n_products=20, rng=0)
    storage = f"sqlite:///{tempfile.mkdtemp()}/campaigns.db"
    campaign = tu.create_campaign(
        "spring",
        graph=sandbox.graph,
        users=sandbox.users,
        policy=tu.TensorUCB(),
        products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
        objective="direct",
        storage=storage,
    )
    rng = np.random.default_rng(1)
    qualities = []
    for _ in range(ROUNDS):
        product = int(rng.integers(20))
        ask = campaign.ask(sandbox.names[product], k=5)
        yes = customers_answer(sandbox, product, ask.seeds, rng)
        campaign.tell(ask.id, yes)  # only who said yes: silence becomes "no" at the close
        campaign.close(ask.id)
        qualities.append(quality(sandbox, product, ask.seeds))
    print(f"share of the best possible reach in rounds 1-5:  {np.mean(qualities[:5]):.0%}")
    print(f"share of the best possible reach in rounds {ROUNDS - 9}-{ROUNDS}: {np.mean(qualities[-10:]):.0%}")

    # Tomorrow, in another process: the address is all it needs.
    campaign.disconnect()
    with tu.load_campaign("spring", storage=storage) as campaign:
        ask = campaign.ask(sandbox.names[0], k=5)
        print(f"\nround {ask.id}: contact {', '.join(map(str, ask.seeds))}")
        print(f"expected reach {ask.reach.mean:.1f}, 90 % between {ask.reach.low:.1f} and {ask.reach.high:.1f}")
        print(ask.explain())
        others = [user for user in campaign.graph.ids.tolist() if user not in ask.seeds]
        print(ask.explain(others[0]).text)


if __name__ == "__main__":
    main()
