"""How a product spreads: independent cascades, frozen worlds, direct activations, and the feedback of a round.

Every coin is the same function of ``(key, run, edge)``, whoever looks at it: a cascade, a live-edge world or a
round's feedback. Nothing depends on the order in which edges are met, nor on the number of threads.
"""

from __future__ import annotations

from tensorucb.diffusion._cascades import (
    Cascade,
    Spread,
    direct_spread,
    observe,
    simulate_cascade,
    simulate_cascades,
    simulate_gains,
    spread,
)
from tensorucb.diffusion._pool import LiveEdgePool

__all__ = [
    "Cascade",
    "LiveEdgePool",
    "Spread",
    "direct_spread",
    "observe",
    "simulate_cascade",
    "simulate_cascades",
    "simulate_gains",
    "spread",
]
