"""The campaigns of a service between calls: closed in time, opened once, and those that somebody else deletes."""

import sqlite3
import time

from campaign.worlds import small_campaign
from service.serving import add_token, bearer, comes_true
from tensorucb import delete_campaign
from tensorucb.service._tokens import TokenBook  # private: how often it masks an id is what a search costs

USERS = "/campaigns/spring/users"


def test_rounds_are_closed_in_time_whoever_opened_them(serve, storage):
    client = serve(storage)
    client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2, "deadline": time.time() + 3600})
    # Meanwhile somebody opens a round elsewhere, and its time is over at once.
    with small_campaign(storage, name="due", clock=time.time) as campaign:
        campaign.ask("tea", 2, deadline=time.time() + 0.5)
    assert comes_true(lambda: client.get("/campaigns/due/rounds/1").json()["status"] == "closed")
    assert client.get("/campaigns/spring/rounds/1").json()["status"] == "open"
    assert client.get("/campaigns/due").json()["behind"] == 0


def test_a_campaign_that_cannot_be_closed_does_not_stop_the_others(serve, storage):
    client = serve(storage)
    for name, product in (("spring", "tea"), ("autumn", ["tea", "email"])):
        body = {"product": product, "k": 2, "deadline": time.time() + 2.0}
        assert client.post(f"/campaigns/{name}/rounds", json=body).status_code == 201
    # The first is named before the second; whoever looks at it finds that a bit has flipped.
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE tensorucb_campaign SET created = created + 1 WHERE campaign = 1")
    assert comes_true(lambda: client.get("/campaigns/autumn/rounds/1").json()["status"] == "closed")
    assert client.get("/campaigns/spring/rounds/1").status_code == 500


def test_a_campaign_that_another_process_replaces_is_opened_again(serve, storage):
    client = serve(storage)
    assert client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2}).status_code == 201
    delete_campaign("spring", storage=storage)
    assert client.get("/campaigns/spring").status_code == 404
    assert client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2}).status_code == 404
    with small_campaign(storage, clock=time.time) as campaign:
        assert client.get("/campaigns/spring").json()["rounds"] == 0
        delete_campaign("spring", storage=storage)
        small_campaign(storage, clock=time.time, objective="cascade").disconnect()
        # Nobody has asked in between.
        opened = client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2})
        assert (opened.status_code, opened.json()["reach"]["objective"]) == (201, "cascade")
        assert campaign.name == "spring"


def test_a_readers_search_makes_pseudonyms_once_for_a_network(serve, storage, monkeypatch):
    made = []
    real = TokenBook.masked
    monkeypatch.setattr(TokenBook, "masked", lambda book, user: made.append(user) or real(book, user))
    tokens = {role: bearer(add_token(storage, role, role)) for role in ("read", "operate")}
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
