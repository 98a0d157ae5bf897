"""One mistake at every door: in Python, by a command, over HTTP and with the client. Each says it in its own words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from cli.commands import invoke
from service.conftest import Serve
from tensorucb import errors
from tensorucb.campaign import load_campaign
from tensorucb.client import Client
from tensorucb.errors import InputError, Words, argument, call

PYTHON = r"\w=[ ,.]|\w\(|None|True|False|add_"
"""What no message of the service has: arguments, calls and constants of Python."""


class Mistake(NamedTuple):
    """A question or responses that are refused, and what each door says of it."""

    asked: dict[str, Any]
    typed: tuple[str, ...]
    python: str
    command: str
    http: str
    campaign: str = "spring"
    rows: list[dict[str, Any]] | None = None


MISTAKES = [
    Mistake({"k": 0}, ("-k", "0"), "k must be", "'--k'", "k: input should be"),
    Mistake({"k": 99}, ("-k", "99"), "k = 99 users are wanted", "--k = 99 users are wanted", "k = 99 users are wanted"),
    Mistake(
        {"must_include": ["person-001"], "exclude": ["person-001"]},
        ("--must-include", "person-001", "--exclude", "person-001"),
        "must_include names 'person-001', who",
        "--must-include names 'person-001', who",
        "must_include names 'person-001', who",
    ),
    Mistake(
        {"product": "coffee"},
        ("--product", "coffee"),
        "Add it with add_products(), or give its features.",
        "Add it with `tensorucb add-products`, or give its features.",
        "Add it with POST …/products, or give its features.",
    ),
    Mistake(
        {"budget": 2.0},
        ("--budget", "2"),
        "budget needs costs of users, and the campaign has none. Give them to create_campaign().",
        "--budget needs costs of users, and the campaign has none. Give them to `tensorucb create`.",
        "budget needs costs of users, and the campaign has none. Give them to POST /api/v1/campaigns.",
    ),
    Mistake(
        {"strategies": "all"},
        ("--strategies", "all"),
        "strategies are asked for, but the campaign has none. Name some of its catalogue, or add them with "
        "add_strategies().",
        "--strategies are asked for, but the campaign has none. Name some of its catalogue, or add them with "
        "`tensorucb add-strategies`.",
        "strategies are asked for, but the campaign has none. Name some of its catalogue, or add them with "
        "POST …/strategies.",
    ),
    Mistake(
        {"shadow": ["person-001"], "holdout": 0.5, "k": None},
        ("--shadow", "person-001", "--holdout", "0.5"),
        "shadow contacts nobody, so there is no hold-out",
        "--shadow contacts nobody, so there is no hold-out",
        "shadow contacts nobody, so there is no hold-out",
    ),
    Mistake(
        {"cooldown": "soon"},
        ("--cooldown", "soon"),
        "a text such as '7d', '12h' or '30m', or a timedelta; got 'soon'.",
        "a text such as '7d', '12h' or '30m'; got 'soon'.",
        "a text such as '7d', '12h' or '30m'; got 'soon'.",
    ),
    Mistake(
        {"per_user": True},
        ("--per-user",),
        "per_user needs strategies. Give strategies: 'all'",
        "--per-user needs strategies. Give --strategies: 'all'",
        "per_user needs strategies. Give strategies: 'all'",
        "autumn",
    ),
    Mistake(
        {},
        (),
        "Add users to the network with add_users(), or mend the rows, or allow a larger share with max_left_out=1.0.",
        "Add users to the network with `tensorucb add-users`, or mend the rows, or allow a larger share with "
        "--max-left-out 1.0.",
        "Add users to the network with POST …/users, or mend the rows, or allow a larger share with ?max_left_out=1.0.",
        rows=[{"user": "nobody", "time": 1.0}],
    ),
    Mistake(
        {},
        (),
        "Say which is which with columns={'user': 'NAME'}.",
        "Say which is which with --column user=NAME.",
        "Say which is which with ?column=user:NAME.",
        rows=[{"who": "person-001"}],
    ),
]


class Doors(NamedTuple):
    """The same store behind every door, each campaign with one open round."""

    storage: str
    folder: Path
    http: httpx.Client
    client: Client


@pytest.fixture
def doors(serve: Serve, storage: str, tmp_path: Path) -> Iterator[Doors]:
    with load_campaign("spring", storage=storage) as campaign:
        campaign.ask("tea", 3)
    http = serve(storage)
    with Client(str(http.base_url).removesuffix("/api/v1/")) as client:
        yield Doors(storage, tmp_path, http, client)


def in_python(campaign: Any, mistake: Mistake) -> str:
    """What the error says when the campaign, here or over HTTP, is asked or told this."""
    call = partial(campaign.ask, **{"product": "tea", "k": 3, **mistake.asked})
    if mistake.rows is not None:
        call = partial(campaign.tell, 1, mistake.rows)
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def by_command(doors: Doors, mistake: Mistake) -> str:
    line = ["ask", mistake.campaign]
    if mistake.rows is not None:
        (doors.folder / "rows.ndjson").write_text("".join(f"{json.dumps(row)}\n" for row in mistake.rows))
        line = ["tell", mistake.campaign, "1", str(doors.folder / "rows.ndjson")]
    else:
        usual = {"product": ("--product", "tea"), "k": ("-k", "3")}
        line += [word for name, words in usual.items() if name not in mistake.asked for word in words]
    result = invoke(*line, *mistake.typed, "--storage", doors.storage)
    assert result.exit_code in (1, 2), result.output
    return result.stderr


def over_http(doors: Doors, mistake: Mistake) -> dict[str, Any]:
    rounds = f"/campaigns/{mistake.campaign}/rounds"
    if mistake.rows is not None:
        answer = doors.http.post(f"{rounds}/1/responses", json=mistake.rows)
    else:
        answer = doors.http.post(rounds, json={"product": "tea", "k": 3, **mistake.asked})
    assert answer.status_code == 422
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: "-".join(mistake.typed) or "columns")
def test_each_door_says_it_in_its_own_words(doors: Doors, mistake: Mistake) -> None:
    with load_campaign(mistake.campaign, storage=doors.storage) as campaign:
        said = in_python(campaign, mistake)
    assert mistake.python in said
    assert mistake.command in by_command(doors, mistake)
    document = over_http(doors, mistake)
    assert mistake.http in document["detail"]
    assert not re.search(PYTHON, document["detail"])
    # Whoever uses the client reads Python's words again, whatever the service's are.
    if ": input should" not in document["detail"]:
        assert in_python(doors.client.campaign(mistake.campaign), mistake) == said
        assert Words().said(as_parts(document)) == said


def test_each_door_says_where_users_are_listed(doors: Doors) -> None:
    said = "names 'zed', and the campaign has no such user. {} lists them."
    both = "names 'zed' (row 2), and the campaign has no such user. {} lists them."
    with load_campaign("spring", storage=doors.storage) as campaign:
        for door, users in ((campaign, "campaign.graph.ids"), (doors.client.campaign("spring"), "users()")):
            for name in ("exclude", "candidates", "must_include", "shadow", "users"):
                mistake = Mistake({name: ["person-001", "zed"], "k": None}, (), "", "", "")
                assert in_python(door, mistake) == f"{name} {both.format(users)}"
            with pytest.raises(errors.UnknownIdError) as caught:
                door.forget("zed")
            assert str(caught.value) == f"user {said.format(users)}"
        with pytest.raises(errors.UnknownIdError) as caught:
            campaign.explain(1, "zed")
        assert str(caught.value) == f"user {said.format('campaign.graph.ids')}"
    for name, values in (("costs", [1.0, 2.0]), ("groups", ["a", "b"])):
        document = over_http(doors, Mistake({name: values}, (), "", "", ""))
        assert document["detail"].endswith("One entry per user, in the order of GET …/users.")
    document = over_http(doors, Mistake({"exclude": ["zed"]}, (), "", "", ""))
    assert document["detail"] == f"exclude {said.format('GET …/users')}"


def as_parts(document: dict[str, Any]) -> list[str | errors.Mention]:
    return [part if isinstance(part, str) else errors.Mention(**part) for part in document["parts"]]


def test_a_value_that_looks_like_an_argument_stays(doors: Doors) -> None:
    for value in ("must_include", "add_products()", "max_left_out=1.0"):
        mistake = Mistake({"product": value}, ("--product", value), "", "", "")
        with load_campaign("spring", storage=doors.storage) as campaign:
            assert repr(value) in in_python(campaign, mistake)
        assert repr(value) in by_command(doors, mistake)
        assert repr(value) in over_http(doors, mistake)["detail"]


def test_parts_are_kept_and_a_plain_message_is_shown_as_it_is() -> None:
    error = InputError(argument="k", wanted="a whole number", got="None", advice=("Ask ", call("rounds"), "."))
    assert (error.argument, error.wanted, error.got) == ("k", "a whole number", "None")
    assert str(error) == "k must be a whole number; got None. Ask rounds()."
    assert str(InputError("must_include {k} is wrong.")) == "must_include {k} is wrong."
    assert str(InputError("needs ", argument("costs"), ".", argument="budget")) == "budget needs costs."
