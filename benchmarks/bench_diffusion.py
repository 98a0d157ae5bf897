"""Milliseconds per cascade and per pool query at Flixster size, against NumPy and other libraries in the same run."""

from __future__ import annotations

from benchmarks.hot_paths import cascades, power_law


def run(quick: bool = False) -> list[dict[str, object]]:
    n, m, runs = (3_000, 37_000, 50) if quick else (29_384, 371_722, 300)
    return [row.document() for row in cascades(power_law(n, m, 0), runs)]
