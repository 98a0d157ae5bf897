"""
Which offer for which user
==========================

By mail or by visit, with or without a discount: which strategy suits which user is learned along with everything else.
"""

import altair as alt
import numpy as np

from tensorucb import TensorUCB
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, StrategyPolicy, WorldSettings, run_policy
from tensorucb.policies import HighDegree

# %%
# A generated network on which four strategies differ, for everybody, by user and by product.

sandbox = make_sandbox(300, 6000, 20, n_strategies=4, strategy_effect=1.0, rng=0)
world = Environment.from_sandbox(sandbox, settings=WorldSettings(k=5))

# %%
# Three ways to choose: the best strategy for each user; the strategies in turn, and the model is not told of them; the
# users with the most followers, with the strategies in turn.

ways = {
    "one for each user": StrategyPolicy(TensorUCB()),
    "in turn, not told": StrategyPolicy(TensorUCB(), "turn"),
    "by degree, in turn": StrategyPolicy(HighDegree(), "turn"),
}
rows = []
for label, policy in ways.items():
    runs = [run_policy(world, policy, rounds=60, run=run) for run in range(2)]
    regret = np.mean([run["regret"] for run in runs], axis=0)
    share = sum(run["spread"].sum() for run in runs) / sum(run["optimum"].sum() for run in runs)
    print(f"{label:18} regret {regret.mean():5.1f}, last 20 rounds {regret[-20:].mean():5.1f}; {share:.0%} of the best")
    average = np.cumsum(regret) / np.arange(1, len(regret) + 1)
    rows += [{"round": i + 1, "regret": float(value), "way": label} for i, value in enumerate(average)]

# %%
# Regret, in users per round, is counted against the best users with the best strategy for each.

regrets = (
    alt.Chart(alt.Data(values=rows))
    .mark_line(strokeWidth=3)
    .encode(
        x=alt.X("round:Q", title="Round"),
        y=alt.Y("regret:Q", title="Average regret so far"),
        color=alt.Color("way:N", title=None),
    )
    .properties(width=600, height=280, title="Learning which offer suits which user")
)
regrets
