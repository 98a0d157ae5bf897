"""Reading an edge list into a `Graph`, fresh and kept, against plain NumPy (``np.unique`` and ``np.lexsort``)."""

from __future__ import annotations

from benchmarks.hot_paths import reading


def run(quick: bool = False) -> list[dict[str, object]]:
    """CPU seconds from a Parquet file to a finished graph."""
    n, m = (20_000, 200_000) if quick else (1_000_000, 10_000_000)
    return [row.document() for scattered in (False, True) for row in reading(n, m, scattered=scattered)]
