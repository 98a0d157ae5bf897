"""Data: action logs and networks from files in several forms, the paper's preparation, and generated networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.data._dataset import Dataset, checksum
    from tensorucb.data._describe import Description, count_activations, describe
    from tensorucb.data._digg import read_digg
    from tensorucb.data._flixster import read_flixster
    from tensorucb.data._generate import generate_dataset
    from tensorucb.data._log import ActionLog
    from tensorucb.data._plain import read_plain
    from tensorucb.data._prepare import prepare
    from tensorucb.data._read import read_dataset
    from tensorucb.data._report import FileReport, LeftOut, Report
    from tensorucb.data._write import write_dataset
    from tensorucb.data.sandbox import Sandbox, digg_like, flixster_like, make_sandbox

__all__ = [
    "ActionLog",
    "Dataset",
    "Description",
    "FileReport",
    "LeftOut",
    "Report",
    "Sandbox",
    "checksum",
    "count_activations",
    "describe",
    "digg_like",
    "flixster_like",
    "generate_dataset",
    "make_sandbox",
    "prepare",
    "read_dataset",
    "read_digg",
    "read_flixster",
    "read_plain",
    "write_dataset",
]

# Loaded on first use: polars and the generators' kernels are heavy.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActionLog": "._log",
        "Dataset": "._dataset",
        "Description": "._describe",
        "FileReport": "._report",
        "LeftOut": "._report",
        "Report": "._report",
        "Sandbox": ".sandbox",
        "checksum": "._dataset",
        "count_activations": "._describe",
        "describe": "._describe",
        "digg_like": ".sandbox",
        "flixster_like": ".sandbox",
        "generate_dataset": "._generate",
        "make_sandbox": ".sandbox",
        "prepare": "._prepare",
        "read_dataset": "._read",
        "read_digg": "._digg",
        "read_flixster": "._flixster",
        "read_plain": "._plain",
        "write_dataset": "._write",
    },
)
