"""No form of a storage URL, right or wrong, ever shows its password; and a store's URL opens it again."""

import logging
import traceback

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from campaign.worlds import small_campaign
from store.content import content, fill
from tensorucb.cli import main
from tensorucb.errors import InputError, StoreError, TensorUCBError
from tensorucb.store import open_store

# private: addresses of databases that are out of reach, and words of a driver
from tensorucb.store._address import masked, said

pytest.importorskip("psycopg")

# A refused port: whatever reaches the driver fails at once.
FORMS = [
    "postgresql://app:{}@127.0.0.1:1/db",
    "postgresql://:{}@127.0.0.1:1/db",
    "postgresql://app:{}@127.0.0.1:port/db",
    "postgresql:/app:{}@127.0.0.1:1/db",
    "postgresql:app:{}@127.0.0.1:1/db",
    "postgresql//app:{}@127.0.0.1:1/db",
    "postgresql:///app:{}@127.0.0.1:1/db",
    "postgresql://app:{}/127.0.0.1:1/db",
    "postgresql://app@127.0.0.1:1/db:{}@",
    "postgresql://app@127.0.0.1:1/db?password={}",
    "postgresql://app@127.0.0.1:1/db?PASSWORD={}",
    "postgresql://app@127.0.0.1:1/db?sslpassword={}",
    "postgresql://app@127.0.0.1:1/db?options={}",
    "postgresql://app@127.0.0.1:1/db?options=-c%20password%3D{}",
    "postgresql://app@127.0.0.1:1/db?connect_timeout={}",
    "postgresql://app@127.0.0.1:1/db?sslmode={}",
    "postgresql://app@127.0.0.1:1/db#{}",
    "POSTGRESQL://app:{}@127.0.0.1:1/db",
    "PostgreSQL+psycopg://app:{}@127.0.0.1:1/db",
    "postgres://app:{}@127.0.0.1:1/db",
    "postgresql+asyncpg://app:{}@127.0.0.1:1/db",
    "mysql://app:{}@127.0.0.1:1/db",
    "app:{}://db",
    "app:{}@127.0.0.1/db",
    "host=127.0.0.1 port=1 user=app password={}",
    "sqlite://app:{}@127.0.0.1/db",
    "sqlite:///app:{}@127.0.0.1/db",
    "sqlite:////app:{}@127.0.0.1/db",
    "sqlite:///absent/file.db?password={}",
    "sqlite:///absent/app:{}@x.db#y",
    "sqlite:///app:{}@db",
    "memory://app:{}@127.0.0.1/db",
    " postgresql://app:{}@127.0.0.1:1/db",
]
SIGNS = "@:/?#&=%+ \\'\"[]{}\t\n*é"
FIRST, SECOND = "Xq7first", "Zv4second"
passwords = st.lists(st.sampled_from(SIGNS), max_size=4).map(lambda signs: f"{FIRST}{''.join(signs)}{SECOND}")


def _shown(url):
    """All that somebody may come to see of a store: errors with their chains, its repr, what it calls itself."""
    try:
        with open_store(url, create=False, timeout=2) as store:
            return f"{store!r} {store} {store.masked_url}"
    except TensorUCBError as error:
        return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FORMS), passwords)
@example("postgresql://app:{}@127.0.0.1:1/db", f"{FIRST}@{SECOND}")
@example("postgresql://app:{}@127.0.0.1:1/db", f"{FIRST}%40{SECOND}")
@example("postgresql://app@127.0.0.1:1/db?password={}", f"{FIRST}&{SECOND}")
def test_no_form_of_a_url_shows_its_password(caplog, form, password):
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        shown = _shown(form.replace("{}", password)) + caplog.text + masked(form.replace("{}", password))
    assert FIRST not in shown
    assert SECOND not in shown


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("password", [f"{FIRST}{SECOND}", f"{FIRST}@{SECOND}"])
def test_each_form_is_a_clear_error_without_its_password(form, password):
    if form.startswith("memory"):
        assert FIRST not in _shown(form.replace("{}", password))
        return
    shown = _shown(form.replace("{}", password))
    assert "Error" in shown
    assert FIRST not in shown
    assert SECOND not in shown


def test_a_password_of_one_letter_hides_the_drivers_words_rather_than_mark_its_places():
    url = "postgresql://app:a@127.0.0.1/db"
    assert said("authentication failed", url) == "(its message quotes the address and is not shown)"
    assert said("no\nroute", url) == "no route"


def test_what_is_no_secret_is_shown():
    assert (
        masked("postgresql://app:pw@db.example:5432/sales?sslmode=require") == "postgresql://app@db.example:5432/sales"
    )
    assert masked("sqlite:////srv/my store.db") == "sqlite:////srv/my store.db"
    assert masked("campaigns.db") == "campaigns.db"
    with pytest.raises(InputError, match="%40 for '@'"):
        open_store("postgresql://app:a@b@127.0.0.1:1/db")
    with pytest.raises(StoreError, match=r"app@127.0.0.1:1/db is out of reach \(PostgreSQL said: .*refused"):
        open_store("postgresql://app:a-b-hunter2@127.0.0.1:1/db")


def test_the_url_opens_the_store_again_and_the_shown_one_has_no_password(fresh_postgres_url):
    address = fresh_postgres_url.replace("test@", f"test:{FIRST}%40@") + f"&password={FIRST}"
    with open_store(address.replace("postgresql", "PostgreSQL")) as store, store.write() as session:
        fill(session)
        before = content(session)
        shown = f"{store!r} {store.masked_url}"
    assert FIRST not in shown
    assert "search_path" not in shown
    with open_store(store.url) as again, again.read() as view:
        assert content(view) == before


def test_a_campaign_and_its_commands_show_no_password(fresh_postgres_url, tmp_path, capfd):
    address = fresh_postgres_url.replace("test@", f"test:{FIRST}@")
    with small_campaign(address) as campaign:
        campaign.ask("tea", 2)
        files = campaign.export(tmp_path)
        shown = repr(campaign) + repr(campaign.store)
    for command in (
        ["status"],
        ["status", "spring"],
        ["status", "absent"],
        ["export", "spring", "--out", str(tmp_path)],
    ):
        with pytest.raises(SystemExit):
            main([*command, "--storage", address])
    printed = capfd.readouterr()
    assert "spring" in printed.out
    assert "absent" in printed.err
    assert FIRST not in shown + printed.out + printed.err
    assert not any(FIRST.encode() in path.read_bytes() for path in files)
