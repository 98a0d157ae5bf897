"""Reverse-reachable sets: sampling them fast, and keeping those that matter."""

from __future__ import annotations

from tensorucb.oracle.rr._sampler import Batch, Collection, Sampler

__all__ = ["Batch", "Collection", "Sampler"]
