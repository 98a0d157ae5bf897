"""Experiments on several processes: the numbers of one, and errors in the caller's hands."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings, run_experiment, tune
from tensorucb.policies import CUCB, HighDegree, LinUCB, Random


@pytest.fixture(scope="module")
def world():
    return Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))


def numbers(experiment):
    return experiment.frame.select("policy", "run", "product", "spread", "optimum").rows()


def test_runs_on_two_processes_are_those_of_one(world, tmp_path):
    policies = {"LinUCB": LinUCB(), "CUCB": CUCB(), "Random": Random()}
    told: list[tuple[int, int, str]] = []
    one = run_experiment(world, policies, rounds=5, runs=3)
    two = run_experiment(world, policies, rounds=5, runs=3, jobs=2, report=lambda *state: told.append(state))
    kept = run_experiment(world, policies, rounds=5, runs=3, jobs=3, directory=tmp_path)
    assert numbers(one) == numbers(two) == numbers(kept)
    assert [done for done, _, _ in told] == list(range(1, 46))
    assert {total for _, total, _ in told} == {45}
    assert len(list(tmp_path.iterdir())) == 9


def test_tuning_on_two_processes_tries_the_same(world):
    policies = {"LinUCB": LinUCB(), "CUCB": CUCB()}
    assert tune(world, policies, rounds=3, jobs=2).rows() == tune(world, policies, rounds=3).rows()
    alone = {"CUCB": CUCB()}
    assert tune(world, alone, rounds=3, jobs=2).rows() == tune(world, alone, rounds=3).rows()


class Failing(HighDegree):
    name = "Failing"

    def update(self, product, edges, outcomes):
        raise InputError("this one never learns.")


def test_the_error_of_a_policy_reaches_the_caller(world):
    with pytest.raises(InputError, match="never learns"):
        run_experiment(world, {"degree": HighDegree(), "failing": Failing()}, rounds=3, runs=2, jobs=2)


class Dying(HighDegree):
    name = "Dying"
    home = os.getpid()

    def update(self, product, edges, outcomes):
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        super().update(product, edges, outcomes)


def test_a_process_that_is_killed_costs_time_but_no_number(world, monkeypatch):
    monkeypatch.setattr(Dying, "home", os.getpid())
    policies = {"dying": Dying(), "random": Random()}
    one = run_experiment(world, policies, rounds=3, runs=2)
    assert numbers(one) == numbers(run_experiment(world, policies, rounds=3, runs=2, jobs=2))


class Noting(Random):
    """Writes down, in each round, which process plays it, and how many threads that process may use."""

    def __init__(self, folder):
        self.folder = folder

    def update(self, product, edges, outcomes):
        with (self.folder / str(os.getpid())).open("a") as file:
            file.write(f"{os.environ['TENSORUCB_THREADS']}\n")


def test_every_run_is_played_once_with_a_share_of_the_threads(world, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORUCB_THREADS", "6")
    monkeypatch.setattr("tensorucb.experiments._pool.thread_count", lambda: 6)
    policies = {"noting": Noting(tmp_path)}
    run_experiment(world, policies, rounds=1, runs=7, jobs=3)
    notes = {int(path.name): path.read_text().split() for path in tmp_path.iterdir()}
    assert os.getpid() not in notes
    assert [threads for lines in notes.values() for threads in lines] == ["2"] * 7
    # One run is not worth a process.
    run_experiment(world, policies, rounds=1, runs=1, jobs=3)
    assert (tmp_path / str(os.getpid())).read_text() == "6\n"


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "two", None])
def test_jobs_must_be_a_number_of_processes(world, jobs):
    with pytest.raises(InputError, match="jobs"):
        run_experiment(world, {"Random": Random()}, rounds=1, jobs=jobs)


def test_blas_runs_on_one_thread_in_a_run(world):
    from threadpoolctl import threadpool_info

    class Looking(Random):
        def update(self, product, edges, outcomes):
            seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    seen: set[int] = set()
    run_experiment(world, {"looking": Looking()}, rounds=1, runs=1)
    assert seen == {1}


class Warned(Random):
    def update(self, product, edges, outcomes):
        warnings.warn("an odd round", UserWarning, stacklevel=1)


def test_warnings_of_a_process_reach_the_caller(world):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.warns(UserWarning, match="an odd round") as seen:
            run_experiment(world, {"one": Warned(), "two": Warned()}, rounds=2, runs=1, jobs=2)
    assert len(seen) == 4
