"""Where heavy work runs: this machine's threads and processes, or a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.engines._local import LocalEngine as LocalEngine
    from tensorucb.engines._partitions import LearningSums as LearningSums
    from tensorucb.engines._partitions import PartitionedGraph as PartitionedGraph
    from tensorucb.engines._ray import RayEngine as RayEngine
    from tensorucb.engines._write import write_partitions as write_partitions
    from tensorucb.work import Engine as Engine

_NAMES = {
    "Engine": "tensorucb.work",
    "LocalEngine": "._local",
    "RayEngine": "._ray",
    **dict.fromkeys(("LearningSums", "PartitionedGraph"), "._partitions"),
    "write_partitions": "._write",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
