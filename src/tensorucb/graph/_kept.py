"""Graphs kept on disk, both compressed forms ready to use: mapped into memory rather than read.

A kept graph is one file: a header (JSON that names each array, its place and its CRC-32), then the arrays. Its name is
a hash of the content of the edge list and of the arguments that read it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import shown_path
from tensorucb.errors import FileFormatError
from tensorucb.files import atomic_write
from tensorucb.graph._graph import Graph
from tensorucb.threads import map_chunks, thread_count

_VERSION = 1
_HEADER = 8192
_ALIGN = 64
_BLOCK = 1 << 24
_ATTRIBUTE = "attribute "
_log = logging.getLogger("tensorucb.graph")


def kept_graph(folder: Path, file: Path, arguments: list[Any], read: Callable[[], Graph]) -> Graph:
    """The graph that ``read`` makes of ``file``, from ``folder`` if it was kept there before."""
    try:
        seen, digest = _state(file), _content(file)
    except OSError:
        return read()  # which says what is wrong with the file
    named = hashlib.sha256(json.dumps([_VERSION, digest, arguments], sort_keys=True).encode()).hexdigest()
    path = folder / f"{named[:32]}.graph"
    try:
        return _mapped(path)
    except FileNotFoundError:
        pass
    except (FileFormatError, ValueError, OSError) as error:
        _log.warning("%s: %s The network is read again.", shown_path(path), error)
    graph = read()
    try:
        if _state(file) == seen:  # else somebody has written to it meanwhile
            _write(path, graph)
            return _mapped(path)
    except (OSError, FileFormatError) as error:
        _log.warning("cannot keep the network of %s in %s: %s", shown_path(file), shown_path(folder), error)
    return graph


def _state(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _content(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _parts(graph: Graph) -> dict[str, NDArray[Any]]:
    """Everything that is slow to make, by name."""
    return {
        "ids": graph.ids,
        "sources": graph.sources,
        "targets": graph.targets,
        "out_offsets": graph.out_offsets,
        "in_offsets": graph.in_offsets,
        "in_edges": graph.in_edges,
        "in_sources": graph.in_sources,
        **{_ATTRIBUTE + name: values for name, values in graph.edge_attributes.items()},
    }


def _write(path: Path, graph: Graph) -> None:
    arrays = _parts(graph)
    at = _HEADER
    places = {}
    for name, array in arrays.items():
        places[name] = [array.dtype.str, array.size, at, _crc(_bytes(array))]
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    counts = [graph.n_nodes, graph.merged_edges, graph.dropped_self_loops]
    text = json.dumps({"version": _VERSION, "size": at, "counts": counts, "arrays": places}).encode()
    header = hashlib.sha256(text).hexdigest().encode() + text
    if len(header) > _HEADER:
        raise FileFormatError("its attributes have too many or too long names.")
    with atomic_write(path) as file:
        file.write(header.ljust(_HEADER))
        for array in arrays.values():
            file.write(_bytes(array))
            file.write(b"\0" * (-array.nbytes % _ALIGN))


def _mapped(path: Path) -> Graph:
    """The graph of a kept file, whose arrays are read from disk as they are used."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    checksum, text = data[:64], data[64:_HEADER].rstrip()
    if hashlib.sha256(text).hexdigest().encode() != checksum:
        raise FileFormatError("the kept network is damaged: its header does not match its checksum.")
    about = json.loads(text)
    if about["size"] != len(data):
        raise FileFormatError("the kept network is damaged: it is not as long as it was.")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (kind, size, at, crc) in about["arrays"].items():
        arrays[name] = np.frombuffer(data, dtype=np.dtype(kind), count=size, offset=at)
        if _crc(_bytes(arrays[name])) != crc:
            raise FileFormatError(f"the kept network is damaged: {name} does not match its checksum.")
    n, merged, dropped = about["counts"]
    held = {name.removeprefix(_ATTRIBUTE): array for name, array in arrays.items() if name.startswith(_ATTRIBUTE)}
    graph = Graph(n, arrays["sources"], arrays["targets"], arrays["ids"], held, merged, dropped)
    made = {name: arrays[name] for name in ("out_offsets", "in_offsets")}
    vars(graph).update(made, _transposed=(arrays["in_edges"], arrays["in_sources"]))
    return graph


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


def _crc(data: memoryview) -> int:
    """A CRC-32 of the CRC-32s of all blocks, which several threads compute."""
    bounds = [*range(0, len(data), _BLOCK), len(data)]
    parts = map_chunks(lambda start, stop: zlib.crc32(data[start:stop]), bounds, thread_count())
    return zlib.crc32(np.array(parts, dtype=np.uint32).tobytes())
