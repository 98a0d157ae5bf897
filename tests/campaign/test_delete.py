"""A deleted campaign is gone from the store and its files; the others stay as they are."""

from __future__ import annotations

import pytest

import tensorucb as tu
from campaign.worlds import Clock, answers, small_campaign
from tensorucb.campaign import list_campaigns, load_campaign
from tensorucb.errors import StoreError, TensorUCBError, UnknownIdError
from tensorucb.store import open_store


def used(store, name):
    campaign = small_campaign(store, name=name)
    ask = campaign.ask("tea", 2)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    return campaign


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_it_is_gone_and_the_others_stay(tmp_path, request, kind):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/c.db"}.get(kind)
    with open_store(url or request.getfixturevalue("fresh_postgres_url"), create=True) as store:
        gone, stays = used(store, "spring"), used(store, "autumn")
        before = stays.model_hash()
        tu.delete_campaign("spring", storage=store)
        assert [line.name for line in list_campaigns(store)] == ["autumn"]
        assert load_campaign("autumn", storage=store, clock=Clock()).model_hash() == before
        with pytest.raises(UnknownIdError, match="no campaign 'spring'"):
            load_campaign("spring", storage=store)
        with pytest.raises(UnknownIdError, match=r"no campaign 'spring' in .*; it holds 'autumn'"):
            tu.delete_campaign("spring", storage=store)
        with pytest.raises(TensorUCBError):
            gone.ask("tea", 2)
        # The name is free again, and nothing of the old campaign comes back with it.
        assert small_campaign(store, name="spring").rounds() == ()


def test_the_file_holds_nothing_of_it(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    used(url, "spring").disconnect()
    assert any(b"person-004" in file.read_bytes() for file in tmp_path.iterdir())
    tu.delete_campaign("spring", storage=url)
    assert not any(b"person-004" in file.read_bytes() for file in tmp_path.iterdir())


def test_a_reader_in_the_way_is_named(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/c.db", create=True, timeout=0.3) as store:
        used(store, "spring")
        with store.read() as reader:
            reader.campaigns()
            with pytest.raises(StoreError, match=r"'spring' is deleted, but .* may still hold"):
                tu.delete_campaign("spring", storage=store)
        assert list_campaigns(store) == []
        store.purge()
    assert not any(b"person-004" in file.read_bytes() for file in tmp_path.iterdir())
