"""A log in the Open Bandit Pipeline's form, against the plain formula of its inverse-propensity estimator."""

from __future__ import annotations

import numpy as np

from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings
from tensorucb.experiments.offline import bandit_feedback, estimate_value, log_campaign


def test_its_estimator_of_independent_contacts_agrees_with_ours():
    world = Environment.from_sandbox(make_sandbox(60, 400, 4, base_rate=0.1, rng=0), settings=WorldSettings(k=5))
    log = log_campaign(world, np.random.default_rng(0).uniform(0.1, 0.5, size=60), rounds=40, run=0, seed=1)
    target = [[1, 5, 9], *([[2, 3, 4]] * 39)]
    found = bandit_feedback(log)
    assert found["n_rounds"] == log.contacts.size == len(found["context"])
    assert found["n_actions"] == 60
    assert np.array_equal(found["context"], log.products[found["round"]])
    wanted = np.array([action in target[at] for action, at in zip(found["action"], found["round"], strict=True)])
    ips = (wanted * found["reward"] / found["pscore"]).sum() / log.n_rounds
    np.testing.assert_allclose(ips, estimate_value(log, target, estimator="ips").value, rtol=1e-12)


def test_every_response_is_counted_at_its_contact():
    world = Environment.from_sandbox(make_sandbox(60, 400, 4, base_rate=0.3, rng=0), settings=WorldSettings(k=5))
    log = log_campaign(world, np.full(60, 0.3), rounds=10, run=0, seed=1)
    found = bandit_feedback(log)
    for t in range(10):
        edges = log.edges[log.edge_offsets[t] : log.edge_offsets[t + 1]]
        outcomes = log.outcomes[log.edge_offsets[t] : log.edge_offsets[t + 1]]
        here = found["round"] == t
        expected = [outcomes[log.graph.sources[edges] == user].sum() for user in found["action"][here]]
        assert found["reward"][here].tolist() == expected
