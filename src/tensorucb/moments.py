"""Moments and durations: whatever callers mean by a time becomes unix seconds."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import LARGEST, array_of, check_number, check_text, is_real, plain, refusal, shown
from tensorucb.errors import InputError, Mention

Duration = timedelta | str
"""A `datetime.timedelta`, or a text such as ``"7d"``."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPAN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,30})?) ?([smhdw]?)")
_YEAR_1, _YEAR_9999 = -62_135_596_800.0, 253_402_300_799.0
_LENGTHS = {"W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}  # units of datetime64, in seconds
_PARTS = {"ms": 1e3, "us": 1e6, "ns": 1e9, "ps": 1e12, "fs": 1e15, "as": 1e18}  # and how many make a second


def duration(name: str, value: Any, *, zero: bool = False) -> float:
    """Seconds of a duration: a `datetime.timedelta`, or a text such as ``7d``; 0 only if ``zero`` allows it.

    A text is a number and a unit: s, m (minutes), h, d or w. A number alone is refused, since 7 could be days or
    seconds; 0 needs no unit.
    """
    seconds = value
    if isinstance(value, str) and (match := _SPAN.fullmatch(value)):
        number, unit = match.groups()
        seconds = float(number) * _UNITS.get(unit, math.nan) if float(number) or unit else 0.0
        if not unit and seconds:
            raise _without_unit(name, number, value)
    elif isinstance(value, str):
        seconds = None
    elif is_real(type(value)) and 0.0 < unix_seconds(value) <= LARGEST:
        raise _without_unit(name, np.format_float_positional(float(value), trim="-"), value)
    elif isinstance(value, np.timedelta64):
        of_fixed_length = np.datetime_data(value.dtype)[0] not in ("Y", "M", "generic")
        seconds = math.nan if np.isnat(value) else value / np.timedelta64(1, "s") if of_fixed_length else None
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()  # NaN for pandas' NaT, which calls itself a timedelta
    try:
        return check_number(name, seconds, strict=not zero)
    except InputError:
        least = "of at least 0" if zero else "above 0"
        wanted = f"a duration {least}: a text such as '7d', '12h' or '30m'", Mention("python", ", or a timedelta")
        raise refusal(name, wanted, value) from None


def _without_unit(name: str, number: str, value: Any) -> InputError:
    return InputError(
        f"needs a unit: '{number}d' is {number} days, '{number}s' is {number} seconds; got {shown(value)}.",
        argument=name,
    )


def duration_text(seconds: float) -> str:
    """A duration for people, exactly: in the longest of days, hours, minutes and seconds that it is a multiple of."""
    for unit in "dhm":
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds // _UNITS[unit]:.0f}{unit}"
    return f"{np.format_float_positional(float(seconds), trim='-')}s"


def unix_seconds(value: Any, zone: tzinfo = UTC) -> float:
    """Unix seconds of a number, a datetime, a date, or such a text; NaN for everything else.

    ``zone`` is that of dates, and of datetimes that name none.
    """
    if isinstance(value, bool | np.bool_):
        return math.nan
    if isinstance(value, str):
        value = _moment_of_text(value)
    try:
        if is_real(type(value)):
            return float(value)
        if isinstance(value, np.datetime64):
            value = datetime(1970, 1, 1) + timedelta(seconds=float(unix_times(np.array([value]))[0]))
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if isinstance(value, datetime):
            return float((value if value.tzinfo else value.replace(tzinfo=zone)).timestamp())
    except (OverflowError, ValueError):  # too large, or pandas' NaT
        return math.nan
    return math.nan


def _moment_of_text(text: str) -> Any:
    # Eight digits are a date, as ISO writes it; any other number is seconds.
    is_date = len(text) == 8 and text.isdigit()
    for parse in (datetime.fromisoformat,) if is_date else (float, datetime.fromisoformat):
        with suppress(ValueError):
            return parse(text) if len(text) <= 64 else None
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
            values = values.astype("datetime64[D]")
            unit = "D"
            step = 1
        if unit == "generic":
            return np.full(values.shape, np.nan)
        ticks = values.astype(np.int64).astype(np.float64) * (step * _LENGTHS.get(unit, 1.0)) / _PARTS.get(unit, 1.0)
        return np.where(np.isnat(values), np.nan, ticks)
    if kind in "OUT":
        return np.array(list(map(unix_seconds, values.ravel().tolist())), np.float64).reshape(values.shape)
    return np.full(values.shape, np.nan)


def check_zone(name: str, value: Any) -> str:
    """The name of a time zone, such as Europe/Berlin."""
    zone = check_text(name, value)
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise refusal(name, "the name of a time zone, such as 'UTC' or 'Europe/Berlin'", value) from None
    return zone


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
        raise InputError(f"must be {wanted}; got values of type {array.dtype!s:.40}.", argument=name)
    times = unix_times(array)
    bad = np.flatnonzero(~(np.abs(times.astype(np.float64)) <= LARGEST))
    if bad.size:
        came = shown(plain(array.ravel()[bad[0]]))
        raise InputError(
            f"must be finite unix seconds or datetimes; got {came} in row {bad[0] + 1}. "
            "If these are milliseconds, divide by 1,000; otherwise drop or fill it.",
            argument=name,
        )
    return times
