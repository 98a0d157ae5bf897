"""How far the paper's model class could get: the oracle is given the truth's best fit in a class; nothing is learned.

    python -m studies.ceilings [--data DIR] [--log digg_core]

The truth of all edges and products is fitted by least squares, on probabilities or on logits, with the features that
policies get. A tensor of full rank is linear in its entries, so that this is the best that any rank can do. Regret is
the mean over all products of the log's rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from studies import DATA
from studies.paper_form import with_both_features
from tensorucb.arrays import F64
from tensorucb.experiments import Environment, round_regret
from tensorucb.policies import HighDegree

Beliefs = Callable[[int], F64]
"""Probabilities of all edges for the product in this place of the world's list."""


def logit(p: F64) -> F64:
    """Log odds, of probabilities that are kept away from 0 and 1."""
    inside = np.clip(p, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(inside / (1.0 - inside)))


def truth(world: Environment) -> F64:
    """``(edges, products)``: the true probabilities of the products of the world's rounds."""
    return np.stack([world.probabilities(int(row)) for row in world.product_rows], axis=1)


def best_fit(Y: F64, X: F64, Z: F64) -> F64:
    """X W Zᵀ with the W of the least squares: every edge meets every product, so the problem falls into two."""
    by_topic = Y @ np.linalg.pinv(Z).T
    weights = np.linalg.lstsq(X.T @ X, X.T @ by_topic, rcond=None)[0]
    return np.asarray(X @ weights @ Z.T)


def with_constant(rows: F64) -> F64:
    """The rows with a 1 at their end."""
    return np.hstack([rows, np.ones((len(rows), 1))])


def pairs(world: Environment, users: F64) -> F64:
    """x_i ⊗ x_j of every edge."""
    graph = world.graph
    products = np.einsum("ea,eb->eab", users[graph.sources], users[graph.targets])
    return np.asarray(products.reshape(graph.n_edges, -1))


def source_means(world: Environment, P: F64) -> F64:
    """``(users, products)``: the truth averaged over each source's targets; 0 for who has none."""
    graph = world.graph
    sums = np.zeros((graph.n_nodes, P.shape[1]))
    np.add.at(sums, graph.sources, P)
    return np.asarray(sums / np.maximum(graph.out_degree, 1)[:, None])


def mean_regret(world: Environment, beliefs: Beliefs) -> float:
    """Mean regret over the products of the world's rounds, if the oracle believes this."""
    oracle = world.oracle(np.random.default_rng(0))
    chosen = [oracle(np.clip(beliefs(place), 0.0, 1.0), world.settings.k) for place in range(world.product_rows.size)]
    return regret_of(world, chosen)


def regret_of(world: Environment, chosen: Iterable[NDArray[np.int64]]) -> float:
    """Mean regret over the products of the world's rounds, if these users are chosen."""
    rows = world.product_rows.tolist()
    reached = [world.evaluate(row, seeds) for row, seeds in zip(rows, chosen, strict=True)]
    return float(np.mean(round_regret([world.optimum(row).spread for row in rows], reached)))


def best_reach(world: Environment) -> float:
    """What the best possible choices reach, on average over the products of the world's rounds."""
    return float(np.mean([world.optimum(row).spread for row in world.product_rows.tolist()]))


def by_degree(world: Environment) -> NDArray[np.int64]:
    """The users with the most followers."""
    policy = HighDegree()
    policy.bind(world.graph, None, 0)
    return policy.choose(world.products[int(world.product_rows[0])], world.settings.k, world.oracle(0))


def with_share(regret: float, best: float) -> str:
    """Two cells: regret, and what is reached in % of the best possible."""
    return f"{regret:.1f} | {100.0 * (1.0 - regret / best):.0f}"


def classes(strict: Environment, ours: Environment) -> Iterator[tuple[str, Beliefs]]:
    """What the oracle is given: label and beliefs."""
    P = truth(strict)
    L = logit(P)
    graph, Z = strict.graph, strict.products[strict.product_rows]
    eigenmap, columns = np.asarray(strict.users), np.asarray(ours.users)
    yield "all edges alike", lambda place: np.full(graph.n_edges, P.mean())
    plain, constant = pairs(strict, eigenmap), pairs(strict, with_constant(eigenmap))
    fit = best_fit(P, plain, Z)
    yield "eigenmap, full tensor, no constants (the paper's class at any rank)", lambda place: fit[:, place]
    with_constants = best_fit(P, constant, with_constant(Z))
    yield "the same with a constant in each mode", lambda place: with_constants[:, place]
    in_logits = best_fit(L, constant, with_constant(Z))
    yield "the same, logit link", lambda place: expit(in_logits[:, place])
    for label, users in (("eigenmap", eigenmap), ("our columns", columns)):
        by_source = best_fit(L, with_constant(users)[graph.sources], with_constant(Z))
        yield f"{label} of the source × (product, 1), logit link", lambda place, u=by_source: expit(u[:, place])
    blind = P.mean(axis=1)
    yield "the truth averaged over products (product-blind)", lambda place: blind
    of_source = source_means(strict, P)
    yield "the truth averaged over each source's targets", lambda place: of_source[graph.sources, place]


def main() -> None:
    """Print one table per log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--log", action="append", help="digg_core and christianity by default")
    parser.add_argument("--out", type=Path, default=Path("out/paper_form"), help="where features and truth are kept")
    given = parser.parse_args()
    for name in given.log or ("digg_core", "christianity"):
        worlds = with_both_features(name, given.data, given.out / "prepared")
        print(f"\n**{name}**, mean of {worlds['paper'].product_rows.size} products\n")
        print("| what the oracle is given | regret | % of the best possible |\n| --- | ---: | ---: |")
        strict = worlds["paper"]
        best = best_reach(strict)
        plain = [by_degree(strict)] * strict.product_rows.size
        print(f"| (picking by degree) | {with_share(regret_of(strict, plain), best)} |")
        for label, beliefs in classes(strict, worlds["ours"]):
            print(f"| {label} | {with_share(mean_regret(strict, beliefs), best)} |", flush=True)


if __name__ == "__main__":
    main()
