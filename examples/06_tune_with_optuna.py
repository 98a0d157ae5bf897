"""
Tune a policy with Optuna
=========================

Any tuner that proposes arguments and reads a number will do. The settings are chosen on products that the last two runs
do not promote.
"""

import altair as alt
import optuna

from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings, run_policy, split_products
from tensorucb.policies import HighDegree, LinUCB

# %%
# A world for tuning and a world for judging, which share the network but no product.

validation, world = split_products(
    Environment.from_sandbox(make_sandbox(200, 2000, 12, rng=0), settings=WorldSettings(k=5))
)

# %%
# The number that Optuna makes small is the average regret of LinUCB with the arguments that a trial proposes.


def regret(trial: optuna.Trial) -> float:
    policy = LinUCB(exploration=trial.suggest_float("exploration", 1e-3, 1.0, log=True))
    return float(run_policy(validation, policy, rounds=30, run=0, seed=0)["regret"].mean())


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(regret, n_trials=15)

# %%
# What it is worth on products that the tuner never saw, beside picking the users with the most followers. Regret is in
# users per round.

best = LinUCB().set_params(**study.best_params)
for label, policy in (("default", LinUCB()), ("tuned", best), ("by degree", HighDegree())):
    found = run_policy(world, policy, rounds=60, run=0, seed=1)
    share = found["spread"].sum() / found["optimum"].sum()
    print(f"{label:9}  average regret {found['regret'].mean():.1f}, {share:.0%} of the best possible reach")
print(f"exploration: by default {LinUCB().exploration:g}, tuned {best.exploration:.3f}")

# %%
# One point per trial.

rows = [{"exploration": trial.params["exploration"], "regret": trial.value} for trial in study.trials]
trials = (
    alt.Chart(alt.Data(values=rows))
    .mark_point(filled=True, size=70)
    .encode(
        x=alt.X("exploration:Q", scale=alt.Scale(type="log"), title="Exploration"),
        y=alt.Y("regret:Q", title="Average regret on the tuning products"),
    )
    .properties(width=600, height=280, title="What Optuna tried")
)
trials
