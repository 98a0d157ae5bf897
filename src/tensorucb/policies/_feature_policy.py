"""`FeaturePolicy`: what the policies that learn from user features share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64
from tensorucb.checks import check_flag
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.policies._base import BasePolicy, Product
from tensorucb.rng import RngLike


class FeaturePolicy(BasePolicy):
    """Binding for policies that learn from user features, with columns that depend on the product where there are any.

    An (n, d) array is used as it is. Of a `UserProfile` with a past, the policy uses `UserProfile.totals`, and adds
    `UserProfile.matched` for the product of the round: the past influence and taste of sources and targets for this
    very product, which a linear model could not form from columns by topic. Fewer columns are also learned sooner.
    """

    needs_users = True
    matched: bool
    _profile: UserProfile | None = None

    def _take_matched(self, matched: bool) -> None:
        self.matched = check_flag("matched", matched)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features or a `UserProfile`, and a seed."""
        self._profile = users if self.matched and isinstance(users, UserProfile) and users.k is not None else None
        self.uses_product = type(self).uses_product or self._profile is not None
        super().bind(graph, users if self._profile is None else self._profile.totals(), rng)

    @property
    def _n_matched(self) -> int:
        """Number of columns that depend on the product."""
        return 0 if self._profile is None else (self._profile.taste is not None) + (self._profile.credit is not None)

    def _matched(self, modes: tuple[F64, ...]) -> F64:
        """``(n, m)`` columns about this product; m = 0 without a profile."""
        return np.zeros((self.graph.n_nodes, 0)) if self._profile is None else self._profile.matched(modes[0])

    def _nodes(self, modes: tuple[F64, ...]) -> F64:
        """``(n, d + m)``: the users' columns, then those about this product."""
        return self.users if self._profile is None else np.hstack([self.users, self._matched(modes)])

    def _modes(self, product: Product) -> tuple[F64, ...]:
        modes = super()._modes(product)
        if self._profile is not None:
            # Refuses a product with another number of topics before anything is learned.
            self._profile.topic_weights(modes[0])
        return modes
