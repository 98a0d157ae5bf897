"""Hostile values: what a caller may hand in by mistake, or on purpose. Each is made new for every call."""

from __future__ import annotations

import array
import enum
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy.sparse import csr_array


class Text(str):
    pass


class Number(enum.IntEnum):
    ONE = 1


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class NoArray:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise MemoryError("no")


class OddMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise LookupError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["source", "a"])

    def __len__(self) -> int:
        return 2


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


def _loop() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def _days(unit: str) -> Any:
    return np.array(["2024-05-01", "2024-05-02", "NaT"], dtype=f"datetime64[{unit}]")


_NAN, _INF = math.nan, math.inf
_SINGLE: list[Any] = [
    *(None, True, False, np.True_, Number.ONE),
    *(0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**12, 10**400, -(10**400)),
    *(0.5, -0.5, -0.0, 1e-320, 1e12, 1e200, 1e308, _INF, -_INF, _NAN),
    *(np.float32("nan"), np.float16(1), np.longdouble("1e4000"), np.int8(-1), np.uint64(2**64 - 1), np.array(3)),
    *(1 + 2j, Decimal("NaN"), Decimal("1e999"), Decimal("0.5"), Fraction(1, 3)),
    *("", " ", "a", "1", "nan", "\ud800", "a\0b", "\x1b[31mred", "../up", "[/b]", "a" * 600, Text("a"), "0001-01-01"),
    *(b"", b"bytes", bytearray(b"x"), memoryview(b"xy"), array.array("d", [1.0, 2.0])),
    *(Path("absent/file.csv"), Path("/proc/nothing/x.parquet")),
    *(datetime(2024, 5, 1), datetime.max, datetime(1, 1, 1, tzinfo=UTC), date(2024, 5, 1)),
    *(timedelta(days=-1), timedelta.max, np.datetime64("NaT"), np.timedelta64(5, "Y")),
    *(pd.NaT, pd.NA, pd.Timestamp("2024-05-01", tz="Europe/Berlin"), np.ma.masked),
    *(math, Exception("x"), object(), NoRepr(), NoArray(), OddMapping(), ...),
]
_MADE: list[Callable[[], Any]] = [
    *(list, tuple, dict, set, lambda: [[]], lambda: [1], lambda: [0, 1, 2], lambda: [1.5], lambda: [True, False]),
    *(lambda: ["a", "b"], lambda: [1, "a"], lambda: [None], lambda: [_NAN], lambda: [_INF, 1.0], lambda: [1e200]),
    *(lambda: [[1, 2], [3]], lambda: [10**400], lambda: ["\ud800"], lambda: [""], lambda: [b"x"], lambda: [0, 0]),
    *(lambda: ["a" * 2000], lambda: [1 + 2j], lambda: [2**63], lambda: (1,), lambda: {"a": 1}, lambda: {1: 2}),
    *(lambda: {"a": _NAN}, lambda: {"a": 2**63}, lambda: {"source": [0], "target": 3}, lambda: {1, 2}),
    *(lambda: frozenset([1]), lambda: (i for i in range(3)), lambda: iter([1]), itertools.count, lambda: range(3)),
    *(_deep, _loop, lambda: "x" * 10**6, lambda: np.array([]), lambda: np.zeros((0, 3)), lambda: np.zeros((2, 2))),
    *(lambda: np.zeros((1, 1, 1)), lambda: np.array([1, "a"], dtype=object), lambda: np.array(["a"])),
    *(lambda: np.array([1 + 2j]), lambda: np.array([1e300, 1.0]), lambda: np.arange(3, dtype=">i4")),
    *(lambda: np.array([0, 1], dtype=np.uint64), lambda: np.array([0.5], dtype=np.float16)),
    *(lambda: np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), lambda: np.array([b"x"])),
    *(lambda: np.ma.array([1.0, 2.0], mask=[0, 1]), lambda: _days("ns"), lambda: _days("D")),
    *(lambda: np.array([1, 2], dtype="timedelta64[s]"), lambda: csr_array(np.eye(3))),
    *(lambda: pd.Series([1.0, None]), lambda: pd.Series([1, None], dtype="Int64"), lambda: pd.Series(["a", None])),
    *(lambda: pd.Categorical(["a", "b"]), lambda: pd.DataFrame({"source": [0, 1], "target": [1, None]})),
    *(lambda: pd.DataFrame([[1, 2]], columns=["source", "source"]), lambda: pd.Series([pd.NaT, pd.Timestamp(0)])),
    *(lambda: pl.Series([1, None]), lambda: pl.Series([None, None]), lambda: pl.Series([[1], [2, 3]])),
    *(lambda: pl.DataFrame({"source": [0], "target": [1]}), lambda: pl.LazyFrame({"a": [1]}).select("b")),
    *(lambda: pa.array(["a", "b"]).dictionary_encode(), lambda: pa.array([Decimal("1.5"), None])),
    *(lambda: pa.nulls(3), lambda: pa.chunked_array([[1, 2], [3]]), lambda: pa.table({"source": [0], "user": [None]})),
]


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


HOSTILE: list[Callable[[], Any]] = [*map(_constant, _SINGLE), *_MADE]
