"""Files of arrays and JSON, never pickle.

A state file is one NumPy archive with a JSON header and a checksum over all of it, written whole or not at all.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_path, check_text, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.memory import check_memory

# How a text begins that a spreadsheet would take for a formula. In CSV it gets an apostrophe in front, and so does one
# that has it already: taking off one apostrophe gives the text back. Numbers stay as they are.
FORMULA = r"^('*[=+\-@\t\r])"
_HEADER = "__header__"
_COMPRESSED = b"Z"  # what is not compressed is an archive, and begins with P
_VERSION = 1
_YOUNG = 1.0  # seconds; between making a file and locking it


def cache_directory() -> Path | None:
    """The directory of the environment's ``TENSORUCB_CACHE``; None if it is not set."""
    setting = os.environ.get("TENSORUCB_CACHE", "")
    return Path(setting).expanduser() if setting else None


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that appears under ``path`` only once it is complete and on disk.

    After an error nothing is left; what a killed process left is cleared by the next one that writes there.
    """
    target = check_path("path", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(target)
    # Not by tempfile, whose files are private to their owner.
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            with suppress(OSError):  # some network file systems have no locks
                _lock(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_bytes(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file, whole or not at all; returns its path."""
    with atomic_write(path) as file:
        file.write(content)
    return Path(path)


def _clear_abandoned(target: Path) -> None:
    """Remove what `atomic_write` left beside a file when its process was killed: old enough, and locked by nobody."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime < _YOUNG:
                continue
            if sys.platform != "win32":  # there no file can be deleted that somebody has open
                with part.open("rb") as file:
                    _lock(file.fileno())
            part.unlink()


@contextmanager
def staged(directory: str | os.PathLike[str], last: str) -> Iterator[Path]:
    """A folder for files that move to ``directory`` together, once all of them are written and on disk.

    The file called ``last`` goes first and comes back last, so that whoever finds it finds all the others of the same
    writing. After an error nothing is left; what a killed process left is cleared by the next one.
    """
    target = check_path("directory", directory)
    made = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    folder = target / ".partial"
    folder.mkdir(exist_ok=True)
    with _alone(folder):
        try:
            for entry in folder.iterdir():
                entry.unlink()
            yield folder
            _publish(folder, target, last)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if made and not any(target.iterdir()):
                target.rmdir()
            raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the lock ends with its process, however that ends."""
    if sys.platform == "win32":  # where a folder cannot be opened
        handle = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    else:
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            _lock(handle)
        except OSError:
            raise InputError(
                f"somebody else is writing to {str(folder.parent)!r}; wait, or name another directory."
            ) from None
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file or folder until it is closed; an OSError if somebody else has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _publish(folder: Path, target: Path, last: str) -> None:
    files = sorted(folder.iterdir(), key=lambda path: (path.name == last, path.name))
    for path in files:
        with path.open("r+b") as file:  # Windows brings only what may be written to disk
            os.fsync(file.fileno())
    (target / last).unlink(missing_ok=True)
    for path in files:
        os.replace(path, target / path.name)
    folder.rmdir()


def state_digest(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of a text and of arrays, by name."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack_state(
    kind: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, compressed: bool = False
) -> bytes:
    """The bytes of a state file: ``kind`` names what it is, ``settings`` must be JSON, ``arrays`` plain arrays.

    ``compressed`` is for states of which a store holds many; the size that they unpack to stands in front.
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise FileFormatError(f"array {name!r} holds Python objects, which a state file never does.")
    about = {"format": "tensorucb", "version": _VERSION, "kind": kind, "settings": dict(settings)}
    header = json.dumps(about, sort_keys=True)
    envelope = json.dumps({"header": header, "sha256": state_digest(header, arrays)})
    buffer = io.BytesIO()
    members: dict[str, Any] = {_HEADER: np.frombuffer(envelope.encode(), dtype=np.uint8), **arrays}
    np.savez(buffer, **members)
    data = buffer.getvalue()
    return _COMPRESSED + len(data).to_bytes(8, "little") + zlib.compress(data) if compressed else data


def _unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, which together take no more memory than its own bytes, whatever it says of itself."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(data):
            raise ValueError("it would grow when it is unpacked, as no file of tensorucb does")
        return {member.filename.removesuffix(".npy"): _as_array(archive.read(member)) for member in members}


def _as_array(content: bytes) -> NDArray[Any]:
    stream = io.BytesIO(content)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = headers[np.lib.format.read_magic(stream)](stream)
    size = math.prod(shape)
    # NumPy reserves the memory for the shape before it looks whether there are so many bytes.
    if size * dtype.itemsize != len(content) - stream.tell() or (size and not dtype.itemsize):
        raise ValueError(f"an array of shape {shape} and type {dtype} does not have as many bytes")
    stream.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def unpack_state(data: bytes, kind: str, origin: str = "state") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of :func:`pack_state`'s bytes; one clear error if they are damaged or of another kind."""
    if data.startswith(_COMPRESSED):
        size = int.from_bytes(data[1:9], "little")
        check_memory(f"reading {origin}", 3.0 * size)
        try:
            data = zlib.decompressobj().decompress(data[9:], max(size, 1))  # 0 would be without a limit
        except (OverflowError, zlib.error) as error:
            raise FileFormatError(f"{origin} is damaged: it cannot be unpacked ({error}).") from error
    try:
        arrays = _unpacked(data)
        envelope = json.loads(arrays.pop(_HEADER).tobytes().decode())
        header_text, checksum = str(envelope["header"]), str(envelope["sha256"])
        header = json.loads(header_text)
    except Exception as error:  # damaged bytes make zipfile, NumPy and json raise a dozen kinds
        raise FileFormatError(
            f"{origin} is not a readable tensorucb file ({type(error).__name__}: {error}). "
            "It is damaged or was not written by tensorucb; use another copy."
        ) from error
    if checksum != state_digest(header_text, arrays):
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
    write_bytes(path, pack_state(kind, settings, arrays))


def read_state(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file that :func:`write_state` wrote."""
    file = check_path("path", path)
    check_text("kind", kind)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {shown_path(file)}: {error.strerror or error}.") from error
    return unpack_state(data, kind, origin=shown_path(file))
