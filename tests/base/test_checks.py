"""The checks of arguments: what passes, in which form, and how short and printable every refusal is."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb.checks import (
    array_of,
    check_array,
    check_choice,
    check_count,
    check_id,
    check_mapping,
    check_number,
    check_path,
    check_rows,
    check_share,
    check_text,
    shown,
)
from tensorucb.errors import InputError, ShapeError
from tensorucb.moments import check_moment, check_times, duration, duration_text, unix_seconds, unix_times
from tensorucb.tables import Field, read

NEW_YEAR = 1704067200  # 2024-01-01 in UTC


class Raising:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        10**5000,
        ["a" * 1000] * 1000,
        dict.fromkeys(range(1000), "b" * 100),
        b"y" * 10**6,
        Raising(),
        [Raising()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_echoed_is_short(value):
    assert len(shown(value)) <= 80


@pytest.mark.parametrize("value", ["\x1b[31mred", "a\nb", "\ud800", pd.Series([1, 2]), "\u202eabc"])
def test_whatever_is_echoed_is_printable(value):
    text = shown(value)
    assert text.isprintable()
    text.encode()


def test_what_is_echoed_can_be_recognised():
    assert shown("ann") == "'ann'"
    assert shown(np.zeros((100, 2))) == "an array of shape (100, 2) and type float64"
    assert shown(10**400) == "a whole number of 1,329 bits"
    assert shown(object()) == "a object"


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 10**400, -1, 10**10, np.timedelta64(3, "s"), [1], 1 + 0j])
def test_what_is_no_count(value):
    with pytest.raises(InputError, match="k must be a whole number"):
        check_count("k", value)


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3), np.uint64(3)])
def test_counts_become_plain_numbers(value):
    assert type(check_count("k", value)) is int


@pytest.mark.parametrize("value", [True, "1", None, 10**400, math.inf, math.nan, 5e-324, 1e300, 0.0, Decimal(1), 1j])
def test_what_is_no_positive_number(value):
    with pytest.raises(InputError, match="x must be a finite number"):
        check_number("x", value, strict=True)


def test_negative_zero_becomes_zero():
    assert math.copysign(1.0, check_number("x", -0.0)) == 1.0
    assert math.copysign(1.0, check_share("x", -0.0)) == 1.0


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "0.5", math.nan, None, [0.5]])
def test_what_is_no_share(value):
    with pytest.raises(InputError, match=r"share must be a number in \[0, 1\]"):
        check_share("share", value)


@pytest.mark.parametrize("value", ["", "\ud800", "a\0b", "x" * 513, b"a", None, 3])
def test_what_is_no_text(value):
    with pytest.raises(InputError, match="name"):
        check_text("name", value)


def test_choices_are_listed():
    with pytest.raises(InputError, match="init must be 'a', 'b' or 'c'; got 'd'"):
        check_choice("init", "d", ("a", "b", "c"))
    with pytest.raises(InputError, match="init must be"):
        check_choice("init", ["a"], ("a", "b"))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.0, None, "", "\ud800"])
def test_what_is_no_id(value):
    with pytest.raises(InputError, match="user"):
        check_id("user", value)


@pytest.mark.parametrize("value", [b"a", 3, None, "", "a\0b", "x" * 5000])
def test_what_is_no_path(value):
    with pytest.raises(InputError, match="directory"):
        check_path("directory", value)


def test_a_mapping_without_its_values_is_refused():
    with pytest.raises(InputError, match="products"):
        check_mapping("products", [("a", 1)], "a mapping")


@pytest.mark.parametrize(
    "value", [timedelta(0), -1, 0, True, math.nan, 1e300, timedelta.max, np.timedelta64(1, "Y"), pd.NaT]
)
def test_what_is_no_duration(value):
    with pytest.raises(InputError, match="window"):
        duration("window", value)


@pytest.mark.parametrize(
    "text", ["7 days", "d", "-7d", "0d", "7D", "1e3s", "nan", "7d ", "1w2d", "", "9" * 400 + "d", "٧d"]
)
def test_texts_that_are_no_duration_are_told_how_to_write_one(text):
    with pytest.raises(InputError, match="window must be a duration above 0: a text such as '7d', '12h'"):
        duration("window", text)


@pytest.mark.parametrize("value", [7, 7.0, "7", np.int64(7), np.float32(7)])
def test_a_duration_without_a_unit_is_refused_with_the_two_likely_spellings(value):
    with pytest.raises(InputError, match="window needs a unit: '7d' is 7 days, '7s' is 7 seconds; got"):
        duration("window", value)


def test_durations():
    assert duration("window", timedelta(hours=1)) == 3600.0
    assert duration("window", np.timedelta64(1500, "ms")) == 1.5
    assert duration("cooldown", 0, zero=True) == 0.0
    texts = {"45s": 45, "30m": 1800, "12h": 43_200, "7d": 604_800, "2w": 1_209_600, "1.5h": 5400, "2 d": 172_800}
    assert {text: duration("window", text) for text in texts} == texts


@given(st.integers(1, 10**12) | st.floats(1e-3, 1e9))
def test_durations_are_shown_exactly(seconds):
    assert duration("window", duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(604_800, "7d"), (43_200, "12h"), (90, "90s"), (5400, "90m"), (1.5, "1.5s")]
)
def test_durations_are_shown_in_the_longest_unit_that_fits(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    "value",
    [
        NEW_YEAR,
        float(NEW_YEAR),
        datetime(2024, 1, 1),
        datetime(2024, 1, 1, tzinfo=UTC),
        date(2024, 1, 1),
        pd.Timestamp("2024-01-01 01:00", tz="Europe/Berlin"),
        np.datetime64("2024-01-01", "ns"),
    ],
)
def test_moments(value):
    assert check_moment("deadline", value) == NEW_YEAR


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 10**400, 1.7e12, True, "soon", None, pd.NaT, np.datetime64("NaT")]
)
def test_what_is_no_moment(value):
    with pytest.raises(InputError, match="deadline must be unix seconds"):
        check_moment("deadline", value)


@pytest.mark.parametrize("unit", ["Y", "D", "h", "m", "s", "ms", "us", "ns"])
def test_datetimes_of_any_unit_are_seconds(unit):
    times = unix_times(np.array(["2024-01-01", "NaT"], dtype=f"datetime64[{unit}]"))
    assert times[0] == NEW_YEAR
    assert math.isnan(times[1])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2024-01-01"])),
        pd.Series(pd.to_datetime(["2024-01-01 01:00"])).dt.tz_localize("Europe/Berlin"),
        pl.Series(["2024-01-01"]).str.to_datetime(time_unit="ns"),
        pl.Series(["2024-01-01 01:00"]).str.to_datetime("%F %R").dt.replace_time_zone("Europe/Berlin"),
        pl.Series([date(2024, 1, 1)]),
        pa.array([datetime(2024, 1, 1)], pa.timestamp("ms", "UTC")),
        [datetime(2024, 1, 1)],
        np.array([NEW_YEAR]),
        [float(NEW_YEAR)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_columns_of_times(column):
    assert check_times("times", column).tolist() == [NEW_YEAR]


def test_whole_numbers_stay_seconds():
    assert check_times("times", [5, 6]).dtype == np.int64
    assert unix_seconds("20240101") == NEW_YEAR  # eight digits are a date
    assert unix_seconds("5") == 5.0


@pytest.mark.parametrize(
    "values",
    [
        *([1, "2"], ["1", "2"], [1 + 2j, 1], [None, 1.0], [[1], [1, 2]], {1, 2}, (i for i in range(2)), 1.0, "ab"),
        *([10**400, 1], [pd.NaT, 1.0], [math.nan, 1.0], [1e300, 1.0], np.array(["2024", "2025"], "datetime64[Y]")),
        *(np.ma.array([1, 2], mask=[0, 1]), pa.nulls(2), pa.array(["a", "b"]).dictionary_encode(), b"ab"),
        *(np.array([(1, 2), (3, 4)], dtype=[("a", int), ("b", int)]), pd.Series([1, None], dtype="Int64")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_array_of_numbers(values):
    with pytest.raises(InputError, match="costs"):
        check_array("costs", values, (2,))


@pytest.mark.parametrize(
    "values",
    [
        *(
            [1, 2],
            (1.0, 2.0),
            np.array([1, 2], np.int8),
            np.array([1, 2], ">f4"),
            np.ma.array([1, 2]),
            pl.Series([1, 2]),
        ),
        *(pd.Series([1, 2]), pd.Series([1, 2], dtype="Int64"), pa.chunked_array([[1], [2]]), [Decimal(1), Decimal(2)]),
        *(pa.array([Decimal("1"), Decimal("2")]), np.array([1, 2], dtype=object), range(1, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays_of_numbers(values):
    array = check_array("costs", values, (2,))
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]


def test_a_float_array_is_not_copied():
    values = np.ones(5)
    assert check_array("costs", values, (5,)) is values


def test_shapes_are_named():
    with pytest.raises(ShapeError, match=r"users must have shape \(3, d\); got \(2, 2\)"):
        check_array("users", np.ones((2, 2)), (3, "d"))
    with pytest.raises(ShapeError, match=r"\(N, 2\)"):
        check_array("users", np.ones((0, 3)), ("N?", 2))
    assert check_array("users", np.ones((0, 2)), ("N?", 2)).shape == (0, 2)


def test_the_place_of_a_bad_value_is_named():
    with pytest.raises(InputError, match=r"p must be numbers in \[0, 1\]; got 1.5 at \[2\]"):
        check_array("p", [0.0, 1.0, 1.5], (3,), low=0.0, high=1.0)


@pytest.mark.parametrize("values", [[0.0], [3], [-1], [True], [[0]], "0", [2**63], {0}, None, [0, None]])
def test_what_are_no_rows(values):
    with pytest.raises(InputError, match="rows"):
        check_rows("rows", values, 3)


def test_objects_whose_conversion_fails_are_refused():
    class Odd:
        def __array__(self, *_, **__):
            raise MemoryError("no")

    with pytest.raises(InputError, match="MemoryError"):
        array_of("users", Odd(), "an array")


def test_a_share_above_0_has_a_finite_inverse():
    with pytest.raises(InputError, match=r"eta must be a number in \[1e-12, 1\]; got 5e-324"):
        check_share("eta", 5e-324, zero=False)
    assert check_share("eta", 1e-12, zero=False) == 1e-12
    assert check_share("eta", 5e-324) == 5e-324


@settings(max_examples=30, deadline=None)
@given(st.lists(st.datetimes(datetime(1890, 1, 1), datetime(2210, 1, 1)), min_size=1, max_size=20), st.data())
def test_a_long_column_of_times_is_read_like_each_of_them(moments, data):
    shapes = st.sampled_from(
        [
            lambda m: m.isoformat(),
            lambda m: m.isoformat(" "),
            lambda m: m.isoformat(timespec="seconds") + "Z",
            lambda m: m.isoformat() + "+00:00",
            lambda m: m.isoformat(timespec="milliseconds") + "+02:00",
            lambda m: m.isoformat()[:10],
            lambda m: m.strftime("%Y-%m-%d 24:%M:60"),
            lambda m: str(m.timestamp()),
            lambda m: None,
        ]
    )
    texts = [data.draw(shapes)(moment) for moment in moments]
    table = read("actions", {"time": texts}, [Field("time", "time", optional=True)]).frame
    many = np.full(len(texts), np.nan)
    many[table["line"].to_numpy() - 1] = table["time"].cast(float).fill_null(np.nan).to_numpy()
    np.testing.assert_array_equal(many, [unix_seconds(text) for text in texts])
    typed = read("actions", {"time": moments}, [Field("time", "time")]).frame["time"]
    np.testing.assert_array_equal(typed, [unix_seconds(moment) for moment in moments])
