"""The response model behind `TensorUCB`: a hierarchical logistic regression of an edge's response.

``docs/model.md`` explains it on one page; the files follow that page in name and order:

``_context``     what a round is about: the features of its product, strategy, season … and their interactions
``_nodes``       what is known about users beforehand
``_state``       every constant of the model, its priors, and everything that is learned
``_log``         the rounds that are kept
``_likelihood``  how probable these rounds are at a point of the parameters
``_learn``       what happens after each round: a refit with learned prior variances, or a quick step
``_score``       the probability of every edge, and how uncertain each source is

Pure functions on frozen dataclasses.
"""

from tensorucb.learner.response._learn import learn
from tensorucb.learner.response._log import make_told
from tensorucb.learner.response._nodes import node_features
from tensorucb.learner.response._score import NodeScores, edge_probabilities, score
from tensorucb.learner.response._state import (
    ResponseSettings,
    ResponseState,
    start,
    state_from_arrays,
    state_to_arrays,
)

__all__ = [
    "NodeScores",
    "ResponseSettings",
    "ResponseState",
    "edge_probabilities",
    "learn",
    "make_told",
    "node_features",
    "score",
    "start",
    "state_from_arrays",
    "state_to_arrays",
]
