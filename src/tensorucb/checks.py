"""The checks of arguments: every public function of the package uses these, and no others of its own.

A check takes the argument's name as the caller wrote it and the value that came. It gives back the value in one plain
form, or raises an error that says what was wrong, what came and what to do. Values are echoed through :func:`shown`,
which keeps any message short and printable.

Two rules hold everywhere. A boolean is not a number, unless a whole array is boolean: then it counts as zeros and
ones. Text is never parsed into a number.
"""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError, Mention, ShapeError, Text

T = TypeVar("T")

LARGEST = 1e12  # of a number, feature or duration: squares and cubes of it still are finite
SMALLEST = 1e-12  # of a number that must be above 0: its inverse is finite too
MOST = 1_000_000_000  # of a count, unless a check gives another bound
SLUG = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST_TEXT = 512  # characters of an id or a name: every database can index them then
_REALS = (int, float, np.integer, np.floating, Decimal, Fraction)


# -- echoing a value --


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = 4
        self.maxstring = 60
        self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print numbers of more than a few thousand digits.
        return repr(x) if x.bit_length() < 128 else f"a whole number of {x.bit_length():,} bits"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x) if len(x) <= 40 else f"{x[:20]!r}… ({len(x):,} bytes)"

    def repr_ndarray(self, x: NDArray[Any], level: int) -> str:
        if x.size <= 6 and x.dtype.kind in "biufcmM":
            return f"array({x.tolist()}, {x.dtype})"
        return f"an array of shape {x.shape} and type {x.dtype!s:.40}"

    def repr_instance(self, x: Any, level: int) -> str:
        if hasattr(x, "shape"):
            return f"a {type(x).__name__} of shape {x.shape}"
        text = super().repr_instance(x, level)
        return f"a {type(x).__name__}" if text.startswith("<") else text  # an address tells nobody anything


_short = _Short()


def shown(value: object, limit: int = 80) -> str:
    """``value`` for a message: at most ``limit`` characters, all of them printable, whatever the value is."""
    if isinstance(value, str):
        text = repr(value if len(value) <= limit else value[:limit])
    else:
        try:
            text = _short.repr(value)
        except Exception:
            text = f"a {type(value).__name__}"
    text = "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown_path(path: object) -> str:
    """A path for a message; longer than other values, since its end names the file."""
    return shown(str(path), 400)


def refusal(name: str, wanted: Text, value: object, advice: Text = "") -> InputError:
    """The error of an argument that is not what was wanted."""
    return InputError(argument=name, wanted=wanted, got=shown(value), advice=advice)


# -- single values --


def plain(value: Any) -> Any:
    """The Python value of a NumPy scalar or an array without dimensions; others as they are."""
    if not isinstance(value, np.generic | np.ndarray) or value.ndim:
        return value
    # The item of a duration or of a masked value would be a bare number.
    return value if value.dtype.kind in "mMV" or value is np.ma.masked else value.item()


def check_count(name: str, value: Any, low: int = 1, high: int = MOST) -> int:
    """A whole number from ``low`` to ``high``."""
    plain_value = plain(value)
    if not isinstance(plain_value, int) or isinstance(plain_value, bool) or not low <= plain_value <= high:
        bounds = f"of at least {low}" if high == MOST else f"in {low}..{high}"
        if isinstance(plain_value, int) and plain_value > MOST == high:
            bounds = f"of at most {MOST:,}"
        raise refusal(name, f"a whole number {bounds}", value)
    return int(plain_value)


def check_number(
    name: str, value: Any, *, low: float = 0.0, high: float = LARGEST, strict: bool = False, hint: str = ""
) -> float:
    """A finite number from ``low`` to ``high``; above 0 if ``strict``."""
    number = _float(value)
    least = SMALLEST if strict else low
    if not least <= number <= high:
        above = "above 0" if strict and not 0.0 < number < least else f"of at least {least:g}"
        below = f" and at most {high:g}" if number > high or high < LARGEST else ""
        raise refusal(name, f"a finite number {above}{below}", value, hint)
    return number


def _float(value: Any) -> float:
    """The number as a float; NaN for what is no number, and infinity for one that is too large."""
    plain_value = plain(value)
    if not isinstance(plain_value, int | float) or isinstance(plain_value, bool):
        return math.nan
    try:
        return float(plain_value) + 0.0  # makes -0.0 a plain 0.0
    except OverflowError:
        return math.inf


def check_share(name: str, value: Any, *, zero: bool = True, one: bool = True) -> float:
    """A number from 0 to 1; the ends themselves only if ``zero`` and ``one`` allow it."""
    number = _float(value)
    # As with positive numbers, the inverse of a share that is not 0 must be finite.
    if not 0 <= number <= 1 or (number < SMALLEST and not zero) or (number == 1 and not one):
        least = f"[{SMALLEST:g}" if 0 < number < SMALLEST else "[0" if zero else "(0"
        raise refusal(name, f"a number in {least}, 1{']' if one else ')'}", value)
    return number


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise refusal(name, (Mention("constant", "True"), " or ", Mention("constant", "False")), value)
    return bool(value)


def unstorable(text: str) -> str | None:
    """Why this text cannot be kept in every database and file, or None if it can."""
    if "\0" in text:
        return "it holds the character NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode (half of a surrogate pair)"
    return None


def check_text(name: str, value: Any, *, empty: bool = False, longest: int = LONGEST_TEXT) -> str:
    """Text that can be stored: valid Unicode, without NUL, not too long."""
    if not isinstance(value, str):
        raise refusal(name, "text", value)
    if not value and not empty:
        raise refusal(name, "a text that is not empty", value)
    if len(value) > longest:
        raise InputError(
            f"must have at most {longest:,} characters; got {len(value):,}: {shown(value, 40)}.", argument=name
        )
    reason = unstorable(value)
    if reason:
        raise InputError(
            f"is {shown(value)}, which cannot be stored: {reason}.", argument=name, advice="Use another one."
        )
    return str(value)


def check_slug(name: str, value: Any) -> str:
    """A short name that an address, a file and a command line can hold as it is."""
    if not isinstance(value, str) or not SLUG.fullmatch(value):
        rule = "1 to 100 letters (a-z, A-Z), digits, '-', '_' or '.', beginning with a letter or a digit"
        raise refusal(name, rule, value)
    return str(value)


def check_id(name: str, value: Any) -> int | str:
    """An id: text, or a whole number of 64 bits."""
    plain_value = plain(value)
    if isinstance(plain_value, str):
        return check_text(name, plain_value)
    if not isinstance(plain_value, int) or isinstance(plain_value, bool) or not -(2**63) <= plain_value < 2**63:
        raise refusal(name, "an id, which is text or a whole number of 64 bits", value)
    return int(plain_value)


def check_choice(name: str, value: Any, words: Iterable[str]) -> str:
    """One of ``words``."""
    allowed = list(words)
    if not isinstance(value, str) or value not in allowed:
        *most, last = map(repr, allowed)
        raise refusal(name, f"{', '.join(most)} or {last}" if most else last, value)
    return str(value)


def check_path(name: str, value: Any) -> Path:
    """The path of a file or directory, as text or as a `pathlib.Path`."""
    try:
        path = os.fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str) or not path:
        raise refusal(name, "a path, as text or as a pathlib.Path", value)
    if unstorable(path) or len(path) > 4096 or max(map(len, path.split("/"))) > 255:
        raise refusal(name, "a path that the file system can hold", path)
    return Path(path)


def check_instance(name: str, value: Any, kind: type[T] | tuple[type, ...], wanted: str, hint: str = "") -> T:
    """An object of this kind."""
    if not isinstance(value, kind):
        raise refusal(name, wanted, value, hint)
    return value  # type: ignore[return-value]  # a tuple of kinds gives any of them


def check_callable(name: str, value: Any, wanted: str) -> Callable[..., Any]:
    """A function, such as a clock."""
    return check_instance(name, value, Callable, wanted)  # type: ignore[arg-type]


def check_report(name: str, value: Any) -> None:
    """A function that is told how far the work is, or None."""
    if value is not None:
        check_callable(name, value, "a function, or None")


def check_mapping(name: str, value: Any, wanted: str) -> dict[Any, Any]:
    """A mapping, such as a dict, as a dict."""
    try:
        return dict(check_instance(name, value, Mapping, wanted))
    except LookupError as error:
        raise refusal(name, wanted, value, "One of its keys has no value.") from error


def check_sequence(name: str, value: Any, wanted: str) -> list[Any]:
    """The entries of a list, a tuple or a one-dimensional array; text is not a sequence here."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value.tolist())
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        raise refusal(name, wanted, value)
    return list(value)


# -- arrays --


def is_missing(value: Any) -> bool:
    """Whether a Python object stands for a missing value."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | np.floating | Decimal) and value != value)
        or (isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value)))
    )


def array_of(name: str, values: Any, wanted: str) -> NDArray[Any]:
    """A NumPy array of a list, an array, or a column or frame of pandas, polars or Arrow; of whatever type it is."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise InputError("holds masked values.", argument=name, advice="Fill them, or drop those rows, first.")
        values = values.data
    if isinstance(values, str | bytes | Mapping) or not (hasattr(values, "__array__") or isinstance(values, Sequence)):
        raise refusal(name, wanted, values, "Pass a list or an array.")
    try:
        dtype = getattr(values, "dtype", None)
        if getattr(dtype, "tz", None) is not None and hasattr(values, "to_numpy"):
            return np.asarray(values.to_numpy(dtype="datetime64[ns]"))  # pandas would give objects
        return np.asarray(values)
    except Exception as error:  # lists of unequal length, and whatever another library's conversion raises
        raise refusal(name, wanted, values, f"({type(error).__name__}: {shown(str(error))[1:-1]})") from error


def check_array(
    name: str,
    values: Any,
    shape: tuple[int | str, ...],
    *,
    low: float = -LARGEST,
    high: float = LARGEST,
    hint: Text = "",
    ranged: bool = True,
) -> NDArray[np.float64]:
    """A contiguous float64 array of finite numbers in ``[low, high]``; a copy only where it has to be.

    ``shape`` has the size of each dimension: a number where it is given, a letter where any size (of at least 1) will
    do, as in ``(n, "d")``; a letter with a ``?``, as in ``"N?"``, may also be 0. ``hint`` says what to do about a wrong
    shape or range. ``ranged=False`` leaves the bounds to a kernel that reads all values anyway.
    """
    wanted = f"an array of numbers of shape {_shape_text(shape)}"
    array = _real(name, array_of(name, values, wanted), wanted)
    if array.ndim != len(shape) or not all(map(_size_fits, array.shape, shape)):
        raise ShapeError(f"must have shape {_shape_text(shape)}; got {array.shape}.", argument=name, advice=hint)
    # Written so that NaN fails as well.
    if array.size and ranged and not (array.min() >= low and array.max() <= high):
        raise _out_of_range(name, array, low, high, hint)
    return np.ascontiguousarray(array)


def check_numbers(name: str, values: Any, *, low: float = -LARGEST) -> NDArray[np.float64]:
    """A float64 array of finite numbers of any shape, also a single number."""
    if isinstance(values, int | float | np.number) and not isinstance(values, bool):
        return np.array(check_number(name, values, low=low))
    array = array_of(name, values, "numbers")
    return check_array(name, values, tuple("n?" for _ in array.shape), low=low)


def _shape_text(shape: tuple[int | str, ...]) -> str:
    parts = [str(size).rstrip("?") for size in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _size_fits(size: int, wanted: int | str) -> bool:
    return size == wanted if isinstance(wanted, int) else size > 0 or wanted.endswith("?")


def _real(name: str, array: NDArray[Any], wanted: str) -> NDArray[np.float64]:
    if array.dtype.kind == "O":
        wrong = [kind for kind in set(map(type, array.ravel().tolist())) if not is_real(kind)]
        if not wrong:
            try:
                return array.astype(np.float64)
            except (TypeError, ValueError, OverflowError):
                raise InputError(f"must be {wanted}; a number in it is too large.", argument=name) from None
        first = next(value for value in array.ravel().tolist() if type(value) in wrong)
        if is_missing(first):
            raise InputError(
                argument=name,
                wanted="finite numbers",
                got=f"a missing value ({shown(first)})",
                advice="Fill or drop it.",
            )
        raise refusal(name, wanted, first, "Convert it to a number first.")
    if array.size and array.dtype.kind not in "biuf":
        raise InputError(argument=name, wanted=wanted, got=f"values of type {array.dtype!s:.40}")
    if array.dtype.itemsize > 8 and array.size:  # long doubles
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return array.astype(np.float64, copy=False)


def is_real(kind: type) -> bool:
    """Whether values of this type are real numbers."""
    return issubclass(kind, _REALS) and not issubclass(kind, bool | np.timedelta64)  # NumPy counts it as an integer


def _out_of_range(name: str, array: NDArray[np.float64], low: float, high: float, hint: Text) -> InputError:
    bad = np.argwhere(~((array >= low) & (array <= high)))[0]
    value, place = float(array[tuple(bad)]), ", ".join(map(str, bad.tolist()))
    if not math.isfinite(value):
        got = f"{value} at [{place}]"
        return InputError(argument=name, wanted="finite numbers", got=got, advice="Clean or fill it first.")
    bounds = f"in [{low:g}, {high:g}]" if high < LARGEST or value > low else f"of at least {low:g}"
    if abs(value) > LARGEST:
        bounds, hint = f"in [{low:g}, {high:g}]", "Scale them first, for example to a standard deviation of 1."
    return InputError(argument=name, wanted=f"numbers {bounds}", got=f"{value!r} at [{place}]", advice=hint)


def check_rows(name: str, values: Any, n: int, *, hint: str = "", distinct: bool = False) -> NDArray[np.int64]:
    """Whole numbers in ``0..n-1``, such as row numbers, as a contiguous int64 array; it may be empty."""
    wanted = "a one-dimensional array of whole numbers"
    array = array_of(name, values, wanted)
    if array.ndim != 1:
        raise ShapeError(argument=name, wanted=wanted, got=f"an array of shape {array.shape}", advice=hint)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        came = f"values of type {array.dtype!s:.40}"
        raise InputError(argument=name, wanted="whole numbers", got=came, advice=hint)
    if array.min() < 0 or array.max() >= n:
        place = int(np.flatnonzero((array < 0) | (array >= n))[0])
        raise InputError(f"must lie in 0..{n - 1}; got {int(array[place])} at [{place}].", argument=name, advice=hint)
    rows = np.ascontiguousarray(array, dtype=np.int64)
    if distinct and np.unique(rows).size < rows.size:
        distinct_rows, counts = np.unique(rows, return_counts=True)
        raise InputError(argument=name, wanted="distinct", got=f"{distinct_rows[counts > 1][0]} more than once")
    return rows
