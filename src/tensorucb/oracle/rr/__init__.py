"""Reverse-reachable sets: sampling them fast, and keeping those that matter."""

from __future__ import annotations

from tensorucb.oracle.rr._collection import Collection
from tensorucb.oracle.rr._sampler import Sampler

__all__ = ["Collection", "Sampler"]
