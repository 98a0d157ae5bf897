"""What is typed on the command line: taken exactly, or refused in one line that names the option."""

from __future__ import annotations

import random
import re
import time
from functools import cache

import polars as pl
import pytest

from cli.commands import command_names, invoke, run
from tensorucb.campaign import load_campaign

USERS = ["ann", "@ann", "bob", "bob ", "007", "7", "-x", "cleo", "dan", "eve"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A network whose ids differ by a space or a sign, and a campaign on it."""
    monkeypatch.chdir(tmp_path)
    pairs = [(USERS[i], USERS[(i + j) % 10]) for i in range(10) for j in (1, 2, 3)]
    pl.DataFrame(pairs, schema=["source", "target"], orient="row").write_parquet("edges.parquet")
    (tmp_path / "products.csv").write_text("product,x,y\n007,1,0\n8,0,1\n")
    (tmp_path / "users.csv").write_text("user,x,group\n" + "".join(f'"{u}",{i},g\n' for i, u in enumerate(USERS)))
    run("create", "c", *CREATE, "--products", "products.csv", "--users", "users.csv")
    return tmp_path


CREATE = ("--edges", "edges.parquet", "--policy", "HighDegree", "--objective", "direct")


def seeds(*arguments) -> set[str]:
    before = {ask.id for ask in rounds()}
    run("ask", "c", "--product", "8", *arguments)
    (fresh,) = [ask for ask in rounds() if ask.id not in before]
    return set(fresh.seeds)


def rounds():
    with load_campaign("c") as campaign:
        return campaign.rounds()


def refused(*arguments, code=1) -> str:
    result = run(*arguments, code=code)
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize(
    ("value", "user"), [("bob", "bob"), ("bob ", "bob "), ("@@ann", "@ann"), ("ann", "ann"), ("007", "007"), ("7", "7")]
)
def test_ids_are_taken_exactly_as_typed(folder, value, user):
    assert set(USERS) - seeds("-k", 9, "--exclude", value) == {user}
    told = run("select", "edges.parquet", "-k", 9, "--exclude", value, "--objective", "direct").stdout
    assert len(re.findall(r"^ *\d+  ", told, re.MULTILINE)) == 9


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_file_lose_only_their_end(folder, end):
    (folder / "out.txt").write_bytes(f"bob {end}{end}@ann{end}7".encode())
    assert set(USERS) - seeds("-k", 7, "--exclude", "@out.txt") == {"bob ", "@ann", "7"}


def test_a_file_that_is_not_there_says_how_to_name_a_user(folder):
    for line in (("ask", "c", "--product", "8", "-k", 1), ("select", "edges.parquet")):
        told = refused(*line, "--exclude", "@ann")
        assert "--exclude '@ann' reads a file, but 'ann' cannot be read" in told
        assert "write '@@ann'" in told
    assert "@@ann" in run("ask", "--help").stdout
    assert "@@ann" in " ".join(run("select", "--help").stdout.split())


@pytest.mark.parametrize("option", ["--shadow", "--candidates"])
def test_an_empty_file_opens_no_round(folder, option):
    (folder / "empty.txt").write_text("\n\n")
    told = refused("ask", "c", "--product", "8", "-k", 2, option, "@empty.txt")
    assert told.startswith(f"tensorucb: {option} names nobody")
    assert rounds() == ()


def test_products_with_leading_zeros_stay_text(folder):
    run("ask", "c", "--product", "007", "-k", 1)
    assert [ask.product for ask in rounds()] == ["007"]
    assert "--product '7'" in refused("ask", "c", "--product", "7", "-k", 1)
    (folder / "numbers.csv").write_text("product,x,y\n7,1,0\n8,0,1\n")
    run("create", "n", *CREATE, "--products", "numbers.csv")
    with load_campaign("n") as campaign:
        assert campaign.products() == (7, 8)
    assert "--product '007'" in refused("ask", "n", "--product", "007", "-k", 1)
    run("ask", "n", "--product", "7", "-k", 1)


def test_history_names_products_as_the_catalogue_does(folder):
    (folder / "numbers.csv").write_text("product,x,y\n7,1,0\n8,0,1\n")
    run("create", "n", *CREATE, "--products", "numbers.csv")
    (folder / "h.csv").write_text("source,target,outcome,product\nann,@ann,1,007\n007,7,0,8\n")
    assert "2 rounds with 2 responses imported" in run("import-history", "c", "h.csv").stdout
    assert "2 rounds known before" in run("import-history", "c", "h.csv").stdout
    assert "'007'" in refused("import-history", "n", "h.csv")
    (folder / "h.csv").write_text("source,target,outcome,product\nann,@ann,1,7\n")
    assert "1 round with" in run("import-history", "n", "h.csv").stdout


def test_a_deadline_in_the_past(folder):
    for moment in ("2001-01-01", "1000", f"{time.time() - 5}", "-1e9"):
        told = refused("ask", "c", "--product", "8", "-k", 1, "--deadline", moment)
        assert "--deadline must be in the future; got '" in told
    for moment in ("nan", "inf", "1e300", "soon", "99999-01-01", "0d", "3days"):
        assert "--deadline must" in refused("ask", "c", "--product", "8", "-k", 1, "--deadline", moment)
    assert rounds() == ()


@pytest.mark.parametrize(
    ("line", "option"),
    [
        *(
            (("ask", "c", "--product", "8", "-k", "1", *pair), pair[0])
            for pair in (("--window", "-5"), ("--window", "0"), ("--cooldown", "-5"), ("--cooldown", "7days"))
        ),
        *(
            (("ask", "c", "--product", "8", "-k", "1", option, value), option)
            for option in ("--window", "--cooldown", "--budget", "--holdout")
            for value in ("nan", "inf", "-inf", "ten", "")
        ),
        (("ask", "c", "--product", "8", "-k", "ten"), "--k"),
        (("ask", "c", "--product", "8", "-k", "9" * 400), "--k"),
        (("ask", "c", "--product", "8", "-k", "1.5"), "--k"),
        (("ask", "c", "--features", "1,nan", "-k", "1"), "--features"),
        (("ask", "c", "--features", "1,1e400", "-k", "1"), "--features"),
        (("ask", "c", "--product", "8", "-k", "1", "--quota", "g=" + "9" * 400), "--quota"),
        (("ask", "c", "--product", "8", "-k", "1", "--quota", "g=1", "--quota", "g=2"), "--quota"),
        (("ask", "c", "--product", "8", "-k", "1", "--credit", "most"), "--credit"),
        (("ask", "c", "--product", "8", "-k", "1", "--objective", "most"), "--objective"),
        (("ask", "c", "--product", "8", "-k", "2", "--must-include", "ann", "--exclude", "ann"), "--must-include"),
        (("select", "edges.parquet", "--threads", "99999999999"), "--threads"),
        (("select", "edges.parquet", "--uniform", "nan"), "--uniform"),
        (("select", "edges.parquet", "--epsilon", "nan"), "--epsilon"),
        (("select", "edges.parquet", "--seed", "9" * 400), "--seed"),
        (("select", "edges.parquet", "-k", "9" * 400), "--k"),
        (("create", "x", *CREATE, "--window", "-1"), "--window"),
        (("create", "x", *CREATE, "--window", "nan"), "--window"),
        (("create", "x", *CREATE, "--id-type", "word"), "--id-type"),
        (("create", "x", *CREATE, "--credit", "most"), "--credit"),
        (("create", "x", *CREATE, "--seed", "9" * 400), "--seed"),
        (("datasets", "make", "sandbox", "--out", "o", "--scale", "nan"), "--scale"),
        (("datasets", "make", "sandbox", "--out", "o", "--scale", "-1"), "--scale"),
        (("compare", "--synthetic", "digg", "--product-effect", "inf"), "--product-effect"),
        (("demo", "--rounds", "9" * 400), "--rounds"),
        (("reproduce", "all", "--data", "d", "--window", "-1"), "--window"),
        (("reproduce", "all", "--data", "d", "--window", "7"), "--window"),
    ],
)
def test_wrong_numbers_and_words_name_their_option(folder, line, option):
    result = invoke(*line)
    assert result.exit_code in (1, 2), result.output
    assert result.stderr.count("\n") == 1
    assert option in result.stderr
    assert len(result.stderr) < 1_500
    assert not (folder / "o").exists()


def test_a_window_without_a_unit_is_told_how_to_write_it(folder):
    for command in (("reproduce", "all", "--data", "d"), ("create", "new", "--edges", "e.csv")):
        told = refused(*command, "--window", "7", code=2)
        assert "'--window': it needs a unit: '7d' is 7 days, '7s' is 7 seconds" in told
    assert "'--cooldown': it needs a unit: '7d' is 7 days" in refused("ask", "c", "--cooldown", "7", code=2)


def test_no_message_echoes_a_megabyte(folder):
    long = "y" * 1_000_000
    for line in (
        ("ask", "c", "--product", long, "-k", "1"),
        ("ask", "c", "--product", "8", "-k", long),
        ("ask", "c", "--product", "8", "-k", "1", "--exclude", long),
        ("ask", "c", "--product", "8", "-k", "1", "--exclude", f"@{long}"),
        ("ask", "c", "--features", long, "-k", "1"),
        ("ask", long, "--product", "8", "-k", "1"),
        ("close", "c", long),
        ("create", "x", *CREATE, "--settings", long),
        ("create", "x", *CREATE, "--policy", long),
        ("status", "--storage", f"sqlite:///{long}"),
        (long,),
    ):
        result = invoke(*line)
        assert result.exit_code in (1, 2), result.output[:500]
        assert result.stderr.count("\n") == 1
        assert len(result.stderr) < 1_500


# -- anything at all --

HOSTILE = [
    *("", " ", "-", "--", "@", "@@", "@nowhere", "@.", "0", "-1", "1", "3", "007", "1.5", "1e400", "nan", "-inf"),
    *("9" * 25, "9" * 5000, "ten", "ann", "bob ", "c", "tea", "8"),
    *("\x1b[31m", "\x00", "\ud800", "a\nb", "[/b]", "名前", "{}", "[" * 2000, '{"a": 1}'),
    *("edges.parquet", "users.csv", "products.csv", ".", "/dev/null", "nowhere/at/all.csv"),
    *("g=1", "=", "g=-1", "2001-01-01", "2100-01-01T00:00", "direct", "cascade", "any", "last", "LinUCB", "HighDegree"),
    *("y" * 100_000, "sqlite:///other.db", "memory://", "redis://x", "\ud83d"),
]
QUICK = ("ask", "tell", "close", "status", "create", "select", "forget", "delete", "import-history", "export")
QUICK += ("init", "add-products", "add-users", "report", "lift", "expire", "webhook", "doctor")
QUICK += ("preview", "add-strategies", "set-costs", "opt-out", "opt-in")
LONG_ONES = ("demo", "compare", "reproduce", "tune")
GROUPS = {"datasets": ("list", "describe", "make"), "token": ("add", "list", "revoke")}
ENDLESS = ("serve",)  # only with an argument that is wrong for certain


@cache
def parameters(*names: str) -> tuple[list[str], dict[str, bool]]:
    """The arguments of a command and its options, with whether each takes a value, as its help lists them."""
    before, _, listed = run(*names, "--help").stdout.partition("Options:\n")
    arguments = re.findall(r"^  (\S.*?)  ", before.partition("Arguments:\n")[2], re.MULTILINE)
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)( [^ /]\S*)?", listed, re.MULTILINE)
    return arguments, {name: bool(value) for name, value in options if name != "--help"}


def command_line(rng: random.Random) -> list[str]:
    """A command with arguments and options of its own, most values wrong."""
    name = rng.choice([*QUICK, *QUICK, *LONG_ONES, *GROUPS, *ENDLESS])
    line = [name]
    if name in GROUPS:
        line.append(rng.choice(GROUPS[name]))
    arguments, options = parameters(*line)
    for argument in arguments:
        usual = {"EDGES": "edges.parquet", "USER": "ann"}.get(argument, "c")
        line.append(usual if rng.random() < 0.7 else rng.choice(HOSTILE))
    for option, takes_value in options.items():
        if not takes_value:
            line += [option] if rng.random() < 0.1 and option not in ("--cold-start", "--compile") else []
        elif rng.random() < (0.7 if option in ("--product", "--k", "--edges") else 0.15):
            usual = {"--product": "8", "--k": "2", "--edges": "edges.parquet", "--out": "o"}.get(option)
            value = usual if usual and rng.random() < 0.7 else rng.choice(HOSTILE)
            line += [option, value]
    if name in LONG_ONES:
        line += ["--rounds", rng.choice(["0", "-1", "ten", "nan", "9" * 30])]  # never a real one: minutes each
    if name in ENDLESS:
        line.append(rng.choice(["--no-such-option", "--port=ten", "--port=-1", "--workers=nan"]))
    if name == "datasets" and line[1] == "make":
        line += ["--scale", rng.choice(["-1", "0", "nan", "inf", "x", "0.01"])]
    return line


def outcome(line: list[str]) -> str | None:
    """What is wrong with how a command line ended; None if nothing is."""
    try:
        result = invoke(*line, input=random.Random(len(line)).choice(HOSTILE[:26]) + "\n")
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if result.exit_code not in (0, 1, 2):
        return f"code {result.exit_code}"
    if result.exit_code and "forget" not in line and result.stderr.count("\n") != 1:
        return f"code {result.exit_code} with {result.stderr[:300]!r}"
    if len(result.stderr) > 3_000 or "Traceback" in result.output:
        return f"too much: {result.stderr[:300]!r}"
    return None


def failures(seed: int, number: int) -> list[tuple[list[str], str]]:
    rng = random.Random(seed)
    lines = [command_line(rng) for _ in range(number)]
    return [([value[:60] for value in line], wrong) for line in lines if (wrong := outcome(line))]


def test_hostile_command_lines(folder):
    assert failures(1, 90) == []


@pytest.mark.slow
def test_thousands_of_hostile_command_lines(folder):
    assert failures(2, 4_000) == []


def test_the_fuzz_knows_every_command():
    assert {*QUICK, *LONG_ONES, *GROUPS, *ENDLESS} == set(command_names())
