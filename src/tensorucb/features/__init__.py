"""Features of users and products: Laplacian eigenmap, topics, degrees, activity, taste; scaling; a cache."""

from __future__ import annotations

from tensorucb.features._cache import cached
from tensorucb.features._eigenmap import Eigenmap, eigengap, eigenmap, laplacian_eigenmap
from tensorucb.features._scaling import standardise, unit_rows
from tensorucb.features._topics import TopicModel, topic_mixtures
from tensorucb.features._users import (
    FeatureKind,
    activity_features,
    degree_features,
    taste_features,
    user_features,
)
from tensorucb.features._votes import VoteLog, held_out_items

__all__ = [
    "Eigenmap",
    "FeatureKind",
    "TopicModel",
    "VoteLog",
    "activity_features",
    "cached",
    "degree_features",
    "eigengap",
    "eigenmap",
    "held_out_items",
    "laplacian_eigenmap",
    "standardise",
    "taste_features",
    "topic_mixtures",
    "unit_rows",
    "user_features",
]
