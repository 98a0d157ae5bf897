"""Who takes part: the registry of `compare`, `tune` and `reproduce`. What may be tuned, each policy says itself."""

from __future__ import annotations

from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.experiments._tuning import with_arguments
from tensorucb.policies import Policy

__all__ = ["OURS", "contestants", "paper_policies", "strategy_contestants"]

OURS = "TensorUCB"
_NOT_IN_THE_PAPER = ("DILinUCB (original)", "LogisticUCB", "GammaCounts")


def contestants() -> dict[str, Policy]:
    """Ours first, then every baseline in its best form: with all that it can use of the users' past."""
    from tensorucb import policies as p

    return {
        OURS: p.TensorUCB(),
        "TensorUCB (paper)": p.TensorUCB.paper(),
        "LogisticUCB": p.LogisticUCB(),
        "LinUCB": p.LinUCB(),
        "IMLinUCB": p.IMLinUCB(),
        "DILinUCB": p.DILinUCB(),
        "DILinUCB (original)": p.DILinUCBOriginal(),
        "GammaCounts": p.GammaCounts(),
        "IMFB": p.IMFB(),
        "COIN": p.COIN(),
        "COIN-HD": p.COIN(variant="hd"),
        "COIN+": p.COIN(variant="plus"),
        "CUCB": p.CUCB(),
        "Thompson": p.Thompson(),
        "HighDegree": p.HighDegree(),
        "Random": p.Random(),
    }


def paper_policies() -> dict[str, Policy]:
    """The contestants of the paper's Table 3 on the features as published, ours, and simple ones that it omits."""
    return {
        label: with_arguments(policy, {"matched": False}) if hasattr(policy, "matched") else policy
        for label, policy in contestants().items()
        if label not in _NOT_IN_THE_PAPER
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
