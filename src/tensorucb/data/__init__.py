"""Data: action logs and networks from files in several forms, the paper's preparation, and generated networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.data._dataset import ActionLog, Dataset, Description, checksum, describe, prepare
    from tensorucb.data._plain import read_dataset, write_dataset
    from tensorucb.data._shop import Shop, make_shop
    from tensorucb.data.sandbox import Sandbox, digg_like, flixster_like, generate_dataset, make_sandbox
    from tensorucb.reports import FileReport, LeftOut, Report

__all__ = [
    "ActionLog",
    "Dataset",
    "Description",
    "FileReport",
    "LeftOut",
    "Report",
    "Sandbox",
    "Shop",
    "checksum",
    "describe",
    "digg_like",
    "flixster_like",
    "generate_dataset",
    "make_sandbox",
    "make_shop",
    "prepare",
    "read_dataset",
    "write_dataset",
]

# Loaded on first use: polars and the generators' kernels are heavy.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(["ActionLog", "Dataset", "Description", "checksum", "describe", "prepare"], "._dataset"),
        **dict.fromkeys(["FileReport", "LeftOut", "Report"], "tensorucb.reports"),
        **dict.fromkeys(["Sandbox", "digg_like", "flixster_like", "generate_dataset", "make_sandbox"], ".sandbox"),
        **dict.fromkeys(["Shop", "make_shop"], "._shop"),
        **dict.fromkeys(["read_dataset", "write_dataset"], "._plain"),
    },
)
