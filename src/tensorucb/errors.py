"""The errors of the package: one tree.

    TensorUCBError
    ├── InputError (ValueError)          an argument, a row or a column is wrong
    │   ├── UnknownIdError (KeyError)    an id that the graph, the campaign or the store does not hold
    │   └── ShapeError                   arrays whose shapes do not fit each other
    ├── FileFormatError                  a file that is damaged, foreign or malformed
    ├── StoreError                       a database that is full, locked, read-only or out of reach
    ├── EngineError                      a cluster that is out of reach, of another version, or lost on the way
    ├── ServiceError                     a service that refuses, fails or does not answer
    ├── MemoryLimitError (MemoryError)   work that needs more memory than is free
    ├── StateError (RuntimeError)        a call at the wrong time, such as ``score`` before ``bind``
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

Every message says what was wrong, what came, and what to do.
"""

from __future__ import annotations

__all__ = [
    "EngineError",
    "FileFormatError",
    "InputError",
    "MemoryLimitError",
    "MissingExtraError",
    "ServiceError",
    "ShapeError",
    "StateError",
    "StoreError",
    "TensorUCBError",
    "UnknownIdError",
]


class TensorUCBError(Exception):
    """The root of the tree: catch this to catch everything that the package raises on purpose.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.Graph.from_edges(["ann"], ["bob", "cleo"])
    ... except tu.errors.TensorUCBError as error:
    ...     print(type(error).__name__)
    ShapeError
    """

    def __str__(self) -> str:
        # KeyError would print the repr of its message.
        return str(self.args[0]) if self.args else ""


class InputError(TensorUCBError, ValueError):
    """An argument, a row or a column is wrong.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.TensorUCB(exploration=-1.0)
    Traceback (most recent call last):
    tensorucb.errors.InputError: exploration must be a finite number of at least 0; got -1.0.
    """


class UnknownIdError(InputError, KeyError):
    """An id that the graph, the campaign or the store does not hold.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.Graph.from_edges(["ann"], ["bob"]).rows(["cid"])
    Traceback (most recent call last):
    tensorucb.errors.UnknownIdError: ids not in the graph: 'cid' (row 1).
    """


class ShapeError(InputError):
    """Arrays whose shapes do not fit each other.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.Graph.from_edges(["ann"], ["bob", "cleo"])
    Traceback (most recent call last):
    tensorucb.errors.ShapeError: sources and targets must be of one length; got 1 and 2.
    """


class FileFormatError(TensorUCBError):
    """A file that is damaged, foreign or malformed.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.Graph.read("edges.docx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tensorucb.errors.FileFormatError: 'edges.docx' does not end in one of .csv, ...; the suffix tells the format.
    """


class StoreError(TensorUCBError):
    """A database that is full, locked, read-only, of a newer release, or out of reach.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.list_campaigns(storage="sqlite:////no/such/folder/c.db")
    Traceback (most recent call last):
    tensorucb.errors.StoreError: the directory of '/no/such/folder/c.db' does not exist; create it, or use another file.
    """


class ServiceError(TensorUCBError):
    """A service that refuses, fails or does not answer.

    ``status`` is the number of its HTTP answer and ``request_id`` what its log calls the request; None without one.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.errors.ServiceError("the service is busy; try again later.", status=503).status
    503
    """

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class MemoryLimitError(TensorUCBError, MemoryError):
    """Work that needs more memory than is free; nothing of it was begun.

    Examples
    --------
    >>> from tensorucb.memory import check_memory
    >>> check_memory("a network of everybody", 1e18)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    MemoryLimitError: a network of everybody needs about 931322574.6 GB of memory, and 12.4 GB are free.
    """


class EngineError(TensorUCBError):
    """A cluster that is out of reach, of another version, or lost on the way.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.engines.RayEngine("127.0.0.1:9")  # doctest: +SKIP
    Traceback (most recent call last):
    tensorucb.errors.EngineError: there is no Ray cluster at 127.0.0.1:9 (connection refused). ...
    """


class StateError(TensorUCBError, RuntimeError):
    """A call at the wrong time.

    Examples
    --------
    >>> import tensorucb as tu
    >>> tu.TensorUCB().score([1.0, 0.0])
    Traceback (most recent call last):
    tensorucb.errors.StateError: TensorUCB is not bound to a graph yet. Call bind(graph, users, rng) first.
    """


class MissingExtraError(TensorUCBError, ImportError):
    """An optional dependency that is not installed.

    Examples
    --------
    >>> import tensorucb as tu
    >>> issubclass(tu.errors.MissingExtraError, ImportError)
    True
    """
