"""The response model behind `TensorUCB`: a hierarchical logistic regression of an edge's response.

``docs/model.md`` explains it on one page; the files follow that page in name and order:

``_features``  what multiplies the weights: the context of a round, and what is known about users beforehand
``_log``       the rounds that the model is fitted to, and these as rows
``_fit``       every constant, the priors, and the parameters as a function of the log
``_predict``   what the parameters say of a context

Pure functions on frozen dataclasses.
"""

from tensorucb.learner.response._features import NodeFeatures, node_features
from tensorucb.learner.response._fit import Fitted, ResponseSettings, fit
from tensorucb.learner.response._log import Log, LoggedRound, log_from_arrays, log_to_arrays, told, with_round
from tensorucb.learner.response._predict import NodeLogits, log_likelihood, node_logits

__all__ = [
    "Fitted",
    "Log",
    "LoggedRound",
    "NodeFeatures",
    "NodeLogits",
    "ResponseSettings",
    "fit",
    "log_from_arrays",
    "log_likelihood",
    "log_to_arrays",
    "node_features",
    "node_logits",
    "told",
    "with_round",
]
