"""Every policy passes `check_policy`, and `check_policy` catches policies that misbehave."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tensorucb import policies
from tensorucb.features import UserProfile
from tensorucb.policies import Policy, PolicyState, Prediction, UCBPolicy, check_policy
from tensorucb.policies.registry import REGISTRY, make_policy

# Every registered policy, and others of their arguments that change what they do.
POLICIES = {
    **{label: partial(make_policy, label) for label in REGISTRY},
    "coin, much exploration": partial(policies.COIN, exploration=2.0),
    "imfb, few dimensions": partial(policies.IMFB, dim=3),
    "dilinucb-original, sampled": partial(policies.DILinUCBOriginal, candidates=5, max_targets=17),
    "gamma counts, drawn": partial(policies.GammaCounts, exploration_kind="thompson", exploration=1.0),
    "logistic, short memory": partial(policies.LogisticUCB, max_rows=20),
    "thompson, little exploration": partial(policies.Thompson, exploration=0.1),
}


@pytest.mark.parametrize("factory", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("modes", [1, 2])
def test_every_policy_passes(factory, modes):
    check_policy(factory, modes=modes)


@pytest.mark.parametrize("factory", [policies.LinUCB, policies.IMLinUCB, policies.DILinUCB, policies.LogisticUCB])
@pytest.mark.parametrize("modes", [1, 2])
def test_policies_on_matched_features_pass(factory, modes):
    class OnAProfile(factory):
        """Bound to a profile with a past on the world's three topics."""

        uses_product = True

        def bind(self, graph, users, rng=None):
            past = np.random.default_rng(0).random((3, len(users), 3)) if users is not None else None
            super().bind(graph, users if past is None else UserProfile(users, *past), rng)

    check_policy(OnAProfile, modes=modes)


# Not DILinUCB: its parameters belong to a source, whose out-edges are observed together.
@pytest.mark.parametrize("factory", [policies.LinUCB, policies.IMLinUCB, policies.IMFB, policies.PaperTensorUCB])
def test_models_of_features_rescore_edges_they_never_saw(factory):
    class Sharing(factory):
        shares_parameters = True

    check_policy(Sharing)


@pytest.mark.parametrize("factory", POLICIES.values(), ids=POLICIES.keys())
def test_every_candidate_of_a_tunable_argument_is_accepted(factory):
    policy = factory()
    for name, candidates in policy.tunable.items():
        assert len(candidates) > 1
        for value in candidates:
            assert type(policy)(**{**policy.settings(), name: value}).settings()[name] == value
    assert isinstance(policy, Policy)


class Constant(UCBPolicy):
    """The smallest policy: beliefs never move."""

    name = "Constant"

    def learn(self, state, modes, edges, outcomes):
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 0.5))


def test_the_smallest_policy_passes():
    check_policy(Constant)


class TooLarge(Constant):
    def optimistic(self, prediction, modes):
        return prediction.mean + 1.0


class NotFinite(Constant):
    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, np.nan))


class TooShort(Constant):
    def optimistic(self, prediction, modes):
        return prediction.mean[1:]


class TooFew(Constant):
    """One belief too few; scores are made up."""

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges - 1, 0.5))

    def update(self, product, edges, outcomes):
        super().update(product, [], [])

    def optimistic(self, prediction, modes):
        return np.full(self.graph.n_edges, 0.5)


class Overlapping(Constant):
    knows_redundancy = True

    def predict(self, state, modes):
        return super().predict(state, modes).with_redundancy(1.5)


class NoPrediction(Constant):
    def prediction(self, product):
        return super().prediction(product).expected()


class RepeatsASeed(Constant):
    def pick(self, prediction, modes, k, oracle):
        return np.zeros(k, dtype=np.int64)


class Restless(Constant):
    """Draws from a generator that no state remembers."""

    def bind(self, graph, users, rng=None):
        super().bind(graph, users, rng)
        self._rng = np.random.default_rng(self._key)

    def optimistic(self, prediction, modes):
        return self._rng.random(self.graph.n_edges)


class Unseeded(Constant):
    def predict(self, state, modes):
        return Prediction(self.graph, np.random.default_rng().random(self.graph.n_edges))


class Forgetful(Constant):
    """Learns, but leaves what it learned out of its state."""

    seen = 0

    def learn(self, state, modes, edges, outcomes):
        self.seen += edges.size
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 1.0 / (1.0 + self.seen)))


class LendsItsState(Constant):
    """Hands out its own arrays instead of copies."""

    def initial(self, dims):
        return {"seen": np.ones(1)}

    def learn(self, state, modes, edges, outcomes):
        state["seen"] += edges.size
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 1.0 / state["seen"][0]))

    def state(self):
        copied = super().state()
        return PolicyState(copied.settings, {**copied.arrays, **(self._state or {})})


class Cheat(Constant):
    def initial(self, dims):
        return {"p": np.array(self.graph.edge_attributes.get("probability", np.zeros(self.graph.n_edges)))}


class Writes(Constant):
    def learn(self, state, modes, edges, outcomes):
        outcomes += 1.0
        return state


class LearnsTheLastQuestion(Constant):
    """Takes for granted that each update is about the product it was asked for last."""

    uses_product = True
    asked = None

    def initial(self, dims):
        return {"sum": np.zeros(dims[0])}

    def pick(self, prediction, modes, k, oracle):
        self.asked = modes
        return super().pick(prediction, modes, k, oracle)

    def learn(self, state, modes, edges, outcomes):
        state["sum"] += (self.asked or modes)[0]
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 1.0 / (1.0 + float(modes[0] @ state["sum"]))))


class RescoresWhatItSaw(Constant):
    """Says that edges share parameters, but keeps one number for each edge."""

    shares_parameters = True

    def initial(self, dims):
        return {"p": np.full(self.graph.n_edges, 0.5)}

    def learn(self, state, modes, edges, outcomes):
        state["p"][edges] = outcomes
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, state["p"])


class OneRate(Constant):
    """One rate for all edges."""

    def initial(self, dims):
        return {"rate": np.full(1, 0.5)}

    def learn(self, state, modes, edges, outcomes):
        return {"rate": 0.9 * state["rate"] + 0.1 * outcomes.mean()}

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, state["rate"][0]))


class ReusesItsBuffer(OneRate):
    """Gives the same scratch array at every call."""

    def bind(self, graph, users, rng=None):
        super().bind(graph, users, rng)
        self._buffer = np.empty(graph.n_edges)

    def optimistic(self, prediction, modes):
        self._buffer[:] = prediction.mean
        return self._buffer

    def update(self, product, edges, outcomes):
        super().update(product, edges, outcomes)
        self.score(product)


class KeepsOldScores(OneRate):
    """Rescores the observed edges alone, though all share one rate."""

    def bind(self, graph, users, rng=None):
        super().bind(graph, users, rng)
        self._cached = np.full(graph.n_edges, 0.5)

    def restore(self, state):
        super().restore(state)
        self._cached[:] = 0.5 if self._state is None else self._state["rate"][0]

    def learn(self, state, modes, edges, outcomes):
        state = super().learn(state, modes, edges, outcomes)
        self._cached[edges] = state["rate"][0]
        return state

    def optimistic(self, prediction, modes):
        return self._cached.copy()


class OverwritesAtTheNextCall(ReusesItsBuffer):
    """The same, with scores that depend on the product."""

    def optimistic(self, prediction, modes):
        self._buffer[:] = modes[0][0]
        return self._buffer


class ClaimsTheProduct(Constant):
    uses_product = True


class HidesTheProduct(Constant):
    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, modes[0][0]))


class IgnoresCandidates(Constant):
    def pick(self, prediction, modes, k, oracle):
        return np.arange(k)


class NeedsFeedback(Constant):
    def update(self, product, edges, outcomes):
        np.asarray(edges)[0]
        super().update(product, edges, outcomes)


class Trusting(Constant):
    def update(self, product, edges, outcomes):
        pass


class WantsTheTruth(Constant):
    def update(self, product, edges, outcomes, truth):
        super().update(product, edges, outcomes)


class HalfPolicy:
    name = "half"

    def bind(self, graph, users, rng):
        pass


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (TooLarge, "must lie in"),
        (NotFinite, "NaN"),
        (TooShort, "one number per edge"),
        (TooFew, "one probability per edge"),
        (Overlapping, "redundancy must lie in"),
        (NoPrediction, "must give a Prediction"),
        (RepeatsASeed, "distinct"),
        (Restless, "bit for bit"),
        (Unseeded, "two runs with one seed"),
        (Forgetful, "start again"),
        (LendsItsState, "must be a copy"),
        (Cheat, "it reads them"),
        (LearnsTheLastQuestion, "told a batch of rounds"),
        (RescoresWhatItSaw, "no unobserved edge was rescored"),
        (KeepsOldScores, "bit for bit"),
        (ReusesItsBuffer, "update changed an array that score gave"),
        (OverwritesAtTheNextCall, "the next call of score changed"),
        (ClaimsTheProduct, "says that it uses the product"),
        (HidesTheProduct, "says that it ignores the product"),
        (IgnoresCandidates, "candidates"),
        (Trusting, "must raise an error"),
        (WantsTheTruth, "demands \\['truth'\\]"),
        (HalfPolicy, "must have name and methods"),
    ],
)
def test_misbehaviour_is_named(factory, text):
    with pytest.raises(AssertionError, match=text):
        check_policy(factory)


@pytest.mark.parametrize(("factory", "error"), [(Writes, ValueError), (NeedsFeedback, IndexError)])
def test_errors_of_the_policy_itself_come_through(factory, error):
    with pytest.raises(error):
        check_policy(factory)
