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
        "directory or an installed package. May be given several times.",
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
            policy = own_policy(name)
            # Its own name in tables, unless that is somebody else's.
            chosen[policy.name if policy.name not in {**known, **chosen} else name] = policy
        else:
            raise InputError(
                f"there is no policy {name!r}. Known: {', '.join(known)}; or MODULE:CLASS for one of your own."
            )
    return chosen


def own_policy(name: str) -> Policy:
    """A policy made from ``MODULE:CLASS`` without arguments; an error says what it lacks."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise InputError(f"--policy {name!r} must be MODULE:CLASS, such as mine:Greedy for class Greedy in mine.py.")
    found: Any = _imported(name, module)
    for part in path.split("."):
        if not hasattr(found, part):
            there = [value for value in vars(found).values() if inspect.isclass(value) and value.__module__ == module]
            known = ", ".join(value.__name__ for value in there) or "none"
            raise InputError(f"--policy {name!r}: {module} has no {part!r}. Its classes: {known}.")
        found = getattr(found, part)
    if not inspect.isclass(found):
        raise InputError(f"--policy {name!r} must name a class; it names {type(found).__name__} {path!r}.")
    try:
        policy: Any = found()
    except Exception as error:
        raise InputError(
            f"--policy {name!r}: {path}() failed ({_said(error)}). It is called without arguments; give each a default."
        ) from error
    _check(name, policy)
    made: Policy = policy
    return made


def _imported(name: str, module: str) -> Any:
    """The module, from this directory first; what it imports later is found there too, but after everything else."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            hint = f" Write it without .py: {name.replace('.py:', ':', 1)}." if module.endswith(".py") else ""
            raise InputError(
                f"--policy {name!r}: there is no module {module!r} in this directory or among the installed packages."
                + hint
            ) from error
        raise InputError(f"--policy {name!r}: {module} cannot be imported ({_said(error)}).") from error
    except Exception as error:
        raise InputError(f"--policy {name!r}: {module} cannot be imported ({_said(error)}).") from error
    finally:
        sys.path.remove(here)
        sys.path.append(here)


def _check(name: str, policy: Any) -> None:
    """Demand the name and the methods of a policy, with the arguments that they will get."""
    from tensorucb.experiments._tuning import own_grid, with_arguments
    from tensorucb.policies._base import unwritten
    from tensorucb.policies.check import ARGUMENTS

    missing = ", ".join(method for method in ARGUMENTS if not callable(getattr(policy, method, None)))
    if unwritten(policy):
        raise InputError(
            f"--policy {name!r} is not a policy yet: it lacks {unwritten(policy)}. See docs/howto/own-policy.md."
        )
    if missing:
        raise InputError(
            f"--policy {name!r} is not a policy: it lacks {missing}. "
            "Derive it from tensorucb.policies.BasePolicy, or see docs/howto/own-policy.md."
        )
    if not (isinstance(getattr(policy, "name", None), str) and policy.name):
        raise InputError(
            f"--policy {name!r} needs an attribute name, a text for tables; got {getattr(policy, 'name', None)!r}."
        )
    for method, arguments in ARGUMENTS.items():
        try:
            inspect.signature(getattr(policy, method)).bind(*arguments)
        except TypeError as error:
            raise InputError(
                f"--policy {name!r}: {method}() must take ({', '.join(arguments)}); {_said(error)}."
            ) from error
    with_arguments(policy, {argument: values[0] for argument, values in own_grid(policy).items()})


def _said(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}").rstrip(".")
