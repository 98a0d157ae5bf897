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
    >>> try:
    ...     tu.TensorUCB(exploration=-1.0)
    ... except tu.errors.InputError as error:
    ...     print(error)
    exploration must be a finite number of at least 0; got -1.0.
    """


class UnknownIdError(InputError, KeyError):
    """An id that the graph, the campaign or the store does not hold.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.Graph.from_edges(["ann"], ["bob"]).rows(["cid"])
    ... except tu.errors.UnknownIdError as error:
    ...     print(type(error).__name__)
    UnknownIdError
    """


class ShapeError(InputError):
    """Arrays whose shapes do not fit each other.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.select_seeds(tu.Graph.from_edges([0, 1], [1, 2]), [0.5], 1)
    ... except tu.errors.ShapeError as error:
    ...     print(type(error).__name__)
    ShapeError
    """


class FileFormatError(TensorUCBError):
    r"""A file that is damaged, foreign or malformed.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tensorucb as tu
    >>> size = Path("broken.csv").write_text("no,header,that,fits\n")
    >>> try:
    ...     tu.Graph.read("broken.csv")
    ... except tu.errors.FileFormatError as error:
    ...     print(type(error).__name__)
    FileFormatError
    """


class StoreError(TensorUCBError):
    """A database that is full, locked, read-only, of a newer release, or out of reach.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.list_campaigns(storage="sqlite:////no/such/folder/campaigns.db")
    ... except tu.errors.StoreError as error:
    ...     print(type(error).__name__)
    StoreError
    """


class ServiceError(TensorUCBError):
    """A service that refuses, fails or does not answer.

    ``status`` is the number of its HTTP answer and ``request_id`` what its log calls the request; None without one.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     raise tu.errors.ServiceError("the service is busy; try again later.", status=503)
    ... except tu.errors.TensorUCBError as error:
    ...     print(error.status, error)
    503 the service is busy; try again later.
    """

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class MemoryLimitError(TensorUCBError, MemoryError):
    """Work that needs more memory than is free; nothing of it was begun.

    Examples
    --------
    >>> import tensorucb as tu
    >>> from tensorucb.memory import check_memory
    >>> try:
    ...     check_memory("a network of everybody", 1e18)
    ... except tu.errors.MemoryLimitError as error:
    ...     print(type(error).__name__)
    MemoryLimitError
    """


class EngineError(TensorUCBError):
    """A cluster that is out of reach, of another version, or lost on the way.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.engines.RayEngine("127.0.0.1:9")  # nobody listens there
    ... except tu.errors.EngineError as error:  # doctest: +SKIP
    ...     print(type(error).__name__)
    EngineError
    """


class StateError(TensorUCBError, RuntimeError):
    """A call at the wrong time.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.TensorUCB().score([1.0, 0.0])
    ... except tu.errors.StateError as error:
    ...     print(type(error).__name__)
    StateError
    """


class MissingExtraError(TensorUCBError, ImportError):
    """An optional dependency that is not installed.

    Examples
    --------
    >>> from tensorucb.errors import MissingExtraError, TensorUCBError
    >>> issubclass(MissingExtraError, TensorUCBError)
    True
    """
