"""How many SQL statements a call takes: as few for a long campaign as for a short one."""

import time

import pytest
import sqlalchemy as sa

from campaign.worlds import answers, small_campaign
from tensorucb import load_campaign


@pytest.fixture
def statements():
    """All statements of this process, BEGIN included, as they come."""
    seen = []

    def note(connection, cursor, statement, *_):
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("", 6),
        ("/progress", 6),
        ("/rounds", 4),
        ("/rounds/1", 4),
        ("/rounds/1/explanation", 7),
        ("/users/person-001", 4),
    ],
)
def test_a_call_that_reads_has_one_session(serve, storage, statements, path, most):
    client = serve(storage)
    for _ in range(3):
        number = client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2}).json()["number"]
        client.post(f"/campaigns/spring/rounds/{number}/close")
    counts = []
    for _ in range(5):  # meanwhile the service may look at tokens and deadlines
        statements.clear()
        assert client.get(f"/campaigns/spring{path}").status_code == 200
        counts.append(len(statements))
    assert min(counts) <= most


def test_progress_of_many_rounds_takes_few_statements(tmp_path, statements):
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url, clock=time.time) as campaign:
        for i in range(60):
            ask = campaign.ask("tea", 2, holdout=0.5 if i % 2 else 0.0)
            campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
        expected = campaign.progress()
    # What was counted of the first fifty is stored with them.
    statements.clear()
    with load_campaign("spring", storage=url) as campaign:
        assert campaign.progress() == expected
        assert len(statements) < 60
        statements.clear()
        assert campaign.progress() == expected
        assert len(statements) <= 6
