"""Logs as lines of JSON through the standard ``logging`` module, each with the id of the request it belongs to.

A line names no user, no token and no address within a campaign. The text of an unforeseen error may quote anything, so
that only its kind and the places in the code are written.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from contextvars import ContextVar
from pathlib import Path
from typing import Any

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered; threads that work for it have it too."""

_access = logging.getLogger("tensorucb.access")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, frames = record.exc_info
            line["error"] = kind.__name__
            line["trace"] = [
                f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(frames)[-12:]
            ]
        return json.dumps(line, ensure_ascii=False)


def log_access(method: str, route: str, status: int, seconds: float, principal: str | None) -> None:
    """Log an answered request."""
    fields = {
        "method": method,
        "route": route,
        "status": status,
        "ms": round(1000 * seconds, 1),
        "principal": principal,
    }
    _access.info("%s %s %d", method, route, status, extra={"fields": fields})


def log_to_stderr(level: str) -> None:
    """Write the logs of this process, from ``level`` on, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # What these tell below that level nobody asked for.
    for name, quiet in {
        "alembic": "WARNING",
        "asyncio": "WARNING",
        "uvicorn": "WARNING",
        "python_multipart": "ERROR",
    }.items():
        logging.getLogger(name).setLevel(quiet)
