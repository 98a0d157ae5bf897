"""Results kept on disk, keyed by the data's checksum and the settings."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_callable, check_mapping, check_path, check_text, refusal, shown, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import read_state, write_state

_KIND = "cached arrays"
_log = logging.getLogger("tensorucb.features")


def cached(
    directory: str | os.PathLike[str],
    name: str,
    key: Mapping[str, Any],
    compute: Callable[[], NDArray[Any]],
) -> NDArray[Any]:
    """The array that ``compute`` gives, from disk if it was computed for the same key before; equal bit for bit.

    A damaged file is never used: the result is computed again, and the logger ``tensorucb.features`` says so, as where
    a result cannot be kept.

    Parameters
    ----------
    directory
        Where results are kept; made if absent.
    name
        What the result is; the file's name begins with it.
    key
        All that the result depends on, as JSON values: ``checksum(dataset)`` and the settings.
    compute
        Computes the array.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.features import cached
    >>> first = cached("cache", "users", {"dim": 3}, lambda: np.zeros(3))
    >>> cached("cache", "users", {"dim": 3}, lambda: np.ones(3)).tolist()  # not computed again
    [0.0, 0.0, 0.0]
    """
    folder = check_path("directory", directory)
    if any(mark in check_text("name", name, longest=100) for mark in "/\\"):
        raise refusal("name", "fit for a file name", name)
    check_callable("compute", compute, "a function that computes the array")
    parts = check_mapping("key", key, "a mapping of all that the result depends on")
    try:
        settings = json.loads(json.dumps(parts, sort_keys=True, allow_nan=False))  # as it comes back from a file
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"the key of a cached result must be plain JSON values; got {shown(key)} ({shown(error)})."
        ) from error
    digest = hashlib.sha256(json.dumps([name, settings], sort_keys=True).encode()).hexdigest()
    path = folder / f"{name}-{digest[:20]}.npz"
    if path.exists():
        try:
            kept, arrays = read_state(path, _KIND)
            if kept != settings or set(arrays) != {"result"}:
                raise FileFormatError(f"{path.name} was written for another key.")
            return arrays["result"]
        except FileFormatError as error:
            _log.warning("%s Computing %s again.", error, name)
    result = np.asarray(compute())
    try:
        write_state(path, _KIND, settings, {"result": result})
    except OSError as error:
        _log.warning("cannot keep %s in %s: %s.", name, shown_path(folder), error.strerror or error)
    return result
