"""Tables in files: ragged rows are refused, bare CRs are read, and a panic stays off the terminal."""

from __future__ import annotations

import gzip
import http
import json
import random
from datetime import date, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tensorucb.errors import FileFormatError, InputError, TensorUCBError
from tensorucb.tables import TABLES, as_frame, first_rows, read


def _file(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("zipped", [False, True])
def test_any_line_end(tmp_path, end, zipped):
    content = end.join([b"source,target", b"1,2", b"3,4", b""])
    path = _file(tmp_path, "a.csv.gz" if zipped else "a.csv", gzip.compress(content) if zipped else content)
    assert as_frame("table", path).rows() == [(1, 2), (3, 4)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,c\n1,2,3\n4,5\n", "wrong number of fields .line 3: '4,5'"),
        (b"a,b,c\n1,2,3\n4,5,6,7\n", "wrong number of fields .line 3: '4,5,6,7'"),
        (b'a,b\n"1,2",3\n"4,5"\n', "wrong number of fields .line 3"),
        (b'a,b\n"1\n2",3\n4\n', "wrong number of fields .line 4: '4'"),
    ],
)
def test_ragged_rows_are_named(tmp_path, content, message):
    with pytest.raises(FileFormatError, match=message):
        as_frame("table", _file(tmp_path, "a.csv", content))


def test_separators_and_line_ends_inside_quotes_are_no_fields(tmp_path):
    path = _file(tmp_path, "a.csv", b'a,b\n"x,y",1\n"u\nv",2\n')
    assert as_frame("table", path).rows() == [("x,y", 1), ("u\nv", 2)]


def test_a_space_may_stand_before_a_quote(tmp_path):
    path = _file(tmp_path, "a.csv", b'a, "b", "c"\n1, "x", "y"\n2, "x,y", "say ""hi"""\n')
    frame = as_frame("table", path)
    assert frame.columns == ["a", "b", "c"]
    assert frame.rows() == [(1, "x", "y"), (2, "x,y", 'say "hi"')]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (b'a,"price\nin EUR","of, or\n\nfor",d', ["a", "price\nin EUR", "of, or\n\nfor", "d"]),
        (b'a,5" cup,c,d', ["a", '5" cup', "c", "d"]),
        (b'a,"b,c,d', None),
    ],
    ids=["lines in quotes", "a stray quote", "a quote that stays open"],
)
def test_the_name_of_a_column_may_have_several_lines(tmp_path, header, columns):
    path = _file(tmp_path, "a.csv", header + b'\n1,2,3,"x\ny"\n4,5,6," z"\n')
    if columns is None:
        with pytest.raises(FileFormatError):
            as_frame("table", path)
        return
    frame = as_frame("table", path)
    assert frame.columns == columns
    assert frame.rows() == [(1, 2, 3, "x\ny"), (4, 5, 6, "z")]


def test_a_quoted_cell_does_not_depend_on_the_cells_beside_it(tmp_path):
    path = _file(tmp_path, "a.csv", b'user,note\n"ann ",x\n"ann ","x,y"\n" ann","say ""hi"""\nann ,x\n" ",x\n')
    kept = read("users", path, TABLES["users"])
    assert kept.frame["user"].to_list() == ["ann"] * 4
    assert [(entry.reason, entry.first_lines) for entry in kept.report.left_out] == [("user is empty", (6,))]


def test_damaged_parquet_is_an_error_and_silent(tmp_path, capfd):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"source": list(range(1000)), "target": [str(i) for i in range(1000)]}).write_parquet(path)
    whole, rng, panics = path.read_bytes(), random.Random(0), 0
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 5])):
            data[rng.randrange(4 if rng.random() < 0.5 else len(data) - 600, len(data) - 4)] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data)
        try:
            as_frame("table", path)
        except FileFormatError as error:
            panics += isinstance(error.__cause__, pl.exceptions.PanicException)
    assert panics, "no damage made polars panic, so this test shows nothing"
    assert capfd.readouterr().err == ""


def test_other_words_on_the_terminal_are_kept(tmp_path, capfd):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    as_frame("table", path)
    import os

    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


def test_what_is_no_table():
    with pytest.raises(InputError, match="frame must be rows such as"):
        as_frame("frame", [1, 2])
    with pytest.raises(InputError, match="frame cannot be read as a table"):
        as_frame("frame", pl.LazyFrame({"a": [1]}).select("b"))


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_the_header_tells_what_stands_between_fields(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "products.csv"
    file.write_text(f'\ufeffproduct{mark}price\n"a;b,c"{mark}"12,50"\n', encoding="utf-8")
    assert as_frame("table", file).rows() == [("a;b,c", 12.5)]
    assert as_frame("table", file).columns == ["product", "price"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"  \r\n"])
def test_a_file_without_a_first_line_is_empty(tmp_path, content):
    with pytest.raises(
        FileFormatError, match=r"nothing\.csv is empty: there is not even a line with the names of columns"
    ):
        as_frame("table", _file(tmp_path, "nothing.csv", content))


@pytest.mark.parametrize("name", ["*", "^t.*$"])
def test_a_name_that_is_a_pattern_is_refused_where_the_column_counts(tmp_path, name):
    path = _file(tmp_path, "a.csv", f"source,target,{name}\n1,2,3\n4,5\n".encode())
    with pytest.raises(FileFormatError, match="would be read as a pattern"):
        as_frame("table", path)
    kept = read("edges", path, TABLES["edges"])
    assert kept.frame["target"].to_list() == [2]
    assert [entry.first_lines for entry in kept.report.left_out] == [(3,)]


def test_ids_of_several_numeric_types_are_one_kind_and_exact():
    rows = [{"source": source, "target": 2} for source in (np.int64(1), 1.0, http.HTTPStatus.OK, 2.0**60)]
    kept = read("edges", rows, TABLES["edges"])
    assert kept.frame["source"].to_list() == [1, 1, 200]
    assert [entry.first_lines for entry in kept.report.left_out] == [(4,)]


def test_lines_of_json_that_are_objects_only_together_are_refused(tmp_path):
    content = b'{"a":[{}\n{"x":2}]}\n{"c":3},{"d":4}\n'
    with pytest.raises(FileFormatError, match=r"line 1 of a\.ndjson is no JSON object"):
        as_frame("table", _file(tmp_path, "a.ndjson", content))


FAR = pl.Series([2**63 - 1, 5, -(2**63) + 1])
ODD_COLUMNS = {
    "binary": pl.Series([b"a", b"\xff", b""]),
    "durations": FAR.cast(pl.Duration("us")),
    "times of the day": pl.Series([time(1), time(2), time(3)]),
    "dates far away": pl.Series([2**31 - 1, 5, -(2**31)], dtype=pl.Int32).cast(pl.Date),
    "moments far away": FAR.cast(pl.Datetime("us")),
    "moments with a zone": FAR.cast(pl.Datetime("ms", "Europe/Berlin")),
    "lists": pl.Series([[1], [2], []]),
    "structs": pl.Series([{"a": 1}, {"a": 2}, {"a": None}]),
    "decimals": pl.Series([Decimal("1.5"), Decimal(1), None]),
    "large integers": pl.Series([2**100, 1, 2], dtype=pl.Int128),
}


@pytest.mark.parametrize("odd", ODD_COLUMNS.values(), ids=ODD_COLUMNS)
@pytest.mark.parametrize("table", TABLES)
def test_columns_of_odd_types_leave_rows_out(tmp_path, table, odd):
    sound = {field.name: [1, 0, 1] for field in TABLES[table]}
    for field in TABLES[table]:
        frame = pl.DataFrame(sound).with_columns(odd.alias(field.name))
        for zone in ("UTC", "Europe/Berlin"):
            report = read(table, frame, TABLES[table], zone=zone).report
            assert report.kept + sum(entry.count for entry in report.left_out) == 3


def test_a_date_is_a_time_but_no_number():
    frame = pl.DataFrame({"product": ["a"], "value": [date(2026, 5, 1)]})
    assert read("products", frame, TABLES["products"]).report.left_out[0].reason == "value is not a number"


def test_a_column_of_a_file_of_many_megabytes_is_read_by_all_of_its_cells(tmp_path):
    """Such a file is read in pieces, but one cell tells what a comma is, and all gaps are counted."""
    costs = ['"12,500"'] * 200_000
    groups = ["1"] * 200_000
    costs[5] = '"12,5"'
    groups[7] = groups[-1] = "n/a"
    rows = [f"user {at},{cost},{group}" for at, (cost, group) in enumerate(zip(costs, groups, strict=True))]
    kept = read("users", _file(tmp_path, "a.csv", "\n".join(["user,cost,group", *rows]).encode()), TABLES["users"])
    assert kept.frame["cost"].unique().to_list() == [12.5]
    assert kept.frame["group"].null_count() == 2
    assert kept.report.remarks == (
        "cost is read with a decimal comma: '12,500' is 12.5",
        "group has 2 cells such as 'n/a', read as empty",
    )


def test_a_stray_quote_at_the_top_of_a_large_file_tears_no_record(tmp_path):
    """Such a file is read in pieces, and a record whose cells have several lines may stand where one ends."""
    rows = ['ann,5" tall', *('"of two\nlines",bob',) * 300_000, 'cleo,"open']
    kept = read("edges", _file(tmp_path, "a.csv", "\n".join(["source,target", *rows]).encode()), TABLES["edges"])
    assert kept.frame.height == 300_001
    assert [(entry.reason, entry.first_lines) for entry in kept.report.left_out] == [("unbalanced quotes", (600_003,))]


def test_the_first_rows_of_a_large_file_are_there_if_a_stray_quote_stands_in_one(tmp_path):
    """Such a file is read in pieces, and what the quote may begin is left to the next one."""
    rows = ["ann,tea", 'bob,5" cup', *("cleo,mint",) * 300_000]
    path = _file(tmp_path, "a.csv", "\n".join(["user,note", *rows]).encode())
    assert first_rows("users", path, 3)["user"].to_list() == ["ann", "bob", "cleo"]


@pytest.mark.parametrize(
    "table",
    [
        [{1: 2, "1": 3, "source": 1, "target": 2}],
        {1: [2], "1": [3], "source": [1], "target": [2]},
        pd.DataFrame([[2, 3, 1, 2]], columns=[1, "1", "source", "target"]),
        pd.DataFrame([[2, 3, 1, 2]], columns=["1", "1", "source", "target"]),
    ],
    ids=["records", "columns", "pandas", "pandas with a name twice"],
)
def test_columns_whose_names_read_the_same_are_refused(table):
    with pytest.raises(InputError, match=r"edges has several columns '1'\. Leave one, or rename them"):
        read("edges", table, TABLES["edges"])


@pytest.mark.parametrize("column", ["\0line", "\ud800"], ids=["nul", "surrogate"])
def test_a_column_whose_name_cannot_be_kept_is_an_error_of_ours(tmp_path, column):
    row = {"product": 1, column: 2}
    path = _file(tmp_path, "a.ndjson", json.dumps(row).encode())
    frames = [pl.DataFrame(row)] if column == "\0line" else []
    for table in [[row], {"product": [1], column: [2]}, path, *frames]:
        with pytest.raises(TensorUCBError, match=r"(products|a\.ndjson).*(NUL|Unicode)"):
            read("products", table, TABLES["products"], others=True)


def test_a_column_without_a_name_stays_one_whatever_the_others_are_called(tmp_path):
    row = {"": 1, "column_0": 2, "product": 3}
    path = _file(tmp_path, "a.ndjson", json.dumps(row).encode())
    frame = pl.DataFrame(row)
    frame.write_parquet(tmp_path / "a.parquet")
    for table in [[row], {name: [cell] for name, cell in row.items()}, pd.DataFrame([row]), frame, path]:
        assert read("products", table, TABLES["products"], others=True).others.columns == ["", "column_0"]
    assert as_frame("table", tmp_path / "a.parquet").rows() == [(1, 2, 3)]
