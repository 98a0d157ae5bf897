"""Campaigns over HTTP: an API for other systems, and a page that shows what was learned and what to do next."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.service._app import create_app as create_app
    from tensorucb.service._app import run as run
    from tensorucb.service._settings import ServiceSettings as ServiceSettings

# The allocator of polars reads this when it is loaded. By itself it keeps what a large upload took, and the next one's.
_inherited = os.environ.get("_RJEM_MALLOC_CONF", "")
os.environ["_RJEM_MALLOC_CONF"] = f"{_inherited},dirty_decay_ms:0,muzzy_decay_ms:0".lstrip(",")

_NAMES = {"ServiceSettings": "._settings", "create_app": "._app", "run": "._app"}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = lazy_names(__name__, _NAMES)
