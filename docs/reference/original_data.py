"""The original files of Digg 2009 or Flixster in the plain form that tensorucb reads.

    python original_data.py DIRECTORY OUT

Digg: ``digg_friends.csv`` (mutual, friend_date, user_id, friend_id) and ``digg_votes1.csv`` (vote_date, voter_id,
story_id), without a header. ``user_id`` watches ``friend_id``, so influence runs from ``friend_id`` to ``user_id``, and
both ways where ``mutual`` is 1. Flixster: pairs of friends in ``links.txt``, with ``Ratings.timed.txt`` (userid,
movieid, rating, date), or in ``edges.csv`` beside ``nodes.csv``; friendship goes both ways, the window is seven days.
Rows are copied as they are: `read_dataset` counts those that cannot be read.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path


def lines_of(path: Path) -> list[str]:
    """The lines of a file in UTF-8 or UTF-16, some copies of which carry NUL bytes."""
    data = path.read_bytes()
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", errors="replace")
    return text.replace("\0", "").splitlines()


def digg(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Edges and actions of Digg."""
    edges = []
    for mutual, _, user, friend in csv.reader(lines_of(folder / "digg_friends.csv")):
        edges.append([friend, user])
        if mutual == "1":
            edges.append([user, friend])
    votes = csv.reader(lines_of(folder / "digg_votes1.csv"))
    return edges, [[user, story, time] for time, user, story in votes]


def flixster(links: Path, ratings: Path | None) -> tuple[list[list[str]], list[list[str]]]:
    """Edges and actions of Flixster; any rating is an action."""
    pairs = [line.replace(",", " ").split() for line in lines_of(links) if not line[:1].isalpha()]
    edges = [ends for pair in pairs for ends in (pair, pair[::-1])]
    if ratings is None:
        return edges, []
    rows = csv.DictReader(lines_of(ratings), delimiter="\t")
    return edges, [[row["userid"], row["movieid"], row["date"]] for row in rows]


def write(path: Path, header: list[str], rows: Iterable[list[str]]) -> None:
    """Write rows under a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def main(directory: str, out: str) -> None:
    """Convert one directory into another."""
    folder, target = Path(directory), Path(out)
    about = {"name": folder.resolve().name, "window": None}
    if (folder / "digg_friends.csv").exists():
        edges, actions = digg(folder)
    else:
        about["window"] = "7d"
        ratings = folder / "Ratings.timed.txt"
        rated = ratings.exists()
        edges, actions = flixster(folder / ("links.txt" if rated else "edges.csv"), ratings if rated else None)
    target.mkdir(parents=True)
    write(target / "edges.csv", ["source", "target"], edges)
    if actions:
        write(target / "actions.csv", ["user", "item", "timestamp"], actions)
    (target / "dataset.json").write_text(json.dumps(about), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
