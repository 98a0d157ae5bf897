"""A logistic tensor with node effects, fitted by blocks to all rounds kept: the learner of `TensorUCB`.

``logit p_ij(z) = Σ_r (A_r·s_i(z)) (B_r·t_j) Π_l (C^l_r·(z_l, 1)) + zᵀM s_i + d_i·(z, 1) + b_j + g·m_j(z)``, where ``s``
and ``t`` are features of users with a constant, ``M`` is how features of sources change their response to products,
``d_i`` a source's own response beyond that, ``b_j`` a target's readiness and ``m_j(z)`` its past taste for the product.
Pure functions on a frozen state.
"""

from tensorucb.learner.blocks._arrays import state_from_arrays, state_to_arrays
from tensorucb.learner.blocks._fit import fit
from tensorucb.learner.blocks._learn import absorb, learn, make_round, quick_step, with_round
from tensorucb.learner.blocks._nodes import NodeFeatures, node_features
from tensorucb.learner.blocks._score import Scores, raised, score
from tensorucb.learner.blocks._settings import BlockSettings
from tensorucb.learner.blocks._state import BlockState, Point, Prior, Round, scaled_product, start

__all__ = [
    "BlockSettings",
    "BlockState",
    "NodeFeatures",
    "Point",
    "Prior",
    "Round",
    "Scores",
    "absorb",
    "fit",
    "learn",
    "make_round",
    "node_features",
    "quick_step",
    "raised",
    "scaled_product",
    "score",
    "start",
    "state_from_arrays",
    "state_to_arrays",
    "with_round",
]
