"""What each part of the model buys: parts switched off one at a time, jointly, and one after the other.

    python -m studies.ablation [--draws 3] [--rounds 100] [--out out/ablation.csv]

Three designs on the same worlds (`studies.worlds`), all with common products and coins:

- one at a time: the full model without each part, or without a few parts together;
- joint: 32 models, each with about half of the parts on, by a two-level fractional factorial of resolution IV, so that
  no main effect is mixed up with another one or with the joint effect of two parts;
- backward: from the full model, the part that costs least is taken out again and again.

A number is the change of regret in percent when a part goes (a ratio of geometric means over draws), with its 90 %
interval from the paired draws. Every run is a line of the file ``--out``, and a run found there is not played again.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from studies.worlds import DATA, LOGS, REPLAYS, WORLDS, run_number, world
from tensorucb.arrays import F64, Vectors
from tensorucb.checks import check_choice
from tensorucb.experiments import run_policy
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.policies import GammaCounts, Prediction, TensorUCB
from tensorucb.rng import RngLike

FULL: tuple[str, ...] = ()
COUNTS = ("GammaCounts",)
FACTORS = (
    "context main effects β",
    "interactions between modes",
    "source features α",
    "source features × context M",
    "own effect d_i",
    "own response d_i·x",
    "target features γ",
    "target offsets b_j",
    "target taste",
    "round effects u_t",
    "dose-response q",
    "redundancy ρ in the choice",
    "past influence",
    "learned variances",
    "exploration",
)
SINGLE: tuple[tuple[str, ...], ...] = (
    *((part,) for part in FACTORS),
    ("trust in past influence",),
    ("past taste",),
    ("own effect d_i", "own response d_i·x"),
    ("target features γ", "target offsets b_j"),
    COUNTS,
)
Off = tuple[str, ...]

# Weights with so small a variance stay at zero, and zero weights keep the variance so small.
_OFF = 1e-9
_NEVER = float(np.finfo(np.float32).max)

PARTS: dict[str, Mapping[str, float]] = {
    "context main effects β": {"context_variance": _OFF},
    "interactions between modes": {"joint_variance": _OFF},
    "source features α": {"source_variance": _OFF, "trust": 0.0},
    "source features × context M": {"response_variance": _OFF},
    "own effect d_i": {"own_variance": _OFF},
    "own response d_i·x": {"own_response_variance": _OFF},
    "target features γ": {"target_variance": _OFF},
    "target offsets b_j": {"offset_variance": _OFF},
    "target taste": {"taste_variance": _OFF},
    "round effects u_t": {"round_variance": _OFF},
    "dose-response q": {"saturation": 1.0, "saturation_variance": _OFF},
    "trust in past influence": {"trust": 0.0},
    "learned variances": {
        "shared_weight": _NEVER,
        "unit_weight": _NEVER,
        "single_weight": _NEVER,
        "round_weight": _NEVER,
    },
    "redundancy ρ in the choice": {},
    "past influence": {},
    "past taste": {},
    "exploration": {},
}
"""Parts of the model, and the constants without each; the last four are no constants."""


class Ablated(TensorUCB):
    """`TensorUCB` with some parts off.

    Parameters
    ----------
    off
        Names of `PARTS`.
    """

    name = "TensorUCB, ablated"

    def __init__(self, off: tuple[str, ...] = ()) -> None:
        super().__init__(exploration_kind="greedy" if "exploration" in off else "ucb")
        self.off = [check_choice("off", part, tuple(PARTS)) for part in off]

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again, with what is left of the profile."""
        if isinstance(users, UserProfile):
            hidden = {"taste", "chances"} if "past taste" in self.off else set()
            hidden |= {"credit", "exposure"} if "past influence" in self.off else set()
            users = UserProfile(**{name: part for name, part in users.parts().items() if name not in hidden})
        super().bind(graph, users, rng)
        changes: dict[str, Any] = {}
        for part in self.off:
            changes |= PARTS[part]
        self._settings = replace(self._settings, **changes)

    def predict(self, state: Any, modes: Vectors) -> Prediction:
        """Without redundancy, if that is off."""
        prediction = super().predict(state, modes)
        return prediction.with_redundancy(0.0) if "redundancy ρ in the choice" in self.off else prediction


@dataclass
class Runs:
    """Regret of each (world, draw, parts off), kept in a file."""

    file: Path
    data: Path = DATA
    cache: Path | None = None
    rounds: int = 100
    scale: float = 0.5
    known: dict[tuple[str, int, Off], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what was played before."""
        if self.file.exists():
            with self.file.open(newline="") as file:
                for name, draw, off, regret in csv.reader(file):
                    self.known[name, int(draw), tuple(off.split(" + ")) if off else ()] = float(regret)

    def regret(self, name: str, draw: int, off: Off) -> float:
        """Mean regret of a run."""
        off = tuple(sorted(off))
        if (name, draw, off) not in self.known:
            environment = world(name, draw, data=self.data, cache=self.cache, scale=self.scale)
            policy = GammaCounts() if off == COUNTS else Ablated(off)
            found = run_policy(environment, policy, rounds=self.rounds, run=run_number(name, draw))
            self.known[name, draw, off] = float(found["regret"].mean())
            with self.file.open("a", newline="") as file:
                csv.writer(file).writerow([name, draw, " + ".join(off), self.known[name, draw, off]])
        return self.known[name, draw, off]

    def logs(self, name: str, draws: int, off: Off) -> F64:
        """Log regret by draw."""
        return np.log([self.regret(name, draw, off) for draw in range(draws)])


def applies(part: str, name: str) -> bool:
    """Whether a world has what the part is about."""
    if part == "interactions between modes":
        return name == "four modes"
    return name in (*LOGS, *REPLAYS) or part not in (
        "target taste",
        "past influence",
        "past taste",
        "trust in past influence",
    )


def design() -> NDArray[np.bool_]:
    """(32, 16): which factors are off. Columns are all products of an odd number of five basic columns."""
    basic = 1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1)
    words = [word for size in (1, 3, 5) for word in combinations(range(5), size)]
    return np.column_stack([basic[:, word].prod(axis=1) for word in words]) < 0


def percent(changes: F64) -> str:
    """A mean of log ratios and its 90 % interval, in percent."""
    if changes.size == 1:
        return f"{100.0 * np.expm1(float(changes[0])):+.0f}"
    error = float(changes.std(ddof=1)) / np.sqrt(changes.size)
    return shown(float(changes.mean()), float(student.ppf(0.95, changes.size - 1)) * error)


def shown(mean: float, half: float) -> str:
    """A log ratio with its interval, in percent."""
    low, mid, high = (100.0 * np.expm1(x) for x in (mean - half, mean, mean + half))
    return f"{mid:+.0f} ({low:+.0f} to {high:+.0f})"


def one_at_a_time(runs: Runs, worlds: Sequence[str], draws: int) -> list[str]:
    """A row per part: the change of regret without it, by world."""
    rows = ["| without | " + " | ".join(worlds) + " |", "| --- |" + " --- |" * len(worlds)]
    full = {name: runs.logs(name, draws, FULL) for name in worlds}
    rows.append("| (regret of the full model) | " + " | ".join(f"{np.exp(full[w]).mean():.1f}" for w in worlds) + " |")
    for off in SINGLE:
        cells = [
            percent(runs.logs(w, draws, off) - full[w]) if any(applies(part, w) for part in off) else "–"
            for w in worlds
        ]
        rows.append(f"| {' and '.join(off)} | " + " | ".join(cells) + " |")
    return rows


def joint(runs: Runs, worlds: Sequence[str], draws: int) -> list[str]:
    """A row per part: the mean change over models with and without the other parts; then the largest joint effects."""
    rows = ["| without | " + " | ".join(worlds) + " |", "| --- |" + " --- |" * len(worlds)]
    off = design()[:, : len(FACTORS)]
    found: dict[str, F64] = {}
    for name in worlds:
        cells = [tuple(np.array(FACTORS)[row & [applies(part, name) for part in FACTORS]].tolist()) for row in off]
        # (draws, 32), so that a draw's own level cancels.
        found[name] = np.array([runs.logs(name, draws, cell) for cell in cells]).T
    for column, part in enumerate(FACTORS):
        cells = [_contrast(found[w], off[:, [column]], off) if applies(part, w) else "–" for w in worlds]
        rows.append(f"| {part} | " + " | ".join(cells) + " |")
    return [*rows, "", *_pairs(found, off, worlds)]


def _contrast(found: F64, columns: NDArray[np.bool_], off: NDArray[np.bool_]) -> str:
    """The effect of a factor, or of two together, in percent; its error is that of all contrasts but main effects."""
    basic = design()[:, :5]
    words = [basic[:, list(word)].sum(axis=1) % 2 for size in range(1, 6) for word in combinations(range(5), size)]
    mains = {np.where(column, 1.0, -1.0).tobytes() for column in off.T}
    signs = [np.where(word, 1.0, -1.0) for word in words]
    mean = found.mean(axis=0)
    rest = np.array([mean @ sign / 16.0 for sign in signs if sign.tobytes() not in mains])
    half = float(student.ppf(0.95, rest.size) * np.sqrt(np.mean(rest**2)))
    effect = float(mean @ np.where(columns, 1.0, -1.0).prod(axis=1) / 16.0)
    return shown(effect, half)


def _pairs(found: dict[str, F64], off: NDArray[np.bool_], worlds: Sequence[str]) -> list[str]:
    """The largest effects of two parts together, beyond the sum of both."""
    rows = [
        "| world | two parts (or others that the design does not tell apart) | together, % |",
        "| --- | --- | --- |",
    ]
    for name in worlds:
        present = [c for c, part in enumerate(FACTORS) if applies(part, name)]
        groups: dict[bytes, tuple[list[str], list[int]]] = {}
        for a, b in combinations(present, 2):
            key = (off[:, a] ^ off[:, b]).tobytes()
            groups.setdefault(key, ([], [a, b]))[0].append(f"{FACTORS[a]} & {FACTORS[b]}")
        mean = found[name].mean(axis=0)
        size = {key: abs(mean @ np.where(off[:, c], 1.0, -1.0).prod(axis=1)) for key, (_, c) in groups.items()}
        labels, columns = groups[max(size, key=lambda key: float(size[key]))]
        rows.append(f"| {name} | {'; '.join(labels)} | {_contrast(found[name], off[:, columns], off)} |")
    return rows


def backward(runs: Runs, worlds: Sequence[str], draws: int, steps: int) -> list[str]:
    """Take out the part that costs least, ``steps`` times; changes are against the full model."""
    rows = ["| taken out | mean over worlds | " + " | ".join(worlds) + " |", "| --- |" + " --- |" * (len(worlds) + 1)]
    gone: Off = ()
    for _ in range(steps):
        trials = {part: _changes(runs, worlds, draws, (*gone, part)) for part in FACTORS if part not in gone}
        part = min(trials, key=lambda p: float(np.mean([c.mean() for c in trials[p].values()])))
        gone, changes = (*gone, part), trials[part]
        mean = np.mean([c.mean() for c in changes.values()])
        rows.append(
            f"| {part} | {100 * np.expm1(mean):+.1f} | " + " | ".join(percent(changes[w]) for w in worlds) + " |"
        )
    return rows


def _changes(runs: Runs, worlds: Iterable[str], draws: int, off: Off) -> dict[str, F64]:
    def there(name: str) -> Off:
        return tuple(part for part in off if applies(part, name))

    return {w: runs.logs(w, draws, there(w)) - runs.logs(w, draws, FULL) for w in worlds}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, help="where features and truths of the logs are kept")
    parser.add_argument("--out", type=Path, default=Path("out/ablation.csv"))
    parser.add_argument("--draws", type=int, default=3, help="runs of a log, networks of a generated world")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=4, help="parts to take out one after the other")
    parser.add_argument("--only", choices=WORLDS, action="append")
    parser.add_argument("--design", choices=("one", "joint", "backward"), action="append")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.out, given.data, given.cache, given.rounds)
    worlds, designs = given.only or WORLDS, given.design or ("one", "joint", "backward")
    if "one" in designs:
        print("\n".join(one_at_a_time(runs, worlds, given.draws)), "\n", flush=True)
    if "joint" in designs:
        print("\n".join(joint(runs, worlds, given.draws)), "\n", flush=True)
    if "backward" in designs:
        print("\n".join(backward(runs, worlds, given.draws, given.steps)), flush=True)


if __name__ == "__main__":
    main()
