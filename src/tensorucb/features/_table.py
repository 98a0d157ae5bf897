"""Features from the columns of a table: categories, tags, free text, numbers, dates and yes or no.

A table of products (or users) comes as people keep it: a category, a price, a few tags, a description. `TableFeatures`
learns once how to turn such columns into numbers, and does the same with rows that come later. What it learned is
plain arrays and JSON, so that a campaign can store it.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.checks import check_array, check_choice, check_mapping, shown
from tensorucb.errors import InputError

if TYPE_CHECKING:
    import polars as pl

KINDS = ("number", "category", "tags", "text", "date", "ignore")
"""What a column can hold; ``ignore`` leaves it out."""

# Values of a category or tags that get a feature of their own; the rarest ones share the average.
_MOST_VALUES = 20
# Words of a description that count, and topics made from them.
_MOST_WORDS, _MOST_TOPICS = 2000, 8
# A number is described by its place between these quantiles, so that a price of 10,000 does not drown the others.
_QUANTILES = (0.0, 1 / 3, 2 / 3, 1.0)
_SEASONS = 4
_YEAR = 365.2425 * 86400.0
_SEPARATORS = (";", "|", ",")
# Of the regression of topics on columns.
_STRENGTHS = np.logspace(-2, 3, 11)


@dataclass(frozen=True)
class ColumnFeatures:
    """One column, and how its values become shares: numbers from 0 on that sum to 1.

    Attributes
    ----------
    name, kind
        The column, and what it holds.
    settings
        What was learned, as JSON: values, separator, words.
    arrays
        What was learned, as arrays: knots, weights of words, topics, and ``mean``, the average row, which stands for
        a value that is missing or was never seen.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    arrays: Mapping[str, F64]

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each feature."""
        parts: Sequence[Any] = self.settings.get("values") or range(1, self.arrays["mean"].size + 1)
        return tuple(f"{self.name}: {part}" for part in parts)

    def shares(self, values: pl.Series) -> F64:
        """``(rows, features)`` of these values."""
        weights = self.weights(values)
        totals = weights.sum(axis=1, keepdims=True)
        return np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), self.arrays["mean"])

    def weights(self, values: pl.Series) -> F64:
        """The same before rows are scaled to sum to 1; zeros where the value is missing or was never seen."""
        if self.kind == "number":
            return _hats(numbers_of(self.name, values), self.arrays["knots"])
        if self.kind == "date":
            seconds = seconds_of(self.name, values)
            return np.hstack([_hats(seconds, self.arrays["knots"]), _seasons(seconds)])
        if self.kind == "text":
            return self._topics(texts_of(values))
        place = {value: column for column, value in enumerate(self.settings["values"])}
        held = np.zeros((values.len(), len(place)))
        for row, cells in enumerate(cells_of(values, self.settings.get("separator"))):
            held[row, [place[cell] for cell in cells if cell in place]] = 1.0
        return held

    def _topics(self, texts: list[str]) -> F64:
        """The topics that explain each text best, by non-negative least squares: no text depends on the others."""
        from scipy.optimize import nnls

        topics = self.arrays["topics"]
        gram = topics @ topics.T
        root = np.linalg.cholesky(gram + 1e-10 * np.trace(gram) * np.eye(len(topics)))
        inverse = np.linalg.inv(root)
        overlaps = np.asarray(self._words.transform(texts) @ topics.T)
        return np.array([nnls(root.T, inverse @ row)[0] for row in overlaps]).reshape(len(texts), len(topics))

    @cached_property
    def _words(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(vocabulary=list(self.settings["words"]), **_WORDS)
        words.idf_ = self.arrays["idf"]
        return words


_WORDS: dict[str, Any] = {"strip_accents": "unicode", "sublinear_tf": True, "token_pattern": r"(?u)\b\w\w+\b"}
_FACTORS: dict[str, Any] = {"init": "nndsvda", "random_state": 0, "max_iter": 500, "tol": 1e-4}


@dataclass(frozen=True)
class TableFeatures:
    """Turns rows of a table into features, and rows that come later in the same way.

    Each column gives features from 0 on that sum to 1 for each row: the category it belongs to, the topics of its
    words, where its price lies between cheap and dear. A value that is missing, or that was never seen, counts as the
    average one.

    Parameters
    ----------
    columns
        The columns in use; make them with :meth:`fit`.
    left_out
        Columns that are not in use, and why.

    Examples
    --------
    >>> import polars as pl
    >>> from tensorucb.features import TableFeatures
    >>> teas = pl.DataFrame({"kind": ["green", "black", "green", "black"], "price": [3.0, 4.5, 9.0, 5.0]})
    >>> described = TableFeatures.fit(teas)
    >>> described.labels[:2]
    ('kind: black', 'kind: green')
    >>> described.transform(pl.DataFrame({"kind": ["green"], "price": [4.0]}))[0, :2].tolist()
    [0.0, 1.0]
    """

    columns: tuple[ColumnFeatures, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Any, *, kinds: Mapping[str, str] | None = None) -> TableFeatures:
        """Learn the features from a table.

        Parameters
        ----------
        table
            A polars, pandas or Arrow table, one row per product or user, without the column of ids.
        kinds
            What some columns hold: ``number``, ``category``, ``tags`` (several values, with ``;``, ``|`` or ``,``
            between them), ``text``, ``date``, or ``ignore`` to leave a column out. The others are guessed.
        """
        frame = as_frame("table", table)
        named = {} if kinds is None else dict(check_mapping("kinds", kinds, "a mapping of columns to kinds"))
        for name, kind in named.items():
            check_choice(f"kinds[{name!r}]", kind, KINDS)
            if name not in frame.columns:
                raise InputError(
                    f"names the column {shown(name)}; the table's columns are {frame.columns}.", argument="kinds"
                )
        columns, left_out = [], {}
        for name in frame.columns:
            kind, reason = (named[name], "as told") if name in named else _guess(frame[name])
            if kind == "ignore":
                left_out[name] = reason
                continue
            fitted = _fit_column(name, kind, frame[name])
            if isinstance(fitted, str):
                left_out[name] = fitted
            else:
                columns.append(fitted)
        return cls(tuple(columns), left_out)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each feature."""
        return tuple(label for column in self.columns for label in column.labels)

    def transform(self, table: Any) -> F64:
        """``(rows, features)`` of a table with the same columns; others are ignored, missing ones are an error."""
        frame = as_frame("table", table)
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise InputError(
                f"the table has no column {shown(missing[0])}, which the features are made of; "
                f"its columns are {frame.columns}. Leave single cells empty where nothing is known."
            )
        blocks = [column.shares(frame[column.name]) for column in self.columns]
        return np.hstack(blocks) if blocks else np.zeros((frame.height, 0))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that was learned, as JSON and arrays."""
        settings = {
            "columns": [{"name": c.name, "kind": c.kind, "settings": dict(c.settings)} for c in self.columns],
            "left_out": dict(self.left_out),
        }
        return settings, {f"{i}/{name}": a for i, c in enumerate(self.columns) for name, a in c.arrays.items()}

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableFeatures:
        """What :meth:`to_arrays` gave."""
        columns = []
        for i, column in enumerate(settings["columns"]):
            own = {key.split("/", 1)[1]: array for key, array in arrays.items() if key.startswith(f"{i}/")}
            columns.append(ColumnFeatures(column["name"], column["kind"], column["settings"], own))
        return cls(tuple(columns), dict(settings["left_out"]))


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


# -- what a column holds --


def _guess(values: pl.Series) -> tuple[str, str]:
    """What a column holds, and why it is left out if it is."""
    import polars as pl

    if values.dtype.is_temporal():
        return "date", ""
    if values.dtype == pl.Boolean:
        return "category", ""
    if values.dtype.is_numeric():
        return "number", ""
    if isinstance(values.dtype, pl.List):
        return "tags", ""
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return "ignore", f"its type is {values.dtype}"
    present = values.drop_nulls()
    distinct = present.n_unique()
    texts = texts_of(present)
    if texts and all(day_of(text) is not None for text in texts):
        return "date", ""
    if texts and all(re.fullmatch(r"\W*[0-9][0-9.\s]*,[0-9]{1,2}\W*", text) for text in texts):
        return "ignore", "its numbers have commas; write them as 1234.50"
    words = float(np.mean([len(text.split()) for text in texts])) if texts else 0.0
    if words < 6.0 and separator_of(texts) is not None:
        return "tags", ""
    if words < 6.0 and distinct <= max(_MOST_VALUES, present.len() // 10):
        return "category", ""
    if words >= 2.0:
        return "text", ""
    return "ignore", f"it has {distinct} different values, none of which tells rows apart by kind"


def _fit_column(name: str, kind: str, values: pl.Series) -> ColumnFeatures | str:
    """The column's features, or why it has none."""
    settings: dict[str, Any] = {}
    arrays: dict[str, F64] = {}
    if kind in ("number", "date"):
        numbers = numbers_of(name, values) if kind == "number" else seconds_of(name, values)
        finite = numbers[np.isfinite(numbers)]
        knots = np.unique(np.quantile(finite, _QUANTILES, method="nearest")) if finite.size else finite
        if knots.size < 2:
            return "all of its values are the same"
        arrays["knots"] = knots
    elif kind == "text":
        learned = _fit_text(texts_of(values))
        if learned is None:
            return "its texts share too few words"
        settings["words"], arrays["idf"], arrays["topics"] = learned
    else:
        separator = separator_of(texts_of(values.drop_nulls())) if kind == "tags" else None
        if kind == "tags":
            settings["separator"] = separator
        counts = Counter(value for row in cells_of(values, separator) for value in set(row))
        often = sorted(counts, key=lambda value: (-counts[value], value))[:_MOST_VALUES]
        # A value of every row, or of a single one among many, tells nothing about rows that come later.
        fewest = 2 if values.len() > _MOST_VALUES else 1
        kept = [value for value in often if fewest <= counts[value] < values.len()]
        if not kept or (kind == "category" and len(counts) < 2):
            return "its values do not tell rows apart"
        settings["values"] = sorted(kept)
    weights = ColumnFeatures(name, kind, settings, arrays).weights(values)
    totals = weights.sum(axis=1, keepdims=True)
    described, width = totals[:, 0] > 0.0, weights.shape[1]
    mean = (weights[described] / totals[described]).mean(axis=0) if described.any() else np.full(width, 1.0 / width)
    return ColumnFeatures(name, kind, settings, {**arrays, "mean": mean})


def _fit_text(texts: list[str]) -> tuple[list[str], F64, F64] | None:
    """Words, their weights, and topics of words by non-negative matrix factorisation."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        # A word of a single text among many says nothing about others; one of every text says nothing at all.
        weigher = TfidfVectorizer(
            max_features=_MOST_WORDS, min_df=2 if len(texts) > _MOST_VALUES else 1, max_df=0.8, **_WORDS
        )
        weights = weigher.fit_transform(texts)
    except ValueError:  # no word is left
        return None
    topics = min(_MOST_TOPICS, max(2, len(texts) // 10), *weights.shape)
    if topics < 2:
        return None
    # Of texts that are described exactly sklearn takes the root of an error that is rounded below 0.
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        # Topics that would still move a little after so many rounds describe texts as well.
        warnings.simplefilter("ignore", ConvergenceWarning)
        factors = NMF(topics, **_FACTORS).fit(weights)
    return list(weigher.get_feature_names_out()), weigher.idf_, factors.components_


def _hats(numbers: F64, knots: F64) -> F64:
    """Shares of the two knots on both sides of each number, by nearness; zeros for NaN."""
    unit = np.eye(knots.size)
    shares: F64 = np.column_stack([np.interp(numbers, knots, column) for column in unit])
    return np.where(np.isfinite(numbers)[:, None], shares, 0.0)


def _seasons(seconds: F64) -> F64:
    """Shares of the four seasons by nearness, around the year."""
    place = (seconds / _YEAR % 1.0) * _SEASONS
    away = np.abs(place[:, None] - np.arange(_SEASONS))
    near = np.clip(1.0 - np.minimum(away, _SEASONS - away), 0.0, 1.0)
    return np.where(np.isfinite(seconds)[:, None], near, 0.0)


# -- cells --


def as_frame(name: str, table: Any) -> pl.DataFrame:
    """Any table as a polars frame."""
    from tensorucb import tables

    return tables.as_frame(name, table)


def numbers_of(name: str, values: pl.Series) -> F64:
    import polars as pl

    try:
        numbers = values.cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"the column {shown(name)} must hold numbers such as 12.50 ({shown(str(error), 80)[1:-1]})."
        ) from error
    return np.where(np.isfinite(numbers), numbers, np.nan)


def seconds_of(name: str, values: pl.Series) -> F64:
    """Dates as unix seconds; NaN where there is none."""
    import polars as pl

    if values.dtype == pl.String:
        texts = [text or None for text in values.to_list()]
        days = [None if text is None else day_of(text) for text in texts]
        strange = next((text for text, day in zip(texts, days, strict=True) if text is not None and day is None), None)
        if strange is not None:
            raise InputError(f"the column {shown(name)} must hold dates such as 2026-05-31; got {shown(strange)}.")
        values = pl.Series(days, dtype=pl.Date)
    try:
        moments = values.cast(pl.Datetime("us")).dt.epoch("s").cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"the column {shown(name)} must hold dates ({shown(str(error), 80)[1:-1]}).") from error
    return moments.fill_null(float("nan")).to_numpy()


def day_of(text: str) -> date | None:
    """The day that a text begins with, if it does."""
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None


def texts_of(values: pl.Series) -> list[str]:
    return ["" if value is None else str(value) for value in values.to_list()]


def separator_of(texts: Sequence[str]) -> str | None:
    """The character between the values of a column of tags, if a third of the rows have it."""
    for separator in _SEPARATORS:
        if texts and sum(separator in text for text in texts) * 3 >= len(texts):
            return separator
    return None


def _bare(text: str) -> str:
    """A text without the marks of a list around it, such as ``["tea", "eco"]`` has them in a CSV file."""
    text = text.strip()
    if text[:1] == "[" and text[-1:] == "]":
        text = text[1:-1].strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text


def cells_of(values: pl.Series, separator: str | None) -> list[list[str]]:
    """The values of each row: several if there is a separator or a list, otherwise one or none."""
    rows: list[list[str]] = []
    for value in values.to_list():
        parts = value if isinstance(value, list) else [value]
        if separator is not None:
            parts = [part for text in parts if text is not None for part in _bare(str(text)).split(separator)]
        rows.append([_bare(str(part)) for part in parts if part is not None and _bare(str(part))])
    return rows
