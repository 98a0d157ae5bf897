"""Features of users and products: eigenmap, topics, activity, past influence, columns of tables; a cache."""

from __future__ import annotations

from tensorucb.features._cache import cached
from tensorucb.features._eigenmap import Eigenmap, eigenmap, laplacian_eigenmap
from tensorucb.features._items import TopicModel, held_out_items
from tensorucb.features._table import ProductFeatures, TableFeatures
from tensorucb.features._users import FeatureKind, UserProfile, degree_features, user_profile

__all__ = [
    "Eigenmap",
    "FeatureKind",
    "ProductFeatures",
    "TableFeatures",
    "TopicModel",
    "UserProfile",
    "cached",
    "degree_features",
    "eigenmap",
    "held_out_items",
    "laplacian_eigenmap",
    "user_profile",
]
