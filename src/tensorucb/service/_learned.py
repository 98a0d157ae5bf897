"""What was learned: which users, products and strategies go together, by what the model expects now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from tensorucb.arrays import F64
from tensorucb.campaign._catalogue import contexts, read_context
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._tally import strategies_of
from tensorucb.service._bodies import Id
from tensorucb.service._shared import At

MOST_PRODUCTS, MOST_STRATEGIES = 12, 8
MOST_USERS = 16
_BEST = 3  # users listed for each product
_STRONG = 100  # best users of each product; those who go with it in particular are found among them


class Expected(BaseModel):
    """A user and the responses expected if they alone were contacted."""

    user: Id
    name: str | None = Field(description="What the user is called; null if that is not known, or not for you.")
    expected: float


class ProductLearned(BaseModel):
    """What goes with a product."""

    product: Id | None
    users: list[Expected] = Field(description="The best users, the best first.")
    rounds: int = Field(description="Closed rounds about it; with none it was not tried, and its features alone speak.")
    strategy: Id | None = Field(description="The best strategy, if the campaign has strategies.")
    share: float = Field(
        description="Share of a user's followers expected to respond if that user alone were contacted with that "
        "strategy, averaged over all pairs of a user and a follower."
    )


class Learned(BaseModel):
    """What the model expects of users, products and strategies together."""

    rounds: int = Field(description="Closed rounds that this was learned from.")
    users: list[Id] = Field(description="The best users of these products; who goes with the same one, side by side.")
    names: list[str | None] = Field(description="What they are called; null if that is not known, or not for you.")
    strategies: list[Id] = Field(description="Those with the most closed rounds first.")
    strategy_rounds: list[int] = Field(description="Closed rounds with each; with none it was not tried.")
    affinity: list[list[float]] = Field(
        description="For each user and product the expected responses, divided by what the two alone let one expect."
    )
    shares: list[list[float]] = Field(description="For each strategy and product the share expected to respond.")
    products: list[ProductLearned] = Field(description="Those with the most closed rounds first.")


def what_was_learned(at: At) -> Learned:
    """What the model believes now; before the first closed round this is what the features alone suggest."""
    handle = at.campaign._handle
    with handle.read() as view:
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
    rows, affinity, best_users = _together(scores)
    users = list(map(at.mask, graph.ids[rows].tolist()))
    names = at.names(rows)
    strategy = shares.argmax(axis=0).tolist()
    return Learned(
        rounds=len(closed),
        users=users,
        names=names,
        strategies=list(strategies),
        strategy_rounds=[of_strategy[each] for each in strategies],
        affinity=affinity.tolist(),
        shares=shares.tolist(),
        products=[
            ProductLearned(
                product=product,
                users=[
                    Expected(user=users[place], name=names[place], expected=scores[rows[place], column])
                    for place in best_users[column]
                ],
                rounds=of_product[product],
                strategy=strategies[strategy[column]] if strategies else None,
                share=shares[strategy[column], column],
            )
            for column, product in enumerate(products)
        ],
    )


def expected_of(handle: Handle, view: View, product: Id | None, strategies: tuple[Id, ...]) -> F64:
    """(strategies, edges) the expected probability of every edge; one row without strategies."""
    catalogues = view.catalogues()
    vectors = read_context(product, *catalogues).vectors
    features = catalogues[1].features
    if strategies:
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


def _together(scores: F64) -> tuple[list[int], F64, list[list[int]]]:
    """The rows of the users to show, their affinities, and for each product the places of its best users.

    Users who go with the same product stand side by side. An affinity is what is expected of a user and a product,
    divided by what the two alone would let one expect: 2 means twice as many responses, 1 that they have nothing
    particular to do with each other.
    """
    usual = np.outer(scores.sum(axis=1), scores.sum(axis=0)) / max(float(scores.sum()), 1e-300)
    affinity = np.divide(scores, usual, out=np.ones_like(scores), where=usual > 0.0)
    strong = np.argsort(-scores, axis=0, kind="stable")[:_STRONG]
    turns = np.argsort(-np.take_along_axis(affinity, strong, 0), axis=0, kind="stable")
    best, particular = strong[:_BEST], np.take_along_axis(strong, turns, 0)[:2]
    # In turns, so that each product has its own users among those shown: the best, then those who go with it most.
    rows = list(dict.fromkeys([*best.ravel().tolist(), *particular.ravel().tolist()]))[:MOST_USERS]
    rows.sort(key=lambda row: int(affinity[row].argmax()))
    place = {row: number for number, row in enumerate(rows)}
    return rows, affinity[rows], [[place[row] for row in column if row in place] for column in best.T.tolist()]
