"""Hostile arguments to every public callable: a clear error of our tree or a right answer, never anything else."""

from __future__ import annotations

import random

import pytest

from fuzz.cases import CASES
from fuzz.hostile import HOSTILE
from fuzz.runner import Fuzz, jobs


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    # Some hostile values are relative paths, and some calls write files.
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)


def _report(fuzz: Fuzz) -> str:
    tally = fuzz.tally
    return (
        f"{tally.calls:,} calls of {len(CASES)} callables with {len(HOSTILE)} hostile values: "
        f"{tally.refused:,} refused, {tally.answered:,} answered, {len(tally.faults)} faults {dict(tally.kinds)}; "
        f"slow: {tally.slow}"
    )


def _judge(fuzz: Fuzz) -> None:
    fuzz.still_works()
    print(_report(fuzz))
    assert not fuzz.tally.faults, _report(fuzz) + "\n" + "\n".join(fuzz.tally.faults[:60])
    assert not fuzz.tally.slow, _report(fuzz)


def test_there_are_enough_kinds_of_hostile_values():
    assert len(HOSTILE) >= 60


def test_a_sample_of_hostile_calls():
    everything = jobs()
    fuzz = Fuzz()
    for job in random.Random(20240501).sample(everything, 1200):
        fuzz.run(*job)
    _judge(fuzz)


@pytest.mark.slow
def test_many_hostile_calls():
    everything = jobs()
    fuzz = Fuzz()
    for job in random.Random(1).sample(everything, 25_000):
        fuzz.run(*job)
    _judge(fuzz)
    assert fuzz.tally.calls >= 20_000
