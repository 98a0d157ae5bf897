"""`TensorUCB`: our default policy, a hierarchical logistic model with optimism about sources."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_count, check_number
from tensorucb.errors import InputError
from tensorucb.features import UserProfile, degree_features
from tensorucb.graph import Graph
from tensorucb.learner import response
from tensorucb.policies._base import EXPLORATION_KINDS, UCBPolicy, setting
from tensorucb.policies.paper_tensor_ucb import PaperTensorUCB
from tensorucb.policies.prediction import LEVELS, ROUNDS, Prediction
from tensorucb.rng import RngLike
from tensorucb.threads import single_threaded_blas

_TOO_LARGE = (
    "the features of a product (or strategy) are more than ten times as long as is usual in this campaign; they count "
    "as if they were ten times as long. Features of similar size for all products are learned best."
)
_WORSE = (
    "the imported history predicts the responses to this campaign's rounds worse than no history does, so it is left "
    "out of the model. Later rounds may bring it back."
)
# Prior variance of a base rate that comes from the past: responses to a contact may be four times as many, or as few.
_PAST_VARIANCE = 2.0
# A change of who matters: the last rounds alone are fitted too, every fourth round. If they predict new rounds better
# than the whole log does, in six rounds by four standard errors and six nats, all that is older is forgotten.
_RECENT, _EVERY = 10, 4
_JUDGED = 6
_ERRORS = 4.0
_NATS = 6.0
# History counts less than contacts: the weight among these with which it best predicts the newest contacts, looked at
# again whenever their number has doubled; the second one until there are five.
_WEIGHTS = (1.0, 0.3, 0.1, 0.0)
_JUDGED_AT = (5, 10, 20, 40, 80, 160)


@dataclass(frozen=True)
class _State:
    """The rounds told and not forgotten, and what they say; what the most recent ones alone say, and how well."""

    rounds: int = 0
    begin: int = 0  # rounds before this one are forgotten
    log: response.Log = ()
    fitted: response.Fitted | None = None
    fitted_rounds: int = 0
    fitted_weight: float = 1.0  # of passive rounds, in that fit
    recent: response.Fitted | None = None
    recent_rounds: int = 0
    passive_weight: float = _WEIGHTS[1]
    evidence: F64 = field(default_factory=lambda: np.empty(0))  # how much better the recent rounds predicted new ones

    @property
    def recent_log(self) -> response.Log:
        """The rounds that ``recent`` is fitted to."""
        last = len(self.log) - (self.rounds - self.recent_rounds)
        return self.log[last - _RECENT : last] if self.recent_rounds and last >= _RECENT else ()


@dataclass(eq=False, repr=False)
class TensorUCB(UCBPolicy):
    """Our default policy: a hierarchical logistic model of who responds to which user; it has no tensor rank.

    Of the paper it keeps the context of several feature vectors (modes), the posterior, the upper confidence bound, the
    oracle and Algorithm 1. The paper's CP tensor is `TensorUCB.paper` (`PaperTensorUCB`), as published or with a
    logistic likelihood.

    ``logit p_tij(x) = θ·x_i + d_i·(1, x) + u_t + γ·(t_j, taste_j(x)) + a_j + b_j + log(1 + r(1 − q)(m_tj − 1))``: what
    the context x (product, strategy, …) and a source's features predict, and each source's own effect and response
    beyond that; what is particular to the round; the target's features, taste, past activity and own readiness; and
    what it changes that the target follows m contacted users. ``docs/model.md`` explains the model, and how it is
    learned, on one page.

    Seeds are chosen by the total response of a source to the context, so exploration is about sources: the deviation of
    a source's logit, times ``exploration``, is added to the logits of its out-edges. The oracle is told how far a
    second contact of the same follower brings nothing new.

    What is known is a function of the rounds told, whatever their order. All of them are fitted again when their number
    has grown by a tenth; between two fits the rounds are only kept.

    Users are an (n, d) array, or a `UserProfile` with the past by topic, whose k must be the size of the context's
    first vector: past influence and taste for the product then count from the first round on. Degrees are added. A
    profile's coordinates in the network are left out.

    Parameters
    ----------
    rank
        Largest number of weights of an interaction between two modes of the context; a larger interaction is learned
        in a basis of ``rank`` contexts.
    exploration
        c, the number of standard deviations added.
    exploration_kind
        ``"ucb"``. ``"thompson"``: c deviations times a normal draw for each source, drawn again for each round told and
        each product. ``"greedy"``: no exploration.
    base_logit
        Logit of an edge at the start; −3 is a probability of 4.7 %. By default it comes from the past, if the profile
        says how often followers acted when they could: averaged over rounds they then respond as often, and a second
        contact adds little, until responses say more. Otherwise it is −3, with a wider prior.
    max_rows
        Observed edges kept for fits. Of more, half of the zeros of the oldest rounds are dropped and the rest count
        twice, so that time and memory per round stay bounded.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorucb as tu
    >>> from tensorucb.data import make_sandbox
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> policy = tu.TensorUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> edges = box.graph.out_edges(np.array([3, 7]))
    >>> policy.update(box.products[0], edges, np.zeros(edges.size))
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    name = "TensorUCB"
    needs_users = True
    uses_product = True
    uses_strategies = True
    shares_parameters = True
    knows_redundancy: ClassVar[bool] = True
    weighs_history: ClassVar[bool] = True
    paper = PaperTensorUCB

    rank: int = setting(100, check_count, 1, 1000)
    exploration: float = setting(0.5, check_number)
    _: KW_ONLY
    exploration_kind: str = setting("ucb", check_choice, EXPLORATION_KINDS)
    base_logit: float | None = setting(None, check_number, low=-30.0, high=30.0)
    max_rows: int = setting(400_000, check_count)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features or a `UserProfile`, and a seed."""
        super().bind(graph, users, rng)
        profile = users if isinstance(users, UserProfile) else UserProfile(self.users)
        columns = np.hstack([degree_features(graph), profile.features])
        self._nodes = response.node_features(columns, profile.taste, profile.credit, profile.exposure)
        self._profile = None if profile.k is None else profile
        self._settings = response.ResponseSettings(rank=self.rank, max_rows=self.max_rows, **self._base(profile))

    def _base(self, profile: UserProfile) -> dict[str, Any]:
        """Mean and variance of the base rate's prior, and what is believed of several contacts of one user."""
        if self.base_logit is not None:
            return {"base_logit": self.base_logit}
        rates = profile.rates()
        if rates is None or not self.graph.n_edges:
            return {}
        # How often a follower acted, whoever it follows: so a second contact adds little, until responses say more. If
        # it added nothing at all, the last seeds of a small network would be those whose followers nobody else has.
        rate = float(np.clip(rates[self.graph.targets].mean(), 1e-4, 0.5))
        base = self._base_logit_for(rate)
        return {"base_logit": base, "base_variance": _PAST_VARIANCE, "redundancy": 1.0, "saturation": 0.8}

    def _base_logit_for(self, rate: float) -> float:
        """The base logit with which followers respond at this rate, averaged over them and over rounds."""
        readiness, place = np.unique(self._nodes.readiness.round(2), return_inverse=True)
        followers = np.bincount(place, self.graph.in_degree, readiness.size) / self.graph.n_edges
        level = math.sqrt(response.ResponseSettings().round_variance)
        logits = readiness + level * LEVELS[:, None]
        low, high = -30.0, 30.0
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            expected = float(ROUNDS @ (0.5 * (1.0 + np.tanh(0.5 * (middle + logits)))) @ followers)
            low, high = (low, middle) if expected > rate else (middle, high)
        return low

    def initial(self, dims: tuple[int, ...]) -> _State:
        """No round."""
        return _State()

    def learn(self, state: _State, modes: Vectors, edges: I64, outcomes: F64, passive: bool = False) -> _State:
        """One more round in the log, and a fit if there are enough new ones."""
        rounds = state.rounds + 1
        dims = tuple(mode.size for mode in modes)
        record = response.told(self.graph, self._nodes, np.concatenate(modes), edges, outcomes, rounds, passive)
        log = response.with_round(state.log, record, self.max_rows)
        evidence = self._compared(state, record)
        if _is_change(evidence):
            log = log[-_RECENT:]
            return _State(rounds, rounds - len(log), log, self._fit(dims, log), rounds)
        weight = state.passive_weight if passive else self._weight(dims, log, state.passive_weight)
        thinned = log[: len(state.log)] != state.log
        fitted_to = state.recent_log
        state = replace(state, rounds=rounds, log=log, evidence=evidence, passive_weight=weight)
        if state.recent_log != fitted_to:
            # A fit must be of rounds that are still there, since it is not saved.
            state = replace(state, recent=None, recent_rounds=0)
        age = rounds - state.begin
        if thinned or age >= math.ceil(self._settings.growth * (state.fitted_rounds - state.begin)):
            state = replace(state, fitted=self._fit(dims, log, weight), fitted_rounds=rounds, fitted_weight=weight)
        judged = age >= 2 * _RECENT and len(log) >= _RECENT and not passive
        if judged and rounds >= state.recent_rounds + _EVERY:
            state = replace(state, recent=self._fit(dims, log[-_RECENT:]), recent_rounds=rounds)
        return state

    def _weight(self, dims: tuple[int, ...], log: response.Log, weight: float) -> float:
        """The weight of history with which it predicts the newest contacts best; looked at now and then."""
        contacts = [r for r in log if not r.passive]
        if len(contacts) == len(log) or len(contacts) not in _JUDGED_AT:
            return weight
        newest = contacts[-min(10, max(2, len(contacts) // 3)) :]
        older = tuple(r for r in log if r not in newest)

        def value(candidate: float) -> float:
            fitted = self._fit(dims, older, candidate)
            return sum(response.log_likelihood(self._nodes, fitted, r) for r in newest)

        best = max(_WEIGHTS, key=value)
        if best == 0.0 != weight:
            warnings.warn(_WORSE, UserWarning, stacklevel=4)
        return best

    def _compared(self, state: _State, record: response.LoggedRound) -> F64:
        """The evidence with one more round, before it is learned."""
        if state.recent is None or state.fitted is None:
            return state.evidence
        with single_threaded_blas():
            recent, whole = (response.log_likelihood(self._nodes, f, record) for f in (state.recent, state.fitted))
        return np.append(state.evidence, recent - whole)[-_JUDGED:]

    def predict(self, state: _State, modes: Vectors) -> Prediction:
        """The logit of each source and of each target, and the deviation of the source's."""
        vectors = np.concatenate(modes)
        dims = tuple(mode.size for mode in modes)
        with single_threaded_blas():
            fitted = state.fitted or response.fit(self._settings, self._nodes, dims, (), like=vectors)
            if fitted.context.too_large(vectors[None]):
                warnings.warn(_TOO_LARGE, UserWarning, stacklevel=4)
            logits = response.node_logits(self._nodes, fitted, fitted.context.scaled(vectors[None])[0])
        return Prediction(self.graph, **logits._asdict(), link="logit", redundancy=fitted.overlap)

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """With the bonus, as far as responses tell sources apart.

        If one answer is told to all who contacted a user, only the largest probability counts, and a bonus of each
        source would mostly pick whose bonus is largest.
        """
        if prediction.deviation is None:
            return prediction.probabilities()
        told_apart = (1.0 - prediction.redundancy) * prediction.deviation
        return super().optimistic(replace(prediction, deviation=told_apart), modes)

    def _fit(self, dims: tuple[int, ...], log: response.Log, passive_weight: float = 1.0) -> response.Fitted:
        if passive_weight == 0.0:
            log = tuple(r for r in log if not r.passive)
        with single_threaded_blas():
            return response.fit(self._settings, self._nodes, dims, log, passive_weight)

    def to_arrays(self, state: _State) -> Arrays:
        """The log alone: what it says is found again by a fit."""
        counters = [state.rounds, state.begin, state.fitted_rounds, state.recent_rounds]
        arrays: Arrays = {
            "counters": np.array(counters, dtype=np.int64),
            "passive_weights": np.array([state.passive_weight, state.fitted_weight]),
            "evidence": state.evidence,
        }
        return arrays | response.log_to_arrays(state.log, sum(self._dims or ()))

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> _State:
        """The log, and fits to the rounds that were fitted."""
        expected: Arrays = {"counters": np.zeros(4, dtype=np.int64), "passive_weights": np.zeros(2)}
        # Any number of rounds and of rows.
        for name, array in {"evidence": np.empty(0), **response.log_to_arrays((), sum(dims))}.items():
            length = np.shape(arrays.get(name, ()))[:1]
            expected[name] = np.empty((*length, *array.shape[1:]), dtype=array.dtype)
        saved = self._matching(expected, arrays)
        log = response.log_from_arrays(saved, self.graph, self._nodes, sum(dims))
        rounds, begin, fitted_rounds, recent_rounds = saved["counters"].tolist()
        whole = len(log) - (rounds - fitted_rounds)
        last = len(log) - (rounds - recent_rounds)
        sound = 0 <= whole <= len(log) <= rounds - begin <= rounds and (whole == 0) == (rounds == 0)
        if not sound or (recent_rounds and not _RECENT <= last <= len(log)) or saved["evidence"].size > _JUDGED:
            raise InputError(f"the state of {self.name} is malformed: {len(log)} rounds do not fit its counters.")
        weight, fitted_weight = saved["passive_weights"].tolist()
        if weight not in _WEIGHTS or fitted_weight not in _WEIGHTS:
            raise InputError(f"the state of {self.name} is malformed: {weight} is no weight of history.")
        return _State(
            rounds=rounds,
            begin=begin,
            log=log,
            fitted=self._fit(dims, log[:whole], fitted_weight) if log else None,
            fitted_rounds=fitted_rounds,
            fitted_weight=fitted_weight,
            recent=self._fit(dims, log[last - _RECENT : last]) if recent_rounds else None,
            recent_rounds=recent_rounds,
            passive_weight=weight,
            evidence=saved["evidence"],
        )


def _is_change(evidence: F64) -> bool:
    """Whether the recent rounds alone predict new ones clearly better than all rounds do."""
    if evidence.size < _JUDGED:
        return False
    error = float(evidence.std(ddof=1)) / math.sqrt(_JUDGED)
    return bool(evidence.sum() > _NATS and evidence.mean() > _ERRORS * error)
