"""User features, chosen on the validation rounds of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tensorucb.experiments._environment import Environment
from tensorucb.experiments._jobs import check_jobs, in_processes
from tensorucb.experiments._runner import kept_runs
from tensorucb.experiments._tuning import VALIDATION_RUN
from tensorucb.features import UserProfile
from tensorucb.policies import Policy
from tensorucb.threads import OnProgress

_PAST = ("taste", "credit", "exposure")


@dataclass(frozen=True)
class FeatureChoice:
    """Average regret of a policy with each set of features, and the world with the best one.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, choose_features
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import LinUCB
    >>> choice = choose_features(world, LinUCB(), rounds=3)
    >>> choice.chosen in choice.regret
    True
    """

    regret: Mapping[str, float]
    chosen: str
    environment: Environment


def feature_sets(environment: Environment) -> dict[str, Environment]:
    """The world with fewer of its users' features, and itself last; alone if there is nothing to leave out.

    ``"past"``: all but the coordinates in the network. ``"coordinates"``: all but the past by topic (taste, influence).
    ``"everything"``: the profile as it is.
    """
    sets: dict[str, Environment] = {}
    if isinstance(environment.users, UserProfile):
        parts = environment.users.parts()
        for name, left_out in (("past", ("coordinates",)), ("coordinates", _PAST)):
            kept = {part: values for part, values in parts.items() if part not in left_out}
            if len(kept) < len(parts):
                sets[name] = environment.with_users(UserProfile(**kept))
    return {**sets, "everything": environment}


def choose_features(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int = 50,
    seed: int = 0,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
) -> FeatureChoice:
    """Play the validation rounds with each set of features, and keep the best, the first of equals.

    Products and coins are those of :func:`tune`, which can go on with the chosen world; the other parameters too.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, choose_features
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import LinUCB
    >>> choose_features(world, LinUCB(), rounds=3).chosen  # a sandbox has one set of features
    'everything'
    """
    worlds = feature_sets(environment)
    total, done = rounds * len(worlds), 0

    def step(name: str) -> None:
        nonlocal done
        done = min(done + 1, total)
        if report is not None:
            report(done, total, f"{policy.name}, features: {name}")

    with ExitStack() as stack:
        kept = {
            name: stack.enter_context(kept_runs(directory, world, rounds=rounds, seed=seed, jobs=check_jobs(jobs)))
            for name, world in worlds.items()
        }
        play = {name: partial(runs.play, policy.name, policy, VALIDATION_RUN) for name, runs in kept.items()}
        names = [name for name, runs in kept.items() if not runs.has(policy.name, policy, VALIDATION_RUN)]
        in_processes([play[name] for name in names], jobs, lambda number: step(names[number]))
        regret = {name: float(play[name](partial(step, name)).average_regret[-1]) for name in worlds}
    chosen = min(regret, key=lambda name: regret[name])
    return FeatureChoice(regret, chosen, worlds[chosen])
