"""`replay`: let a learning policy live through a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.experiments.offline._estimate import Count, Estimate, Estimator, How, summarise
from tensorucb.policies import Oracle, Policy
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.rng import RngLike, as_generator


@dataclass(frozen=True)
class Replay:
    """A policy's way through a log.

    Attributes
    ----------
    estimate
        Its value per round.
    choices
        The rows it chose in each round.
    matched
        (T,) how many of them had been contacted.
    """

    estimate: Estimate
    choices: tuple[I64, ...]
    matched: I64

    @property
    def seen(self) -> float:
        """Share of the chosen contacts whose responses the log could show; live it would be 1."""
        return float(self.matched.sum() / sum(rows.size for rows in self.choices))


def replay(
    campaign: LoggedCampaign,
    policy: Policy,
    k: int,
    users: ArrayLike | None,
    *,
    learn: Literal["matched", "logged"] = "matched",
    estimator: Estimator = "snips",
    count: Count = "all",
    oracle: Oracle | None = None,
    clip: float | None = None,
    interval: Literal["normal", "bootstrap"] = "normal",
    level: float = 0.9,
    rng: RngLike = 0,
) -> Replay:
    """Bind ``policy`` and play the log's rounds: it chooses, and learns from the chosen users who were contacted.

    The replay estimator (Li, Chu, Langford, Wang 2011) at the level of sources: a match is a chosen user who had been
    contacted, weighted by 1/π. A round's choice depends on earlier rounds alone, so the estimate is as unbiased as
    `estimate_value`. What it estimates is the policy *under this feedback*: it sees the share ``seen`` of what it
    would see live, and so learns later than it would.

    Parameters
    ----------
    campaign, policy, k, users
        The log; the policy, which starts again; seeds per round; and user features.
    learn
        ``"matched"``: from the edges of matched users only. ``"logged"``: from every logged edge, as if it watched the
        logging policy; more data, but data that its own choices would not have brought.
    estimator
        ``"snips"`` (the classic average of matches, weighted), ``"ips"``, or ``"dr"`` with the policy's own beliefs
        before each round as the model.
    count, clip, interval, level
        As in `estimate_value`; ``count="modelled"`` uses the policy's beliefs as well.
    oracle
        The exact one of the direct objective by default.
    rng
        Seed of the policy, the default oracle and the bootstrap.
    """
    if learn not in ("matched", "logged"):
        raise InputError(f"learn must be 'matched' or 'logged'; got {learn!r}.")
    how = How(estimator, count, clip, "refuse", interval, level)
    how.check(campaign, has_model=True)
    generator = as_generator(rng)
    if oracle is None:
        from tensorucb.oracle import SeedOracle

        oracle = SeedOracle(campaign.graph, objective="direct", rng=generator)
    policy.bind(campaign.graph, users, generator)
    choices: list[I64] = []
    beliefs: list[F64] = []
    matched = np.zeros(campaign.n_rounds, dtype=np.int64)
    for t in range(campaign.n_rounds):
        r = campaign.round(t)
        rows = np.asarray(policy.choose(r.product, k, oracle), dtype=np.int64)
        if how.needs_model:
            beliefs.append(expected_probabilities(policy, r.product)[campaign.graph.out_edges(rows)])
        both = np.intersect1d(rows, r.contacts)
        shown = np.isin(campaign.graph.sources[r.edges], both) if learn == "matched" else slice(None)
        policy.update(r.product, r.edges[shown], r.outcomes[shown])
        choices.append(rows)
        matched[t] = both.size
    # The estimator asks for exactly the edges whose beliefs were kept.
    baseline = (lambda t, edges: beliefs[t]) if how.needs_model else None
    return Replay(summarise(campaign, choices, baseline, how, generator), tuple(choices), matched)
