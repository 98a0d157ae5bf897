"""Runs public callables with one hostile argument each, and judges every outcome."""

from __future__ import annotations

import dataclasses
import inspect
import math
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.cases import CASES, Case, World
from fuzz.hostile import HOSTILE
from tensorucb.campaign import IgnoredContextWarning
from tensorucb.errors import TensorUCBError
from tensorucb.policies import FixedPointWarning

LONGEST_MESSAGE = 1500


@dataclass
class Tally:
    """How the calls ended."""

    calls: int = 0
    refused: int = 0
    answered: int = 0
    faults: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def parameters(case: Case) -> list[str]:
    """The parameters of the callable, all of which must have a valid value."""
    if case.signature is False:
        return list(case.valid)
    names = [n for n in inspect.signature(case.signature or case.call).parameters if n not in ("self", "cls")]
    missing = set(names) - set(case.valid) - {"engine"}  # None, where work runs by default
    assert not missing, f"no valid value for {sorted(missing)}"
    return names


def wrong(value: Any, case: Case, depth: int = 0) -> str | None:
    """Why a result cannot be right, or None."""
    if depth > 6:
        return None
    if isinstance(value, float | np.floating):
        return None if math.isfinite(value) or (case.infinite and not math.isnan(value)) else f"a result of {value}"
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        if np.isnan(value).any() or (not case.infinite and not np.isfinite(value).all()):
            return "a result that is not finite"
        if case.unit and value.size and (value.min() < 0.0 or value.max() > 1.0):
            return f"probabilities from {value.min()} to {value.max()}"
        return None
    parts: Any = ()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in dataclasses.fields(value) if not f.name.startswith("_")]
    elif isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = value
    return next((reason for part in parts if (reason := wrong(part, case, depth + 1))), None)


class Fuzz:
    """One world and the cases made in it."""

    def __init__(self) -> None:
        self.world = World()
        self.made: dict[str, Case] = {}
        self.tally = Tally()
        self.tried: set[str] = set()

    def pairs(self) -> list[tuple[str, str]]:
        """Every callable with each of its parameters."""
        return [(name, parameter) for name in CASES for parameter in parameters(self.case(name))]

    def case(self, name: str) -> Case:
        if name.startswith("campaign") and len(self.world.campaign.rounds()) > 40:
            del self.world.campaign
            self.made = {key: kept for key, kept in self.made.items() if not key.startswith("campaign")}
        if name not in self.tried:
            # Valid arguments first: they must pass, and whatever compiles does so outside the clock.
            self.tried.add(name)
            fresh = CASES[name](self.world)
            reason = wrong(fresh.call(**fresh.valid), fresh)
            assert reason is None, f"{name} with valid arguments: {reason}"
        if name not in self.made:
            self.made[name] = CASES[name](self.world)
        return self.made[name]

    def run(self, name: str, parameter: str, number: int) -> None:
        case, tally = self.case(name), self.tally
        arguments = {**case.valid, parameter: HOSTILE[number]()}
        shared = name.startswith("campaign.Campaign")
        before = self.world.fingerprint() if shared else None
        tally.calls += 1
        started = time.perf_counter()
        where = f"{name}({parameter}=HOSTILE[{number}])"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # The paper's update says so where it does not converge; whether it does depends on the edges seen.
                warnings.simplefilter("ignore", FixedPointWarning)
                # A folder that an earlier call wrote may be data; some policies say that they overlook its products.
                warnings.simplefilter("ignore", IgnoredContextWarning)
                result = case.call(**arguments)
        except TensorUCBError as error:
            tally.refused += 1
            text = str(error)
            if len(text) > LONGEST_MESSAGE or not text.isprintable():
                tally.faults.append(f"{where}: a message of {len(text)} characters: {text[:100]!r}")
            if shared and self.world.fingerprint() != before:
                tally.faults.append(f"{where}: a refused call left a trace")
        except case.raises:
            tally.refused += 1
        except OSError as error:
            tally.refused += 1
            if not case.writes:
                tally.faults.append(f"{where}: {type(error).__name__}: {str(error)[:150]}")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            tally.kinds[type(error).__name__] += 1
            tally.faults.append(f"{where}: {type(error).__name__}: {str(error)[:150]}")
        else:
            tally.answered += 1
            reason = wrong(result, case)
            if reason:
                tally.kinds["wrong result"] += 1
                tally.faults.append(f"{where}: {reason}")
            self.made.pop(name)
        seconds = time.perf_counter() - started
        if seconds > 5.0:
            tally.slow.append(f"{where}: {seconds:.1f} s")

    def still_works(self) -> None:
        """After all those refusals, every case made still answers valid arguments."""
        for name, case in list(self.made.items()):
            if not case.writes:
                reason = wrong(case.call(**case.valid), case)
                assert reason is None, f"{name} with valid arguments: {reason}"
