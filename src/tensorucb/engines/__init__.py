"""Where heavy work runs when it is not this machine: a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.engines._ray import RayEngine as RayEngine
    from tensorucb.work import Engine as Engine

_NAMES = {
    "Engine": "tensorucb.work",
    "RayEngine": "._ray",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
