"""`TensorRegression`: the online variational tensor model behind one small class."""

from __future__ import annotations

import os
from collections.abc import Sequence

from numpy.typing import ArrayLike

from tensorucb.arrays import F64
from tensorucb.checks import check_path, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import read_state, write_state
from tensorucb.learner import _posterior
from tensorucb.learner._posterior import Features, Groups, PosteriorDraw, UpdateReport
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import init as start
from tensorucb.learner._state import state_from_arrays, state_to_arrays
from tensorucb.rng import RngLike

_KIND = "tensor_regression"


class TensorRegression:
    """Online variational tensor regression of any order (the paper's section 4).

    The response score is ``u = Σ_r Π_l φ_lᵀ w^{l,r}``; the posterior of each ``w^{l,r}`` is Gaussian and is updated
    sample by sample, which costs O(R·D·d²). The posterior is factorised over modes and ranks and second moments are
    mean-field, as in the paper.

    Parameters
    ----------
    dims
        Dimension d_l of each mode; their number is D ≥ 1.
    rank
        R, the number of CP components.
    likelihood
        ``"gaussian"`` (the paper), or ``"logistic"`` for outcomes in [0, 1]: the Jaakkola–Jordan bound, refreshed in
        every sweep with ψ² = E[u²].
    noise_variance, prior_variance
        σ² of the Gaussian likelihood, and the prior variance of every coefficient (one number, or one per mode).
    forgetting
        λ in (0, 1]. Before each sample but the first, Σ ← λΣ + (1−λ)Σ₀ and w̄ ← w₀ + √λ(w̄ − w₀): the exact
        prediction step of coefficients that drift around their prior. An intercept forgets at its own samples only.
    init
        ``"random"``: prior means drawn from N(0, 0.3²), so that ranks differ and w = 0, where every gradient vanishes,
        is left behind. ``"ones"``: prior means of ones. ``"paper"``: to its letter, the first iterate is ones while
        the prior mean is zero; for D ≥ 2 a first outcome of 0 then leads to w̄ = 0, which nothing leaves.
        Or one ``(R, d_l)`` array of prior means per mode.
    intercepts, intercept_variance
        Sizes of groups of shrunken intercepts, such as ``(n_nodes, n_nodes)`` for sources and targets; each sample
        then names its member of every group. Their prior means are zero.
    tolerance, max_sweeps
        A sample's sweeps end when no φᵀw̄, intercept or ω moves by more than ``tolerance`` (relative to one plus its
        size); ``last_update.unconverged`` counts the samples which ``max_sweeps`` ended.
    rng
        Seed or generator of ``init="random"``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.learner import TensorRegression
    >>> learner = TensorRegression(dims=(2, 3), rank=2, rng=0)
    >>> learner.update([np.ones((4, 2)), np.ones((4, 3))], [1.0, 1.0, 1.0, 1.0])
    >>> mean, variance = learner.predict([np.ones((1, 2)), np.ones((1, 3))])
    >>> bool(abs(mean[0] - 1.0) < 0.1)
    True
    """

    def __init__(
        self,
        dims: Sequence[int],
        rank: int,
        *,
        likelihood: str = "gaussian",
        noise_variance: float = 0.1,
        prior_variance: float | Sequence[float] = 1.0,
        forgetting: float = 1.0,
        init: str | Sequence[ArrayLike] = "random",
        intercepts: Sequence[int] = (),
        intercept_variance: float = 0.3,
        tolerance: float = 1e-8,
        max_sweeps: int = 100,
        rng: RngLike = None,
    ) -> None:
        self.settings = TensorSettings.build(
            dims,
            rank,
            likelihood=likelihood,
            noise_variance=noise_variance,
            prior_variance=prior_variance,
            forgetting=forgetting,
            intercepts=intercepts,
            intercept_variance=intercept_variance,
            tolerance=tolerance,
            max_sweeps=max_sweeps,
        )
        self.state = start(self.settings, init, rng=rng)
        self.last_update = UpdateReport()

    def update(self, features: Features, y: ArrayLike, groups: Groups = None) -> None:
        """Learn samples in order, each exactly once; on bad input nothing is learned.

        Parameters
        ----------
        features
            φ_l: one ``(N, d_l)`` array per mode.
        y
            ``(N,)`` outcomes.
        groups
            With ``intercepts``: one array of ``N`` members per group.
        """
        self.state, self.last_update = _posterior.update(self.settings, self.state, features, y, groups)

    def predict(self, features: Features, groups: Groups = None) -> tuple[F64, F64]:
        """Predictive mean ū and variance s̄² of each row (Eq. predictive_mean_variance).

        The Gaussian variance includes σ². For the logistic likelihood both are those of the latent score u, whose
        sigmoid is the probability; there is no σ² to add.
        """
        return _posterior.predict(self.settings, self.state, features, groups)

    def bonus(self, features: Features, groups: Groups = None) -> F64:
        """The confidence bonus of Eq. CB_ij without its factor c."""
        return _posterior.bonus(self.settings, self.state, features, groups)

    def sample(self, rng: RngLike = None) -> PosteriorDraw:
        """One W drawn from the posterior (Thompson sampling), with its own ``score(features)``."""
        return _posterior.sample(self.settings, self.state, rng)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and state to a file of arrays and JSON."""
        file = check_path("path", path)
        try:
            write_state(file, _KIND, self.settings.as_json(), state_to_arrays(self.state))
        except OSError as error:
            raise FileFormatError(
                f"cannot write {shown_path(file)}: {error.strerror or error}. Save to a path that may be written."
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TensorRegression:
        """The learner that :meth:`save` wrote, bit for bit."""
        values, arrays = read_state(check_path("path", path), _KIND)
        try:
            settings = TensorSettings.from_json(values)
        except (InputError, KeyError, TypeError) as error:
            raise FileFormatError(f"{shown_path(path)} holds no valid learner settings: {error}") from error
        learner = cls.__new__(cls)
        learner.settings, learner.last_update = settings, UpdateReport()
        learner.state = state_from_arrays(settings, arrays)
        return learner
