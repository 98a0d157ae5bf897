"""From tables of links and actions to a `Dataset`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tensorucb.data._dataset import Dataset
from tensorucb.data._log import ActionLog
from tensorucb.data._report import FIRST_LINES, FileReport, LeftOut, Report
from tensorucb.data._text import Table
from tensorucb.errors import FileFormatError
from tensorucb.graph import Graph


def _set_aside(frame: pl.DataFrame, keep: pl.Series, reason: str) -> tuple[pl.DataFrame, LeftOut]:
    gone = frame["line"].filter(~keep)
    first = gone.sort().head(FIRST_LINES).to_list()
    return frame.filter(keep), LeftOut(reason, len(gone), tuple(first))


def _one_type(links: pl.DataFrame, actions: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Ids of links and of actions are compared, so either all are whole numbers or all are text."""
    types = {links["source"].dtype, links["target"].dtype}
    if actions is not None and actions.height:
        types.add(actions["user"].dtype)
    if types == {pl.Int64}:
        return links, actions
    links = links.with_columns(pl.col("source", "target").cast(pl.String))
    return links, None if actions is None else actions.with_columns(pl.col("user").cast(pl.String))


def _first_pairs(links: pl.DataFrame) -> pl.Series:
    return links.select(pl.struct("source", "target").is_first_distinct()).to_series()


def _graph(links: pl.DataFrame, report: FileReport, *, both_ways: bool) -> tuple[Graph, FileReport]:
    """The graph of the links; ``both_ways`` adds the reverse of links whose ``mutual`` is 1."""
    links, loops = _set_aside(links, links["source"] != links["target"], "a link from a user to itself")
    links, twins = _set_aside(links, _first_pairs(links), "a repeated link")
    if not links.height:
        raise FileFormatError(f"{report.file} holds no usable link: {report.without(loops, twins)}")
    report = report.without(loops, twins)
    if both_ways:
        mutual = links.filter(pl.col("mutual") == 1)
        links = pl.concat([links.select("source", "target"), mutual.select(source="target", target="source")])
    graph = Graph.from_edges(links["source"].to_numpy(), links["target"].to_numpy())
    if both_ways:
        report = replace(
            report, remarks=(*report.remarks, f"{graph.n_edges:,} directed edges, both ways of mutual links")
        )
    return graph, report


def _log(graph: Graph, actions: pl.DataFrame, report: FileReport) -> tuple[ActionLog, FileReport]:
    rows = pl.DataFrame({"user": graph.ids, "row": np.arange(graph.n_nodes, dtype=np.int32)})
    rows = rows.with_columns(pl.col("user").cast(actions["user"].dtype))
    actions = actions.join(rows, on="user", how="left", maintain_order="left")
    actions, strangers = _set_aside(actions, actions["row"].is_not_null(), "a user without a link")
    item_ids = actions["item"].unique().sort()
    numbers = pl.DataFrame({"item": item_ids, "number": np.arange(len(item_ids), dtype=np.int32)})
    actions = actions.join(numbers, on="item", how="left").sort("number", "time", "row", "line")
    pairs = actions["number"].cast(pl.Int64) * graph.n_nodes + actions["row"]
    actions, repeats = _set_aside(actions, pairs.is_first_distinct(), "a repeated user and item; the earliest is kept")
    # Text as NumPy strings, not as Python objects, which no file of ours may hold.
    ids = item_ids.to_numpy() if item_ids.dtype == pl.Int64 else np.asarray(item_ids.to_list(), dtype=np.str_)
    log = ActionLog(actions["row"].to_numpy(), actions["number"].to_numpy(), actions["time"].to_numpy(), ids)
    return log, report.without(strangers, repeats)


def assemble(
    name: str, links: Table, actions: Table | None, *, window: float | None = None, both_ways: bool = False
) -> Dataset:
    """A data set from links (``source``, ``target``[, ``mutual``]) and actions (``user``, ``item``, ``time``).

    Links from a user to itself, repeated links, actions of users without a link and repeated pairs of user and
    item are sound rows that a graph and a log do not hold: they are left out and counted.
    """
    link_frame, action_frame = _one_type(links.frame, None if actions is None else actions.frame)
    graph, link_report = _graph(link_frame, links.report, both_ways=both_ways)
    if actions is None or action_frame is None:
        return Dataset(graph, ActionLog.empty(), name, window, Report((link_report,)))
    log, action_report = _log(graph, action_frame, actions.report)
    return Dataset(graph, log, name, window, Report((link_report, action_report)))
