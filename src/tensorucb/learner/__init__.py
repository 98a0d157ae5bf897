"""Online variational tensor regression: state, update, prediction."""

from tensorucb.learner._posterior import PosteriorDraw, UpdateReport, bonus, predict, sample, update
from tensorucb.learner._regression import TensorRegression
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState, init, state_from_arrays, state_to_arrays

__all__ = [
    "PosteriorDraw",
    "TensorRegression",
    "TensorSettings",
    "TensorState",
    "UpdateReport",
    "bonus",
    "init",
    "predict",
    "sample",
    "state_from_arrays",
    "state_to_arrays",
    "update",
]
