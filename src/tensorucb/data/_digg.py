"""Digg 2009 in its original files.

``digg_votes1.csv`` holds ``vote_date, voter_id, story_id``; ``digg_friends.csv`` holds ``mutual, friend_date,
user_id, friend_id``. Both are quoted and without a header. ``user_id`` watches ``friend_id``, so influence runs from
``friend_id`` to ``user_id``, and both ways where ``mutual`` is 1.

References
----------
T. Hogg and K. Lerman, Social dynamics of Digg, EPJ Data Science 1:5, 2012.
"""

from __future__ import annotations

from pathlib import Path

from tensorucb.checks import check_flag, check_path, check_text
from tensorucb.data._assemble import assemble
from tensorucb.data._dataset import Dataset
from tensorucb.data._text import Column, read_text


def read_digg(votes: Path, friends: Path, *, name: str = "digg", strict: bool = False) -> Dataset:
    """Digg 2009 from its two original files, plain or gzipped.

    Parameters
    ----------
    votes
        ``digg_votes1.csv``.
    friends
        ``digg_friends.csv``.
    name
        What to call the data.
    strict
        Raise at the first malformed row instead of leaving such rows out.

    Returns
    -------
    Dataset
        Without an activation window, as in the paper.
    """
    name, strict = check_text("name", name), check_flag("strict", strict)
    links = read_text(
        check_path("friends", friends),
        [Column("mutual", "flag"), Column("target", "whole"), Column("source", "whole")],
        separator=",",
        n_fields=4,
        places=[0, 2, 3],
        strict=strict,
        ignored=["friend_date"],
    )
    actions = read_text(
        check_path("votes", votes),
        [Column("time", "time"), Column("user", "whole"), Column("item", "whole")],
        separator=",",
        n_fields=3,
        strict=strict,
    )
    return assemble(name, links, actions, both_ways=True)
