"""How many followers will respond: a policy's forecast, corrected by what its earlier forecasts were worth.

A policy's probabilities are beliefs. They may be off by a factor (the base rate is unknown at the start, followers who
respond to anybody are counted once for each contacted user, the best looking users are chosen), they know nothing of
how popular this very product will be, and they are worth less for users never contacted. The campaign sees all of that
in its closed rounds, for any policy, so it learns the correction from there:

    log(y + 1/2) = b · (1, log(m/A + 0.01) + 3, x, log A − 6) + u_product + e,     y ~ Binomial(A, ·)

Glossary: y responders of a round, A its audience (followers of the contacted who were not contacted), m the policy's
expectation of y, x the share of m that comes from users not contacted before, b the correction with a Gaussian prior,
u_product + e ~ N(0, s²) what is particular to the product and to the round, s = σ(1 + κx). The weights of a grid of
(σ, κ) are learned with b; older rounds count less, since the policy goes on learning.

No model is right for every campaign. So the level at which the interval is taken follows the intervals shown so far:
after a miss it grows, after a hit it shrinks a little, which brings the share of hits to the promised one in the long
run whatever the network does (Gibbs and Candès 2021, adaptive conformal inference).

The prior was set on generated worlds, and on items of two logs that the reported coverage does not use (see
docs/uncertainty.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as pairs

import numpy as np

from tensorucb.arrays import F64
from tensorucb.threads import single_threaded_blas

_MEANS = np.array([2.4, 0.7, 0.0, 1.0])  # of b: forecasts tend to be too large, and large ones more so
_DEVIATIONS = np.array([1.0, 0.4, 0.5, 0.3])
_SIGMAS = np.array([0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9, 1.35, 2.0])
_KAPPAS = np.array([0.0, 0.7, 1.5])
_USUAL_SIGMA, _SIGMA_SPREAD = 0.35, 0.8
_OF_PRODUCT = 0.3  # share of s² that stays with the product
_DISCOUNT = 0.99
_STEP, _LEAST_MISS, _MOST_MISS = 0.04, 0.02, 0.3
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_HALF = 0.5
_LEAST_RATE = 0.01  # some policies begin with a forecast of nothing


@dataclass(frozen=True)
class Forecast:
    """What a policy expects of a round: responders (m), their audience (A), and the share from untried users (x)."""

    expected: float
    audience: int
    untried: float

    def features(self) -> list[float]:
        """The regressors of the correction."""
        rate = self.expected / self.audience + _LEAST_RATE
        return [1.0, np.log(rate) + 3.0, self.untried, np.log(self.audience) - 6.0]


@dataclass(frozen=True)
class Outcome:
    """A closed round: the forecast, the product, how many responded, and whether the interval shown held that.

    ``covered`` is None where the interval was about something else: a cascade, or a choice that was not contacted.
    """

    forecast: Forecast
    product: str
    responders: int
    covered: bool | None = None


@dataclass(frozen=True)
class Predictive:
    """The distribution of the number of responders: a mixture of binomials with these weights and expected counts.

    ``audience`` is the largest possible number.
    """

    weights: F64
    counts: F64
    audience: int

    @property
    def mean(self) -> float:
        """Expected number of responders."""
        return float(self.weights @ self.counts)

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval that holds the number with probability ``level`` or a little more."""
        return self._quantile((1.0 - level) / 2.0), self._quantile((1.0 + level) / 2.0)

    def quantiles(self, parts: int) -> F64:
        """Expected counts in the middle of each of ``parts`` equally probable parts."""
        order = np.argsort(self.counts, kind="stable")
        share = np.cumsum(self.weights[order])
        at = np.searchsorted(share, (np.arange(parts) + 0.5) / parts)
        return self.counts[order][np.minimum(at, order.size - 1)]

    def _quantile(self, level: float) -> float:
        from scipy.special import bdtr

        rates = np.minimum(self.counts / self.audience, 1.0 - 1e-12)
        low, high = 0, self.audience
        while low < high:
            middle = (low + high) // 2
            if float(self.weights @ bdtr(middle, self.audience, rates)) >= level:
                high = middle
            else:
                low = middle + 1
        return float(low)


def adapted_level(past: Sequence[Outcome], level: float) -> float:
    """The level at which to take an interval so that ``level`` of them hold, given how many did so far."""
    miss = 1.0 - level
    for outcome in past:
        if outcome.covered is not None:
            miss += _STEP * (1.0 - level - (not outcome.covered))
            miss = min(max(miss, _LEAST_MISS), _MOST_MISS)
    return 1.0 - miss


def predict(past: Sequence[Outcome], forecast: Forecast, product: str) -> Predictive:
    """The number of responders to a round with this forecast, given earlier rounds, oldest first."""
    f = np.array(forecast.features())
    grid = np.array(list(pairs(_SIGMAS, _KAPPAS)))
    sigma, kappa = grid[:, 0], grid[:, 1]
    log_weight = -0.5 * (np.log(sigma / _USUAL_SIGMA) / _SIGMA_SPREAD) ** 2
    s2 = (sigma * (1.0 + kappa * forecast.untried)) ** 2
    if past:
        with single_threaded_blas():
            fit = _Fit.of(past, sigma, kappa)
        log_weight += fit.log_evidence
        mean, variance = fit.predict(f, product, s2)
    else:
        mean, variance = np.full(sigma.size, f @ _MEANS), (f * _DEVIATIONS) @ (f * _DEVIATIONS) + s2
    weight = np.exp(log_weight - log_weight.max())
    weights = np.outer(weight / weight.sum(), _WEIGHTS / _WEIGHTS.sum()).ravel()
    logs = (mean[:, None] + np.sqrt(variance)[:, None] * _NODES).ravel()
    # Beyond the audience nobody can respond; the exponential of far more than that would only overflow.
    counts = np.exp(np.minimum(logs, np.log(forecast.audience + 1.0))) - _HALF
    return Predictive(weights, np.clip(counts, 1e-9, forecast.audience), forecast.audience)


@dataclass(frozen=True)
class _Fit:
    """The posterior of b at every point g of the grid; product effects are integrated out, group by group (p).

    With R the variance of a round apart from its product's effect, and l = √(share)·s the loading of that effect, the
    covariance of a product's rounds is diag(R) + l lᵀ, inverted by the formula of Sherman and Morrison.
    """

    log_evidence: F64
    means: F64  # (g, d)
    covariances: F64  # (g, d, d)
    products: list[str]
    loads: F64  # (g, p): Σ l²/R
    features: F64  # (g, p, d): Σ l x/R
    targets: F64  # (g, p): Σ l z/R

    @classmethod
    def of(cls, past: Sequence[Outcome], sigma: F64, kappa: F64) -> _Fit:
        X = np.array([outcome.forecast.features() for outcome in past])
        y = np.array([outcome.responders for outcome in past], dtype=np.float64)
        products, group = np.unique([outcome.product for outcome in past], return_inverse=True)
        member = (group[:, None] == np.arange(products.size)).astype(np.float64)
        z, age = np.log(y + _HALF), np.arange(y.size)[::-1]
        s = sigma[:, None] * (1.0 + kappa[:, None] * X[:, 2])
        variance = (1.0 - _OF_PRODUCT) * s**2 + 1.0 / (y + _HALF)
        # A round's likelihood to a power below 1: it counts less, but does not look noisier than it was.
        power = _DISCOUNT**age
        precision, loading = power / variance, np.sqrt(_OF_PRODUCT) * s
        loaded = precision * loading
        loads, targets = (loaded * loading) @ member, (loaded * z) @ member
        features = np.stack([(loaded * column) @ member for column in X.T], axis=-1)
        shrink = 1.0 / (1.0 + loads)
        prior = np.diag(_DEVIATIONS**-2.0)
        P = prior + np.einsum("gn,ni,nj->gij", precision, X, X)
        P -= np.einsum("gp,gpi,gpj->gij", shrink, features, features)
        h = prior @ _MEANS + (precision * z) @ X - np.einsum("gp,gpi->gi", shrink * targets, features)
        covariances = np.linalg.inv(P)
        means = np.einsum("gij,gj->gi", covariances, h)
        fit = (precision * z**2).sum(axis=1) - (shrink * targets**2).sum(axis=1) - np.einsum("gi,gi->g", h, means)
        volume = (power * np.log(variance)).sum(axis=1) + np.log1p(loads).sum(axis=1) + np.linalg.slogdet(P)[1]
        return cls(-0.5 * (fit + volume), means, covariances, products.tolist(), loads, features, targets)

    def predict(self, f: F64, product: str, s2: F64) -> tuple[F64, F64]:
        """Mean and variance of log(y + 1/2); the popularity of a product that was there before is partly known."""
        if product not in self.products:
            return self.means @ f, np.einsum("i,gij,j->g", f, self.covariances, f) + s2
        p = self.products.index(product)
        known = np.sqrt(_OF_PRODUCT * s2) / (1.0 + self.loads[:, p])
        rest = f - known[:, None] * self.features[:, p]
        mean = np.einsum("gi,gi->g", rest, self.means) + known * self.targets[:, p]
        variance = np.einsum("gi,gij,gj->g", rest, self.covariances, rest)
        return mean, variance + (1.0 - _OF_PRODUCT) * s2 + known * np.sqrt(_OF_PRODUCT * s2)
