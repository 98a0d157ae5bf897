"""Tokens, roles, the login of the page, and masked ids."""

import re
import time

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign.worlds import small_campaign
from cli.commands import run
from service.serving import FRESH, WEB, add_token, serving
from service.serving import bearer as _bearer

# private: a login lasts hours, so its clock is moved
from tensorucb.service._tokens import SESSION, Principal, TokenBook
from tensorucb.store import open_store

API = "/api/v1"


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('auth')}/c.db"
    small_campaign(url).disconnect()
    return url


@pytest.fixture(scope="module")
def tokens(storage):
    return {role: add_token(storage, f"{role}er", role) for role in ("read", "operate", "admin")}


@pytest.fixture(scope="module")
def url(storage, tokens):
    with serving(storage) as url:
        yield url


def test_without_tokens_everybody_on_the_machine_is_admin(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    with serving(storage) as url:
        found = WEB.get(f"{url}{API}/session").json()
        assert found["role"] == "admin"
        assert not found["login"]
        assert WEB.get(f"{url}{API}/campaigns/spring").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        _bearer("tucb_" + "A" * 43),
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": "tensorucb_session=cmVhZGVy.99999999999." + "0" * 64},
        {"Cookie": "tensorucb_session="},
        {"Cookie": 'tensorucb_session="'},
    ],
    ids=str,
)
def test_a_stranger_sees_nothing(url, headers):
    for path in (f"{API}/campaigns/spring", "/metrics"):
        answer = WEB.get(f"{url}{path}", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "tensorucb token add" in answer.json()["detail"]
    assert WEB.get(f"{url}{API}/session", headers=headers).json() == {
        "name": None,
        "role": None,
        "login": True,
        "read_only": False,
        "version": None,
    }


def test_health_is_for_everybody(url):
    assert WEB.get(f"{url}/healthz").json() == {"status": "alive"}
    assert WEB.get(f"{url}/readyz").json() == {"status": "ready"}


def test_a_service_whose_database_is_down_is_alive_and_not_ready(postgres_server, fresh_postgres_url):
    small_campaign(fresh_postgres_url).disconnect()
    with serving(fresh_postgres_url) as url:
        assert WEB.get(f"{url}/readyz").status_code == 200
        postgres_server.stop("immediate")
        try:
            assert WEB.get(f"{url}/healthz").json() == {"status": "alive"}
            for wait in (0.0, FRESH):  # the database is missed by the route, and then by the check of tokens
                time.sleep(wait)
                for path in ("/readyz", f"{API}/campaigns/spring"):
                    refused = WEB.get(f"{url}{path}")
                    assert refused.status_code == 503
                    assert "the store is out of reach" in refused.json()["detail"]
                    assert "127.0.0.1" not in refused.text
        finally:
            postgres_server.start()
        assert WEB.get(f"{url}/healthz").status_code == 200
        assert WEB.get(f"{url}/readyz").status_code == 200


def test_a_role_may_what_those_below_it_may(url, tokens):
    for role, ask in {"read": 403, "operate": 201, "admin": 201}.items():
        headers = _bearer(tokens[role])
        assert WEB.get(f"{url}{API}/session", headers=headers).json()["role"] == role
        assert WEB.get(f"{url}{API}/campaigns/spring", headers=headers).status_code == 200
        answer = WEB.post(f"{url}{API}/campaigns/spring/rounds", json={"product": "tea", "k": 2}, headers=headers)
        assert answer.status_code == ask, answer.text
    refused = WEB.post(f"{url}{API}/campaigns/spring/rounds", json={}, headers=_bearer(tokens["read"]))
    assert refused.json()["detail"] == "this needs the role operate; your token 'reader' has the role read."


def test_a_login_is_a_cookie_that_scripts_and_other_sites_never_see(url, storage, tokens):
    with httpx.Client(base_url=url, headers={"Origin": url}) as browser:
        assert browser.post(f"{API}/session", json={"token": "tucb_wrong"}).status_code == 401
        answer = browser.post(f"{API}/session", json={"token": f" {tokens['operate']}\n"})
        assert (answer.status_code, answer.json()["role"]) == (200, "operate")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" not in cookie
        assert tokens["operate"] not in answer.text + cookie
        assert browser.get(f"{API}/campaigns/spring").status_code == 200
        assert browser.get(f"{API}/session").json()["name"] == "operateer"
        kept = {"Cookie": f"tensorucb_session={browser.cookies['tensorucb_session']}"}
        with serving(storage) as other:
            assert WEB.get(f"{other}{API}/campaigns/spring", headers=kept).status_code == 200
            assert browser.delete(f"{API}/session").status_code == 204
            assert browser.get(f"{API}/campaigns/spring").status_code == 401
            assert WEB.get(f"{url}{API}/campaigns/spring", headers=kept).status_code == 401
            time.sleep(FRESH)
            assert WEB.get(f"{other}{API}/campaigns/spring", headers=kept).status_code == 401
        # Somebody who comes back at once gets another login.
        assert browser.post(f"{API}/session", json={"token": tokens["operate"]}).status_code == 200
        assert browser.get(f"{API}/campaigns/spring").status_code == 200
        assert browser.delete(f"{API}/session").status_code == 204
        assert browser.delete(f"{API}/session").status_code == 204


def test_a_login_ends_where_nothing_may_be_written(storage, tokens):
    with serving(storage, read_only=True) as url, httpx.Client(base_url=url, headers={"Origin": url}) as browser:
        assert browser.post(f"{API}/session", json={"token": tokens["read"]}).status_code == 200
        kept = {"Cookie": f"tensorucb_session={browser.cookies['tensorucb_session']}"}
        assert WEB.get(f"{url}{API}/campaigns/spring", headers=kept).status_code == 200
        assert browser.delete(f"{API}/session").status_code == 204
        time.sleep(FRESH)
        assert WEB.get(f"{url}{API}/campaigns/spring", headers=kept).status_code == 401


def test_a_login_behind_tls_is_never_sent_without(url, tokens):
    host = {"Origin": url.replace("http:", "https:")}
    answer = WEB.post(f"{url}{API}/session", json={"token": tokens["read"]}, headers=host)
    assert "; secure" in answer.headers["set-cookie"].lower()


def test_tokens_count_and_are_revoked_while_the_service_runs(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    with serving(storage) as url:
        assert WEB.get(f"{url}{API}/campaigns/spring").status_code == 200
        token = add_token(storage, "ann", "admin")
        time.sleep(FRESH)
        assert WEB.get(f"{url}{API}/campaigns/spring").status_code == 401
        assert WEB.get(f"{url}{API}/campaigns/spring", headers=_bearer(token)).status_code == 200
        with httpx.Client(base_url=url, headers={"Origin": url}) as browser:
            assert browser.post(f"{API}/session", json={"token": token}).status_code == 200
            assert browser.get(f"{API}/campaigns/spring").status_code == 200
            run("token", "revoke", storage, "ann")
            time.sleep(FRESH)
            assert browser.get(f"{API}/campaigns/spring").status_code == 401
        assert WEB.get(f"{url}{API}/campaigns/spring", headers=_bearer(token)).status_code == 401
        # The last token is gone, but that opens no door.
        assert WEB.get(f"{url}{API}/campaigns/spring").status_code == 401


def test_the_store_never_holds_a_token(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    token = add_token(storage, "ann", "read")
    assert "called 'ann' already" in run("token", "add", storage, "ann", "--role", "admin", code=1).stderr
    for name, role in (("", "read"), ("x" * 101, "read"), ("bob", "root"), ("a\0", "read")):
        assert re.match(
            "tensorucb: (NAME|--role) (must|is) ", run("token", "add", storage, name, "--role", role, code=1).stderr
        )
    with open_store(storage) as store:
        assert _book(store).of_token(token) == Principal("ann", "read")
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in files
    assert token.removeprefix("tucb_").encode() not in files


def _store(path, **roles):
    for name, role in roles.items():
        add_token(f"sqlite:///{path}", name, role)
    return open_store(f"sqlite:///{path}")


def _book(store, clock=lambda: 1000.0):
    book = TokenBook(store, demanded=True, clock=clock)
    book.refresh()
    return book


def test_a_session_ends_with_its_time_and_cannot_be_made_up(tmp_path):
    now = [1000.0]
    book = _book(_store(tmp_path / "here.db", ann="read", bob="admin"), lambda: now[0])
    cookie = book.open_session(Principal("ann", "read"))
    assert book.of_session(cookie) == Principal("ann", "read")
    assert _book(_store(tmp_path / "there.db", ann="admin")).of_session(cookie) is None
    number, ends, seal = cookie.split(".")
    assert book.open_session(Principal("ann", "read")) != cookie
    admin = book.open_session(Principal("bob", "admin")).split(".")[0]
    for forged in (
        f"{admin}.{ends}.{seal}",
        f"{number}.{int(ends) + 1}.{seal}",
        f"{number}.{ends}.{seal[:-1]}0",
        cookie[1:],
    ):
        assert book.of_session(forged) is None or forged == cookie
    now[0] += SESSION - 1
    assert book.of_session(cookie) is not None
    now[0] += 2
    assert book.of_session(cookie) is None


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with _store(tmp_path_factory.mktemp("book") / "c.db", ann="read") as store:
        yield store


@pytest.fixture(scope="module")
def book(store):
    return _book(store)


@settings(max_examples=40)
@given(st.text(st.characters()) | st.from_regex(r"[a-zA-Z0-9]*\.[0-9a-z-]*\.[0-9a-f]{0,64}", fullmatch=True))
def test_nothing_made_up_is_a_session_or_a_token(book, text):
    assert book.of_session(text) is None
    assert book.of_token(text) is None


def test_masked_ids_are_stable_and_tell_nothing(book, store):
    again = _book(store)
    assert book.masked("person-001") == again.masked("person-001")
    assert book.masked("7") != book.masked(7)
    masked = {book.masked(f"person-{i}") for i in range(2000)}
    assert len(masked) == 2000
    assert all(name.startswith("user-") and "person" not in name for name in masked)
    assert _book(open_store("memory://")).masked("person-001") != book.masked("person-001")
