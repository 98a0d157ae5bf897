"""Moments and durations: whatever callers mean by a time becomes unix seconds."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import LARGEST, array_of, check_number, is_real, plain, refusal, shown
from tensorucb.errors import InputError

__all__ = ["check_moment", "check_seconds", "check_times", "is_moment", "unix_seconds", "unix_times"]

_YEAR_1, _YEAR_9999 = -62_135_596_800.0, 253_402_300_799.0
_LENGTHS = {"W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}  # units of datetime64, in seconds
_PARTS = {"ms": 1e3, "us": 1e6, "ns": 1e9, "ps": 1e12, "fs": 1e15, "as": 1e18}  # and how many make a second


def check_seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """A duration in seconds, from a number or a `datetime.timedelta`."""
    if isinstance(value, np.timedelta64):
        given: Any = math.nan if np.isnat(value) else value / np.timedelta64(1, "s") if _has_seconds(value) else None
    else:
        # pandas has a NaT that calls itself a timedelta and answers NaN.
        given = value.total_seconds() if isinstance(value, timedelta) else value
    return check_number(name, given, strict=not zero, hint="Give seconds or a timedelta.")


def _has_seconds(value: np.timedelta64) -> bool:
    return np.datetime_data(value.dtype)[0] not in ("Y", "M", "generic")


def unix_seconds(value: Any) -> float:
    """Unix seconds of a number, a datetime (UTC if it has no zone), a date, or such a text; NaN for everything else."""
    if isinstance(value, bool | np.bool_):
        return math.nan
    if isinstance(value, str):
        value = _moment_of_text(value)
    if isinstance(value, np.datetime64):
        return float(unix_times(np.array([value]))[0])
    try:
        if is_real(type(value)):
            return float(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if isinstance(value, datetime):
            return float((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    except (OverflowError, ValueError):  # too large, or pandas' NaT
        return math.nan
    return math.nan


def _moment_of_text(text: str) -> Any:
    # Eight digits are a date, as ISO writes it; any other number is seconds.
    if len(text) > 64:
        return None
    if not (len(text) == 8 and text.isdigit()):
        try:
            return float(text)
        except ValueError:
            pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def unix_times(values: NDArray[Any]) -> NDArray[np.int64] | NDArray[np.float64]:
    """Unix seconds of an array: whole numbers stay, datetimes of any unit become seconds, NaN is what is no time."""
    kind = values.dtype.kind
    if kind == "i" or (kind == "u" and (not values.size or values.max() < 2**63)):
        return values.astype(np.int64, copy=False)
    if kind == "f" or kind == "u":
        with np.errstate(over="ignore"):
            return values.astype(np.float64, copy=False)
    if kind == "M":
        unit, step = np.datetime_data(values.dtype)
        if unit in ("Y", "M"):  # of no fixed length
            values, unit, step = values.astype("datetime64[D]"), "D", 1
        if unit == "generic":
            return np.full(values.shape, np.nan)
        ticks = values.astype(np.int64).astype(np.float64) * (step * _LENGTHS.get(unit, 1.0)) / _PARTS.get(unit, 1.0)
        return np.where(np.isnat(values), np.nan, ticks)
    if kind in "OUT":
        return np.array([unix_seconds(value) for value in values.ravel().tolist()], np.float64).reshape(values.shape)
    return np.full(values.shape, np.nan)


def is_moment(seconds: Any) -> Any:
    """Whether unix seconds lie in the years 1 to 9999 (of a number or an array); NaN does not."""
    return (seconds >= _YEAR_1) & (seconds <= _YEAR_9999)


def check_moment(name: str, value: Any) -> float:
    """A moment as unix seconds, from a number, a datetime or a date."""
    seconds = math.nan if isinstance(value, str) else unix_seconds(plain(value))
    if not is_moment(seconds):
        raise refusal(name, "unix seconds or a datetime, in the years 1 to 9999", value)
    return seconds


def check_times(name: str, values: Any) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of times in seconds: whole numbers stay, datetimes of any unit and zone become unix seconds."""
    wanted = "a column of numbers or datetimes"
    array = array_of(name, values, wanted)
    if array.dtype.kind not in "iufMO" and array.size:
        raise InputError(f"{name} must be {wanted}; got values of type {array.dtype!s:.40}.")
    times = unix_times(array)
    bad = np.flatnonzero(~(np.abs(times.astype(np.float64)) <= LARGEST))
    if bad.size:
        came = shown(array.ravel()[bad[0]])
        raise InputError(f"{name} must be finite seconds or datetimes; got {came} at [{bad[0]}]. Drop or fill it.")
    return times
