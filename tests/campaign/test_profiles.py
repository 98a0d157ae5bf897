from __future__ import annotations

import numpy as np
import pytest

import tensorucb as tu
from campaign.blobs import unseal
from campaign.worlds import Clock, answers, small_campaign, small_graph

# private: a policy outside the campaign is told what the campaign's own model learns
from tensorucb.campaign._told import learned
from tensorucb.errors import InputError, ShapeError
from tensorucb.features import UserProfile
from tensorucb.policies import LinUCB, TensorUCB
from tensorucb.store import open_store

PRODUCTS = {"tea": [0.8, 0.2], "soap": [0.1, 0.9]}
MARK = 1234.5678


def profile(n: int = 30, seed: int = 3) -> UserProfile:
    rng = np.random.default_rng(seed)
    exposure = rng.integers(0, 40, (n, 2)).astype(float)
    credit = np.floor(exposure * rng.random((n, 2)) * 0.4)
    return UserProfile(rng.normal(size=(n, 3)), rng.poisson(3.0, (n, 2)), credit, exposure, rng.normal(size=(n, 4)))


def started(storage="memory://", *, users=None, policy=None):
    return tu.create_campaign(
        "spring",
        graph=small_graph(),
        users=profile() if users is None else users,
        policy=TensorUCB() if policy is None else policy,
        products=PRODUCTS,
        objective="direct",
        snapshot_every=3,
        storage=storage,
        clock=Clock(),
    )


def played(campaign, rounds: int):
    for i in range(rounds):
        ask = campaign.ask(("tea", "soap")[i % 2], 3)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    return campaign


def bound(campaign, users, policy=None):
    """A policy bound directly to the campaign's network and these users, told the campaign's rounds one by one."""
    policy = TensorUCB() if policy is None else policy
    policy.bind(campaign.graph, users, np.random.default_rng([0, 0]))
    with campaign._handle.read() as view:
        for record in view.rounds():
            told = view.told(record.number)
            policy.update(record.contexts()[0], *learned(view.network, record, told, lambda: None))
    return policy


def held(campaign):
    with campaign._handle.read() as view:
        return view.network.users


def assert_same_parts(ours, theirs):
    assert isinstance(ours, UserProfile)
    assert ours.parts().keys() == theirs.parts().keys()
    for name, part in theirs.parts().items():
        np.testing.assert_array_equal(ours.parts()[name], part)


def test_a_loaded_campaign_goes_on_as_an_uninterrupted_one(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    started(storage).disconnect()
    for _ in range(2):
        with tu.load_campaign("spring", storage=storage, clock=Clock()) as campaign:
            played(campaign, 2)
    with tu.load_campaign("spring", storage=storage, clock=Clock()) as campaign:
        assert_same_parts(held(campaign), profile())
        whole = played(started(), 4)
        assert campaign.model_hash() == campaign.replay_hash() == whole.model_hash()
        assert [ask.seeds for ask in campaign.rounds()] == [ask.seeds for ask in whole.rounds()]


@pytest.mark.parametrize("kind", [TensorUCB, LinUCB])
def test_probabilities_are_those_of_a_policy_bound_directly(kind):
    campaign = started(policy=kind())
    for rounds in (0, 3):
        played(campaign, rounds)
        policy = bound(campaign, profile(), kind())
        for name, vector in PRODUCTS.items():
            np.testing.assert_array_equal(campaign.probabilities(name), policy.prediction(vector).expected())


def test_the_past_counts_from_the_first_round():
    flat = started(users=profile().matrix())
    assert np.abs(started().probabilities("tea") - flat.probabilities("tea")).max() > 1e-3


def test_new_users_come_with_features_alone_or_with_a_profile():
    campaign = played(started(), 2)
    fresh = profile(2, seed=9)
    campaign.add_users(["new-000", "new-001"], fresh.features, ["new-000"], ["person-001"])
    old = profile().parts()
    blank = {name: np.concatenate([part, np.zeros((2, part.shape[1]))]) for name, part in old.items()}
    blank["features"] = np.concatenate([old["features"], fresh.features])
    assert_same_parts(held(campaign), UserProfile(**blank))
    campaign.add_users(["new-002", "new-003"], fresh, ["new-002"], ["new-000"])
    both = UserProfile(**{name: np.concatenate([part, fresh.parts()[name]]) for name, part in blank.items()})
    assert_same_parts(held(campaign), both)
    # A profile that leaves out some parts, and edges alone.
    some = UserProfile(fresh.features[:1], taste=fresh.taste[:1])
    campaign.add_users(["new-004"], some, ["new-004"], ["new-000"])
    assert held(campaign).credit[-1].tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(held(campaign).taste[-1], fresh.taste[0])
    campaign.add_users([], None, ["new-001"], ["new-000"])
    played(campaign, 1)
    np.testing.assert_array_equal(
        campaign.probabilities("tea"), bound(campaign, held(campaign)).prediction(PRODUCTS["tea"]).expected()
    )
    assert campaign.model_hash() == campaign.replay_hash()


def test_new_users_that_do_not_fit_are_refused():
    campaign = started(users=UserProfile(profile().features, taste=profile().taste))
    fresh = profile(1)
    before = campaign.model_hash()
    with pytest.raises(InputError, match="no credit and no exposure and no coordinates"):
        campaign.add_users(["new-000"], fresh)
    with pytest.raises(ShapeError, match="features of new users must have 3 columns; got 5"):
        campaign.add_users(["new-000"], np.zeros((1, 5)))
    with pytest.raises(ShapeError, match="taste of new users must have 2 columns; got 3"):
        campaign.add_users(["new-000"], UserProfile(fresh.features, taste=np.ones((1, 3))))
    with pytest.raises(ShapeError, match="one row for each of the 2 users; got 1"):
        campaign.add_users(["new-000", "new-001"], fresh)
    with pytest.raises(InputError, match="new users need them"):
        campaign.add_users(["new-000"])
    with pytest.raises(ShapeError, match="one row for each of the 30 users; got 29"):
        started(users=profile(29))
    assert (campaign.status().users, campaign.model_hash()) == (30, before)
    plain = small_campaign()
    with pytest.raises(InputError, match=r"plain matrix.*\(m, 3\) array"):
        plain.add_users(["new-000"], fresh)
    plain.add_users(["new-000"], UserProfile(fresh.features))
    np.testing.assert_array_equal(held(plain)[-1], fresh.features[0])


def stored_marks(campaign) -> int:
    """How many arrays of all stored worlds hold a mark of the person."""
    number = campaign._handle.record.campaign
    with campaign.store.read() as session:
        blobs = [session.blob(number, name) for name in session.blobs(number, "world-")]
    arrays = [array for data in blobs for array in unseal(data, "world", "a network")[1].values()]
    return sum(bool(np.isin(MARK + np.arange(5), array).any()) for array in arrays)


def test_forgetting_removes_the_rows_of_the_person(tmp_path):
    users, victim = profile().parts(), 4
    # Numbers that nobody else has: they must be in the store before, and not afterwards.
    marks = {name: part.copy() for name, part in users.items()}
    for i, name in enumerate(marks):
        marks[name][victim] = MARK + i
    path = tmp_path / "c.db"
    campaign = played(started(f"sqlite:///{path}", users=UserProfile(**marks)), 3)
    assert stored_marks(campaign) == 5
    assert campaign.forget(f"person-{victim:03d}").proven
    keep = np.arange(30) != victim
    assert_same_parts(held(campaign), UserProfile(**marks).select(keep))
    alone = bound(campaign, UserProfile(**marks).select(keep))
    np.testing.assert_array_equal(campaign.probabilities("soap"), alone.prediction(PRODUCTS["soap"]).expected())
    assert stored_marks(campaign) == 0
    campaign.disconnect()
    with tu.load_campaign("spring", storage=f"sqlite:///{path}", clock=Clock()) as again:
        assert_same_parts(held(again), UserProfile(**marks).select(keep))


def test_copies_and_exports(tmp_path):
    import polars as pl

    store = open_store("memory://")
    campaign = played(started(store), 2)
    tu.copy_campaign("spring", "copy", storage=store)
    copy = tu.load_campaign("copy", storage=store, clock=Clock())
    assert_same_parts(held(copy), profile())
    assert copy.model_hash() == campaign.model_hash()
    campaign.export(tmp_path)
    table = pl.read_parquet(tmp_path / "users.parquet")
    np.testing.assert_array_equal(table.drop("user", "opted_out").to_numpy(), profile().matrix())
