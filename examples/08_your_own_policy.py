"""
A policy of your own, beside the others
=======================================

A model of three short functions makes a policy. Then it is checked, tuned and compared like any other.
"""

import numpy as np

from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings, compare
from tensorucb.plots import regret_curves
from tensorucb.policies import Prediction, UCBPolicy, check_policy

# %%
# The success rate of each user's out-edges, with a bonus for users seldom tried.


class SourceRate(UCBPolicy):
    name = "SourceRate"
    tunable = {"exploration": (0.01, 0.1, 1.0)}  # noqa: RUF012

    def __init__(self, *, exploration=0.1):
        self.exploration = exploration

    def initial(self, dims):
        return {"won": np.zeros(self.graph.n_nodes), "tried": np.ones(self.graph.n_nodes)}

    def learn(self, state, modes, edges, outcomes):
        np.add.at(state["tried"], self.graph.sources[edges], 1.0)
        np.add.at(state["won"], self.graph.sources[edges], outcomes)
        return state

    def predict(self, state, modes):
        rate, deviation = state["won"] / state["tried"], 1.0 / np.sqrt(state["tried"])
        return Prediction(self.graph, rate[self.graph.sources], deviation[self.graph.sources])


# %%
# ``check_policy`` plays a small campaign and names what is missing, if anything is.

check_policy(SourceRate)

# %%
# The same products, coins and oracle for everybody; baselines are tuned on rounds of their own, our defaults are not.

world = Environment.from_sandbox(make_sandbox(500, 6000, 20, rng=0), settings=WorldSettings(k=10))
found = compare(world, [SourceRate(), "LinUCB", "HighDegree"], rounds=60, runs=3, validation_rounds=5)
print(found)

# %%
# The figure has 90 % intervals over the runs at the right.

curves = regret_curves(found)
curves
