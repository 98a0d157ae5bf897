"""What a run depends on, as a key: the release, the sources of the policy, its arguments, the world and the run.

Of this package all sources count; of a policy of one's own the file of its class and the others beside it, or all of
its package. Installed packages count by name alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import sysconfig
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.policies import Policy

_OWN = __name__.partition(".")[0]
_ROOMS = ("diffusion", "experiments", "features", "graph", "learner", "oracle", "policies", "truth")
_LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib"))


def run_key(policy: str, **about: Any) -> str:
    """A short digest of a policy's key and everything else that a run depends on."""
    content = {**about, "policy": policy, "version": package_version(_OWN), "code": code_digest()}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:12]


def package_version(package: str) -> str:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@functools.cache
def code_digest() -> str:
    """SHA-256 of the package's source files on which a run's numbers depend."""
    root = Path(__file__).parents[1]
    files = [root / name for name in ("_kernels.py", "rng.py")]
    files += [path for room in _ROOMS for path in (root / room).rglob("*.py")]
    return _digest({path.relative_to(root).as_posix(): path.read_bytes() for path in files})


@functools.cache
def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return str(Path(file).resolve()).startswith(_LIBRARIES)


def policy_key(policy: Any) -> str | None:
    """The class of a policy, its source, its arguments and the policies inside; None if one of these cannot be told."""
    try:
        return json.dumps(_known(policy))
    except TypeError:
        return None


def _known(policy: Any) -> list[Any]:
    kind, settings = type(policy), getattr(policy, "settings", None)
    arguments_by_name = settings() if callable(settings) else vars(policy)
    inside = {name: _known(value) for name, value in vars(policy).items() if _is_policy(value)}
    arguments = {name: _plain(value) for name, value in arguments_by_name.items() if not _is_policy(value)}
    return [kind.__module__, kind.__qualname__, _source(kind), arguments, inside]


def _is_policy(value: Any) -> bool:
    return isinstance(value, Policy) and not isinstance(value, type)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return [value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return [[repr(name), _plain(item)] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"a key cannot tell one {type(value).__name__} from another")


def _source(kind: type) -> str:
    """SHA-256 of the files of a class and its bases, and of those beside them, as far as they are the caller's own."""
    files: dict[str, bytes] = {}
    home = kind.__module__.partition(".")[0]
    for module in {base.__module__ for base in kind.__mro__}:
        top, *inside = module.split(".")
        name = getattr(sys.modules.get(module), "__file__", None)
        if name is None and top == "__main__":
            raise TypeError("a class that was typed at a prompt or in a notebook")
        if name is None or top == _OWN or (top != home and is_installed(name)):
            continue
        file = Path(name).resolve()
        folder = file.parents[len(inside) - (file.stem != "__init__")] if inside else file.parent
        sources = folder.rglob("*.py") if inside or file.stem == "__init__" else folder.glob("*.py")
        files |= {f"{module}: {path.relative_to(folder)}": path.read_bytes() for path in [file, *sources]}
    return _digest(files)


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
