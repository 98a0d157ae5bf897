"""Ground truth: the topic-aware independent cascade model."""

from __future__ import annotations

from tensorucb.truth._model import TopicAwareIC

__all__ = ["TopicAwareIC"]
