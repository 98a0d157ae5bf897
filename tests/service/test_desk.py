"""What the service keeps of campaigns between calls, and what it costs to look after those that nobody uses."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

from campaign.worlds import small_campaign
from service.conftest import fill
from tensorucb.service import ServiceSettings, _desk
from tensorucb.service._desk import Desk
from tensorucb.service._tokens import TokenBook, add_token
from tensorucb.store import open_store

USERS = "/campaigns/spring/users"


@pytest.fixture
def loaded(monkeypatch):
    """Names of the campaigns that were loaded, in order."""
    names = []

    def load(name, **options):
        names.append(name)
        return real(name, **options)

    real = _desk.load_campaign
    monkeypatch.setattr(_desk, "load_campaign", load)
    return names


def _until(found):
    for _ in range(200):
        if found():
            return True
        time.sleep(0.05)
    return False


def test_closing_due_rounds_loads_only_campaigns_that_have_some(serve, storage, loaded, monkeypatch):
    monkeypatch.setattr(_desk, "TICK", 0.02)
    looked = []
    real = Desk._due
    monkeypatch.setattr(Desk, "_due", lambda desk: looked.append(1) or real(desk))
    for name in ("a", "b", "c"):
        small_campaign(storage, name=name).disconnect()
    client = serve(storage)
    client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2, "deadline": time.time() + 3600})
    assert loaded == ["spring"]
    seen = len(looked)
    assert _until(lambda: len(looked) > seen + 5)
    assert loaded == ["spring"]
    # Meanwhile somebody opens a round elsewhere, and its time is over at once.
    with small_campaign(storage, name="due", clock=time.time) as campaign:
        campaign.ask("tea", 2, deadline=time.time() + 0.5)
    assert _until(lambda: client.get("/campaigns/due/rounds/1").json()["status"] == "closed")
    assert set(loaded) == {"spring", "due"}


def test_a_campaign_that_cannot_be_closed_does_not_stop_the_others(serve, storage, monkeypatch):
    monkeypatch.setattr(_desk, "TICK", 0.02)
    monkeypatch.setattr(_desk, "_close_due", _refusing(_desk._close_due))
    client = serve(storage)
    for name, product in (("spring", "tea"), ("autumn", ["tea", "email"])):
        body = {"product": product, "k": 2, "deadline": time.time() + 1.0}
        assert client.post(f"/campaigns/{name}/rounds", json=body).status_code == 201
    # The first is named before the second.
    assert _until(lambda: client.get("/campaigns/autumn/rounds/1").json()["status"] == "closed")
    assert client.get("/campaigns/spring/rounds/1").json()["status"] == "open"


def _refusing(close):
    def close_due(campaign):
        if campaign.name == "spring":
            raise RuntimeError("cannot be closed")
        close(campaign)

    return close_due


def test_threads_of_all_lines_share_what_is_kept(tmp_path, monkeypatch):
    storage = f"sqlite:///{tmp_path}/c.db"
    fill(storage)
    desk = Desk(ServiceSettings(storage))
    monkeypatch.setattr(_desk, "_HELD", 2)
    monkeypatch.setattr(_desk, "load_campaign", lambda name, **options: SimpleNamespace(name=name))
    monkeypatch.setattr(Desk, "record", lambda self, name: SimpleNamespace(campaign=1))
    wrong = []

    def work(line):
        try:
            for i in range(4000):
                assert desk._campaign(line, f"c{i % 7}").name == f"c{i % 7}"
        except Exception as error:
            wrong.append(repr(error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(f"{line}{i}",)) for i in range(2) for line in _desk._THREADS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
    finally:
        sys.setswitchinterval(before)
        desk.close()
    assert wrong == []


def test_a_readers_search_makes_pseudonyms_once_for_a_network(serve, storage, monkeypatch):
    made = []
    real = TokenBook.masked
    monkeypatch.setattr(TokenBook, "masked", lambda book, user: made.append(user) or real(book, user))
    with open_store(storage) as store:
        tokens = {role: {"Authorization": f"Bearer {add_token(store, role, role)}"} for role in ("read", "operate")}
    client = serve(storage)

    def users(role="read", **query):
        return [entry["id"] for entry in client.get(USERS, params=query, headers=tokens[role]).json()["items"]]

    everybody = users(limit=500)
    assert len(everybody) == len(made) == 30
    found = users(search=everybody[7][:7])
    assert everybody[7] in found
    assert found == [name for name in everybody if name.startswith(everybody[7][:7])]
    before = len(made)
    assert users(search=everybody[8]) == [everybody[8]]
    assert len(made) - before == 1  # of the one that is shown
    assert users(search="us", limit=500) == everybody
    for strange in ("person-", "user-g", "é", f"{everybody[8]}0", everybody[8].upper()):
        assert users(search=strange) == []
    before = len(made)
    one = client.get(f"{USERS}/{everybody[8]}", headers=tokens["read"]).json()
    assert (one["id"], len(made) - before) == (everybody[8], 1)
    for stranger in ("person-008", "user-0000000000000000", "user-"):
        assert client.get(f"{USERS}/{stranger}", headers=tokens["read"]).status_code == 404
    before = len(made)
    assert users("operate", search="person-02") == [f"person-{i:03d}" for i in range(20, 30)]
    assert len(made) == before
    added = {"ids": ["new"], "sources": ["new"], "targets": ["person-001"], "features": [[0.0, 0.0, 0.0]]}
    assert client.post(USERS, json=added, headers=tokens["operate"]).status_code == 201
    assert len(users(search="user-", limit=500)) == 31
