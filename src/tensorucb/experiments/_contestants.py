"""Who takes part in `compare`, `tune` and `reproduce`: the policies of the registry, and those that choose strategies.

What may be tuned, each policy says itself.
"""

from __future__ import annotations

from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.experiments._tuning import with_arguments
from tensorucb.policies import Policy
from tensorucb.policies.registry import REGISTRY, make_policy

OURS = "TensorUCB"
# Table 3 of the paper, ours, and simple ones that the paper leaves out.
_PAPER = (
    "TensorUCB",
    "TensorUCB (paper)",
    "LinUCB",
    "IMLinUCB",
    "DILinUCB",
    "IMFB",
    "COIN",
    "COIN-HD",
    "COIN+",
    "CUCB",
    "Thompson",
    "HighDegree",
    "Random",
)


def contestants() -> dict[str, Policy]:
    """Ours first, then every baseline in its best form: with all that it can use of the users' past."""
    return {label: make_policy(label) for label in REGISTRY}


def paper_policies() -> dict[str, Policy]:
    """The policies of the paper's Table 3 on the features as published, ours, and simple ones that it leaves out."""
    made = {label: make_policy(label) for label in _PAPER}
    return {
        label: with_arguments(policy, {"matched": False}) if hasattr(policy, "matched") else policy
        for label, policy in made.items()
    }


def strategy_contestants() -> dict[str, Policy]:
    """For worlds with strategies: ours choosing per user, per round and not at all, and baselines choosing per user.

    ``per strategy`` means a separate copy of the policy for each strategy.
    """
    from tensorucb import policies as p

    return {
        OURS: StrategyPolicy(p.TensorUCB()),
        f"{OURS}, one strategy per round": StrategyPolicy(p.TensorUCB(), "round"),
        f"{OURS}, strategies in turn": StrategyPolicy(p.TensorUCB(), "turn"),
        f"{OURS} per strategy": StrategyPolicy(p.TensorUCB(), separate=True),
        "LogisticUCB": StrategyPolicy(p.LogisticUCB()),
        "LogisticUCB per strategy": StrategyPolicy(p.LogisticUCB(), separate=True),
        "LinUCB": StrategyPolicy(p.LinUCB()),
        "GammaCounts per strategy": StrategyPolicy(p.GammaCounts(), separate=True),
    }
