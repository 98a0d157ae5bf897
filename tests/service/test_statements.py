"""How many SQL statements a call takes: as few for a long campaign as for a short one."""

import time

import pytest
import sqlalchemy as sa

from campaign.worlds import answers, small_campaign
from tensorucb import load_campaign
from tensorucb.campaign import copy_campaign


@pytest.fixture
def statements():
    """All statements that SQLite is given from now on, as they come; the end of a session is none."""
    seen = []

    def note(statement):
        if statement != "ROLLBACK":
            seen.append(statement)

    def connected(driver, record):
        driver.set_trace_callback(note)

    # The beginning of a session goes past the events of SQLAlchemy's engine.
    sa.event.listen(sa.pool.Pool, "connect", connected)
    yield seen
    sa.event.remove(sa.pool.Pool, "connect", connected)


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("", 6),
        ("/progress", 4),
        ("/rounds", 4),
        ("/rounds/1", 4),
        ("/rounds/1/explanation", 6),
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


def test_the_list_takes_as_many_for_many_campaigns_as_for_few(serve, storage, statements):
    for number in range(12):
        copy_campaign("spring", f"spring-{number}", storage=storage)
    client = serve(storage)
    counts = []
    for _ in range(5):
        statements.clear()
        assert len(client.get("/campaigns").json()["items"]) == 14
        counts.append(len(statements))
    assert min(counts) <= 5


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
