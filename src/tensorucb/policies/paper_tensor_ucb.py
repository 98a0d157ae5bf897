"""`PaperTensorUCB`: the paper's Algorithm 1."""

from __future__ import annotations

import numpy as np

from tensorucb import learner
from tensorucb.checks import check_choice, check_count, check_number
from tensorucb.learner import TensorSettings, TensorState
from tensorucb.policies._tensor import TensorPolicy


class PaperTensorUCB(TensorPolicy):
    """The paper's Algorithm 1: Gaussian, factorised, mean field, w̄ = ones and Σ = I at the start, UCB.

    `TensorUCB.paper` returns it. Where it departs from the paper's text, or the text leaves a choice:

    - *Start of p.* The paper draws the first round's probabilities at random. Here they come from the model's start
      like all others, so that all edges with the same features are equal.
    - *Current product.* The paper computes the probabilities at the end of a round, with that round's product, and
      uses them for the next one. Here a round is scored with its own product.
    - *Start of b.* Algorithm 1 initialises Σ and w̄ and leaves b open. ``init="ones"`` takes the b that Eq.
      muOnline ties to them, σ²Σ⁻¹w̄: the ones are the prior mean. ``init="paper"`` takes b = 0, the zero-mean prior
      of Eq. obs_prior; then the fixed point of a first outcome of 0 is w̄ = 0, where every later update and the
      bonus vanish, and all edges stay at 0.5 for good.
    - *Fixed point.* "Until convergence" ends when nothing moves by more than 1e-8, or after 100 sweeps; then a
      `FixedPointWarning` says so. Every sweep begins from the state before the outcome, so that it counts once.
    - *A3.* Theorem 1 assumes ‖βφ‖ ≤ 1 in every update. Features are taken as they come and β is not bounded, so
      this may fail (``docs/results.md`` says how often).
    - *Oracle.* It is the caller's; the paper's TIM+ is ``algorithm="tim"``.

    Parameters
    ----------
    rank, exploration, noise_variance
        R, the number of CP components; c, the factor of the confidence bonus (Eq. CB_ij); σ².
    init
        ``"ones"`` or ``"paper"``, as above.
    projection
        proj of Eq. CB_ij: ``"sigmoid"``, as in the paper, or ``"clip"`` to [0, 1].

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.TensorUCB.paper(rank=2).name
    'TensorUCB (paper)'
    """

    name = "TensorUCB (paper)"

    def __init__(
        self,
        rank: int = 10,
        exploration: float = 0.1,
        *,
        noise_variance: float = 0.1,
        init: str = "ones",
        projection: str = "sigmoid",
    ) -> None:
        self.rank = check_count("rank", rank, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.init = check_choice("init", init, ("ones", "paper"))
        self.projection = check_choice("projection", projection, ("sigmoid", "clip"))

    def _model(self, dims: tuple[int, ...]) -> TensorSettings:
        d = self.users.shape[1]
        return TensorSettings.build((d, d, *dims), self.rank, noise_variance=self.noise_variance)

    def _begin(self, model: TensorSettings, generator: np.random.Generator) -> TensorState:
        return learner.init(model, self.init)
