"""Rows of results and of reasons as cells of a table, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorucb.experiments import SeedReason


def result_cells(rows: Sequence[Mapping[str, Any]], to: str = "–") -> list[tuple[str, ...]]:
    """Policy, users reached, regret, its interval, late regret and milliseconds, from `Experiment.table`."""
    return [
        (
            row["policy"],
            f"{row['spread']['mean']:.1f}",
            f"{row['regret']['mean']:.2f}",
            f"{row['regret']['low']:.2f} {to} {row['regret']['high']:.2f}",
            f"{row['late_regret']['mean']:.2f}",
            f"{sum(row['milliseconds'].values()):.1f}",
        )
        for row in rows
    ]


def reason_cells(reasons: Sequence[SeedReason], shown: Callable[[object], str] = str) -> list[tuple[str, ...]]:
    """User, followers, expected and new responses, what exploration adds, and the likeliest followers."""
    return [
        (
            shown(reason.id),
            f"{reason.followers}",
            f"{reason.expected:.2f}",
            f"{reason.gain:.2f}",
            f"{reason.explored:.2f}",
            ", ".join(f"{shown(follower.id)} ({follower.probability:.0%})" for follower in reason.strongest),
        )
        for reason in reasons
    ]
