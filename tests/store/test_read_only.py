"""A store opened with ``read_only=True``: everything can be read, nothing can be written, even past our own code."""

import pytest
import sqlalchemy as sa

from campaign.worlds import Clock, answers, small_campaign
from store.content import content, fill
from tensorucb.campaign import list_campaigns, load_campaign
from tensorucb.errors import InputError, StoreError
from tensorucb.store import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/c.db"
    return request.getfixturevalue("fresh_postgres_url")


def test_the_connection_itself_cannot_write(url):
    with open_store(url) as store, store.write() as session:
        fill(session)
        before = content(session)
    with open_store(url, read_only=True) as store:
        with pytest.raises(StoreError, match="to be read only"), store.write():
            pass
        with store._engine.connect() as connection:
            for statement in ("DELETE FROM tensorucb_round", "UPDATE tensorucb_blob SET name = 'other'"):
                with pytest.raises(sa.exc.DBAPIError, match=r"(?i)read-?only"):
                    connection.exec_driver_sql(statement)
                connection.rollback()
        with store.read() as session:
            assert content(session) == before


def test_a_campaign_is_read_while_another_process_writes(url):
    with small_campaign(url) as campaign, open_store(url, read_only=True) as store:
        ask = campaign.ask("tea", 3)
        with load_campaign("spring", storage=store, clock=Clock()) as reader:
            assert reader.status().open == 1
            campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
            assert reader.status().open == 0
            assert reader.progress().rounds[0].number == 1
            assert reader.explain(ask.id).seeds
            assert [line.rounds for line in list_campaigns(store)] == [1]
            for change in (lambda: reader.ask("tea", 3), lambda: reader.add_products(["ink"], [[1.0, 1.0]])):
                with pytest.raises(StoreError, match="to be read only"):
                    change()


def test_a_store_that_is_missing_empty_or_in_memory_is_refused(tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        open_store(f"sqlite:///{tmp_path}/none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match=r"no tables yet.*open it once"):
        open_store(f"sqlite:///{tmp_path}/empty.db", read_only=True)
    with pytest.raises(InputError, match="in memory"):
        open_store("memory://", read_only=True)
