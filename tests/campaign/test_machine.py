"""A campaign on SQLite against a plain model in memory, under any sequence of calls."""

from __future__ import annotations

import itertools
import shutil
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from campaign.reference import credit, learned
from campaign.worlds import Clock, out_pairs, small_campaign, small_graph
from tensorucb.campaign import load_campaign
from tensorucb.errors import InputError, StateError
from tensorucb.policies import TensorUCB, Thompson

GRAPH = small_graph(12, 50)


class CampaignMachine(RuleBasedStateMachine):
    """The plain model: rounds with status, contacted users, told outcomes and node events, all in dictionaries."""

    rounds = Bundle("rounds")
    policy, credit = Thompson(), "any"

    @initialize()
    def begin(self):
        self.folder = tempfile.mkdtemp()
        self.url = f"sqlite:///{self.folder}/c.db"
        self.clock = Clock()
        self.campaign = small_campaign(
            self.url, graph=GRAPH, policy=self.policy, credit=self.credit, clock=self.clock, window="100s"
        )
        self.plain = {}
        self.order = []
        self.numbers = itertools.count()

    def teardown(self):
        if hasattr(self, "campaign"):
            self.campaign.disconnect()
            shutil.rmtree(self.folder)

    def refused(self):
        """A call that is refused closes nothing, not even the rounds that are due."""
        self.campaign.expire()
        return pytest.raises(StateError)

    def expire(self):
        for held in self.plain.values():
            if held["status"] == "open" and held["opened"] + 100 <= self.clock.now:
                held["status"] = "closed"

    def learned_order(self, *, again):
        """Rounds in the order in which they are learned: as they were asked if the past is learned ``again``."""
        closed = [round_id for round_id, held in self.plain.items() if held["status"] == "closed"]
        before = [] if again else self.order
        return [*before, *(round_id for round_id in closed if round_id not in before)]

    @rule(target=rounds, k=st.integers(1, 4), product=st.sampled_from(["tea", "soap"]))
    def ask(self, k, product):
        self.expire()
        ask = self.campaign.ask(product, k)
        self.order = self.learned_order(again=False)
        assert ask.number == len(self.plain) + 1
        self.plain[ask.id] = {
            "status": "open",
            "opened": self.clock.now,
            "product": {"tea": [1.0, 0.0], "soap": [0.0, 1.0]}[product],
            "pairs": out_pairs(self.campaign, ask.contacted),
            "told": {},
            "acted": set(),
        }
        return ask.id

    @rule(round_id=rounds, data=st.data())
    def tell_edges(self, round_id, data):
        self.expire()
        held = self.plain[round_id]
        if not held["pairs"]:
            self.campaign.expire()
            return
        picks = data.draw(st.lists(st.tuples(st.sampled_from(held["pairs"]), st.booleans()), min_size=1, max_size=6))
        rows = [{"source": s, "target": t, "outcome": int(y)} for (s, t), y in picks]
        if held["status"] == "cancelled":
            with self.refused():
                self.campaign.tell(round_id, rows)
            return
        accepted = duplicates = clashes = 0
        for pair, outcome in picks:
            if pair not in held["told"]:
                held["told"][pair] = outcome
                accepted += 1
            elif held["told"][pair] == outcome:
                duplicates += 1
            else:
                clashes += 1
        report = self.campaign.tell(round_id, rows)
        late = accepted if held["status"] == "closed" else 0
        if late:
            self.order = self.learned_order(again=True)
        assert (report.accepted, report.duplicates, len(report.contradictions), report.late) == (
            accepted,
            duplicates,
            clashes,
            late,
        )

    @rule(round_id=rounds, user=st.integers(0, 11), delay=st.integers(-5, 120))
    def tell_node(self, round_id, user, delay):
        self.expire()
        held = self.plain[round_id]
        if held["status"] == "cancelled":
            self.campaign.expire()
            return
        name, time = GRAPH.ids[user].item(), held["opened"] + delay
        report = self.campaign.tell(round_id, [{"user": name, "time": time}])
        assert report.accepted == int((name, time) not in held["acted"])
        assert report.outside_window == int(report.accepted and not 0 <= delay <= 100)
        held["acted"].add((name, time))
        if report.late:
            self.order = self.learned_order(again=True)

    @rule(round_id=rounds)
    def refused_batch(self, round_id):
        self.expire()
        self.campaign.expire()
        before = self.campaign.status()
        with pytest.raises((InputError, StateError)):
            self.campaign.tell(
                round_id, [{"user": "person-001", "time": 7.0}, {"user": "nobody", "time": 7.0}], strict=True
            )
        assert self.campaign.status() == before

    @rule(round_id=rounds)
    def close(self, round_id):
        self.expire()
        held = self.plain[round_id]
        if held["status"] == "cancelled":
            with self.refused():
                self.campaign.close(round_id)
            return
        self.campaign.close(round_id)
        held["status"] = "closed"
        self.order = self.learned_order(again=True)

    @rule(round_id=rounds)
    def cancel(self, round_id):
        self.expire()
        held = self.plain[round_id]
        if held["status"] == "closed":
            with self.refused():
                self.campaign.cancel(round_id)
            return
        self.campaign.cancel(round_id)
        held["status"] = "cancelled"

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule()
    def reopen(self):
        self.campaign.disconnect()
        self.campaign = load_campaign("spring", storage=self.url, clock=self.clock)

    @precondition(lambda self: self.plain)
    @invariant()
    def same_rounds(self):
        assert {r.id: r.status for r in self.campaign.rounds()} == {i: h["status"] for i, h in self.plain.items()}

    @precondition(lambda self: self.plain)
    @invariant()
    def same_model(self):
        successes, failures = np.zeros(GRAPH.n_edges), np.zeros(GRAPH.n_edges)
        for held in self.plain.values():
            if held["status"] != "closed":
                continue
            acted = {u for u, time in held["acted"] if 0 <= time - held["opened"] <= 100}
            for s, t in held["pairs"]:
                yes = held["told"].get((s, t), False) or t in acted
                edge = int(GRAPH.edge_rows([s], [t])[0])
                (successes if yes else failures)[edge] += 1
        self.campaign.model_hash()
        arrays = self.campaign._handle.model.policy.state().arrays
        if "successes" in arrays:
            np.testing.assert_array_equal(arrays["successes"], successes)
            np.testing.assert_array_equal(arrays["failures"], failures)
        else:
            assert not successes.any()
            assert not failures.any()


CampaignMachine.TestCase.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachine = CampaignMachine.TestCase


class OrderedMachine(CampaignMachine):
    """The same with a policy whose updates do not commute: a wrong order of rounds is another model."""

    policy, credit = TensorUCB(rank=2), "shared"

    @rule(k=st.integers(2, 4))
    def close_backwards(self, k):
        # Few steps would come to this by chance: the later round closes first, and both have something to teach.
        first, second = self.ask(k, "tea"), self.ask(k, "tea")
        for round_id in (second, first):
            held = self.plain[round_id]
            pairs = held["pairs"][:: 1 + (round_id == first)]
            self.campaign.tell(round_id, [{"source": s, "target": t, "outcome": 1} for s, t in pairs])
            held["told"].update(dict.fromkeys(pairs, True))
            self.campaign.close(round_id)
            held["status"] = "closed"
            self.order = self.learned_order(again=True)

    @precondition(lambda self: self.plain)
    @invariant()
    def same_model(self):
        policy = TensorUCB(rank=2)
        users = np.random.default_rng(1).normal(size=(GRAPH.n_nodes, 3))
        policy.bind(GRAPH, users, np.random.default_rng([0, 0]))
        everything = list(zip(GRAPH.ids[GRAPH.sources].tolist(), GRAPH.ids[GRAPH.targets].tolist(), strict=True))
        for round_id in self.learned_order(again=False):
            held = self.plain[round_id]
            p = dict(zip(everything, policy.prediction(held["product"]).expected().tolist(), strict=True))
            shares = credit("shared", held["pairs"], sorted(held["acted"]), held["opened"], 100, p)
            told = {pair: float(outcome) for pair, outcome in held["told"].items()}
            outcomes = learned(everything, {s for s, _ in held["pairs"]}, told, shares)
            edges = [everything.index(pair) for pair in outcomes]
            policy.update(held["product"], edges, list(outcomes.values()))
        for product in ("tea", "soap"):
            vector = {"tea": [1.0, 0.0], "soap": [0.0, 1.0]}[product]
            np.testing.assert_allclose(
                self.campaign.probabilities(product), policy.prediction(vector).expected(), atol=1e-9
            )
        assert self.campaign.model_hash() == self.campaign.replay_hash()


OrderedMachine.TestCase.settings = settings(
    max_examples=6, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestOrderedMachine = OrderedMachine.TestCase


class LongMachine(CampaignMachine):
    pass


LongMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLongMachine = pytest.mark.slow(LongMachine.TestCase)
