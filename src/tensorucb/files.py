"""Files of arrays and JSON, never pickle.

A state file is one NumPy archive with a JSON header and a checksum over all of it, written whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError

__all__ = ["atomic_write", "pack_state", "read_state", "unpack_state", "write_state"]

_HEADER = "__header__"
_VERSION = 1


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that appears under ``path`` only once it is complete and on disk."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp's files are private; these are ordinary ones
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _digest(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack_state(kind: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a state file: ``kind`` names what it is, ``settings`` must be JSON, ``arrays`` plain arrays."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise FileFormatError(f"array {name!r} holds Python objects, which a state file never does.")
    header = json.dumps(
        {"format": "tensorucb", "version": _VERSION, "kind": kind, "settings": dict(settings)}, sort_keys=True
    )
    envelope = json.dumps({"header": header, "sha256": _digest(header, arrays)})
    buffer = io.BytesIO()
    members: dict[str, Any] = {_HEADER: np.frombuffer(envelope.encode(), dtype=np.uint8), **arrays}
    np.savez(buffer, **members)
    return buffer.getvalue()


def unpack_state(data: bytes, kind: str, origin: str = "state") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of :func:`pack_state`'s bytes; one clear error if they are damaged or of another kind."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        envelope = json.loads(arrays.pop(_HEADER).tobytes().decode())
        header_text, checksum = str(envelope["header"]), str(envelope["sha256"])
        header = json.loads(header_text)
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
        OverflowError,
        MemoryError,
        zipfile.LargeZipFile,
    ) as error:
        raise FileFormatError(
            f"{origin} is not a readable tensorucb file ({type(error).__name__}: {error}). "
            "It is damaged or was not written by tensorucb; use another copy."
        ) from error
    if checksum != _digest(header_text, arrays):
        raise FileFormatError(f"{origin} is damaged: its checksum does not match its content. Use another copy.")
    if header.get("format") != "tensorucb" or header.get("version") != _VERSION:
        raise FileFormatError(
            f"{origin} has format {header.get('format')!r}, version {header.get('version')!r}; "
            f"this release reads 'tensorucb', version {_VERSION}."
        )
    if header.get("kind") != kind:
        raise FileFormatError(f"{origin} holds a {header.get('kind')!r}, not a {kind!r}.")
    return header["settings"], arrays


def write_state(
    path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a state file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(pack_state(kind, settings, arrays))


def read_state(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file that :func:`write_state` wrote."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}.") from error
    return unpack_state(data, kind, origin=repr(os.fspath(path)))
