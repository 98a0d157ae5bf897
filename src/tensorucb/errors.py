"""The errors of the package: one tree.

    TensorUCBError
    ├── InputError (ValueError)          an argument, a row or a column is wrong
    │   ├── UnknownIdError (KeyError)    an id that the graph, the campaign or the store does not hold
    │   └── ShapeError                   arrays whose shapes do not fit each other
    ├── FileFormatError                  a file that is damaged, foreign or malformed
    │   └── TableError                   a table that the caller brought, and that cannot be read
    ├── StoreError                       a database that is full, locked, read-only or out of reach
    ├── EngineError                      a cluster that is out of reach, of another version, or lost on the way
    ├── ServiceError                     a service that refuses, fails or does not answer
    ├── MemoryLimitError (MemoryError)   work that needs more memory than is free
    ├── StateError (RuntimeError)        a call at the wrong time, such as ``score`` before ``bind``
    │   └── EarlyCloseError              a round to be closed long before its responses are in
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

Every message says what was wrong, what came, and what to do. An error keeps these parts (``argument``, ``wanted``,
``got``, ``advice``), and each door says them in its own `Words`: an argument is ``must_include`` in Python,
`--must-include` on the command line, a field over HTTP and a label on the page. A message without parts is the same
at every door.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = [
    "EarlyCloseError",
    "EngineError",
    "FileFormatError",
    "InputError",
    "MemoryLimitError",
    "MissingExtraError",
    "ServiceError",
    "ShapeError",
    "StateError",
    "StoreError",
    "TableError",
    "TensorUCBError",
    "UnknownIdError",
]


class Mention(NamedTuple):
    """Something that each door calls by a name of its own.

    ``kind`` is a method of `Words`: "argument" (perhaps with the ``value`` that it should have), "call", "constant"
    (None, True or False), "python" for what can only be given in Python, or "driver" for what a database's own library
    said.
    """

    kind: str
    name: str
    value: Any = None


Text = str | Mention | tuple[str | Mention, ...]


def argument(name: str, value: Any = None) -> Mention:
    """An argument in the text of a message, with the value that it should have."""
    return Mention("argument", name, value)


def call(name: str) -> Mention:
    """A function or method of the package in the text of a message."""
    return Mention("call", name)


class Words:
    """How messages name things. These are Python's names; a door overrides what it calls differently."""

    def argument(self, name: str, value: Any) -> str:
        """An argument; with a value, how to give it."""
        return name if value is None else f"{name}={value!r}"

    def call(self, name: str, value: Any) -> str:
        """A function or method, or what stands for it in a campaign."""
        return "campaign.graph.ids" if name == "users" else f"{name}()"

    def constant(self, name: str, value: Any) -> str:
        """None, True or False."""
        return name

    def python(self, name: str, value: Any) -> str:
        """What can only be given in Python."""
        return name

    def driver(self, name: str, value: Any) -> str:
        """What a database's own library said."""
        return name

    def said(self, parts: Iterable[str | Mention]) -> str:
        """A message in these words."""
        return "".join(part if isinstance(part, str) else getattr(self, part[0])(*part[1:]) for part in parts)


class TensorUCBError(Exception):
    """The root of the tree: catch this to catch everything that the package raises on purpose.

    Parameters
    ----------
    message
        What is wrong: whole sentences, or what follows the name of the ``argument``.
    argument
        The argument that is wrong, as Python calls it.
    wanted, got
        In place of a message: what the argument must be, and what came.
    advice
        What to do: whole sentences.

    Examples
    --------
    >>> import tensorucb as tu
    >>> try:
    ...     tu.Graph.from_edges(["ann"], ["bob", "cleo"])
    ... except tu.errors.TensorUCBError as error:
    ...     print(type(error).__name__)
    ShapeError
    """

    def __init__(
        self, *message: str | Mention, argument: str | None = None, wanted: Text = "", got: str = "", advice: Text = ""
    ) -> None:
        super().__init__(*message)
        self.argument = argument
        self.wanted = wanted
        self.got = got
        self.advice = advice

    def __str__(self) -> str:
        return Words().said(self.parts())

    def parts(self) -> list[str | Mention]:
        """The whole message, with mentions in it of what doors call differently."""
        parts: list[str | Mention] = [part if isinstance(part, Mention) else str(part) for part in self.args]
        if self.wanted:
            constant = self.got in ("None", "True", "False")
            came = ["; got ", Mention("constant", self.got) if constant else self.got] if self.got else []
            parts = ["must be ", *_parts(self.wanted), *came, "."]
        if self.argument is not None:
            parts = [argument(self.argument), " ", *parts]
        if self.advice:
            parts += [" ", *_parts(self.advice)]
        return parts

    def within(self, place: str, kind: type[TensorUCBError] | None = None) -> TensorUCBError:
        """The same error about something inside ``place``, where arguments are called as in Python at every door."""

        def plain(part: str | Mention) -> str | Mention:
            return Words().said([part]) if isinstance(part, Mention) and part.kind == "argument" else part

        return (kind or type(self))(f"{place}: ", *map(plain, self.parts()))


def _parts(text: Text) -> tuple[str | Mention, ...]:
    return text if isinstance(text, tuple) and not isinstance(text, Mention) else (text,)


class InputError(TensorUCBError, ValueError):
    """An argument, a row or a column is wrong."""


class UnknownIdError(InputError, KeyError):
    """An id that the graph, the campaign or the store does not hold."""


class ShapeError(InputError):
    """Arrays whose shapes do not fit each other."""


class FileFormatError(TensorUCBError):
    """A file that is damaged, foreign or malformed."""


class TableError(FileFormatError):
    """A table that the caller brought, and that cannot be read; other files may be our own."""


class StoreError(TensorUCBError):
    """A database that is full, locked, read-only, of another version, or out of reach."""


class ServiceError(TensorUCBError):
    """A service that refuses, fails or does not answer.

    ``status`` is the number of its HTTP answer and ``request_id`` what its log calls the request; None without one.
    """

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class MemoryLimitError(TensorUCBError, MemoryError):
    """Work that needs more memory than is free; nothing of it was begun."""


class EngineError(TensorUCBError):
    """A cluster that is out of reach, of another version, or lost on the way."""


class StateError(TensorUCBError, RuntimeError):
    """A call at the wrong time."""


class EarlyCloseError(StateError):
    """A round to be closed long before its responses are in; ``early`` says that it is meant."""


class MissingExtraError(TensorUCBError, ImportError):
    """An optional dependency that is not installed."""
