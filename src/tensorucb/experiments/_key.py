"""What a run depends on, as a key: the release, the sources of the policy, its arguments, the world and the run.

Of this package all sources count; of a policy of one's own the file of its class and the files that this one imports,
as far as they are not installed packages, which count by name alone.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping
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
    given = settings() if callable(settings) else vars(policy)
    inside = {name: _known(value) for name, value in vars(policy).items() if _is_policy(value)}
    arguments = {name: _plain(value) for name, value in given.items() if not _is_policy(value)}
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
    """SHA-256 of the files of a class and its bases, and of what these import, as far as it is the caller's own."""
    files: dict[str, bytes] = {}
    home = kind.__module__.partition(".")[0]
    for base in kind.__mro__:
        if base.__module__ == "__main__" and _file("__main__", home) is None:
            raise TypeError("a class that was typed at a prompt or in a notebook")
        _collect(base.__module__, home, files)
    return _digest(files)


def _collect(module: str, home: str, files: dict[str, bytes]) -> None:
    """Add the file of a module, and those of the modules that it imports anywhere."""
    file = _file(module, home)
    if file is None or module in files:
        return
    files[module] = file.read_bytes()
    if file.suffix == ".py":
        package = module if file.stem == "__init__" else module.rpartition(".")[0]
        for name in _imports(ast.parse(files[module]), package):
            _collect(name, home, files)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Names of the modules that a file imports; some may be names inside of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _file(module: str, home: str) -> Path | None:
    """The file of a module, unless it is ours, Python's, or an installed package's other than the policy's own."""
    top = module.partition(".")[0]
    if top == _OWN or top in sys.stdlib_module_names:
        return None
    try:
        loaded = sys.modules.get(module)
        name = getattr(loaded, "__file__", None) or getattr(importlib.util.find_spec(module), "origin", None)
    except (ImportError, ValueError):
        return None
    if name is None or not Path(name).is_file() or (top != home and is_installed(name)):
        return None
    return Path(name)


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
