"""Edges scored and learned per second at Flixster size, against NumPy and the bandit libraries that are installed."""

from __future__ import annotations

from benchmarks.hot_paths import power_law, rounds


def run(quick: bool = False) -> list[dict[str, object]]:
    graph = power_law(3_000, 37_000, 0) if quick else power_law(29_384, 371_722, 0)
    return [row.document() for row in rounds(graph)]
