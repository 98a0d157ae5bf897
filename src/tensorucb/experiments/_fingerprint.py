"""What a run depends on, as digests, so that kept runs of code that was edited since are never reused.

The package's own sources are digested as files (`code_digest`). Somebody else's policy may live in a module, in the
script that is running, or in a notebook, and a file may have changed since it was imported. So what counts is what
would run (`fingerprint`): the bytecode of the policy's class and of every function and class that it refers to, with
their constants, defaults and closures. Installed libraries count by name alone.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tensorucb.policies import Policy

_OWN = __name__.partition(".")[0]
_ROOMS = ("diffusion", "experiments", "features", "graph", "learner", "oracle", "policies", "truth")
_LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib"))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes, np.generic)


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
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def fingerprint(policy: Policy) -> str:
    """SHA-256 of a policy's arguments and code, the same in every process that would run the same.

    Call it before the policy is bound: arguments of a policy without ``settings()`` are read from its attributes.
    """
    walk = _Walk()
    walk.policy(policy)
    return walk.digest.hexdigest()


class _Walk:
    """Goes through everything that a policy refers to, each object once, in an order that does not vary."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        # Objects are kept alive, so that no id is given twice.
        self._seen: dict[int, tuple[int, Any]] = {}
        # Top packages of the policies met: their code counts, wherever it is installed.
        self._homes: set[str] = set()

    def _add(self, *words: object) -> None:
        self.digest.update("\0".join(str(word) for word in words).encode("utf-8", "surrogatepass") + b"\1")

    def _is_new(self, thing: Any) -> bool:
        if id(thing) in self._seen:
            self._add("seen", self._seen[id(thing)][0])
            return False
        self._seen[id(thing)] = len(self._seen), thing
        return True

    def _is_library(self, module: str | None) -> bool:
        """Whether a module counts by name: Python's, an installed package's or our own, but not a policy's own."""
        top = (module or "").partition(".")[0]
        if top in self._homes:
            return False
        if top == _OWN or top in sys.stdlib_module_names:
            return True
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        return top != "__main__" and file is not None and is_installed(file)

    def policy(self, policy: Any) -> None:
        """The class, the arguments, and the policies inside."""
        kind = type(policy)
        self._homes |= {kind.__module__.partition(".")[0]} - {_OWN}
        self._class(kind)
        attributes = getattr(policy, "__dict__", {})
        settings = getattr(policy, "settings", None)
        self.value(settings() if callable(settings) else attributes)
        for name, value in sorted(attributes.items()):
            inner = isinstance(value, Policy) and not isinstance(value, type)
            if inner or (callable(value) and not self._is_library(kind.__module__)):
                self._add("attribute", name)
                self.value(value)

    def value(self, value: Any) -> None:
        """Anything: plain values by what they are, functions and classes by their code."""
        function = _function(value)
        if isinstance(value, _PLAIN):
            self._add(type(value).__name__, repr(value))
        elif function is not None:
            self._function(function)
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, ModuleType):
            self._add("module", value.__name__)
        elif self._is_new(value):
            self._add(type(value).__module__, type(value).__qualname__)
            self._content(value)

    def _content(self, value: Any) -> None:
        if isinstance(value, type):
            self._members(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
            self._add(value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
        elif isinstance(value, Mapping):
            for key, item in sorted(value.items(), key=lambda pair: repr(pair[0])):
                self.value(key)
                self.value(item)
        elif isinstance(value, set | frozenset):
            self._add(sorted(_ADDRESS.sub("", repr(item)) for item in value))
        elif isinstance(value, tuple | list):
            self._add(len(value))
            for item in value:
                self.value(item)
        elif isinstance(value, functools.partial):
            self.value((value.func, value.args, value.keywords))
        elif isinstance(value, property):
            self.value((value.fget, value.fset, value.fdel))
        elif isinstance(value, functools.cached_property):
            self.value(value.func)
        elif isinstance(value, np.random.Generator):
            self._add(value.bit_generator.state)
        elif isinstance(value, Policy):
            self.policy(value)
        elif self._is_library(type(value).__module__):
            self._add(_ADDRESS.sub("", repr(value)))
        else:
            self._class(type(value))
            self.value(getattr(value, "__dict__", {}))

    def _class(self, kind: type) -> None:
        if self._is_new(kind):
            self._members(kind)

    def _members(self, kind: type) -> None:
        for base in kind.__mro__:
            self._add("class", base.__module__, base.__qualname__)
            if self._is_library(base.__module__):
                continue
            for name, member in sorted(vars(base).items()):
                # Other names with two underscores are Python's bookkeeping, line numbers among them.
                if _function(member) is not None or not (name.startswith("__") or name == "_abc_impl"):
                    self._add("member", name)
                    self.value(member)

    def _function(self, function: FunctionType) -> None:
        self._add("function", function.__module__, function.__qualname__)
        if self._is_library(function.__module__) or not self._is_new(function):
            return
        self._code(function.__code__)
        self.value((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:
                self._add("empty cell")
        steps = list(_instructions(function.__code__))

        def used(*kinds: str) -> set[str]:
            return {name for kind, name in steps if kind in kinds}

        self._names(used("LOAD_GLOBAL", "LOAD_NAME"), function.__globals__)
        for _, module in sorted(function.__globals__.items(), key=lambda item: item[0]):
            if isinstance(module, ModuleType) and not self._is_library(module.__name__):
                self._names(used("LOAD_ATTR", "LOAD_METHOD"), vars(module))
        for name in sorted(used("IMPORT_NAME")):
            self._late_import(name)

    def _late_import(self, name: str) -> None:
        """A module that a function imports when it runs: by its file, since it may not be loaded yet."""
        self._add("import", name)
        if name and not self._is_library(name):
            try:
                file = Path(getattr(importlib.util.find_spec(name), "origin", None) or "")
            except (ImportError, ValueError):
                return
            if file.is_file() and not is_installed(str(file)):
                self._add(hashlib.sha256(file.read_bytes()).hexdigest())

    def _names(self, names: set[str], scope: Mapping[str, Any]) -> None:
        for name in sorted(names & scope.keys()):
            self._add("name", name)
            self.value(scope[name])

    def _code(self, code: CodeType) -> None:
        self._add("code", code.co_code.hex(), code.co_names, code.co_varnames, code.co_argcount, code.co_flags)
        for constant in code.co_consts:
            self.value(constant)


def _function(value: Any) -> FunctionType | None:
    """The Python function behind a method, a cached or a compiled function; None if there is none."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, MethodType | staticmethod | classmethod):
        return _function(value.__func__)
    if isinstance(value, type):
        return None
    # Numba's compiled functions, and functools.lru_cache.
    inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
    return inner if isinstance(inner, FunctionType) else None


def _instructions(code: CodeType) -> Iterator[tuple[str, str]]:
    """Kind and argument of every instruction, those of functions inside as well."""
    for step in dis.get_instructions(code):
        yield step.opname, str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


@functools.cache
def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return str(Path(file).resolve()).startswith(_LIBRARIES)
