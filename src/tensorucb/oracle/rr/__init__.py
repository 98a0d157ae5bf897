"""Reverse-reachable sets: sampling them fast, and keeping those that matter."""

from __future__ import annotations

from tensorucb.oracle.rr._sampler import NO_INDEX, Batch, Collection, Index, LocalIndex, Sampler

__all__ = ["NO_INDEX", "Batch", "Collection", "Index", "LocalIndex", "Sampler"]
