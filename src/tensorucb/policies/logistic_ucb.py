"""`LogisticUCB`: logistic regression on main effects, refitted to the log (after Filippi et al. 2010)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_flag, check_number
from tensorucb.errors import InputError
from tensorucb.policies._base import EXPLORATIONS, Grid
from tensorucb.policies.linear import FeaturePolicy, covariance_of
from tensorucb.policies.prediction import Prediction
from tensorucb.threads import single_threaded_blas

# The base rate is soon known from the data, so its prior is wide.
_CONSTANT_VARIANCE = 4.0
# Refit when the number of rows has grown by this factor: the time for all refits stays near that of the last one.
_GROWTH = 1.15
_STEPS, _TOLERANCE = 30, 1e-10


class LogisticUCB(FeaturePolicy):
    """Logistic regression on ``x = (x_i, x_j, z, …, 1)``, the features of `LinUCB`, and optimism in the logit.

    ``θ`` maximises ``Σ [y x·θ − log(1 + exp x·θ)] − ½(θ − μ)ᵀΛ(θ − μ)`` by Newton's method. At the maximum the Laplace
    covariance is ``P = (Λ + Σ p(1 − p) x xᵀ)⁻¹``, and ``p_ij = 1/(1 + exp(−x·θ − c√(xᵀPx)))``. Each round is learned
    with the last posterior as its prior; whenever the log has grown by 15 %, all of it is fitted again.

    Published: GLM-UCB, with the same model on fixed features. Added: a Gaussian prior around a base rate, and from a
    `UserProfile` the past influence and taste of source and target for this very product (`UserProfile.matched`).

    Parameters
    ----------
    exploration
        c, the number of standard deviations added to a logit.
    prior_variance
        Prior variance of every weight but the constant's.
    base_logit
        Prior mean of the constant: the logit of every edge at the start; −3 is a probability of 4.7 %.
    max_rows
        Observed edges kept for refits. Of more, the older half becomes part of the prior (by its Laplace
        approximation), so that time and memory per round stay bounded.
    matched
        False: of a `UserProfile`, use the flat matrix.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import LogisticUCB
    >>> policy = LogisticUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    name = "LogisticUCB"
    uses_product = True
    uses_strategies = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        prior_variance: float = 0.1,
        base_logit: float = -3.0,
        max_rows: int = 200_000,
        matched: bool = True,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.base_logit = check_number("base_logit", base_logit, low=-30.0, high=30.0)
        self.max_rows = check_count("max_rows", max_rows, 1)
        self.matched = check_flag("matched", matched)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """θ and its precision; μ and Λ, what is known apart from the log; and the log."""
        mean = np.zeros(self._n_effects(dims))
        mean[-1] = self.base_logit
        precision = np.diag(np.append(np.full(mean.size - 1, 1.0 / self.prior_variance), 1.0 / _CONSTANT_VARIANCE))
        return {
            "theta": mean,
            "precision": precision,
            "prior_mean": mean.copy(),
            "prior_precision": precision.copy(),
            "fitted_rows": np.zeros(1, dtype=np.int64),
            "edges": np.empty(0, dtype=np.int64),
            "outcomes": np.empty(0),
            "products": np.empty((0, sum(dims))),
            "product_of": np.empty(0, dtype=np.int64),
        }

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One Newton fit with the last posterior as the prior; all of the log again if it has grown by 15 %."""
        with single_threaded_blas():
            rows = self._effects(modes, edges)
            theta, precision = posterior_mode(rows, outcomes, state["theta"], state["precision"])
            state = self._with_round({**state, "theta": theta, "precision": precision}, modes, edges, outcomes)
            due = state["edges"].size >= _GROWTH * state["fitted_rows"][0]
            return self._refitted(state, tuple(mode.size for mode in modes)) if due else state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x·θ`` and ``√(xᵀPx)``."""
        with single_threaded_blas():
            covariance = covariance_of(state["precision"])
        return Prediction(self.graph, *self._moments(modes, state["theta"], covariance), link="logit")

    def _with_round(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """The log with one more round; a product is stored once."""
        product = np.concatenate(modes)
        stored = np.flatnonzero((state["products"] == product).all(axis=1))
        products = state["products"] if stored.size else np.vstack([state["products"], product])
        number = stored[0] if stored.size else len(products) - 1
        return {
            **state,
            "edges": np.append(state["edges"], edges),
            "outcomes": np.append(state["outcomes"], outcomes),
            "products": products,
            "product_of": np.append(state["product_of"], np.full(edges.size, number)),
        }

    def _refitted(self, state: Arrays, dims: tuple[int, ...]) -> Arrays:
        """All rows of the log fitted again; of too many, the older half becomes part of the prior."""
        rows = np.empty((state["edges"].size, state["theta"].size))
        for number, product in enumerate(state["products"]):
            here = np.flatnonzero(state["product_of"] == number)
            rows[here] = self._effects(tuple(np.split(product, np.cumsum(dims)[:-1])), state["edges"][here])
        mean, prior = state["prior_mean"], state["prior_precision"]
        theta, precision = posterior_mode(rows, state["outcomes"], mean, prior, state["theta"])
        state = {**state, "theta": theta, "precision": precision}
        if len(rows) > self.max_rows:
            old = slice(0, len(rows) - self.max_rows // 2)
            slope, curvature = derivatives(rows[old], state["outcomes"][old], theta, mean, prior)
            # One Newton step from θ: the maximum of the old rows' quadratic approximation.
            state["prior_mean"] = theta + covariance_of(curvature) @ slope
            state["prior_precision"] = curvature
            for name in ("edges", "outcomes", "product_of"):
                state[name] = state[name][old.stop :].copy()
            used, state["product_of"] = np.unique(state["product_of"], return_inverse=True)
            state["products"] = state["products"][used]
        return {**state, "fitted_rows": np.array([state["edges"].size], dtype=np.int64)}

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        """The state, whose log may have any length."""
        expected = self.initial(dims)
        rows, products = (len(np.atleast_1d(arrays.get(name, ()))) for name in ("edges", "products"))
        for name in ("edges", "outcomes", "product_of"):
            expected[name] = np.resize(expected[name], rows)
        expected["products"] = np.resize(expected["products"], (products, expected["products"].shape[1]))
        state = self._matching(expected, arrays)
        for name, limit in (("edges", self.graph.n_edges), ("product_of", products)):
            if state[name].size and not 0 <= state[name].min() <= state[name].max() < limit:
                raise InputError(f"the state of {self.name} is malformed: {name} must lie in 0..{limit - 1}.")
        return state


def derivatives(rows: F64, outcomes: F64, theta: F64, mean: F64, precision: F64) -> tuple[F64, F64]:
    """Gradient and negative Hessian of the log posterior at θ."""
    p = expit(rows @ theta)
    slope = rows.T @ (outcomes - p) - precision @ (theta - mean)
    return slope, precision + (rows.T * (p * (1.0 - p))) @ rows


def posterior_mode(rows: F64, outcomes: F64, mean: F64, precision: F64, start: F64 | None = None) -> tuple[F64, F64]:
    """The mode of the posterior under the prior N(mean, precision⁻¹), and the precision there."""

    def value(at: F64) -> float:
        logits, apart = rows @ at, at - mean
        return float(outcomes @ logits - np.logaddexp(0.0, logits).sum() - 0.5 * apart @ precision @ apart)

    theta = mean if start is None else start
    best = value(theta)
    for _ in range(_STEPS):
        slope, curvature = derivatives(rows, outcomes, theta, mean, precision)
        step = covariance_of(curvature) @ slope
        close = slope @ step <= _TOLERANCE * max(1.0, abs(best))
        # A full step may overshoot; a small enough one never does. Close to the maximum there is only rounding.
        while not close and (reached := value(theta + step)) < best:
            step /= 2.0
        theta = theta + step
        if close:
            break
        best = reached
    return theta, derivatives(rows, outcomes, theta, mean, precision)[1]
