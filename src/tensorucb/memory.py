"""How much memory work needs and how much is free: one clear error before a machine swaps.

All estimates of the package are here, in bytes and on the safe side. They were measured on networks of 1M users / 10M
edges and 5M / 70M (``python -m benchmarks.growth``); ``docs/howto/large-networks.md`` has the table. Estimates count
what a step takes on top of what is held already.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tensorucb.errors import InputError, MemoryLimitError

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_SMALL = 2**26  # not worth a look at the system


def check_memory(what: str, needed: float, hint: str = "") -> None:
    """Refuse work that needs more bytes than are free; ``what`` begins a sentence, such as "reading edges.parquet"."""
    if needed < _SMALL:
        return
    free = free_memory()
    if free is not None and needed > free:
        advice = "Close other programs, use a machine with more memory, or take a smaller network."
        raise MemoryLimitError(
            f"{what} needs about {in_words(needed)} of memory, and {in_words(free)} are free. {advice} {hint}".rstrip()
        )


def building(rows: int, attributes: int, *, strings: bool) -> float:
    """Columns of ids and of attributes, sorted into a graph."""
    return rows * (48.0 + 24.0 * attributes + (80.0 if strings else 0.0))


def transposing(nodes: int, edges: int) -> float:
    """The edges by target, beside those by source."""
    return 20.0 * edges + 24.0 * nodes


def binding(nodes: int, edges: int, columns: int) -> float:
    """A policy on a network: what it keeps of users with so many columns, and one scoring of all edges."""
    return 8.0 * nodes * (7 * columns + 24) + 24.0 * edges


def selecting(nodes: int, edges: int) -> float:
    """A choice of seeds, without the samples of cascades, which ``max_memory`` bounds."""
    return 64.0 * nodes + 8.0 * edges


def storing(nodes: int, edges: int, columns: int) -> float:
    """A network on its way into a database or back, and the ids as Python objects."""
    return 4.0 * (16.0 * edges + 8.0 * nodes * (columns + 2)) + 250.0 * nodes


def in_words(size: float) -> str:
    """A number of bytes as people say it."""
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.0f} MB"


def total_memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not tell."""
    return _table(_PROC / "meminfo").get("MemTotal")


def free_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not tell.

    The least of what the machine has free, what the limits of its control groups (containers) leave, and what
    ``TENSORUCB_MEMORY`` (such as ``8G``: the most that this process may hold) leaves.
    """
    rooms = [_table(_PROC / "meminfo").get("MemAvailable"), *_control_groups(), _own_limit()]
    limits = [room for room in rooms if room is not None]
    return max(0, min(limits)) if limits else None


def _own_limit() -> int | None:
    text = os.environ.get("TENSORUCB_MEMORY", "")
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise InputError(f"TENSORUCB_MEMORY must be a size such as 8G or 500M; got {text[:80]!r}.")
    return int(float(match[1]) * _UNITS[match[2]]) - _table(_PROC / "self" / "status").get("VmRSS", 0)


def _control_groups() -> list[int]:
    """What the limit of each control group above this process leaves; files in memory that can go count as free."""
    rooms = []
    for line in _text(_PROC / "self" / "cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        folder = (_CGROUP / "memory" if kinds else _CGROUP) / path.strip("/")
        while folder.is_relative_to(_CGROUP):
            most, used = (_text(folder / name).strip() for name in names)
            if most.isdigit() and used.isdigit() and int(most) < 2**60:
                pages = re.search(r"^(?:total_)?inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
                rooms.append(int(most) - int(used) + (int(pages[1]) if pages else 0))
            folder = folder.parent
    return rooms


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _table(path: Path) -> dict[str, int]:
    """The sizes in a table of the kernel, in bytes."""
    return {name: 1024 * int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", _text(path), re.MULTILINE)}
