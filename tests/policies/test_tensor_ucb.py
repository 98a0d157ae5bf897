"""TensorUCB: the protocol, the first round, exploration, profiles, state, and learning on a generated network."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tensorucb.data import generate_dataset, make_sandbox
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import Environment, WorldSettings, explain_seeds, run_policy
from tensorucb.features import TopicModel, UserProfile, user_profile
from tensorucb.files import pack_state, unpack_state
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, LinUCB, PolicyState, TensorUCB, check_policy


def network(n=40, m=240, seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.column_stack([(n * rng.random(m) ** 2).astype(int), rng.integers(0, n, m)]), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_edges(pairs[:, 0], pairs[:, 1]), rng


def profile(n, k, rng):
    return UserProfile(rng.normal(size=(n, 2)), rng.poisson(1.0, (n, k)), rng.random((n, k)), 9 * rng.random((n, k)))


def taught(rounds=4, modes=1, users=None, **options):
    graph, rng = network()
    policy = TensorUCB(**options)
    policy.bind(graph, rng.normal(size=(graph.n_nodes, 3)) if users is None else users, 1)
    for _ in range(rounds):
        tell(policy, graph, rng, modes)
    return policy, graph, rng, [rng.random(3 + extra) for extra in range(modes)]


def tell(policy, graph, rng, modes=1, rows=30):
    product = [rng.random(3 + extra) for extra in range(modes)]
    edges = rng.permutation(graph.n_edges)[:rows]
    policy.update(product, edges, rng.integers(0, 2, rows))


@pytest.mark.parametrize("modes", [1, 2])
def test_follows_the_protocol(modes):
    check_policy(TensorUCB, modes=modes)


@pytest.mark.parametrize("options", [{"exploration_kind": "thompson", "rank": 1}, {"max_rows": 60, "rank": 3}])
def test_other_settings_follow_the_protocol(options):
    check_policy(lambda: TensorUCB(**options), rounds=4)


def test_the_first_round_goes_by_degree():
    policy, graph, _, product = taught(rounds=0)
    p = policy.score(product)
    reach = np.bincount(graph.sources, p, graph.n_nodes)
    assert np.ptp(p) < 0.15 * p.mean()
    far = np.subtract.outer(graph.out_degree, graph.out_degree) > 0.2 * graph.out_degree[:, None]
    assert (np.subtract.outer(reach, reach)[far] > 0).all()


def test_past_influence_counts_from_the_first_round():
    graph, rng = network()
    credit = np.ones((graph.n_nodes, 3))
    credit[5], credit[6] = 9.0, (0.0, 9.0, 0.0)
    users = UserProfile(rng.normal(size=(graph.n_nodes, 1)), None, credit, np.full((graph.n_nodes, 3), 20.0))
    policy = TensorUCB()
    policy.bind(graph, users, 0)
    first, second = (
        np.bincount(graph.sources, policy.prediction(z).expected(), graph.n_nodes) / np.maximum(graph.out_degree, 1)
        for z in np.eye(3)[:2]
    )
    assert first[5] > 1.3 * first[0]
    assert second[6] > 1.3 * first[6]


def test_exploration_adds_to_the_prediction():
    policy, _, _, product = taught()
    mean, bold = policy.prediction(product).probabilities(), policy.score(product)
    assert (bold > mean).all()
    for attributes in ({"exploration": 0.0}, {"exploration_kind": "greedy"}):
        sober = copy.copy(policy)
        for name, value in attributes.items():
            setattr(sober, name, value)
        np.testing.assert_array_equal(sober.score(product), mean)
    np.testing.assert_array_equal(policy.score(product), bold)
    reasons = explain_seeds(policy.graph, policy, product[0], [0, 1])
    assert all(reason.explored > 0 for reason in reasons)


def test_bonuses_are_one_number_per_source():
    policy, graph, _, product = taught(exploration=1.0)
    mean, bold = policy.prediction(product).probabilities(), policy.score(product)
    bonus = np.log(bold / (1 - bold)) - np.log(mean / (1 - mean))
    assert bonus.min() > 0.0
    for source in np.unique(graph.sources):
        assert np.ptp(bonus[graph.sources == source]) < 1e-8


def test_tried_sources_are_explored_less():
    graph, rng = network()
    policy = TensorUCB()
    policy.bind(graph, rng.normal(size=(graph.n_nodes, 2)), 0)
    hub = int(np.argmax(graph.out_degree))
    edges, z = np.flatnonzero(graph.sources == hub), np.ones(3) / 3
    for _ in range(20):
        policy.update(z, edges, rng.random(edges.size) < 0.3)
    mean, bold = policy.prediction(z).probabilities(), policy.score(z)
    bonus = np.log(bold / (1 - bold)) - np.log(mean / (1 - mean))
    assert bonus[edges].max() < 0.6 * bonus[graph.sources != hub].min()
    assert mean[edges].mean() == pytest.approx(0.3, abs=0.07)


def test_thompson_draws_differ_between_rounds_and_repeat_within_one():
    policy, _, _, product = taught(exploration_kind="thompson")
    first = policy.score(product)
    assert (first == policy.score(product)).all()
    policy.update(product, [], [])
    assert (first != policy.score(product)).any()


def test_a_saved_policy_goes_on_bit_for_bit():
    graph, rng = network()
    users = profile(graph.n_nodes, 3, rng)
    one, two = TensorUCB(max_rows=150), TensorUCB(max_rows=150)
    one.bind(graph, users, 1)
    for _ in range(9):
        tell(one, graph, rng)
    saved = one.state()
    two.bind(graph, users, 2)
    two.restore(PolicyState(*unpack_state(pack_state("policy", saved.settings, saved.arrays), "policy")))
    draws = [np.random.default_rng(5), np.random.default_rng(5)]
    for _ in range(12):
        for policy, draw in zip((one, two), draws, strict=True):
            tell(policy, graph, draw)
        assert one.score(np.ones(3)).tobytes() == two.score(np.ones(3)).tobytes()
    assert one.state().arrays["log_outcomes"].size <= 150


def test_a_log_that_was_thinned_while_the_recent_rounds_were_watched_goes_on_bit_for_bit():
    """Large rounds push out so many small ones that fewer are left than the recent ones, which were fitted before."""
    graph, rng = network()
    users = rng.normal(size=(graph.n_nodes, 2))
    policy = TensorUCB(max_rows=700)
    policy.bind(graph, users, 1)
    for number in range(34):
        tell(policy, graph, rng, rows=30 if number < 22 else 200)
        other = TensorUCB(max_rows=700)
        other.bind(graph, users, 1)
        other.restore(policy.state())
        assert other.score(np.ones(3)).tobytes() == policy.score(np.ones(3)).tobytes()
        np.testing.assert_array_equal(other.state().arrays["evidence"], policy.state().arrays["evidence"])


def test_the_state_is_the_log_and_predictions_are_found_again():
    policy, graph, _, product = taught(rounds=14)
    saved = policy.state()
    others = {name for name in saved.arrays if not name.startswith("log_")}
    assert others == {"counters", "passive_weights", "evidence"}
    other = TensorUCB()
    other.bind(graph, policy.users, 9)
    other.restore(saved)
    for one, two in zip(
        vars(policy.prediction(product)).values(), vars(other.prediction(product)).values(), strict=True
    ):
        assert one is two or np.array_equal(one, two)


@pytest.mark.parametrize("modes", [1, 2])
def test_the_order_of_rounds_and_a_late_response_do_not_matter(modes):
    """Told in another order, or again with a response that came late: predictions are equal to 1e-8."""
    graph, rng = network()
    users = rng.normal(size=(graph.n_nodes, 3))
    rounds = []
    for _ in range(8):
        edges = rng.permutation(graph.n_edges)[:30]
        rounds.append(([rng.random(3 + m) for m in range(modes)], edges, rng.integers(0, 2, 30) * 1.0))
    late = [(product, edges, outcomes.copy()) for product, edges, outcomes in rounds]
    late[2][2][0] = 1.0 - late[2][2][0]

    def after(told):
        policy = TensorUCB(rank=4)
        policy.bind(graph, users, 0)
        for each in told:
            policy.update(*each)
        return policy.prediction(rounds[0][0])

    whole, changed = after(rounds), after(late)
    for one, other in ((whole, after(rounds[::-1])), (changed, after([*late[4:], *late[:4]]))):
        for name in ("mean", "deviation", "target", "level", "redundancy"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-8)
    assert abs(whole.expected() - changed.expected()).max() > 1e-3


@pytest.mark.parametrize(
    "change",
    [
        {"counters": np.array([3, 9])},
        {"counters": np.array([3, 0])},
        {"counters": np.array([2, 2])},
        {"log_level": np.array([9, 0, 0])},
        {"log_vectors": np.ones((3, 2))},
    ],
)
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(change):
    policy, _, _, product = taught(rounds=3)
    saved, before = policy.state(), policy.score(product)
    with pytest.raises(InputError, match="state"):
        policy.restore(PolicyState(saved.settings, {**saved.arrays, **change}))
    with pytest.raises(InputError, match="must hold arrays"):
        policy.restore(PolicyState(saved.settings, {}))
    with pytest.raises(InputError, match="must hold arrays"):
        policy.restore(PolicyState({**saved.settings, "product_dims": None}, saved.arrays))
    np.testing.assert_array_equal(policy.score(product), before)


def test_a_product_much_larger_than_usual_is_shortened_with_a_warning():
    policy, _, _, _ = taught(rounds=6)
    with pytest.warns(UserWarning, match="more than ten times as long"):
        large = policy.score(1e6 * np.ones(3))
    with pytest.warns(UserWarning, match="more than ten times as long"):
        np.testing.assert_allclose(large, policy.score(1e9 * np.ones(3)), rtol=1e-9)


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr("tensorucb.learner.response._predict._NODES", 7)
    monkeypatch.setattr("tensorucb.learner.response._predict._SEEN", 5)
    monkeypatch.setattr("tensorucb.policies.prediction._EDGES", 50)
    scores = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TENSORUCB_THREADS", threads)
        policy, _, _, product = taught()
        scores.append(policy.score(product).tobytes())
    assert len(set(scores)) == 1


def test_a_profile_must_know_the_products_topics():
    graph, rng = network()
    policy = TensorUCB()
    policy.bind(graph, profile(graph.n_nodes, 4, rng), 0)
    with pytest.raises(ShapeError, match="4 topics"):
        policy.score(np.ones(3))
    with pytest.raises(ShapeError, match="4 topics"):
        policy.update(np.ones(3), [0], [1.0])
    assert policy.score([np.ones(4), np.ones(2)]).shape == (graph.n_edges,)


def test_baselines_take_a_profile_as_its_matrix_if_told_so():
    graph, rng = network()
    users = profile(graph.n_nodes, 3, rng)
    scores = []
    for given in (users, users.matrix()):
        policy = LinUCB(matched=False)
        policy.bind(graph, given, 0)
        policy.update(np.ones(3), [0, 1, 2], [1.0, 0.0, 1.0])
        scores.append(policy.score(np.ones(3)))
    np.testing.assert_array_equal(*scores)


def test_coordinates_change_nothing():
    graph, rng = network()
    base = profile(graph.n_nodes, 3, rng)
    placed = UserProfile(**base.parts(), coordinates=rng.normal(size=(graph.n_nodes, 4)))
    scores = []
    for users in (base, placed):
        policy, *_ = taught(users=users)
        scores.append(policy.score(np.ones(3)))
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_one_sided_outcomes_for_many_rounds(constant):
    policy, graph, rng, _ = taught(rounds=0)
    for _ in range(30):
        policy.update(rng.random(3), np.arange(graph.n_edges), np.full(graph.n_edges, constant))
    p = policy.prediction(np.ones(3) / 2).expected()
    assert abs(p - constant).max() < 0.05
    assert ((p >= 0) & (p <= 1)).all()


def test_products_of_any_scale():
    graph, rng = network()
    for scale in (1e-9, 1.0, 1e9):
        policy = TensorUCB()
        policy.bind(graph, rng.normal(size=(graph.n_nodes, 2)) * scale, 0)
        for _ in range(5):
            product = scale * rng.normal(size=2)
            policy.update(product, np.arange(graph.n_edges), rng.random(graph.n_edges) < 0.2 + 0.3 * (product[0] > 0))
        p = (
            policy.prediction(scale * np.array([1.0, 0.0])).expected().mean(),
            policy.prediction(scale * np.array([-1.0, 0.0])).expected().mean(),
        )
        assert p[0] > p[1] + 0.1


def test_it_learns_interactions_with_every_mode():
    graph, rng = network()
    users = rng.normal(size=(graph.n_nodes, 2))
    policy = TensorUCB()
    policy.bind(graph, users, 0)
    campaigns = np.eye(2)
    for t in range(24):
        p = 0.1 + 0.5 * (users[graph.sources, 0] > 0) * (t % 2) + 0.2 * (t % 3 == 0)
        policy.update([np.eye(3)[t % 3], campaigns[t % 2]], np.arange(graph.n_edges), rng.random(graph.n_edges) < p)
    high, low = (policy.prediction([np.eye(3)[1], campaign]).expected() for campaign in campaigns[::-1])
    good = users[graph.sources, 0] > 0
    assert high[good].mean() > low[good].mean() + 0.3
    assert abs(high[~good].mean() - low[~good].mean()) < 0.15
    assert policy.prediction([np.eye(3)[0], campaigns[0]]).expected()[~good].mean() > low[~good].mean() + 0.1


def test_regret_is_below_degrees_and_the_online_learners():
    sandbox = make_sandbox(300, 4000, 12, n_topics=4, rng=3)
    environment = Environment.from_sandbox(sandbox, settings=WorldSettings(k=5))
    regret = {
        name: run_policy(environment, policy, rounds=40, run=0, seed=1)["regret"][20:].mean()
        for name, policy in {
            "ours": TensorUCB(),
            "degree": HighDegree(),
            "tensor": TensorUCB.paper(likelihood="logistic"),
        }.items()
    }
    assert regret["ours"] < 0.9 * regret["degree"]
    assert regret["ours"] < regret["tensor"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank"),
        ({"exploration": -1.0}, "exploration"),
        ({"exploration_kind": "variance"}, "exploration_kind"),
        ({"base_logit": -99.0}, "base_logit"),
        ({"max_rows": 0}, "max_rows"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TensorUCB(**options)


def changing_network():
    """40 users with 30 followers each, and response rates from 2 to 50 %."""
    rng = np.random.default_rng(3)
    pairs = np.array([(i, j) for i in range(40) for j in rng.choice(200, 30, replace=False) + 40])
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], nodes=np.arange(240))
    rates = np.zeros(240)
    rates[:40] = rng.permutation(np.linspace(0.02, 0.5, 40))
    return graph, rates, rng


def test_a_change_of_who_matters_is_followed_and_nothing_is_forgotten_before():
    graph, rates, rng = changing_network()
    policy = TensorUCB()
    policy.bind(graph, rng.normal(size=(graph.n_nodes, 2)), 0)
    users = np.flatnonzero(graph.out_degree)

    def play(rounds, rates):
        for number in rounds:
            rows = np.sort(rng.choice(users, 10, replace=False))
            edges = graph.out_edges(rows)
            outcomes = rng.random(edges.size) < rates[graph.sources[edges]]
            policy.update(np.eye(3)[number % 3], edges, outcomes.astype(float))

    play(range(60), rates)
    assert policy._state.begin == 0
    turned = np.where(rates > 0.0, 0.52 - rates, 0.0)
    play(range(60, 80), turned)
    assert 50 <= policy._state.begin <= 70
    believed = np.bincount(graph.sources, policy.prediction(np.eye(3)[0]).expected(), graph.n_nodes)[users]
    assert np.corrcoef(believed, turned[users])[0, 1] > 0.5
    kept = policy.state()
    other = TensorUCB()
    other.bind(graph, policy.users, 1)
    other.restore(kept)
    for one in (policy, other):
        one.update(np.eye(3)[0], graph.out_edges(users[:3]), np.zeros(graph.out_edges(users[:3]).size))
    np.testing.assert_array_equal(policy.score(np.eye(3)[1]), other.score(np.eye(3)[1]))


@pytest.mark.parametrize("turned", [False, True])
def test_history_counts_as_far_as_it_predicts(turned):
    """History of the same world helps from the first round; that of a world upside down is left out, with a warning."""
    graph, rates, rng = changing_network()
    past = np.where(rates > 0.0, 0.52 - rates, 0.0) if turned else rates
    users, features = np.flatnonzero(graph.out_degree), rng.normal(size=(graph.n_nodes, 2))
    policy = TensorUCB()
    policy.bind(graph, features, 0)

    def play(rounds, rates, **history):
        for number in range(rounds):
            edges = graph.out_edges(np.sort(rng.choice(users, 10, replace=False)))
            outcomes = rng.random(edges.size) < rates[graph.sources[edges]]
            policy.update(np.eye(3)[number % 3], edges, outcomes.astype(float), **history)

    play(20, past, passive=True)
    assert policy._state.passive_weight == 0.3
    believed = np.bincount(graph.sources, policy.prediction(np.eye(3)[0]).expected(), graph.n_nodes)[users]
    assert np.corrcoef(believed, past[users])[0, 1] > 0.8
    if turned:
        with pytest.warns(UserWarning, match="history predicts the responses"):
            play(10, rates)
        assert policy._state.passive_weight == 0.0
    else:
        play(10, rates)
        assert policy._state.passive_weight >= 0.3
    believed = np.bincount(graph.sources, policy.prediction(np.eye(3)[0]).expected(), graph.n_nodes)[users]
    assert np.corrcoef(believed, rates[users])[0, 1] > 0.6
    other = TensorUCB()
    other.bind(graph, features, 1)
    other.restore(policy.state())
    np.testing.assert_array_equal(policy.score(np.eye(3)[1]), other.score(np.eye(3)[1]))


def test_before_the_first_round_followers_are_believed_to_respond_as_they_did_in_the_past():
    data = generate_dataset("digg_like", scale=0.2, rng=3)
    items = np.arange(0, data.log.n_items, 2)
    mixtures = TopicModel.fit(data.log, n_topics=3).transform(data.log)
    profile = user_profile(data.graph, data.log, items, mixtures, kinds=("degree",))
    policy = TensorUCB()
    policy.bind(data.graph, profile, 0)
    prediction = policy.prediction(mixtures[1])
    rates = profile.rates()[data.graph.targets]
    # Averaged over followers and rounds; past influence of sources moves the mean of a product by a few per cent.
    assert prediction.expected().mean() == pytest.approx(rates.mean(), rel=0.1)
    # Those who acted often are believed to respond often. That they follow several contacted users adds little.
    assert np.corrcoef(prediction.expected(), rates)[0, 1] > 0.9
    assert prediction.redundancy == pytest.approx(0.8)
