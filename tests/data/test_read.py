"""Plain files with all that may be wrong with them, and the script that converts original ones."""

from __future__ import annotations

import gzip
import runpy
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tensorucb.data import ActionLog, Dataset, read_dataset
from tensorucb.errors import FileFormatError, InputError, TensorUCBError


def edges_of(dataset: Dataset) -> set[tuple[object, object]]:
    graph = dataset.graph
    return set(zip(graph.ids[graph.sources].tolist(), graph.ids[graph.targets].tolist(), strict=True))


def actions_of(dataset: Dataset) -> list[tuple[object, object, float]]:
    log = dataset.log
    return list(
        zip(dataset.graph.ids[log.users].tolist(), log.item_ids[log.items].tolist(), log.times.tolist(), strict=True)
    )


def reasons(dataset: Dataset, file: int) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {e.reason: (e.count, e.first_lines) for e in dataset.report.files[file].left_out}


EDGES = b"source,target\r\n2,1\r\n3,2\r\n2,3\r\n1,1\r\n2,1\r\n"
ACTIONS = b"timestamp,user,item\r100,2,7\r90,1,7\r95,1,7\r50,99,7\r60,3,8\r"


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    (tmp_path / "edges.csv").write_bytes(EDGES)
    (tmp_path / "actions.csv").write_bytes(ACTIONS)
    return tmp_path


def test_line_ends_and_rows_that_a_graph_and_a_log_do_not_hold(votes: Path) -> None:
    data = read_dataset(votes, name="votes")
    assert edges_of(data) == {(2, 1), (3, 2), (2, 3)}
    assert actions_of(data) == [(1, 7, 90), (2, 7, 100), (3, 8, 60)]
    assert data.window is None
    assert data.log.times.dtype == np.int64
    assert reasons(data, 0) == {"a link from a user to itself": (1, (5,)), "a repeated link": (1, (6,))}
    assert reasons(data, 1) == {
        "a user without a link": (1, (5,)),
        "a repeated user and item; the earliest is kept": (1, (4,)),
    }
    assert data.report.malformed == 0
    assert [file.rows - sum(e.count for e in file.left_out) - file.kept for file in data.report.files] == [0, 0]


def test_every_malformed_row_is_named(votes: Path) -> None:
    bad = ACTIONS + b'"x",1,7\r1,2\r\r1,2,3,4\r1,"",9\rnan,2,3\r"1,2,9\r'
    (votes / "actions.csv").write_bytes(bad)
    with (votes / "edges.csv").open("ab") as file:
        file.write(b"2,\r\n")
    data = read_dataset(votes)
    assert reasons(data, 0)["target is empty"] == (1, (7,))
    left_out = reasons(data, 1)
    assert left_out["timestamp is not a time in seconds or such as 2026-05-31T12:00"] == (2, (7, 12))
    assert left_out["wrong number of fields"] == (2, (8, 10))
    assert left_out["user is empty"] == (1, (11,))
    assert left_out["unbalanced quotes"] == (1, (13,))
    assert data.report.malformed == 7
    with pytest.raises(FileFormatError, match=r"edges.csv: .*target is empty \(line 7"):
        read_dataset(votes, strict=True)


def test_first_lines_are_few_and_counts_are_all(votes: Path) -> None:
    (votes / "actions.csv").write_bytes(ACTIONS.replace(b"\r", b"\n") + b'"?","1","7"\n' * 1000)
    entry = next(e for e in read_dataset(votes).report.files[1].left_out if e.malformed)
    assert entry.count == 1000
    assert entry.first_lines == (7, 8, 9, 10, 11)
    assert "1,000 left out" in str(entry)


def test_a_file_of_many_megabytes_is_as_one_of_a_few_lines(tmp_path: Path) -> None:
    """Such a file is read in pieces: line numbers go on, and one text or fraction counts for the whole column."""
    rows = [f"{t % 3},item {t},{t}" for t in range(200_000)]
    rows[150_000] = "broken"
    rows[199_999] = "ann,,3"
    rows[170_000] = "2,item 170000,0.5"
    rows[180_000] = "bob,item 180000,180000"
    (tmp_path / "actions.csv").write_text("\n".join(["user,item,timestamp", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\nann,bob\n")
    data = read_dataset(tmp_path)
    assert reasons(data, 1) == {"wrong number of fields": (1, (150_002,)), "item is empty": (1, (200_001,))}
    assert data.log.n_actions == 199_998
    assert data.graph.ids.tolist() == ["0", "1", "2", "ann", "bob"]
    assert data.log.times.dtype == np.float64
    assert data.log.times.max() == 199_998


def converted(folder: Path) -> Dataset:
    script = runpy.run_path(str(Path(__file__).parents[2] / "docs/reference/original_data.py"))
    script["main"](str(folder), str(folder / "plain"))
    return read_dataset(folder / "plain")


def test_original_files_of_digg(tmp_path: Path) -> None:
    friends = b'"0","1200000000","1","2"\r\n"1","1200000001","2","3"\r\n"0","0","1","1"\r\n'
    (tmp_path / "digg_friends.csv").write_bytes(friends)
    (tmp_path / "digg_votes1.csv").write_bytes(b'"100","2","7"\r"90","1","7"\r"50","99","7"\r"60","3","8"\r')
    data = converted(tmp_path)
    # user_id watches friend_id: influence runs friend -> user, and both ways where mutual.
    assert edges_of(data) == {(2, 1), (3, 2), (2, 3)}
    assert actions_of(data) == [(1, 7, 90), (2, 7, 100), (3, 8, 60)]
    assert data.window is None
    assert reasons(data, 1) == {"a user without a link": (1, (4,))}


RATINGS = (
    "userid\tmovieid\trating\tdate\n1\t10\t1.5\t2007-10-10 00:00:00\n2\t10\t4\t2007-10-11 00:00:00\n"
    "3\t11\t2\t2007-13-11 00:00:00\n3\t12\t2\t2008-01-01\n"
)


@pytest.mark.parametrize("form", ["utf-8", "utf-16", "utf-16-le"])
def test_original_files_of_flixster(tmp_path: Path, form: str) -> None:
    (tmp_path / "links.txt").write_text("1\t2\n2\t1\n2\t3\n")
    (tmp_path / "Ratings.timed.txt").write_bytes(RATINGS.encode(form))
    data = converted(tmp_path)
    assert edges_of(data) == {(1, 2), (2, 1), (2, 3), (3, 2)}
    assert data.window == timedelta(days=7)
    day = 1_191_974_400
    assert actions_of(data) == [(1, 10, day), (2, 10, day + 86_400), (3, 12, 1_199_145_600)]
    assert reasons(data, 1) == {"timestamp is not a time in seconds or such as 2026-05-31T12:00": (1, (4,))}


def test_original_network_of_flixster_alone(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("1\n2\n3\n")
    (tmp_path / "edges.csv").write_text("1,2\n3,2\n")
    data = converted(tmp_path)
    assert edges_of(data) == {(1, 2), (2, 1), (2, 3), (3, 2)}
    assert data.log.n_actions == 0


def test_copies_in_utf16_or_with_nul_bytes(votes: Path) -> None:
    text = (votes / "actions.csv").read_text()
    for form in ("utf-16", "utf-16-le"):
        (votes / "actions.csv").write_bytes(text.encode(form))
        data = read_dataset(votes)
        assert data.log.n_actions == 3
        assert data.report.files[1].remarks


def test_plain_csv_with_text_ids_quotes_and_extra_columns(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text('note,source,target\nx,ann,"bob, jr"\ny,"bob, jr",007\n,ann,\n"q,ann,bob\n')
    with gzip.open(tmp_path / "actions.csv.gz", "wt") as file:
        file.write('user,item,timestamp\n007,a,1.5\n"bob, jr","say ""hi""",2\nann,a,inf\n')
    data = read_dataset(tmp_path)
    assert edges_of(data) == {("ann", "bob, jr"), ("bob, jr", "007")}
    assert actions_of(data) == [("007", "a", 1.5), ("bob, jr", 'say "hi"', 2.0)]
    assert data.log.item_ids.dtype.kind == "U"
    assert data.report.files[0].ignored_columns == ("note",)
    assert reasons(data, 0) == {"target is empty": (1, (4,)), "unbalanced quotes": (1, (5,))}
    assert "columns ignored: note" in str(data.report)


@pytest.mark.parametrize("row", [b",3", b"7", b"a,b,c", b"\xff,3"])
def test_a_row_that_is_left_out_does_not_make_texts_of_the_others(tmp_path: Path, row: bytes) -> None:
    (tmp_path / "edges.csv").write_bytes(b"source,target\n1,2\n%s\n2,3\n" % row)
    assert edges_of(read_dataset(tmp_path)) == {(1, 2), (2, 3)}


def test_plain_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_bytes(b"\xef\xbb\xbfsource,target\n1,2\n\xff,3\n")
    assert reasons(read_dataset(tmp_path), 0) == {"not UTF-8 text": (1, (3,))}


def test_plain_parquet_and_nulls(tmp_path: Path) -> None:
    pl.DataFrame({"source": [1, 2, None], "target": [2, 3, 4], "w": [0.1, 0.2, 0.3]}).write_parquet(
        tmp_path / "edges.parquet"
    )
    pl.DataFrame({"user": [1, 2], "item": ["a", "a"], "timestamp": [1.0, float("nan")]}).write_parquet(
        tmp_path / "actions.parquet"
    )
    data = read_dataset(tmp_path)
    assert edges_of(data) == {(1, 2), (2, 3)}
    assert reasons(data, 0) == {"source is empty": (1, (3,))}
    assert reasons(data, 1) == {"timestamp is empty": (1, (2,))}
    with pytest.raises(FileFormatError, match=r"edges.parquet: .*source is empty \(line 3\)"):
        read_dataset(tmp_path, strict=True)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no data set"),
        ({"edges.csv": b""}, "is empty: there is not even a line with the names of columns"),
        ({"edges.csv": b"1,2\n3,4\n"}, "has no column source .*has no column target"),
        ({"edges.csv": b"source,target\n"}, "holds no rows"),
        ({"edges.csv": b"source,target\n1,1\n"}, "no usable link"),
        ({"edges.csv": b"source,target\nx\n"}, "no usable link"),
        ({"edges.csv.gz": b"not gzip"}, "cannot read .*edges.csv.gz.*: Not a gzipped file"),
        ({"edges.parquet": b"PAR1nonsense"}, "cannot read .*edges.parquet"),
        ({"edges.csv": b"source,target,source\n1,2,3\n"}, "more than once"),
        ({"edges.csv": b"source,target\n1,2\n", "edges.parquet": b""}, "Leave one"),
        ({"edges.csv": b"source,target\n1,2\n", "dataset.json": b"[]"}, "dataset.json"),
        ({"edges.csv": b"source,target\n1,2\n", "dataset.json": b'{"window": -1}'}, "dataset.json"),
    ],
)
def test_files_that_are_no_data_set(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TensorUCBError, match=words):
        read_dataset(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a directory"):
        read_dataset(tmp_path / "absent")


@pytest.mark.slow
def test_a_million_votes_read_in_seconds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    users, times = rng.integers(0, 10**5, n), rng.integers(10**9, 2 * 10**9, n)
    votes = pl.DataFrame({"timestamp": times, "user": users, "item": rng.integers(0, 3500, n)})
    votes.write_csv(tmp_path / "actions.csv", quote_style="always")
    edges = pl.DataFrame({"source": rng.integers(0, 10**5, n), "target": users})
    edges.write_csv(tmp_path / "edges.csv", quote_style="always")
    start = time.process_time()
    data = read_dataset(tmp_path)
    assert time.process_time() - start < 20
    assert sum(file.rows for file in data.report.files) == 2 * n


def test_deeply_nested_json_is_an_error(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    (tmp_path / "dataset.json").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match=r"dataset.json' is not readable"):
        read_dataset(tmp_path)


def test_datetimes_of_a_log_are_seconds():
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")
    log = ActionLog.from_arrays([0, 1], [0, 0], days, ["a"])
    assert log.times.tolist() == [1704067200.0, 1704153600.0]
