"""The part of a `Campaign` that knows its catalogues: which products and strategies there are, and what fits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from tensorucb.campaign._catalogue import PLURAL, Catalogue, Context, read_context
from tensorucb.campaign._core import CampaignCore
from tensorucb.errors import ShapeError
from tensorucb.store._protocol import Session

__all__ = ["CampaignOffers"]

_PARTS = ("product", "strategy")


class CampaignOffers(CampaignCore):
    """A campaign's products and strategies."""

    def products(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's products."""
        return self._known()[0].ids

    def strategies(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's strategies."""
        return self._known()[1].ids

    def add_products(self, ids: ArrayLike, features: ArrayLike) -> None:
        """Add products to the catalogue, one row of features each."""
        self._extend("product", ids, features, None)

    def add_strategies(self, ids: ArrayLike, features: ArrayLike, costs: ArrayLike | None = None) -> None:
        """Add strategies (channels, offers, discounts …) to the catalogue.

        Parameters
        ----------
        ids
            Their ids.
        features
            One row of features each; zeros and a single one will do where nothing makes two strategies alike.
        costs
            What each adds to the cost of contacting a user; by default 0.
        """
        self._extend("strategy", ids, features, costs)

    def _extend(self, kind: str, ids: ArrayLike, features: ArrayLike, costs: ArrayLike | None) -> None:
        now, many = self.clock(), PLURAL[kind]
        with self._lock, self._prepared(now).write() as session:
            self._ledger.refresh(session)
            self._close_due(session, now)
            grown = self._catalogue(session, kind).extended(ids, features, costs)
            if grown.features is not None:
                self._check_fits(session, kind, grown.features.shape[1])
            session.put_blob(self._record.campaign, many, grown.to_blob())
            session.append_event(self._record.campaign, f"{many}_added", None, {many: len(grown.ids)}, now)

    def _check_fits(self, session: Session, kind: str, size: int) -> None:
        """Refuse entries that no round of this campaign could use."""
        known = self._ledger.sizes()
        if known is None:
            return
        if kind == "strategy" and len(known) < 2:
            raise ShapeError(
                "the rounds of this campaign had no strategy, and no policy can learn from both kinds of rounds. "
                "Create another campaign; import_history brings the past along."
            )
        wanted = known[_PARTS.index(kind)]
        if size != wanted:
            raise ShapeError(
                f"this {kind} has {size} features, but those of the rounds of this campaign have {wanted}. "
                "Give it as many, or create another campaign."
            )

    def _known(self) -> tuple[Catalogue, Catalogue]:
        with self._lock, self.store.read() as session:
            self._ledger.refresh(session)
            return self._catalogue(session, "product"), self._catalogue(session, "strategy")

    def _context(self, product: Any) -> Context:
        """What an ask is about, by id or by features."""
        return read_context(product, *self._known())

    def _check_sizes(self, session: Session, sizes: Sequence[int]) -> None:
        """Refuse a context of other sizes than those before: no policy could learn from both."""
        known, where = self._ledger.sizes(), "the rounds of this campaign"
        if known is None:
            held = [self._catalogue(session, kind).features for kind in _PARTS]
            if held[1] is not None and len(sizes) < 2:
                raise ShapeError(
                    "this campaign has strategies, so a round needs one. Give strategies= ('all', or some ids), or the "
                    "product together with a strategy: (product, strategy)."
                )
            known, where = list(sizes), "the catalogue"
            for place, features in enumerate(held[: len(sizes)]):
                known[place] = known[place] if features is None else features.shape[1]
        if list(sizes) != known:
            told = [" + ".join(map(str, values)) for values in (sizes, known)]
            raise ShapeError(
                f"this product has {told[0]} features, but the products of {where} have {told[1]}"
                f"{' (a strategy and whatever else is given count as well)' if len(known) + len(sizes) > 2 else ''}. "
                "Give it as many, or create another campaign."
            )
