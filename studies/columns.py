"""What the columns of a product table are worth for products that nobody has bought yet.

    python -m studies.columns [--shops 24] [--rounds 60] [--k 10]

Each shop is generated with a known truth: 800 users, 10,000 edges, 80 products, of which the last 20 are new. All
rounds are about new products, one after another in random order. `TensorUCB` chooses k users in each round and learns
from their followers' responses. Regret is how many more users the best k would have reached, by the truth; the share
of the best counts responses alone, without the contacted users. Rows differ in what the campaign was created from;
`tensorucb.campaign.read_campaign_data` reads it from files in every case. The last row picks by degree.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

import tensorucb as tu
from tensorucb.arrays import F64
from tensorucb.campaign import CampaignData, read_campaign_data
from tensorucb.data import Shop, make_shop, read_dataset
from tensorucb.diffusion import direct_spread, observe
from tensorucb.features import user_profile
from tensorucb.policies import HighDegree, Policy

SIZES = (800, 10_000, 80)
FIRST = 10
OURS = "network, purchases, product columns"
FILES: Mapping[str, tuple[str, ...]] = {
    OURS: ("followers", "purchases", "products"),
    "network, purchases (products without features)": ("followers", "purchases"),
    "network alone": ("followers",),
}
TRUE = "network, purchases, the true themes of all products"
DEGREE = "(picking by degree)"


def read(shop: Shop, folder: Path, files: tuple[str, ...]) -> tuple[CampaignData, F64]:
    """The parts of a campaign from some of a shop's files, and the features of its new products."""
    tables = {"followers": "edges", "purchases": "actions", "products": "products"}
    data = read_campaign_data(**{tables[name]: folder / f"{name}.csv" for name in files})  # type: ignore[arg-type]
    new = shop.products["product"].gather(shop.new).to_list()
    if "products" in files:
        return data, np.array([data.products[product] for product in new])
    if data.product_features is None:
        return data, np.ones((len(new), 1))
    # What `add_products` makes of products of which nothing but the id is known.
    return data, data.product_features.describe(pl.DataFrame({"product": new}))


def told(shop: Shop, data: CampaignData, folder: Path) -> tuple[CampaignData, F64]:
    """The same with the true themes in place of columns and topics: as well as products can be described."""
    dataset, themes = read_dataset(folder), shop.sandbox.mixtures
    number = {product: row for row, product in enumerate(shop.products["product"].to_list())}
    bought = themes[[number[item] for item in dataset.log.item_ids.tolist()]]
    users = user_profile(data.graph, dataset.log, np.arange(dataset.log.n_items), bought, kinds=("degree",))
    return replace(data, users=users), themes[shop.new]


def play(
    shop: Shop, data: CampaignData, features: F64, rounds: int, k: int, seed: int, policy: Policy | None = None
) -> tuple[F64, F64]:
    """Regret of each round, and what the best users would have had; `TensorUCB` plays unless a policy is given."""
    policy = tu.TensorUCB() if policy is None else policy
    graph = data.graph
    policy.bind(graph, data.users, rng=0)
    oracle = tu.SeedOracle(graph, objective="direct", rng=0)
    order = np.random.default_rng(seed).permutation(shop.new.size)
    regret, best = np.zeros((2, rounds))
    for t in range(rounds):
        place = int(order[t % order.size])
        truth = shop.sandbox.probabilities(int(shop.new[place]))
        seeds = policy.choose(features[place], k, oracle)
        # The seeds themselves are in both numbers; responses are what lies beyond them.
        best[t] = direct_spread(graph, truth, oracle(truth, k)) - k
        regret[t] = best[t] + k - direct_spread(graph, truth, seeds)
        policy.update(features[place], *observe(graph, truth, seeds, rng=np.random.default_rng([seed, t])))
    return regret, best


def run(shops: int, rounds: int, k: int, sizes: tuple[int, int, int] = SIZES) -> dict[str, F64]:
    """For each row of the table ``(shops, 4)``: % of the best in round 1 and in all, regret of the first and of all."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in (*FILES, TRUE, DEGREE)}
    for seed in range(shops):
        shop = make_shop(*sizes, rng=seed)
        with tempfile.TemporaryDirectory() as folder:
            shop.write(folder)
            known = {name: read(shop, Path(folder), files) for name, files in FILES.items()}
            known[TRUE] = told(shop, known[OURS][0], Path(folder))
            known[DEGREE] = known[OURS]
            for name, (data, features) in known.items():
                policy = HighDegree() if name == DEGREE else None
                regret, best = play(shop, data, features, rounds, k, seed, policy)
                shares = 1.0 - regret[0] / best[0], 1.0 - regret.sum() / best.sum()
                found[name].append((100.0 * shares[0], 100.0 * shares[1], regret[:FIRST].mean(), regret.mean()))
    return {name: np.array(values) for name, values in found.items()}


def table(found: Mapping[str, F64], rounds: int) -> str:
    """The rows as markdown; intervals are of the mean over shops, by Student's t, 95 %."""
    lines = [
        f"| created from | % of the best, round 1 | rounds 1–{rounds} | regret per round, 1–{FIRST} | 1–{rounds} | "
        "more than with columns |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, values in found.items():
        cells = [_interval(column) for column in values.T]
        gap = "" if name == OURS else _interval(values[:, -1] - found[OURS][:, -1])
        lines.append(f"| {name} | {' | '.join(cells)} | {gap} |")
    return "\n".join(lines)


def _interval(values: F64) -> str:
    half = stats.t.ppf(0.975, values.size - 1) * stats.sem(values)
    return f"{values.mean():.1f} ± {half:.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shops", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    print(table(run(options.shops, options.rounds, options.k), options.rounds))


if __name__ == "__main__":
    main()
