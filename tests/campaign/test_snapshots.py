from __future__ import annotations

import warnings

import numpy as np
import pytest

from campaign.blobs import SNAPSHOTS, learned_rounds, seal, unseal
from campaign.worlds import Clock, answers, small_campaign, small_graph
from tensorucb.campaign import DamagedSnapshotWarning, load_campaign
from tensorucb.errors import FileFormatError, MemoryLimitError
from tensorucb.policies import LinUCB, Thompson
from tensorucb.store import open_store


def grown(store, rounds=7, policy=None):
    campaign = small_campaign(store, graph=small_graph(12, 40), policy=policy or LinUCB())
    for i in range(rounds):
        ask = campaign.ask("tea" if i % 2 else "soap", 2)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    return campaign


def snapshots(store):
    with store.read() as session:
        return session.blobs(1, SNAPSHOTS)


def mutate(data, rng):
    """A copy of the bytes, damaged in one of the ways that disks and people damage things."""
    kind, data = rng.integers(6), bytearray(data)
    at = int(rng.integers(len(data)))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at] = int(rng.integers(256))
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + int(rng.integers(1, 40))]
    elif kind == 4:
        data[at:at] = rng.bytes(int(rng.integers(1, 40)))
    else:
        other = int(rng.integers(len(data)))
        length = int(rng.integers(1, 200))
        data[at : at + length] = data[other : other + length]
    return bytes(data)


def test_a_compressed_blob_that_lies_about_its_size_is_damaged():
    data = seal("snapshot", {}, {"zeros": np.zeros(100_000)}, compressed=True)
    assert len(data) < 2_000
    assert unseal(data, "snapshot", "it")[1]["zeros"].size == 100_000
    for size in (0, 1_000, 2**62):
        other = b"Z" + size.to_bytes(8, "little") + data[9:]
        with pytest.raises((FileFormatError, MemoryLimitError)):
            unseal(other, "snapshot", "it")


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_damaged_snapshot_is_never_used_silently(count):
    store = open_store("memory://")
    expected = grown(store, rounds=4, policy=Thompson()).model_hash()
    name = snapshots(store)[-1]
    with store.read() as session:
        good = session.blob(1, name)
    rng = np.random.default_rng(0)
    campaign = load_campaign("spring", storage=store, clock=Clock())
    reported = 0
    for _ in range(count):
        bad = mutate(good, rng)
        with store._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE tensorucb_blob SET data = ? WHERE name = ?", (bad, name))
        campaign._handle.model = campaign._handle.fresh_model()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert campaign.model_hash() == expected
        if bad == good:
            assert not seen
        else:
            assert [type(w.message) for w in seen] == [DamagedSnapshotWarning]
            assert "learned again from the log" in str(seen[0].message)
            reported += 1
            with store.read() as session, pytest.raises(FileFormatError, match="damaged"):
                session.blob(1, name)
    assert reported > 0.9 * count


def test_a_damaged_snapshot_is_replaced_by_the_next_writer():
    store = open_store("memory://")
    expected = grown(store).model_hash()
    name = snapshots(store)[-1]
    with store.write() as session:
        session.put_blob(1, name, b"junk")
    campaign = load_campaign("spring", storage=store, clock=Clock())
    with pytest.warns(DamagedSnapshotWarning, match=name):
        campaign.sync()
    assert campaign.model_hash() == expected
    again = load_campaign("spring", storage=store, clock=Clock())
    assert again.model_hash() == expected
    assert again._handle.model.replayed == 0


def test_a_snapshot_of_other_rounds_is_not_used():
    store = open_store("memory://")
    expected = grown(store).model_hash()
    early, late = snapshots(store)[0], snapshots(store)[-1]
    with store.write() as session:
        settings, arrays = unseal(session.blob(1, early), "snapshot", "it")
        settings["rounds"][0][1] += 1
        session.put_blob(1, late, seal("snapshot", settings, arrays))
    assert load_campaign("spring", storage=store, clock=Clock()).model_hash() == expected


def test_a_damaged_network_is_a_clear_error():
    store = open_store("memory://")
    grown(store)
    with store.write() as session:
        (name,) = session.blobs(1, "world-")
        session.put_blob(1, name, mutate(session.blob(1, name), np.random.default_rng(1)))
    with pytest.raises(FileFormatError, match="damaged"):
        load_campaign("spring", storage=store).ask("tea", 2)


def test_late_data_starts_again_from_the_last_snapshot_before_it(caplog):
    store = open_store("memory://")
    campaign = grown(store, rounds=20, policy=Thompson())
    counts = [learned_rounds(name) for name in snapshots(store)]
    assert counts[-1] == 18
    assert len(counts) <= 5
    late = campaign.rounds()[15]
    before = max(count for count in counts if count <= 15)
    with caplog.at_level("INFO", "tensorucb.campaign"):
        campaign.tell(late.id, [{"user": "person-003", "time": 1001.0}])
    assert caplog.messages[-1].endswith(f"{20 - before} rounds learned")
    assert campaign.model_hash() == campaign.replay_hash()
    campaign.sync()
    assert len(snapshots(store)) <= 5


def test_pruning_keeps_one_snapshot_at_each_doubling():
    store = open_store("memory://")
    campaign = small_campaign(store, graph=small_graph(12, 40), policy=Thompson(), snapshot_every=1)
    for _ in range(66):
        campaign.close(campaign.ask("tea", 1).id)
    counts = np.array([learned_rounds(name) for name in snapshots(store)])
    assert counts[-1] == 66
    assert counts.size <= 8
    for late in range(1, 66):
        start = counts[counts <= late].max(initial=0)
        assert 66 - start <= 4 * (66 - late) + 4


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupted_sync_leaves_no_round_learned_twice(before):
    store = open_store("memory://")
    campaign = grown(store, rounds=1)
    ask = campaign.ask("tea", 2)
    campaign.tell(ask.id, answers(campaign, ask))
    update = campaign._handle.model.policy.update

    def interrupted(*arguments):
        if not before:
            update(*arguments)
        raise KeyboardInterrupt

    campaign._handle.model.policy.update = interrupted
    with pytest.raises(KeyboardInterrupt):
        campaign.close(ask.id)
    campaign._handle.model.policy.update = update
    assert campaign.model_hash() == campaign.replay_hash()
    # The next snapshot is that of the right model.
    campaign.close(campaign.ask("soap", 2).id)
    assert snapshots(store)
    again = load_campaign("spring", storage=store, clock=Clock())
    assert again.model_hash() == again.replay_hash()
