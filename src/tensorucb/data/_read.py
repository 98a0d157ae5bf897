"""`read_dataset`: whatever form a directory holds.

*Digg 2009*: votes hold ``vote_date, voter_id, story_id``, friends ``mutual, friend_date, user_id, friend_id``, both
quoted and without a header. ``user_id`` watches ``friend_id``, so influence runs from ``friend_id`` to ``user_id``, and
both ways where ``mutual`` is 1. There is no activation window.

*Flixster*: pairs of friends, alone (R. Zafarani and H. Liu, Social Computing Data Repository) or with ratings
(M. Jamali and M. Ester): ``userid, movieid, rating, date`` between tabs under a header, in UTF-16 or with stray NUL
bytes in some copies. Any rating counts as an action. Friendship goes both ways. The window is seven days, as in the
paper.

References
----------
T. Hogg and K. Lerman, Social dynamics of Digg, EPJ Data Science 1:5, 2012.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tensorucb.checks import check_flag, check_path, check_text, shown, shown_path
from tensorucb.data._assemble import assemble
from tensorucb.data._dataset import Dataset
from tensorucb.data._plain import META, read_plain
from tensorucb.data._text import Table, first_line, read_text
from tensorucb.errors import FileFormatError, InputError

_FORMS = (
    "edges.csv and actions.csv (or followers, purchases; also .csv.gz, .tsv, .ndjson, .parquet), "
    "digg_friends.csv and digg_votes1.csv, "
    "links.txt and Ratings.timed.txt, or edges.csv and nodes.csv of Flixster"
)
_SEVEN_DAYS = "7d"
# Names of the two files of the plain form.
EDGES, ACTIONS = ("edges", "followers"), ("actions", "purchases")
_ENDS = (".csv", ".tsv", ".ndjson", ".jsonl", ".parquet")
_RATING_COLUMNS = ["userid", "movieid", "rating", "date"]


def _read_digg(votes: Path, friends: Path, name: str, strict: bool) -> Dataset:
    link_kinds = {"mutual": "flag", "target": "whole", "source": "whole"}
    links = read_text(friends, ["mutual", "friend_date", "target", "source"], link_kinds, strict=strict)
    action_kinds = {"time": "time", "user": "whole", "item": "whole"}
    return assemble(name, links, read_text(votes, list(action_kinds), action_kinds, strict=strict))


def _read_flixster(links: Path, ratings: Path | None, name: str, strict: bool) -> Dataset:
    line = first_line(links)
    separator = next((mark for mark in ("\t", ",") if mark in line), " ")
    header = bool(re.search("[A-Za-z]", line))
    kinds = {"source": "whole", "target": "whole"}
    frame, report = read_text(links, list(kinds), kinds, separator=separator, header=header, strict=strict)
    friends = Table(frame.with_columns(mutual=pl.lit(1)), report)
    if ratings is None:
        return assemble(name, friends, None, window=_SEVEN_DAYS)
    head = [word.strip().strip('"').lower() for word in first_line(ratings).split("\t")]
    header = bool(re.search("[a-z]", head[0]))
    if header and head != _RATING_COLUMNS:
        raise FileFormatError(
            f"{ratings.name} should have the columns {', '.join(_RATING_COLUMNS)} between tabs; "
            f"its first line has {shown(head)}."
        )
    kinds = {"user": "whole", "item": "whole", "rating": "number", "time": "date"}
    actions = read_text(ratings, list(kinds), kinds, separator="\t", header=header, strict=strict)
    return assemble(name, friends, actions, window=_SEVEN_DAYS)


def files_of(directory: Path) -> dict[str, Path]:
    """The directory's files by lower-case name without ``.gz``; of two that clash, the plain one."""
    paths = sorted(directory.iterdir(), reverse=True)
    return {path.name.lower().removesuffix(".gz"): path for path in paths if path.is_file()}


def plain_file(files: Mapping[str, Path], *stems: str) -> Path | None:
    """The file of one of these names, whatever its form; ``files`` are those of :func:`files_of`."""
    present = [files[stem + end] for stem in stems for end in _ENDS if stem + end in files]
    if len(present) > 1:
        raise FileFormatError(f"the directory holds both {present[0].name} and {present[1].name}. Leave one of them.")
    return present[0] if present else None


def _pair(files: Mapping[str, Path], first: tuple[str, ...], second: tuple[str, ...]) -> tuple[Path, Path] | None:
    """The two files of an original form; an error where only one of them is there."""
    one = next((files[name] for name in first if name in files), None)
    two = next((files[name] for name in second if name in files), None)
    if one and two:
        return one, two
    present, absent = (one, second[0]) if one else (two, first[0])
    if present:
        raise FileFormatError(f"{present.name} is there, but {absent} is not. Put both into the directory.")
    return None


def read_dataset(directory: str | os.PathLike[str], *, name: str | None = None, strict: bool = False) -> Dataset:
    r"""Read a data set; its form is known from the names of the files.

    Parameters
    ----------
    directory
        Holds ``edges`` (or ``followers``) and perhaps ``actions`` (or ``purchases``) as CSV, TSV (also gzipped), NDJSON
        or Parquet: the plain form; or the original files of Digg 2009 (``digg_friends.csv``, ``digg_votes1.csv``) or of
        Flixster (``links.txt`` with ``Ratings.timed.txt``, or ``edges.csv`` with ``nodes.csv``). Upper and lower case
        are the same.
    name
        What to call the data; by default what the data set says, or the directory's name.
    strict
        Raise `FileFormatError` at the first malformed row. By default malformed rows are left out, and the data set's
        report counts them.

    Examples
    --------
    >>> Path("mine").mkdir()
    >>> size = Path("mine/edges.csv").write_text("source,target\na,b\nb,c\n")
    >>> read_dataset("mine")
    Dataset('mine', 3 users, 2 edges, 0 items, 0 actions)
    """
    folder = check_path("directory", directory)
    strict = check_flag("strict", strict)
    if not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is not a directory. Pass the directory that holds {_FORMS}.")
    files = files_of(folder)
    label = folder.resolve().name if name is None else check_text("name", name)
    found = read_original(files, label, strict)
    if found is not None:
        return found
    edges = plain_file(files, *EDGES)
    if edges is None:
        raise FileFormatError(f"no data set in {shown_path(folder)}. A directory should hold {_FORMS}.")
    return read_plain(edges, plain_file(files, *ACTIONS), files.get(META), label, strict=strict)


def read_original(files: Mapping[str, Path], label: str, strict: bool = False) -> Dataset | None:
    """The data set of these files if they are of Digg or Flixster in their original form."""
    digg = _pair(files, ("digg_votes1.csv", "digg_votes.csv"), ("digg_friends.csv",))
    if digg is not None:
        return _read_digg(*digg, label, strict)
    flixster = _pair(files, ("links.txt",), ("ratings.timed.txt", "ratings_timed.txt"))
    if flixster is not None:
        return _read_flixster(*flixster, label, strict)
    edges = files.get("edges.csv")
    if edges is not None and "nodes.csv" in files and "source" not in first_line(edges):
        return _read_flixster(edges, None, label, strict)
    return None
