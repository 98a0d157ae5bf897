"""From tables of links and actions to a `Dataset`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tensorucb.data._dataset import ActionLog, Dataset
from tensorucb.data._report import FileReport, LeftOut, Report
from tensorucb.data._text import Table
from tensorucb.errors import FileFormatError
from tensorucb.graph import Graph
from tensorucb.moments import Duration


def _set_aside(frame: pl.DataFrame, keep: pl.Series, reason: str) -> tuple[pl.DataFrame, LeftOut]:
    return frame.filter(keep), LeftOut.of_lines(reason, frame["line"].filter(~keep))


def _graph(links: pl.DataFrame, report: FileReport) -> tuple[Graph, FileReport]:
    """The graph of the links; a column ``mutual`` says which of them go both ways."""
    links, loops = _set_aside(links, links["source"] != links["target"], "a link from a user to itself")
    first = links.select(pl.struct("source", "target").is_first_distinct()).to_series()
    links, twins = _set_aside(links, first, "a repeated link")
    report = report.without(loops, twins)
    if not links.height:
        raise FileFormatError(f"{report.file} holds no usable link: {report}")
    both_ways = "mutual" in links.columns
    if both_ways:
        mutual = links.filter(pl.col("mutual") == 1)
        links = pl.concat([links.select("source", "target"), mutual.select(source="target", target="source")])
    graph = Graph.from_edges(links["source"].to_numpy(), links["target"].to_numpy())
    if both_ways:
        remark = f"{graph.n_edges:,} directed edges, both ways of mutual links"
        report = replace(report, remarks=(*report.remarks, remark))
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


def assemble(name: str, links: Table, actions: Table | None, *, window: Duration | None = None) -> Dataset:
    """A data set from links (``source``, ``target``[, ``mutual``]) and actions (``user``, ``item``, ``time``).

    Links from a user to itself, repeated links, actions of users without a link and repeated pairs of user and
    item are sound rows that a graph and a log do not hold: they are left out and counted.
    """
    link_frame, action_frame = links.frame, None if actions is None else actions.frame
    if {link_frame["source"].dtype, link_frame["target"].dtype} != {pl.Int64}:
        # Ids of links and of actions are compared, so either all are whole numbers or all are text.
        link_frame = link_frame.with_columns(pl.col("source", "target").cast(pl.String))
        action_frame = None if action_frame is None else action_frame.with_columns(pl.col("user").cast(pl.String))
    elif action_frame is not None and action_frame["user"].dtype == pl.String:
        # Somebody of the log has a text for an id where all links have numbers: they have no link.
        text, number = pl.col("user"), pl.col("user").cast(pl.Int64, strict=False)
        action_frame = action_frame.with_columns(pl.when(number.cast(pl.String) == text).then(number).alias("user"))
    graph, link_report = _graph(link_frame, links.report)
    if actions is None or action_frame is None:
        return Dataset(graph, ActionLog.empty(), name, window, Report((link_report,)))
    log, action_report = _log(graph, action_frame, actions.report)
    return Dataset(graph, log, name, window, Report((link_report, action_report)))
