"""What was learned: which users, products and strategies go together, by what the model expects now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensorucb.arrays import F64
from tensorucb.campaign import Campaign
from tensorucb.campaign._catalogue import contexts, read_context
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._tally import strategies_of

MOST_PRODUCTS, MOST_STRATEGIES = 12, 8
MOST_USERS = 16
_BEST = 3  # users listed for each product
_STRONG = 100  # best users of each product; those who go with it in particular are found among them

Id = int | str


@dataclass(frozen=True)
class Learned:
    """What the model expects of users, products and strategies together.

    ``affinity`` is ``expected`` divided by what the user and the product alone would let one expect: 2 means twice as
    many responses, 1 means that the two have nothing particular to do with each other.
    """

    rounds: int  # closed ones that it has learned from
    products: tuple[Id | None, ...]  # those with the most closed rounds first
    product_rounds: tuple[int, ...]  # closed rounds of each; with none, it was not tried: its features alone speak
    strategies: tuple[Id, ...]  # in the same order
    strategy_rounds: tuple[int, ...]
    users: tuple[Id, ...]  # the best of these products
    expected: F64  # (users, products) responses if that user alone were contacted, with the product's best strategy
    affinity: F64  # (users, products)
    shares: F64  # (strategies, products) share of all followers expected to respond; one row without strategies
    best: tuple[tuple[int, ...], ...]  # for each product the places of its best users in `users`, the best first


def what_was_learned(campaign: Campaign) -> Learned:
    """What the model believes now; before the first closed round this is what the features alone suggest."""
    handle = campaign._handle
    with handle.learned() as view:
        closed = [record for record in view.ledger.rounds.values() if record.status == "closed"]
        of_product = Counter(record.product for record in closed)
        of_strategy = Counter(strategy for record in closed for strategy in strategies_of(record))
        products = _products(view, of_product)
        strategies = tuple(sorted(offered(view), key=lambda strategy: -of_strategy[strategy]))
        graph = view.network.graph
        shares = np.zeros((max(1, len(strategies)), len(products)))
        scores = np.zeros((graph.n_nodes, len(products)))
        for column, product in enumerate(products):
            believed = expected_of(handle, view, product, strategies)
            shares[:, column] = believed.mean(axis=1) if graph.n_edges else 0.0
            best = believed[int(np.argmax(shares[:, column]))]
            scores[:, column] = np.bincount(graph.sources, weights=best, minlength=graph.n_nodes)
    together = _together(scores)
    return Learned(
        rounds=len(closed),
        products=tuple(products),
        product_rounds=tuple(of_product[product] for product in products),
        strategies=strategies,
        strategy_rounds=tuple(of_strategy[strategy] for strategy in strategies),
        users=tuple(graph.ids[together.rows].tolist()),
        expected=scores[together.rows],
        affinity=together.affinity,
        shares=shares,
        best=together.best,
    )


def expected_of(handle: Handle, view: View, product: Id | None, strategies: tuple[Id, ...]) -> F64:
    """(strategies, edges) the expected probability of every edge; one row without strategies."""
    catalogues = view.catalogues()
    vectors = read_context(product, *catalogues).vectors
    features = catalogues[1].features
    if strategies and features is not None:
        features = features[[catalogues[1].index(strategy) for strategy in strategies]]
    rows = contexts(vectors, features if strategies else None)
    return np.stack([handle.model.policy.prediction(context).expected() for context in rows])


def _products(view: View, rounds: Counter[Id | None]) -> Sequence[Id | None]:
    """The products with the most closed rounds first, then as in the catalogue; None stands for "no catalogue"."""
    ids, sizes = view.catalogue("product").ids, view.ledger.sizes()
    if not ids:
        return [None] if sizes in (None, [1]) else []
    return sorted(ids, key=lambda product: -rounds[product])[:MOST_PRODUCTS]


def offered(view: View) -> tuple[Id, ...]:
    """The strategies with which rounds of this campaign can be asked; none if they had none so far."""
    sizes = view.ledger.sizes()
    return view.catalogue("strategy").ids[:MOST_STRATEGIES] if sizes is None or len(sizes) == 2 else ()


class _Together(NamedTuple):
    """The users to show, those who go with the same product side by side; the others as in `Learned`."""

    rows: list[int]
    affinity: F64
    best: tuple[tuple[int, ...], ...]


def _together(scores: F64) -> _Together:
    usual = np.outer(scores.sum(axis=1), scores.sum(axis=0)) / max(float(scores.sum()), 1e-300)
    affinity = np.divide(scores, usual, out=np.ones_like(scores), where=usual > 0.0)
    order = np.argsort(-scores, axis=0, kind="stable")[:_STRONG]
    particular = np.take_along_axis(
        order, np.argsort(-np.take_along_axis(affinity, order, 0), axis=0, kind="stable"), 0
    )
    order = order[:_BEST]
    # In turns, so that each product has its own users among those shown: the best, then those who go with it most.
    rows = list(dict.fromkeys([*order.ravel().tolist(), *particular[:2].ravel().tolist()]))[:MOST_USERS]
    affinity = affinity[rows]
    # Users who go with the same product stand side by side.
    turn = np.argsort(affinity.argmax(axis=1), kind="stable") if affinity.size else np.arange(len(rows))
    rows = [rows[place] for place in turn.tolist()]
    place = {row: number for number, row in enumerate(rows)}
    best = tuple(tuple(place[row] for row in column if row in place) for column in order.T.tolist())
    return _Together(rows, affinity[turn], best)
