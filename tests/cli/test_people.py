"""Opt-outs, consent, contact caps, previews and changing offers on the command line."""

from __future__ import annotations

import polars as pl
import pytest

from cli.commands import run, run_json

FILES = ("--edges", "edges.csv", "--users", "users.csv", "--strategies", "strategies.csv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with files for a campaign: twelve users, of whom two have not consented."""
    monkeypatch.chdir(tmp_path)
    pairs = [(f"u{i}", f"u{(i * 5 + j) % 12}") for i in range(12) for j in range(1, 4) if (i * 5 + j) % 12 != i]
    pl.DataFrame(pairs, schema=["source", "target"], orient="row").write_csv("edges.csv")
    users = {"user": [f"u{i}" for i in range(12)], "age": range(12), "email_optin": ["yes"] * 10 + ["no", None]}
    pl.DataFrame(users).write_csv("users.csv")
    pl.DataFrame({"strategy": ["email", "call"], "cost": [0.5, 2.0], "x": [1, 0], "y": [0, 1]}).write_csv(
        "strategies.csv"
    )
    return tmp_path


def make(name, *more):
    return run_json("create", name, *FILES, "--consent", "email_optin", *more)


def ask(name, *more, **options):
    return run_json("ask", name, "--strategy", "email", *more, **options)


def test_opt_outs_from_a_file(folder):
    made = make("spring")
    assert made["no_consent"] == 2
    assert any("Consent: column email_optin; 10 users" in line for line in made["report"])
    (folder / "out.txt").write_text("u1\nu2\nsomebody\n")
    report = run_json("opt-out", "spring", "@out.txt", "u3")
    assert report == {"users": 3, "unknown": 1, "changed": 4, "in_open_rounds": 0, "still_out": 0}
    assert set(ask("spring", "-k", 7)["seeds"]) == {"u0", *(f"u{i}" for i in range(4, 10))}
    said = run("ask", "spring", "--strategy", "email", "--users", "u1", "--users", "u11", code=1).stderr
    assert "names 'u1', who has opted out; and 'u11', who has given no consent." in said
    text = run("status", "spring").stdout
    assert "Not to be contacted: 3 users opted out (1 more is no user here), 2 without consent." in text
    assert run("status", "spring", "--user", "u2").stdout == "u2 has opted out.\n"
    assert run_json("status", "spring", "--user", "u0") == {"user": "u0", "why_not": None}
    again = run("opt-in", "spring", "u1", "somebody").stdout
    assert (
        again
        == "1 user opted in for this campaign, and 1 who is no user, kept in case they join; 2 of these are new.\n"
    )
    assert run_json("status", "spring")["opted_out"] == 2


def test_opt_outs_from_a_table(folder):
    make("spring", "--column", "users.user=user")
    (folder / "out.csv").write_text("\ufeffcustomer_id;unsubscribed_on\r\nu1;2026-01-01\r\n\r\nu2;2026-01-02\r\n")
    assert run_json("opt-out", "spring", "@out.csv", "u3")["users"] == 3
    pl.DataFrame({"member": ["u4"]}).write_parquet("out.parquet")
    (folder / "plain.csv").write_text("u5\nu6\n")
    assert run_json("opt-out", "spring", "@out.parquet", "@plain.csv")["users"] == 3
    assert set(ask("spring", "-k", 4)["seeds"]) == {"u0", "u7", "u8", "u9"}
    assert "u1" not in ask("spring", "-k", 2, "--candidates", "@users.csv")["seeds"]
    (folder / "torn.csv").write_text("user,when\nu7,2026\n,2026\nu8\n")
    said = run("opt-out", "spring", "@torn.csv", code=1).stderr
    assert (
        "torn.csv: 2 of 3 rows cannot be used: user is empty (line 3); wrong number of fields (line 4: 'u8')." in said
    )
    assert run_json("status", "spring")["opted_out"] == 6
    (folder / "other.csv").write_text("mail,when\na@b,2026\n")
    assert "other.csv has no column user (or user_id, " in run("opt-out", "spring", "@other.csv", code=1).stderr
    ended = run("opt-out", "spring", "7", "8")
    assert ended.stdout.startswith(
        "0 users opted out for this campaign, and 2 who are no users, kept in case they join"
    )
    assert "None of them is a user of this campaign: check that these are its ids." in ended.stderr


def test_a_table_of_people_is_read_by_the_names_of_the_creation(folder):
    pl.read_csv("users.csv").rename({"user": "Kunde"}).write_csv("users.csv")
    make("spring", "--column", "users.user=Kunde")
    (folder / "out.csv").write_text("Kunde,Tag\nu1,1\n")
    assert run_json("opt-out", "spring", "@out.csv")["users"] == 1


def test_opt_outs_everywhere(folder):
    make("spring")
    make("autumn")
    ask("autumn", "--users", "u4")
    said = run("opt-out", "autumn", "u4", "--everywhere").stdout
    assert said.startswith("1 user opted out for all campaigns of the store; 1 of these are new.\n1 of them are to be ")
    assert run("status", "spring", "--user", "u4").stdout == "u4 has opted out.\n"
    assert "--everywhere undoes that" in run("opt-in", "spring", "u4").stdout
    run("opt-in", "spring", "u4", "--everywhere")
    assert run("status", "autumn", "--user", "u4").stdout == "u4 may be contacted now.\n"


def test_users_who_join_bring_their_consent(folder):
    make("spring")
    pl.DataFrame({"user": ["v1", "v2"], "age": [1, 2], "email_optin": [None, "TRUE"]}).write_csv("more.csv")
    run("add-users", "spring", "--users", "more.csv")
    assert run("status", "spring", "--user", "v1").stdout == "v1 has given no consent.\n"
    assert run("status", "spring", "--user", "v2").stdout == "v2 may be contacted now.\n"


def test_a_cap_over_two_campaigns(folder):
    (folder / "c.toml").write_text(
        '[campaign]\nname = "spring"\nconsent = "email_optin"\ncontact_group = "all"\ncontact_cap = "1/7d"\n'
        '[data]\nedges = "edges.csv"\nusers = "users.csv"\nstrategies = "strategies.csv"\n'
    )
    run("create", "--config", "c.toml")
    make("autumn", "--contact-group", "all")
    ask("spring", "--users", "u4")
    assert "u4 has reached the contact cap until 20" in run("status", "autumn", "--user", "u4").stdout
    assert "u4" not in ask("autumn", "-k", 5)["seeds"]
    assert "--contact-cap must be" in run("create", "c", *FILES, "--contact-cap", "weekly", code=1).stderr


def test_a_preview_opens_nothing_and_ask_gives_the_same(folder):
    make("spring")
    seen = run_json("preview", "spring", "--strategy", "email", "-k", 3, "--exclude", "u1")
    assert run_json("status", "spring")["rounds"] == []
    text = run("preview", "spring", "--strategy", "email", "--users", "u5").stdout
    assert "nothing is opened" in text
    assert "beside the campaign's own choice" in text
    asked = ask("spring", "-k", 3, "--exclude", "u1")
    assert asked["seeds"] == seen["seeds"]
    assert asked["reach"] == seen["reach"]
    assert "--audience-rest DURATION" in run("preview", "--help").stdout


def test_the_same_followers_again_and_again(folder):
    make("spring")
    for _ in range(3):
        assert ask("spring", "-k", 2)["fatigue"] is None
    text = run("ask", "spring", "--strategy", "email", "-k", 2).stdout
    assert "(100 %) were addressed in at least two of the last 3 rounds." in text
    tired = ask("spring", "-k", 2)["fatigue"]
    assert tired["again"] == tired["audience"] > 0
    said = run("ask", "spring", "--strategy", "email", "-k", 12, "--audience-rest", "7d", code=1).stderr
    assert "whose followers rest" in said


def test_offers_change(folder):
    make("spring")
    first = ask("spring", "-k", 2)
    pl.DataFrame({"strategy": ["letter", "email"], "cost": [1.0, 0.5], "x": [1, 1], "y": [1, 0]}).write_csv("new.csv")
    added = run_json("add-strategies", "spring", "new.csv")
    assert added == {"added": 1, "known": 1, "strategies": 3, "report": ["new.csv: 2 rows, 2 kept"]}
    assert run("set-costs", "spring", "email=0.75", "letter=2").stdout == (
        "Costs from now on: email 0.75, call 2.00, letter 2.00.\n"
    )
    assert ask("spring", "-k", 2)["cost"] == 1.5
    rounds = run_json("status", "spring")["rounds"]
    assert [each["cost"] for each in rounds] == [first["cost"], 1.5] == [1.0, 1.5]
    said = run("ask", "spring", "-k", 2, code=1).stderr
    assert "this campaign has strategies, so a round needs one. Give --strategies all, or some of their ids." in said
    assert run("ask", "spring", "-k", 2, "--strategies", "all").stdout.endswith("then tensorucb tell spring 3 FILE\n")
    for wrong in ("email", "email=x", "=2"):
        assert "letter=1.5" in run("set-costs", "spring", wrong, code=2).stderr
    assert "`tensorucb set-costs`" in run("add-strategies", "spring", "new.csv", code=1).stderr
