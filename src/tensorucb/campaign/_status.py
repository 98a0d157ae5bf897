"""A campaign in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorucb.campaign._handle import ERASING, Handle


@dataclass(frozen=True)
class CampaignStatus:
    """A campaign in numbers.

    Attributes
    ----------
    name, policy
        Its name, and the type of its policy.
    users, edges, products, strategies
        How many there are.
    rounds, open, closed, cancelled
        How many rounds there are, and how many of each kind.
    events
        The number of the log's last event.
    behind
        Of how many closed rounds the next ask would not have learned the newest responses; see :attr:`Ask.behind`.
    quarantined
        Closed rounds that could not be learned: their ids, and why. The model goes on without them.
    erasing
        How many times somebody was forgotten whose traces are not out of the store's files yet.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="memory://")
    >>> ask = campaign.ask(k=1)
    >>> status = campaign.status()
    >>> status.users, status.rounds, status.open
    (3, 1, 1)
    """

    name: str
    policy: str
    users: int
    edges: int
    products: int
    strategies: int
    rounds: int
    open: int
    closed: int
    cancelled: int
    events: int
    behind: int
    quarantined: Mapping[str, str]
    erasing: int

    def __repr__(self) -> str:
        counted = ("users", "edges", "products", "strategies", "rounds")
        parts = [repr(self.name), self.policy, *(f"{getattr(self, name):,} {name}" for name in counted)]
        more = {"open": self.open, "behind": self.behind, "quarantined": len(self.quarantined), "erasing": self.erasing}
        parts += [f"{count:,} {name}" for name, count in more.items() if count]
        return f"CampaignStatus({', '.join(parts)})"


def status(handle: Handle) -> CampaignStatus:
    """Numbers of users, products and rounds, and what is still to do."""
    with handle.read() as view:
        graph, ledger = view.network.graph, view.ledger
        states = [record.status for record in ledger.rounds.values()]
        return CampaignStatus(
            name=handle.record.name,
            policy=handle.record.settings["policy"]["type"],
            users=graph.n_nodes,
            edges=graph.n_edges,
            products=len(view.catalogue("product").ids),
            strategies=len(view.catalogue("strategy").ids),
            rounds=len(states),
            open=states.count("open"),
            closed=states.count("closed"),
            cancelled=states.count("cancelled"),
            events=ledger.seq,
            behind=handle.model.lag(view),
            quarantined=ledger.quarantined(),
            erasing=len(view.session.blobs(view.number, ERASING)),
        )
