"""A log in the form of the Open Bandit Pipeline, whose estimators and learners take it as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorucb.checks import check_instance
from tensorucb.experiments.offline._campaign import LoggedCampaign


def bandit_feedback(log: LoggedCampaign) -> dict[str, Any]:
    """A log as the dictionary that the Open Bandit Pipeline calls bandit feedback, one row for each contact.

    A row's ``context`` is the product's features, its ``action`` the row of the contacted user in the graph, its
    ``reward`` the number of followers who responded, and its ``pscore`` the probability of contacting that user in that
    round. That library thinks of one action at a time; a round here contacts several users, so ``round`` says which
    rows belong together, for errors clustered by round.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.experiments.offline import LoggedCampaign, LoggedRound, bandit_feedback
    >>> told = LoggedRound(product=[1.0], contacts=[0], edges=[0], outcomes=[1.0], propensities=[0.5, 0.5, 0.0])
    >>> found = bandit_feedback(LoggedCampaign.from_rounds(Graph.from_edges([0, 1], [2, 2]), [told, told]))
    >>> found["n_rounds"], found["action"].tolist(), found["reward"].tolist(), found["pscore"].tolist()
    (2, [0, 0], [1.0, 1.0], [0.5, 0.5])
    """
    check_instance("log", log, LoggedCampaign, "a LoggedCampaign")
    n = log.graph.n_nodes
    rounds = np.repeat(np.arange(log.n_rounds), np.diff(log.contact_offsets))
    observed = np.repeat(np.arange(log.n_rounds), np.diff(log.edge_offsets))
    # The contact through which each response came; further on in a cascade there is none.
    contacts, sources = rounds * n + log.contacts, observed * n + log.graph.sources[log.edges]
    order = np.argsort(contacts)
    places = order[np.minimum(np.searchsorted(contacts, sources, sorter=order), order.size - 1)]
    direct = contacts[places] == sources
    return {
        "n_rounds": int(rounds.size),
        "n_actions": n,
        "context": log.products[rounds],
        "action_context": None,
        "action": log.contacts.copy(),
        "position": np.zeros(rounds.size, dtype=np.int64),
        "reward": np.bincount(places[direct], weights=log.outcomes[direct], minlength=rounds.size),
        "pscore": log.propensities[log.design[rounds], log.contacts],
        "round": rounds,
    }
