"""How the products of a campaign are described: by the columns of their table, and by who bought them before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.checks import check_array
from tensorucb.errors import InputError
from tensorucb.features._table import TableFeatures, as_frame

_STRENGTHS = np.logspace(-2, 3, 11)


@dataclass(frozen=True, eq=False)
class ProductFeatures:
    """Describes products, those of a log and those that no log knows, by features of one kind.

    A product's features are the topics of its buyers, then its columns. For a product that nobody has bought yet the
    topics are predicted from its columns, by a regression over the products of the log; without columns they are the
    average ones.

    Parameters
    ----------
    table
        How columns become features; None if products have none.
    weights
        ``(1 + d, k)``: intercept and weights that predict the k topics from the d features of the columns; None
        without a log.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from tensorucb.features import ProductFeatures
    >>> products = pl.DataFrame({"kind": ["tea", "tea", "soap", "soap"]})
    >>> topics = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8]])
    >>> described = ProductFeatures.fit(products, topics)
    >>> new = described.describe(pl.DataFrame({"kind": ["tea"]}))
    >>> bool(new[0, 0] > new[0, 1])  # tea was bought by the people of the first topic
    True
    """

    table: TableFeatures | None
    weights: F64 | None

    @classmethod
    def fit(
        cls, table: Any = None, topics: ArrayLike | None = None, *, kinds: Mapping[str, str] | None = None
    ) -> ProductFeatures:
        """Learn how products are described.

        Parameters
        ----------
        table
            One row per product, without the ids; None if nothing is known but who bought what.
        topics
            ``(rows, k)`` topics of the products' buyers, NaN where nobody has bought one; None without a log.
        kinds
            What some columns hold, see :meth:`TableFeatures.fit`.
        """
        if table is None and topics is None:
            raise InputError("need a table or topics to be described by.", argument="products")
        frame = None if table is None else as_frame("table", table)
        columns = None if frame is None else TableFeatures.fit(frame, kinds=kinds)
        if topics is None:
            return cls(columns, None)
        rows = "products" if frame is None else frame.height
        shares = check_array("topics", topics, (rows, "k"), ranged=False, hint="One row per product of the table.")
        bought = np.isfinite(shares).all(axis=1)
        if not bought.any():
            return cls(columns, None)
        described = np.zeros((len(shares), 0)) if columns is None else columns.transform(frame)
        return cls(columns, _regression(described[bought], shares[bought]))

    def describe(self, table: Any = None, topics: ArrayLike | None = None) -> F64:
        """``(rows, features)``: the topics if there was a log, then the columns.

        Parameters
        ----------
        table
            One row per product, with the columns of the fit.
        topics
            ``(rows, k)`` topics where they are known, NaN elsewhere; by default nobody has bought these products.
        """
        if self.table is not None:
            columns = self.table.transform(table)
        else:
            rows = len(np.asarray(topics)) if topics is not None else as_frame("table", table).height
            columns = np.zeros((rows, 0))
        if self.weights is None:
            return columns
        expected = np.maximum(self.weights[0] + columns @ self.weights[1:], 0.0) + 1e-6
        expected /= expected.sum(axis=1, keepdims=True)
        if topics is not None:
            shares = check_array("topics", topics, (len(columns), self.weights.shape[1]), ranged=False)
            expected = np.where(np.isfinite(shares).all(axis=1, keepdims=True), shares, expected)
        return np.hstack([expected, columns])

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each feature."""
        topics = 0 if self.weights is None else self.weights.shape[1]
        columns = () if self.table is None else self.table.labels
        return (*(f"topic {number + 1}" for number in range(topics)), *columns)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that was learned, as JSON and arrays."""
        settings, arrays = (None, {}) if self.table is None else self.table.to_arrays()
        if self.weights is not None:
            arrays = {**arrays, "weights": self.weights}
        return {"table": settings}, arrays

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> ProductFeatures:
        """What :meth:`to_arrays` gave."""
        table = None if settings["table"] is None else TableFeatures.from_arrays(settings["table"], arrays)
        return cls(table, arrays.get("weights"))


def _regression(columns: F64, topics: F64) -> F64:
    """Intercept and weights of a ridge regression; its strength is chosen by leaving products out one at a time."""
    if not columns.shape[1] or len(columns) < 2:
        return np.vstack([topics.mean(axis=0), np.zeros((columns.shape[1], topics.shape[1]))])
    from sklearn.linear_model import RidgeCV

    ridge = RidgeCV(alphas=_STRENGTHS).fit(columns, topics)
    return np.vstack([ridge.intercept_, np.asarray(ridge.coef_).reshape(topics.shape[1], -1).T])
