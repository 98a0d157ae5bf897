import pytest

from store.contract import StoreContract
from tensorucb.store import open_store


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self):
        return open_store("memory://")


class TestSQLite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            yield store


class TestPostgreSQL(StoreContract):
    @pytest.fixture
    def store(self, class_postgres_url):
        with open_store(class_postgres_url) as store:
            with store.write() as session:
                for record in session.campaigns():
                    session.delete_campaign(record.campaign)
            yield store
