"""A command that is refused changes nothing, also where a round is past its deadline; and it makes no new store."""

import sqlite3

import pytest

from campaign.worlds import answers, small_campaign
from cli.commands import run
from tensorucb.campaign import load_campaign

# Clocks of small campaigns stand still in the past, so for a command every deadline has passed.
REFUSED = {
    "ask: product": ["ask", "spring", "--product", "coal", "-k", 2],
    "ask: k": ["ask", "spring", "--product", "tea", "-k", 31],
    "ask: candidates": ["ask", "spring", "--product", "tea", "-k", 2, "--candidates", "nobody"],
    "ask: holdout": ["ask", "spring", "--product", "tea", "-k", 2, "--holdout", 0.01],
    "tell: round": ["tell", "spring", 9, "{rows}"],
    "tell: user": ["tell", "spring", 1, "{strangers}"],
    "tell: file": ["tell", "spring", 1, "missing.csv"],
    "tell: log": ["tell", "spring", "{strangers}"],
    "close": ["close", "spring", 9],
    "cancel": ["close", "spring", 9, "--cancel"],
    "cancel: learned": ["close", "spring", 1, "--cancel"],
    "add-products": ["add-products", "spring", "{products}"],
    "add-strategies": ["add-strategies", "spring", "{products}"],
    "set-costs": ["set-costs", "spring", "letter=2"],
    "opt-out": ["opt-out", "spring", "@missing.txt"],
    "preview": ["preview", "spring", "--product", "tea", "-k", 2, "--users", "nobody"],
    "add-users": ["add-users", "spring", "--users", "{users}"],
    "import-history": ["import-history", "spring", "{strangers}"],
    "forget": ["forget", "spring", "nobody", "--yes"],
    "delete": ["delete", "winter", "--yes"],
    "expire": ["expire", "winter"],
    "export": ["export", "winter", "--out", "{out}"],
    "report": ["report", "winter", "--out", "{out}"],
    "create: name": ["create", "spring", "--edges", "{edges}"],
    "create: policy": ["create", "new", "--edges", "{edges}", "--policy", "TensorUCB", "--settings", '{{"rank": 0}}'],
    "create: ask": ["create", "new", "--edges", "{edges}", "--config", "{config}"],
    "token add": ["token", "add", "{storage}", "ann", "--role", "king"],
    "token revoke": ["token", "revoke", "{storage}", "ann"],
}


def _dump(path):
    """Everything in a SQLite file, as SQL."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        lines = list(connection.iterdump())
    connection.close()
    return lines


@pytest.fixture
def files(tmp_path):
    """Files for the commands; their names go into the arguments."""
    texts = {
        "rows": "source,target,outcome\nperson-000,person-001,1\n",
        "strangers": "source,target,outcome,round,product\nnobody,person-001,1,1,tea\n",
        "products": "product,size,weight,price\ncup,1,2,3\n",
        "users": "user,age\nperson-000,x\nfresh,7\n",
        "edges": "source,target\nann,bob\nbob,cid\ncid,ann\n",
    }
    paths = {name: tmp_path / f"{name}.csv" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    paths["config"] = tmp_path / "config.toml"
    paths["config"].write_text('[ask]\nexclude = ["nobody"]\n')
    return {**paths, "out": tmp_path / "out"}


def _refused(words, files, path):
    given = [str(word).format(**files, storage=f"sqlite:///{path}") for word in words]
    storage = [] if words[0] == "token" else ["--storage", f"sqlite:///{path}"]
    result = run(*given, *storage, code=1)
    assert result.stderr


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_refused_command_changes_nothing(words, files, tmp_path):
    path = tmp_path / "c.db"
    with small_campaign(f"sqlite:///{path}", snapshot_every=1) as campaign:
        first = campaign.ask("tea", 2)
        campaign.tell(first.id, answers(campaign, first))
        campaign.close(first.id)
        second = campaign.ask("soap", 2, deadline="1h")
        campaign.tell(second.id, answers(campaign, second))
    before = _dump(path)
    _refused(words, files, path)
    assert _dump(path) == before
    assert not files["out"].exists()
    # A command that is not refused closes the round.
    with load_campaign("spring", storage=f"sqlite:///{path}") as campaign:
        assert campaign.expire() == [second.id]


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_refused_command_makes_no_store(words, files, tmp_path):
    if words[0] == "create" and words[1] == "spring":
        pytest.skip("without a store the name is free")
    before = sorted(tmp_path.iterdir())
    _refused(words, files, tmp_path / "new.db")
    assert sorted(tmp_path.iterdir()) == before
