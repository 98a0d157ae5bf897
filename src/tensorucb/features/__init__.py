"""Features of users and products: eigenmap, topics, degrees, activity, taste, past influence; scaling; a cache."""

from __future__ import annotations

from tensorucb.features._cache import cached
from tensorucb.features._eigenmap import Eigenmap, eigengap, eigenmap, laplacian_eigenmap
from tensorucb.features._influence import past_influence, past_response, user_profile
from tensorucb.features._profile import UserProfile
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
    "UserProfile",
    "VoteLog",
    "activity_features",
    "cached",
    "degree_features",
    "eigengap",
    "eigenmap",
    "held_out_items",
    "laplacian_eigenmap",
    "past_influence",
    "past_response",
    "standardise",
    "taste_features",
    "topic_mixtures",
    "unit_rows",
    "user_features",
    "user_profile",
]
