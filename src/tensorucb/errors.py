"""The errors of the package: one tree.

    TensorUCBError
    ├── InputError (ValueError)          an argument, a row or a column is wrong
    │   ├── UnknownIdError (KeyError)    an id that the graph, the campaign or the store does not hold
    │   └── ShapeError                   arrays whose shapes do not fit each other
    ├── FileFormatError                  a file that is damaged, foreign or malformed
    ├── StoreError                       a database that is full, locked, read-only or out of reach
    ├── StateError (RuntimeError)        a call at the wrong time, such as ``score`` before ``bind``
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

Every message says what was wrong, what came, and what to do.
"""

from __future__ import annotations

__all__ = [
    "FileFormatError",
    "InputError",
    "MissingExtraError",
    "ShapeError",
    "StateError",
    "StoreError",
    "TensorUCBError",
    "UnknownIdError",
]


class TensorUCBError(Exception):
    """The root of the tree: catch this to catch everything that the package raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the repr of its message.
        return str(self.args[0]) if self.args else ""


class InputError(TensorUCBError, ValueError):
    """An argument, a row or a column is wrong."""


class UnknownIdError(InputError, KeyError):
    """An id that the graph, the campaign or the store does not hold."""


class ShapeError(InputError):
    """Arrays whose shapes do not fit each other."""


class FileFormatError(TensorUCBError):
    """A file that is damaged, foreign or malformed."""


class StoreError(TensorUCBError):
    """A database that is full, locked, read-only, of a newer release, or out of reach."""


class StateError(TensorUCBError, RuntimeError):
    """A call at the wrong time."""


class MissingExtraError(TensorUCBError, ImportError):
    """An optional dependency that is not installed."""
