import os
import random
import signal
import threading
import time

import pytest

from store.workers import CONTEXT, labels, open_at, write_many, write_one, write_until_killed, write_until_refused
from tensorucb.errors import StateError, StoreError
from tensorucb.store import open_store


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def _new_campaign(url):
    with open_store(url) as store, store.write() as session:
        return session.insert_campaign("spring", {}, 0.0).campaign


def _start(target, *arguments):
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(*arguments, send))
    process.start()
    send.close()
    return process, receive


def _write_together(url, processes, count):
    """Many writers and a reader that looks ten times a second; what was wrong, and what was written."""
    number = _new_campaign(url)
    done = threading.Event()
    with open_store(url) as store:
        failures, seen = [], [0]

        def poll():
            while not done.wait(0.1):
                try:
                    with store.read() as view:
                        first, second = len(view.events(number)), len(view.rounds(number))
                    assert first == second >= seen[-1]
                    seen.append(first)
                except Exception as error:
                    failures.append(repr(error))

        reader = threading.Thread(target=poll)
        reader.start()
        writers = [_start(write_many, url, number, f"p{i}", count) for i in range(processes)]
        failures += [answer for _, pipe in writers if (answer := pipe.recv()) is not None]
        for process, _ in writers:
            process.join()
        done.set()
        reader.join()
        assert failures == []
        assert sorted(labels(store, number)) == sorted(f"p{i}-{j}" for i in range(processes) for j in range(count))


def test_8_processes_write_to_one_file_and_nothing_is_lost(sqlite_url):
    _write_together(sqlite_url, 8, 15)


@pytest.mark.slow
def test_32_processes_write_to_one_file_and_nothing_is_lost(sqlite_url):
    _write_together(sqlite_url, 32, 100)


def test_4_processes_write_to_one_postgresql_and_nothing_is_lost(fresh_postgres_url):
    _write_together(fresh_postgres_url, 4, 15)


def _kill_again_and_again(url, kills, seed=0):
    """Writers killed at random moments: what was acknowledged is there, once, and whole."""
    number = _new_campaign(url)
    moments = random.Random(seed)
    acknowledged, following = set(), 0
    for _ in range(kills):
        process, pipe = _start(write_until_killed, url, number, following)
        acknowledged |= {pipe.recv() for _ in range(moments.randint(1, 6))}
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        process.join()
        while True:
            try:
                acknowledged.add(pipe.recv())
            except EOFError:
                break
        with open_store(url) as store:
            if url.startswith("postgresql"):
                with store.write():  # the server may still be ending the killed client's transaction
                    pass
            written = [int(label.removeprefix("w-")) for label in labels(store, number)]
        assert written == list(range(len(written)))
        # The kill may fall between the commit and its acknowledgement, so one more may be there.
        assert acknowledged <= set(written)
        assert len(written) <= max(acknowledged) + 2
        following = len(written)
    assert following >= kills
    print(f"{kills} kills, {len(acknowledged)} writes acknowledged, 0 lost")


def test_10_kills_lose_nothing_that_was_acknowledged(sqlite_url):
    _kill_again_and_again(sqlite_url, 10)


@pytest.mark.slow
def test_200_kills_lose_nothing_that_was_acknowledged(sqlite_url):
    _kill_again_and_again(sqlite_url, 200)


def test_5_kills_of_a_postgresql_client_lose_nothing(fresh_postgres_url):
    _kill_again_and_again(fresh_postgres_url, 5)


@pytest.mark.slow
def test_50_kills_of_a_postgresql_client_lose_nothing(fresh_postgres_url):
    _kill_again_and_again(fresh_postgres_url, 50)


def _kill_the_server(server, url, kills, seed=0):
    """A server killed under its writers at random moments: what was acknowledged is there, once, and whole."""
    number = _new_campaign(url)
    moments = random.Random(seed)
    acknowledged, following = set(), 0
    for kill in range(kills):
        writer = f"{kill}-"
        process, pipe = _start(write_until_refused, url, number, writer)
        said = [pipe.recv() for _ in range(moments.randint(1, 6))]
        time.sleep(moments.uniform(0, 0.05))
        if kill % 3 == 2:
            server.stop("immediate")
        else:
            server.kill()
        *more, last = _heard(pipe)
        process.join()
        said += more
        acknowledged |= set(said)
        assert last.startswith("StoreError"), last
        server.start()
        with open_store(url) as store:
            written = labels(store, number)
        assert len(written) == len(set(written))
        assert acknowledged <= set(written)
        # The kill may fall between the commit and its acknowledgement, so one more may be there.
        assert len(written) - following <= len(said) + 1
        following = len(written)
    assert following >= kills
    print(f"{kills} kills, {len(acknowledged)} writes acknowledged, 0 lost")


def _heard(pipe):
    heard = []
    while True:
        try:
            heard.append(pipe.recv())
        except EOFError:
            return heard


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_kills_of_the_postgresql_server_lose_nothing(postgres_server, fresh_postgres_url, kills):
    _kill_the_server(postgres_server, fresh_postgres_url, kills)


@pytest.fixture
def frozen(postgres_server):
    """Stop processes of the server until the end of the test."""
    stopped = []

    def freeze(*processes):
        for process in processes:
            os.kill(process, signal.SIGSTOP)
            stopped.append(process)

    yield freeze
    for process in stopped:
        os.kill(process, signal.SIGCONT)


def test_a_frozen_server_is_given_up(postgres_server, fresh_postgres_url, frozen):
    number = _new_campaign(fresh_postgres_url)
    with open_store(fresh_postgres_url, timeout=0.5) as store:
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"no answer for 2\.5 s and was given up"), store.write() as session:  # noqa: PT012
            frozen(*postgres_server.processes())
            session.append_event(number, "x", None, {}, 0.0)
        with pytest.raises(StoreError, match="out of reach"):
            open_store(fresh_postgres_url, timeout=0.5)
        assert time.monotonic() - began < 30


def test_after_a_frozen_backend_the_store_goes_on(fresh_postgres_url, frozen):
    number = _new_campaign(fresh_postgres_url)
    with open_store(fresh_postgres_url, timeout=0.5) as store:
        with pytest.raises(StoreError, match="given up"), store.read() as view:  # noqa: PT012
            driver = view._connection.connection.driver_connection
            frozen(driver.info.backend_pid)
            view.events(number)
        write_one(store, number, "later")
        assert labels(store, number) == ["later"]


@pytest.mark.parametrize("kind", ["sqlite_url", "fresh_postgres_url"])
def test_many_processes_open_a_new_store_at_once(kind, request):
    url = request.getfixturevalue(kind)
    moment = time.time() + 1.0
    openers = [_start(open_at, url, moment) for _ in range(6)]
    assert [pipe.recv() for _, pipe in openers] == [None] * 6
    for process, _ in openers:
        process.join()
    with open_store(url) as store, store.read() as view:
        [campaign] = view.campaigns()
        assert len(view.events(campaign.campaign)) == 6


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["sqlite_url", "fresh_postgres_url"])
def test_a_forked_child_uses_connections_of_its_own(kind, request):
    url = request.getfixturevalue(kind)
    number = _new_campaign(url)
    with open_store(url) as store:
        write_one(store, number, "parent-0")
        with store.read() as view:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    write_one(store, number, "child-0")
                    try:
                        view.events(number)
                    except StateError:
                        code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert len(view.events(number)) == 1
        write_one(store, number, "parent-1")
        assert labels(store, number) == ["parent-0", "child-0", "parent-1"]
