"""A round that cannot be learned is left out, named, and can be cancelled; the campaign goes on."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.blobs import SNAPSHOTS, close_with_features, seal, unseal
from campaign.moments import Handle
from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import UnlearnableRoundWarning, copy_campaign, create_campaign, load_campaign
from tensorucb.errors import InputError, StateError
from tensorucb.policies import LinUCB, TensorUCB, Thompson
from tensorucb.store import open_store

HUGE = [1e200, np.finfo(np.float64).max, -1e100]


def spoiled(store, size, policy):
    """A campaign whose third round holds a product with huge features: closed, not learned yet."""
    campaign = small_campaign(store, graph=small_graph(12, 40), policy=policy)
    asks = [campaign.ask("tea" if i % 2 else "soap", 2) for i in range(4)]
    for ask in asks:
        campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(asks[0].id)
    campaign.close(asks[3].id)
    close_with_features(campaign, asks[2].id, size)
    return campaign, asks[2]


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize(
    "policy", [LinUCB(), TensorUCB.paper(likelihood="logistic"), TensorUCB()], ids=lambda p: p.name
)
def test_a_campaign_that_holds_such_a_round_recovers_when_opened(tmp_path, policy, size):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign, bad = spoiled(url, size, policy)
    campaign.disconnect()
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        with pytest.warns(UnlearnableRoundWarning, match=bad.id):
            ask = again.ask("tea", 2)
        assert list(again.status().quarantined) == [bad.id]
        assert "must be numbers in" in again.status().quarantined[bad.id]
        with again.store.read() as session:
            (event,) = [event for event in session.events(1) if event.kind == "quarantined"]
        assert (event.round, event.payload["id"]) == (3, bad.id)
        again.close(ask.id)
        assert again.model_hash() == again.replay_hash()
        assert np.isfinite(again.probabilities("tea")).all()
        learned = again.model_hash()
    # Nobody has to find out again: the log says so.
    with load_campaign("spring", storage=url, clock=Clock()) as other:
        assert other.model_hash() == learned


def test_the_model_is_that_of_a_campaign_without_the_round():
    campaign, _ = spoiled("memory://", 1e200, TensorUCB())
    with pytest.warns(UnlearnableRoundWarning):
        left_out = campaign.model_hash()
    campaign.sync()
    cancelled, twin = spoiled("memory://", 1e200, TensorUCB())
    with pytest.warns(UnlearnableRoundWarning):
        cancelled.sync()
    cancelled.cancel(twin.id)
    assert cancelled.status().quarantined == {}
    assert cancelled.round(twin.id).status == "cancelled"
    assert cancelled.model_hash() == left_out
    with pytest.raises(StateError, match="cancelled"):
        cancelled.tell(twin.id, [{"user": "person-001", "time": 1001.0}])
    with pytest.raises(StateError, match="cannot be cancelled"):
        campaign.cancel(campaign.rounds()[0].id)


def test_forget_and_copy_work_with_such_a_round():
    store = open_store("memory://")
    campaign, bad = spoiled(store, 1e200, LinUCB())
    with pytest.warns(UnlearnableRoundWarning):
        campaign.sync()
    copy_campaign("spring", "summer", storage=store)
    copied = load_campaign("summer", storage=store, clock=Clock())
    assert list(copied.status().quarantined) == [copied.rounds()[2].id]
    assert copied.model_hash() == campaign.model_hash()
    with pytest.warns(UnlearnableRoundWarning):
        assert campaign.forget("person-003").proven
    assert list(campaign.status().quarantined) == [bad.id]


class Moody(Thompson):
    """Of another package: it breaks on what the test says, once."""

    name = "Moody"
    how = ""

    def initial(self, dims):
        # What no score shows.
        return {**super().initial(dims), "spare": np.zeros(1)}

    def learn(self, state, modes, edges, outcomes):
        state = super().learn(state, modes, edges, outcomes)
        if modes[0][1] == 1.0 and self.how == "raises":
            raise RuntimeError("not today")
        if modes[0][1] == 1.0 and self.how in ("nan", "hidden"):
            state["successes" if self.how == "nan" else "spare"][:] = np.nan
        return state


@pytest.mark.parametrize(
    ("how", "why"),
    [("raises", "RuntimeError: not today"), ("nan", "not all numbers"), ("hidden", "NaN or infinity in 'spare'")],
)
def test_a_policy_that_breaks_loses_that_round_alone(how, why):
    policy = Moody()
    campaign = small_campaign(graph=small_graph(12, 40), policy=policy, snapshot_every=2)
    policy.how = how
    asks = []
    for i in range(6):
        asks.append(campaign.ask("tea" if i != 3 else "soap", 2))
        campaign.tell(asks[-1].id, answers(campaign, asks[-1])[:-1])
        if i == 3:
            with pytest.warns(UnlearnableRoundWarning, match=why):
                campaign.close(asks[-1].id)
        else:
            campaign.close(asks[-1].id)
    (held,) = campaign.status().quarantined.items()
    assert held[0] == asks[3].id
    assert why in held[1]
    assert np.isfinite(campaign.probabilities("tea")).all()
    without = campaign.model_hash()
    assert without == campaign.replay_hash()
    # The round is tried again when there is more to learn from it, and now the policy has been mended.
    policy.how = ""
    known = {(row["source"], row["target"]) for row in answers(campaign, asks[3])[:-1]}
    row = next(r for r in answers(campaign, asks[3]) if (r["source"], r["target"]) not in known)
    assert campaign.tell(asks[3].id, [row]).late == 1
    assert campaign.model_hash() == campaign.replay_hash() != without
    assert campaign.status().quarantined == {}


def test_somebody_forgotten_before_it_is_written_down_stays_forgotten(monkeypatch):
    """The round is marked as it is in the store by then, in which users have other rows."""
    store, keep = open_store("memory://"), Handle.keep
    campaign, _ = spoiled(store, 1e200, LinUCB())
    other = load_campaign("spring", storage=store, clock=Clock())
    contacted = [ask.contacted for ask in campaign.rounds()]
    victim = campaign.rounds()[2].contacted[0]

    def forget_first(handle, progress):
        monkeypatch.setattr(Handle, "keep", keep)
        with pytest.warns(UnlearnableRoundWarning):
            other.forget(victim)
        keep(handle, progress)

    monkeypatch.setattr(Handle, "keep", forget_first)
    with pytest.warns(UnlearnableRoundWarning):
        campaign.sync()
    left = [tuple(user for user in users if user != victim) for users in contacted]
    assert [ask.contacted for ask in load_campaign("spring", storage=store, clock=Clock()).rounds()] == left


def test_others_see_it_and_leave_it_out():
    store = open_store("memory://")
    campaign, bad = spoiled(store, 1e200, LinUCB())
    other = load_campaign("spring", storage=store, clock=Clock())
    with pytest.warns(UnlearnableRoundWarning):
        campaign.ask("tea", 2)
    assert list(other.status().quarantined) == [bad.id]
    assert other.model_hash() == campaign.model_hash()
    # A late response gives it another chance, which it does not take.
    with pytest.warns(UnlearnableRoundWarning):
        other.tell(bad.id, [{"user": "person-003", "time": 1001.0}])
    assert list(campaign.status().quarantined) == [bad.id]
    assert campaign.model_hash() == other.model_hash() == campaign.replay_hash()


def test_a_snapshot_with_nan_is_not_used():
    store = open_store("memory://")
    campaign, _ = spoiled(store, 1.0, LinUCB())
    campaign.sync()
    expected = campaign.model_hash()
    with store.write() as session:
        (name,) = session.blobs(1, SNAPSHOTS)
        settings, arrays = unseal(session.blob(1, name), "snapshot", "it")
        arrays["moment"][:] = np.nan
        session.put_blob(1, name, seal("snapshot", settings, arrays))
    with pytest.warns(RuntimeWarning, match="NaN or infinity"):
        assert load_campaign("spring", storage=store, clock=Clock()).model_hash() == expected


@pytest.mark.parametrize("size", [*HUGE, np.nan, np.inf])
def test_at_the_door_it_is_refused(size):
    campaign = small_campaign(graph=small_graph(12, 40))
    refused = r"must be (finite )?numbers"
    s, t = out_pairs(campaign, campaign.graph.ids.tolist())[0]
    with pytest.raises(InputError, match=refused):
        campaign.ask([size, 0.0], 2)
    with pytest.raises(InputError, match=refused):
        campaign.add_products(["milk"], [[size, 0.0]])
    with pytest.raises(InputError, match=refused):
        campaign.add_users(["new"], [[size, 0.0, 0.0]])
    with pytest.raises(InputError, match=refused):
        campaign.import_history([{"source": s, "target": t, "outcome": 1}], product=[size, 0.0])
    users = np.ones((12, 3))
    users[4, 1] = size
    with pytest.raises(InputError, match=refused):
        create_campaign("autumn", graph=small_graph(12, 40), users=users, policy=LinUCB(), storage=campaign.store)
    assert campaign.rounds() == ()
