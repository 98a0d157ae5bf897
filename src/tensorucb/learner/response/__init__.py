"""The response model behind `TensorUCB`: a hierarchical logistic regression of an edge's response.

``docs/model.md`` explains it on one page; the files follow that page in name and order:

``_context``   what a round is about: the features of its product, strategy, season … and their interactions
``_nodes``     what is known about users beforehand
``_settings``  every constant of the model
``_state``     everything that is learned
``_log``       the rounds that are kept, and their likelihood
``_fit``       how all parameters are fitted to the rounds kept, and how prior variances are learned
``_learn``     what happens after each round
``_score``     the probability of every edge, and how uncertain each source is

Pure functions on frozen dataclasses.
"""

from tensorucb.learner.response._arrays import state_from_arrays, state_to_arrays
from tensorucb.learner.response._context import Context, context_of
from tensorucb.learner.response._fit import fit
from tensorucb.learner.response._learn import absorb, learn, quick_step
from tensorucb.learner.response._log import Told, make_told, with_told
from tensorucb.learner.response._nodes import NodeFeatures, node_features
from tensorucb.learner.response._score import Scores, raised, score
from tensorucb.learner.response._settings import ResponseSettings
from tensorucb.learner.response._state import Point, Prior, ResponseState, start

__all__ = [
    "Context",
    "NodeFeatures",
    "Point",
    "Prior",
    "ResponseSettings",
    "ResponseState",
    "Scores",
    "Told",
    "absorb",
    "context_of",
    "fit",
    "learn",
    "make_told",
    "node_features",
    "quick_step",
    "raised",
    "score",
    "start",
    "state_from_arrays",
    "state_to_arrays",
    "with_told",
]
