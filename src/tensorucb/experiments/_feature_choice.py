"""Which of the users' features a policy does best with, tried on validation rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runner import OnProgress, run_policy
from tensorucb.experiments._tuning import VALIDATION_RUN
from tensorucb.features import UserProfile
from tensorucb.policies import Policy

_PAST = ("taste", "credit", "exposure")


@dataclass(frozen=True)
class FeatureChoice:
    """Average regret of a policy with each set of features, and the world with the best one."""

    regret: Mapping[str, float]
    chosen: str
    environment: Environment


def feature_sets(environment: Environment) -> dict[str, Environment]:
    """The world with fewer of its users' features, and itself last; alone if there is nothing to leave out.

    ``"past"``: all but the coordinates in the network. ``"coordinates"``: all but the past by topic (taste, influence).
    ``"everything"``: the profile as it is.
    """
    users = environment.users
    if not isinstance(users, UserProfile):
        return {"everything": environment}
    parts = users.parts()
    sets: dict[str, Environment] = {}
    if "coordinates" in parts:
        sets["past"] = environment.with_users(UserProfile(**{k: v for k, v in parts.items() if k != "coordinates"}))
    if any(name in parts for name in _PAST):
        sets["coordinates"] = environment.with_users(UserProfile(**{k: v for k, v in parts.items() if k not in _PAST}))
    return {**sets, "everything": environment}


def choose_features(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int = 50,
    seed: int = 0,
    report: OnProgress | None = None,
) -> FeatureChoice:
    """Play the validation rounds with each set of features, and keep the best, the first of equals.

    Products and coins are those of :func:`~tensorucb.experiments.tune`, which can go on with the chosen world.
    """
    if rounds < 1:
        raise InputError(f"rounds must be positive; got {rounds!r}.")
    worlds = feature_sets(environment)
    regret: dict[str, float] = {}
    for number, (name, world) in enumerate(worlds.items(), 1):
        result = run_policy(world, policy, rounds=rounds, run=VALIDATION_RUN, seed=seed)
        regret[name] = float(result.average_regret[-1])
        if report is not None:
            report(number, len(worlds), f"{policy.name}, features: {name}")
    chosen = min(regret, key=lambda name: regret[name])
    return FeatureChoice(regret, chosen, worlds[chosen])
