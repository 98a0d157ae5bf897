"""Ground truth: the topic-aware independent cascade model, and how to learn it from an action log."""

from __future__ import annotations

from tensorucb.truth._activations import Activations, activations
from tensorucb.truth._model import TopicAwareFit, TopicAwareIC, fit_topic_aware_ic

__all__ = ["Activations", "TopicAwareFit", "TopicAwareIC", "activations", "fit_topic_aware_ic"]
