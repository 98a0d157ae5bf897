"""`OnlineTensorUCB`: the paper's tensor with a logistic likelihood, learned sample by sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorucb import learner
from tensorucb.arrays import F64, Vectors
from tensorucb.checks import check_choice, check_count, check_number
from tensorucb.learner import TensorSettings, TensorState
from tensorucb.policies._base import EXPLORATION_KINDS
from tensorucb.policies._tensor import TensorPolicy
from tensorucb.policies.prediction import Prediction

_FLAT_SCALE = 0.1


class OnlineTensorUCB(TensorPolicy):
    """Contextual influence maximisation by online tensor regression, in the form that works best for us.

    The paper's tensor, but with a logistic likelihood under a tight prior, a constant 1 appended to the features of
    every mode, so that the tensor holds main and pair effects as well, and a shrunken intercept for each source and
    each target. Prior means are small random numbers, except that the constants of the first rank multiply to
    ``base_logit``, so that every edge begins near one score. User features are divided by one factor, which makes the
    root mean square of their norms 1; products are taken as they come. `PaperTensorUCB` is the paper to the letter.

    Parameters
    ----------
    rank, exploration
        R, the number of CP components, and c, the factor of the confidence bonus (Eq. CB_ij).
    exploration_kind
        ``"ucb"``. ``"thompson"``: one W drawn from the posterior, again for each round told and each product.
        ``"greedy"``: no exploration.
    prior_variance, intercept_variance
        Prior variance of a coefficient, and of an intercept.
    base_logit
        Score of every edge at the start; −3 is a probability of 4.7 %.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.policies import OnlineTensorUCB
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> policy = OnlineTensorUCB(rank=3)
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.update(box.products[0], [0, 1, 2], [1, 0, 0])
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    name = "OnlineTensorUCB"

    def __init__(
        self,
        rank: int = 10,
        exploration: float = 0.1,
        *,
        exploration_kind: str = "ucb",
        prior_variance: float = 0.1,
        base_logit: float = -3.0,
        intercept_variance: float = 0.3,
    ) -> None:
        self.rank = check_count("rank", rank, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.exploration_kind = check_choice("exploration_kind", exploration_kind, EXPLORATION_KINDS)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.base_logit = check_number("base_logit", base_logit, low=-700.0, high=700.0)
        self.intercept_variance = check_number("intercept_variance", intercept_variance, strict=True)

    def _prepared(self, users: F64) -> F64:
        norms = np.sqrt(np.einsum("ni,ni->n", users, users))
        return self._mode(users * (1.0 / np.sqrt(np.mean(norms**2))) if norms.any() else users)

    def _mode(self, rows: F64) -> F64:
        return np.hstack([rows, np.ones((len(rows), 1))])

    def _model(self, dims: tuple[int, ...]) -> TensorSettings:
        n, d = self.users.shape
        return TensorSettings.build(
            (d + 1, d + 1, *(size + 1 for size in dims)),
            self.rank,
            likelihood="logistic",
            prior_variance=self.prior_variance,
            intercepts=(n, n),
            intercept_variance=self.intercept_variance,
        )

    def _begin(self, model: TensorSettings, generator: np.random.Generator) -> TensorState:
        means = [generator.normal(0.0, _FLAT_SCALE, (model.rank, d)) for d in model.dims]
        for mode, w in enumerate(means):
            w[0] *= 0.3
            w[0, -1] = self.base_logit if mode == 2 else 1.0
        return learner.init(model, means)

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """With the bonus, or by one W drawn from the posterior."""
        if self.exploration_kind != "thompson":
            return super().optimistic(prediction, modes)
        model, state = self._model(tuple(mode.size for mode in modes)), self._known(modes)
        draw = learner.sample(model, state, self._generator("thompson", modes))
        drawn = replace(state, means=draw.means, intercept_means=draw.intercepts)
        return self.predict(drawn, modes).probabilities()
