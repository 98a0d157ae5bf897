"""What a response is worth, learned from the amounts told.

Where no amount was told, a response of user v to product p is worth the product's value times the user's, 1 where one
is not given. From the first amount on this is the shape, and amounts tell the rest:

    log(amount / base) = overall + product + group + user + scatter

Amounts are heavy-tailed: a single large order says little about its buyer. So the effects are fitted on the scale of
logarithms and shrunk towards 0 (empirical Bayes), each on what the ones before it left. One factor brings the result
back to money, so that the expected worth of all responses with an amount adds up to their sum. All of this is a
function of what closed rounds were told, in any order (docs/howto/money.md has the assumptions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Id, Round
from tensorucb.campaign._told import amounts_of, base_values, of_rounds

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View

_CAUTION = 4.0  # observations' worth of the prior belief that all variation is scatter
_FEW = 20.0  # amounts' worth of a log-normal distribution in how amounts scatter
_USUAL_SCATTER = 1.0  # standard deviation of a logarithm, while amounts are few
_POOL = 1000  # the most ratios kept of how amounts scatter


@dataclass(frozen=True)
class Worth:
    """What a response of each user to one product is expected to be worth.

    ``ratios`` is how amounts scatter around that: numbers with mean 1, each as likely as the others. ``doubt`` is the
    standard deviation of the logarithm of the common level.
    """

    means: F64
    ratios: F64 = field(default_factory=lambda: np.ones(1))
    doubt: float = 0.0

    def weights(self) -> F64 | None:
        """What choices weigh users by, 1 on average; None if all count the same."""
        largest = float(self.means.max(initial=0.0))
        if largest <= 0.0 or float(np.ptp(self.means)) <= 1e-12 * largest:
            return None
        return self.means / float(self.means.mean())


@dataclass(frozen=True, eq=False)
class AmountModel:
    """What the amounts of closed rounds tell: effects of products and users, the level, and the scatter."""

    products: dict[Id | None, float]
    users: F64
    level: float
    ratios: F64
    doubt: float

    def worth(self, base: F64, product: Id | None) -> Worth:
        """The worth of responses to a product."""
        means = base * (self.level * np.exp(self.users + self.products.get(product, 0.0)))
        return Worth(means, self.ratios, self.doubt)


def worth_of(view: View, product: Id | None) -> Worth | None:
    """The worth of responses to a product, by all that is known now; None if nothing is."""
    priced = [record for record in view.rounds() if record.priced and record.status == "closed"]
    amounts = of_rounds(view, "amounts", priced, _Amounts.of)
    model = view.memory.cached("amount model", amounts, lambda: _fit(amounts, view.network))
    base = base_values(view.network, view.catalogue("product").value(product))
    if model is not None:
        return model.worth(np.ones(view.network.graph.n_nodes) if base is None else base, product)
    return None if base is None else Worth(base)


@dataclass(frozen=True, eq=False)
class _Amounts:
    """The amounts of one round: by whom, how many times what the values say, and of which product."""

    product: Id | None
    users: I64
    ratios: F64

    @classmethod
    def of(cls, view: View, record: Round) -> _Amounts:
        amounts = amounts_of(view.network, record, view.told(record.number))
        base = base_values(view.network, record.value)
        usable = np.isfinite(amounts) if base is None else np.isfinite(amounts) & (base > 0.0)
        users = np.flatnonzero(usable)
        return cls(record.product, users, amounts[users] if base is None else amounts[users] / base[users])


def _fit(rounds: Sequence[_Amounts], network: Network) -> AmountModel | None:
    """The model of the amounts of some rounds; None if there is no amount above 0."""
    if not any((each.ratios > 0.0).any() for each in rounds):
        return None
    n_users = network.graph.n_nodes
    ids = sorted({each.product for each in rounds}, key=lambda product: (type(product).__name__, str(product)))
    place = {product: number for number, product in enumerate(ids)}
    products = np.concatenate([np.full(each.users.size, place[each.product]) for each in rounds])
    users = np.concatenate([each.users for each in rounds])
    ratios = np.concatenate([each.ratios for each in rounds])
    # Sums of floating-point numbers depend on their order, so it is always the same.
    order = np.lexsort((ratios, users, products))
    products, users, ratios = products[order], users[order], ratios[order]
    paid = ratios > 0.0
    # In units of the geometric mean, so that other units of money change nothing but the level.
    logs = np.log(ratios[paid])
    centre = float(logs.mean())
    rest = logs - centre
    of_products = _shrunken(rest, products[paid], len(ids))
    rest = rest - of_products[products[paid]]
    of_users = np.zeros(n_users)
    if network.groups is not None:
        labels, group = np.unique(network.groups, return_inverse=True)
        of_users = _shrunken(rest, group[users[paid]], labels.size)[group]
        rest = rest - of_users[users[paid]]
    own = _shrunken(rest, users[paid], n_users)
    of_users = of_users + own
    rest = rest - own[users[paid]]
    effects = np.exp(of_products[products] + of_users[users])
    relative = ratios / np.exp(centre)
    level = float(relative.sum() / effects.sum())
    scatter = _scatter(relative / (level * effects), rest)
    doubt = float(np.std(scatter) / np.sqrt(ratios.size))
    effect_of = dict(zip(ids, of_products.tolist(), strict=True))
    return AmountModel(effect_of, of_users, level * float(np.exp(centre)), scatter, min(doubt, _USUAL_SCATTER))


def _shrunken(values: F64, groups: I64, n_groups: int) -> F64:
    """The mean of each group, as far as groups differ by more than scatter explains; 0 for those without a value."""
    counts = np.bincount(groups, minlength=n_groups).astype(np.float64)
    means = np.bincount(groups, weights=values, minlength=n_groups) / np.maximum(counts, 1.0)
    used = int(np.count_nonzero(counts))
    overall = float(values.mean())
    within = float(((values - means[groups]) ** 2).sum())
    # All variation is scatter, until values of the same group say how much of it is.
    all_of_it = float(((values - overall) ** 2).sum()) / max(values.size - 1, 1)
    scatter = (within + _CAUTION * all_of_it) / (values.size - used + _CAUTION)
    between = float((counts * (means - overall) ** 2).sum())
    pairs = values.size - float((counts**2).sum()) / values.size
    variance = max(0.0, between - (used - 1) * scatter) / pairs if pairs > 0.0 else 0.0
    if variance <= 0.0:
        return np.zeros(n_groups)
    shrunken: F64 = counts * variance / (counts * variance + scatter) * (means - overall)
    return np.where(counts > 0.0, shrunken, 0.0)


def _scatter(ratios: F64, logs: F64) -> F64:
    """How amounts scatter around what is expected: the ratios seen, and log-normal ones while these are few."""
    from scipy.special import ndtri

    spread = np.sqrt((float(logs @ logs) + _FEW * _USUAL_SCATTER**2) / (logs.size + _FEW))
    usual = np.exp(spread * ndtri((np.arange(int(_FEW)) + 0.5) / _FEW))
    seen = np.sort(ratios)
    if seen.size > _POOL:
        # Means of neighbours, so that the few largest stay in.
        seen = np.array([part.mean() for part in np.array_split(seen, _POOL)])
    pool = np.concatenate([seen, usual / usual.mean()])
    return np.asarray(pool / pool.mean())
