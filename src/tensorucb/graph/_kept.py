"""Graphs kept on disk, both compressed forms ready to use: mapped into memory rather than read.

A kept graph is a folder: a ``.npy`` file per array, and `_ABOUT` with the counts, the names of attributes and a CRC-32
of each file. The folder's name is a hash of the content of the edge list and of the arguments that read it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import read_state, staged, write_state
from tensorucb.graph._graph import Graph
from tensorucb.threads import map_chunks, thread_count

_VERSION = 2
_KIND = "kept network"
_ABOUT = "about.npz"
_PARTS = ("ids", "sources", "targets", "out_offsets", "in_offsets", "in_edges", "in_sources")
_BLOCK = 1 << 24
_log = logging.getLogger("tensorucb.graph")


def kept_graph(folder: Path, file: Path, arguments: list[Any], read: Callable[[], Graph]) -> Graph:
    """The graph that ``read`` makes of ``file``, from ``folder`` if it was kept there before."""
    try:
        seen, digest = _state(file), _content(file)
    except OSError:
        return read()  # which says what is wrong with the file
    named = hashlib.sha256(json.dumps([_VERSION, digest, arguments], sort_keys=True).encode()).hexdigest()
    path = folder / f"{named[:32]}.graph"
    if (path / _ABOUT).exists():
        try:
            return _mapped(path)
        except (FileFormatError, OSError) as error:
            _log.warning("%s: %s The network is read again.", shown_path(path), error)
    graph = read()
    try:
        if _state(file) == seen:  # else somebody has written to it meanwhile
            _write(path, graph)
            return _mapped(path)
    except InputError:
        pass  # another process is keeping it at the moment
    except (OSError, FileFormatError) as error:
        _log.warning("cannot keep the network of %s in %s: %s", shown_path(file), shown_path(folder), error)
    return graph


def _state(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _content(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write(path: Path, graph: Graph) -> None:
    # Attributes by number: their names may not be fit for names of files.
    attributes = {f"attribute-{i}": values for i, values in enumerate(graph.edge_attributes.values())}
    checksums = {}
    with staged(path, _ABOUT) as folder:
        for name, array in {**{name: getattr(graph, name) for name in _PARTS}, **attributes}.items():
            np.save(folder / f"{name}.npy", array)
            checksums[name] = _checksum(folder / f"{name}.npy")
        counts = [graph.n_nodes, graph.merged_edges, graph.dropped_self_loops]
        about = {"counts": counts, "attributes": list(graph.edge_attributes), "checksums": checksums}
        write_state(folder / _ABOUT, _KIND, about, {})


def _mapped(path: Path) -> Graph:
    """The graph of a kept folder, whose arrays are read from disk as they are used."""
    about, _ = read_state(path / _ABOUT, _KIND)
    arrays = {}
    for name, checksum in about["checksums"].items():
        file = path / f"{name}.npy"
        if _checksum(file) != checksum:
            raise FileFormatError(f"the kept network is damaged: {file.name} does not match its checksum.")
        arrays[name] = np.asarray(np.load(file, mmap_mode="r"))
    n, merged, dropped = about["counts"]
    attributes = {name: arrays[f"attribute-{i}"] for i, name in enumerate(about["attributes"])}
    graph = Graph(n, arrays["sources"], arrays["targets"], arrays["ids"], attributes, merged, dropped)
    # Past the cached properties, which would compute them.
    offsets = {name: arrays[name] for name in ("out_offsets", "in_offsets")}
    vars(graph).update(offsets, _transposed=(arrays["in_edges"], arrays["in_sources"]))
    return graph


def _checksum(file: Path) -> int:
    """A CRC-32 of the CRC-32s of all blocks, which several threads compute."""
    if not file.stat().st_size:  # which cannot be mapped
        return 0
    data = np.memmap(file, mode="r").data
    bounds = [*range(0, len(data), _BLOCK), len(data)]
    parts = map_chunks(lambda start, stop: zlib.crc32(data[start:stop]), bounds, thread_count())
    return zlib.crc32(np.array(parts, dtype=np.uint32).tobytes())
