"""The response model behind `TensorUCB`: a hierarchical logistic regression of an edge's response.

``docs/model.md`` explains it on one page; the files follow that page in name and order:

``_context``  what a round is about: the features of its product, strategy, season … and their interactions
``_nodes``    what is known about users beforehand
``_log``      the rounds that the model is fitted to
``_design``   these rounds as rows, pulls and cells
``_fit``      every constant, the priors, and the parameters as a function of the log
``_predict``  what the parameters say of a context

Pure functions on frozen dataclasses.
"""

from tensorucb.learner.response._fit import Fitted, ResponseSettings, fit, unfitted
from tensorucb.learner.response._log import Log, Told, log_from_arrays, log_to_arrays, told, with_round
from tensorucb.learner.response._nodes import NodeFeatures, node_features
from tensorucb.learner.response._predict import level_deviations, log_likelihood, node_logits

__all__ = [
    "Fitted",
    "Log",
    "NodeFeatures",
    "ResponseSettings",
    "Told",
    "fit",
    "level_deviations",
    "log_from_arrays",
    "log_likelihood",
    "log_to_arrays",
    "node_features",
    "node_logits",
    "told",
    "unfitted",
    "with_round",
]
