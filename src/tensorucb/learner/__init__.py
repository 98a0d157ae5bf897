"""Online variational tensor regression: state, update, prediction."""

from tensorucb.learner._predict import Draw, bonus, predict, sample
from tensorucb.learner._regression import TensorRegression
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState, init, state_from_arrays, state_to_arrays
from tensorucb.learner._update import UpdateReport, update

__all__ = [
    "Draw",
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
