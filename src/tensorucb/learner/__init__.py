"""Online variational tensor regression: state, update, prediction."""

from tensorucb.learner._regression import TensorRegression, TensorState

__all__ = ["TensorRegression", "TensorState"]
