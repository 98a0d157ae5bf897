"""`read_dataset`: whatever form a directory holds."""

from __future__ import annotations

import os
from pathlib import Path

from tensorucb.checks import check_flag, check_path, check_text, shown_path
from tensorucb.data._dataset import Dataset
from tensorucb.data._digg import read_digg
from tensorucb.data._flixster import read_flixster
from tensorucb.data._plain import META, read_plain
from tensorucb.data._text import first_line
from tensorucb.errors import FileFormatError, InputError

_FORMS = (
    "edges.csv and actions.csv (also .csv.gz, .parquet), digg_friends.csv and digg_votes1.csv, "
    "links.txt and Ratings.timed.txt, or edges.csv and nodes.csv of Flixster"
)


def _files(directory: Path) -> dict[str, Path]:
    """The directory's files by lower-case name without ``.gz``; of two that clash, the plain one."""
    found = {}
    for path in sorted(directory.iterdir(), reverse=True):
        if path.is_file():
            found[path.name.lower().removesuffix(".gz")] = path
    return found


def _plain_file(files: dict[str, Path], stem: str) -> Path | None:
    present = [files[name] for name in (f"{stem}.csv", f"{stem}.parquet") if name in files]
    if len(present) > 1:
        raise FileFormatError(f"the directory holds both {present[0].name} and {present[1].name}. Leave one of them.")
    return present[0] if present else None


def _pair(files: dict[str, Path], first: tuple[str, ...], second: tuple[str, ...]) -> tuple[Path, Path] | None:
    """The two files of an original form; an error where only one of them is there."""
    one = next((files[name] for name in first if name in files), None)
    two = next((files[name] for name in second if name in files), None)
    if one is None or two is None:
        if one is two is None:
            return None
        present, absent = (one, second[0]) if two is None else (two, first[0])
        assert present is not None
        raise FileFormatError(f"{present.name} is there, but {absent} is not. Put both into the directory.")
    return one, two


def read_dataset(directory: str | os.PathLike[str], *, name: str | None = None, strict: bool = False) -> Dataset:
    r"""Read a data set; its form is known from the names of the files.

    Parameters
    ----------
    directory
        Holds ``edges`` and perhaps ``actions`` (CSV, gzipped CSV or Parquet: the plain form), the original files of
        Digg 2009 (``digg_friends.csv``, ``digg_votes1.csv``), or those of Flixster (``links.txt`` with
        ``Ratings.timed.txt``, or ``edges.csv`` with ``nodes.csv``). Upper and lower case are the same.
    name
        What to call the data; by default what the data set says, or the directory's name.
    strict
        Raise `FileFormatError` at the first malformed row. By default malformed rows are left out and reported.

    Returns
    -------
    Dataset
        With a report of what was read and what was left out.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tensorucb.data import read_dataset
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\na,b\nb,c\n")
    ...     _ = Path(folder, "actions.csv").write_text("user,item,timestamp\na,7,1\nb,7,2\n")
    ...     dataset = read_dataset(folder)
    >>> dataset.graph.n_edges, dataset.log.n_items
    (2, 1)
    """
    folder = check_path("directory", directory)
    strict = check_flag("strict", strict)
    if not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is not a directory. Pass the directory that holds {_FORMS}.")
    files = _files(folder)
    label = folder.resolve().name if name is None else check_text("name", name)
    digg = _pair(files, ("digg_votes1.csv", "digg_votes.csv"), ("digg_friends.csv",))
    if digg is not None:
        return read_digg(*digg, name=label, strict=strict)
    flixster = _pair(files, ("links.txt",), ("ratings.timed.txt", "ratings_timed.txt"))
    if flixster is not None:
        return read_flixster(*flixster, name=label, strict=strict)
    edges = _plain_file(files, "edges")
    if edges is None:
        raise FileFormatError(f"no data set in {shown_path(folder)}. A directory should hold {_FORMS}.")
    if "nodes.csv" in files and edges.suffix != ".parquet" and "source" not in first_line(edges):
        return read_flixster(edges, name=label, strict=strict)
    return read_plain(edges, _plain_file(files, "actions"), meta=files.get(META), name=label, strict=strict)
