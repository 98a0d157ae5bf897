"""Flixster in its two public forms.

*With ratings* (M. Jamali and M. Ester): ``Ratings.timed.txt`` holds ``userid, movieid, rating, date`` between tabs
under a header, in UTF-16 or with stray NUL bytes in some copies; ``links.txt`` holds pairs of friends.

*Network alone* (R. Zafarani and H. Liu, Social Computing Data Repository): ``edges.csv`` holds pairs of friends
without a header, ``nodes.csv`` the users.

Friendship goes both ways, so each pair becomes two edges. The activation window is seven days, as in the paper.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tensorucb.checks import check_flag, check_path, check_text, shown
from tensorucb.data._assemble import assemble
from tensorucb.data._dataset import Dataset
from tensorucb.data._text import Column, Table, first_line, read_text
from tensorucb.errors import FileFormatError

SEVEN_DAYS = 7 * 86_400.0
_RATING_COLUMNS = ["userid", "movieid", "rating", "date"]


def _separator(line: str) -> str:
    return next((mark for mark in ("\t", ",") if mark in line), " ")


def _friends(path: Path, strict: bool) -> Table:
    line = first_line(path)
    separator = _separator(line)
    table = read_text(
        path,
        [Column("source", "whole"), Column("target", "whole")],
        separator=separator,
        n_fields=2,
        header=bool(re.search("[A-Za-z]", line)),
        strict=strict,
    )
    return Table(table.frame.with_columns(mutual=pl.lit(1)), table.report)


def read_flixster(links: Path, ratings: Path | None = None, *, name: str = "flixster", strict: bool = False) -> Dataset:
    """Flixster from its original files, plain or gzipped.

    Parameters
    ----------
    links
        ``links.txt``, or ``edges.csv`` of the network alone: pairs of friends.
    ratings
        ``Ratings.timed.txt``, or ``None`` for the network alone. Any rating counts as an action.
    name
        What to call the data.
    strict
        Raise at the first malformed row instead of leaving such rows out.

    Returns
    -------
    Dataset
        With the paper's activation window of seven days.
    """
    name, strict = check_text("name", name), check_flag("strict", strict)
    friends = _friends(check_path("links", links), strict)
    if ratings is None:
        return assemble(name, friends, None, window=SEVEN_DAYS, both_ways=True)
    ratings = check_path("ratings", ratings)
    head = [word.strip().strip('"').lower() for word in first_line(ratings).split("\t")]
    header = bool(re.search("[a-z]", head[0]))
    if header and head != _RATING_COLUMNS:
        raise FileFormatError(
            f"{ratings.name} should have the columns {', '.join(_RATING_COLUMNS)} between tabs; "
            f"its first line has {shown(head)}."
        )
    actions = read_text(
        ratings,
        [Column("user", "whole"), Column("item", "whole"), Column("rating", "number"), Column("time", "date")],
        separator="\t",
        n_fields=4,
        header=header,
        strict=strict,
        ignored=["rating"],
    )
    return assemble(name, friends, actions, window=SEVEN_DAYS, both_ways=True)
