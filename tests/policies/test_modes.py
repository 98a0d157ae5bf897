"""TensorUCB learns every mode of a context: the study's claims, at a small size and in full."""

from __future__ import annotations

import pytest

from studies.modes import RATES, believed, correlation
from tensorucb.policies import TensorUCB


def test_popularity_of_products_reaches_users_never_seeded():
    """Seed 0, 60 rounds of 10 seeds: within a fifth of the true rates 5.4, 15.3 and 2.5 %."""
    for found, rate in zip(believed(TensorUCB(exploration=0.0)), RATES, strict=True):
        assert found == pytest.approx(rate, rel=0.2)


def test_product_by_strategy_is_learned_early():
    """Seed 0, 10,000 outcomes: 0.83 here, and 0.54 for a model without the interaction of product and strategy."""
    small = correlation(TensorUCB(exploration=0.0), 4, outcomes=10_000, users=300, edges=4000)
    assert small.edges > 0.75


@pytest.mark.slow
@pytest.mark.parametrize("modes", [4, 5])
def test_every_mode_is_learned(modes):
    """Seed 0, 70,000 outcomes: at least 0.9 over the edges of sources seen."""
    assert correlation(TensorUCB(exploration=0.0), modes).edges > 0.9
