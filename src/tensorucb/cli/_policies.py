"""``--policy``: policies by label, and one's own as MODULE:CLASS, checked before anything is computed."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tensorucb.cli._output import one_line
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from tensorucb.policies import Policy

PolicyNames = Annotated[
    list[str] | None,
    Option(
        "--policy",
        metavar="LABEL|MODULE:CLASS",
        help="Only this policy: its label, such as LinUCB, or MODULE:CLASS for one of your own, from a file in this "
        "directory or an installed package. Repeatable.",
    ),
]


def chosen_policies(known: Mapping[str, Policy], names: Sequence[str] | None) -> dict[str, Policy]:
    """The policies that ``--policy`` names, in this order; all that are known if it names none."""
    if not names:
        return dict(known)
    chosen: dict[str, Policy] = {}
    for name in names:
        if name in known:
            chosen[name] = known[name]
        elif ":" in name:
            policy = _own_policy(name)
            # Its own name in tables, unless that is somebody else's.
            chosen[policy.name if policy.name not in {**known, **chosen} else name] = policy
        else:
            raise InputError(
                f"there is no policy {name!r}. Known: {', '.join(known)}; or MODULE:CLASS for one of your own."
            )
    return chosen


def _own_policy(name: str) -> Policy:
    """A policy made from ``MODULE:CLASS`` without arguments; an error says what it lacks."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise InputError(f"--policy {name!r} must be MODULE:CLASS, such as mine:Greedy for class Greedy in mine.py.")
    try:
        found: Any = _imported(name, module)
        for part in path.split("."):
            if not hasattr(found, part):
                classes = [each for each in vars(found).values() if inspect.isclass(each) and each.__module__ == module]
                known = ", ".join(each.__name__ for each in classes) or "none"
                raise InputError(f"{module} has no {part!r}. Its classes: {known}.")
            found = getattr(found, part)
        if not inspect.isclass(found):
            raise InputError(f"it must name a class; it names {type(found).__name__} {path!r}.")
        try:
            policy: Any = found()
        except Exception as error:
            raise InputError(
                f"{path}() failed ({_said(error)}). It is called without arguments; give each a default."
            ) from error
        _check(policy)
    except InputError as error:
        raise InputError(f"--policy {name!r}: {error}") from error
    made: Policy = policy
    return made


def _imported(name: str, module: str) -> Any:
    """The module, from this directory first; what it imports later is found there too, but after everything else."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            raise InputError(f"{module} cannot be imported ({_said(error)}).") from error
        hint = f" Write it without .py: {name.replace('.py:', ':', 1)}." if module.endswith(".py") else ""
        raise InputError(
            f"there is no module {module!r} in this directory or among the installed packages.{hint}"
        ) from error
    finally:
        sys.path.remove(here)
        sys.path.append(here)


def _check(policy: Any) -> None:
    """Demand the name and the methods of a policy, with the arguments that they will get."""
    from tensorucb.experiments._tuning import own_grid, with_arguments
    from tensorucb.policies._base import unwritten
    from tensorucb.policies.check import ARGUMENTS

    see = "See docs/howto/own-policy.md."
    if unwritten(policy):
        raise InputError(f"it is not a policy yet: it lacks {unwritten(policy)}. {see}")
    if missing := ", ".join(method for method in ARGUMENTS if not callable(getattr(policy, method, None))):
        raise InputError(f"it is not a policy: it lacks {missing}. Derive it from tensorucb.policies.UCBPolicy. {see}")
    label = getattr(policy, "name", None)
    if not (isinstance(label, str) and label):
        raise InputError(f"it needs an attribute name, a text for tables; got {label!r}.")
    for method, arguments in ARGUMENTS.items():
        try:
            inspect.signature(getattr(policy, method)).bind(*arguments)
        except TypeError as error:
            raise InputError(f"{method}() must take ({', '.join(arguments)}); {_said(error)}.") from error
    with_arguments(policy, {argument: values[0] for argument, values in own_grid(policy).items()})


def _said(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}").rstrip(".")
