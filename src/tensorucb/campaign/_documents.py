"""Records as JSON and back, for the store, commands, the service and its client; and as blobs of a campaign."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError
from tensorucb.files import pack_state

if TYPE_CHECKING:
    from tensorucb.store._session import Session

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """A record as JSON; fields that refer to the running program are left out."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: to_json(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [to_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def from_json(kind: type[T], document: Any, **more: Any) -> T:
    """The record of :func:`to_json`'s JSON, by the types of its fields; names that it does not have are left out."""
    try:
        fields = {
            name: document[name] if read is None else read(document[name])
            for name, read in _readers(cast("Any", kind)).items()
            if name in document
        }
        return kind(**fields, **more)
    except (TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"this is no {kind.__name__} of this release ({error}).") from error


_Read = Callable[[Any], Any]


@functools.cache
def _readers(kind: Any) -> dict[str, _Read | None]:
    """For each field of a record what makes its value of JSON; None for what is JSON itself."""
    hints = get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}


def _reader(kind: Any) -> _Read | None:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return functools.partial(from_json, kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        return functools.partial(np.array, dtype=get_args(parts[1])[0])
    if origin is tuple:
        each = _reader(parts[0])
        return tuple if each is None else lambda value: tuple(map(each, value))
    if origin in (Union, types.UnionType):
        made = next(filter(None, map(_reader, parts)), None)
        return None if made is None else lambda value: None if value is None else made(value)
    if isinstance(origin, type) and issubclass(origin, Mapping) and (read := _reader(parts[1])) is not None:
        return lambda value: {name: read(entry) for name, entry in value.items()}
    return None


class Kept(Protocol):
    """What a campaign keeps in a blob of its own: it becomes JSON and arrays, and the other way round."""

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as JSON and arrays."""
        ...

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What `to_arrays` gave."""
        ...


def put_kept(session: Session, number: int, name: str, value: Kept | None) -> None:
    """Keep something with a campaign under this name, in place of what was there; None changes nothing."""
    if value is not None:
        session.put_blob(number, name, pack_state(name, *value.to_arrays()))
