"""What ``reproduce``, ``compare`` and ``tune`` share: where they play, and who plays.

They play on a data set, prepared as asked, or on a generated network. Policies go by their labels, and one's own by
MODULE:CLASS; they are checked before anything is computed.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import BadParameter, Option

from tensorucb.cli._options import SPAN, between, refuse, span
from tensorucb.cli._output import one_line
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from tensorucb.data import Dataset, Sandbox
    from tensorucb.experiments import Environment, WorldSettings
    from tensorucb.policies import Policy

PRODUCT_EFFECT = 1.5
Features = Literal["paper", "ours"]
Synthetic = Literal["digg", "flixster"]

Data = Annotated[Path | None, Option(help="Directory with a network and an action log.", metavar="DIR")]
SyntheticNetwork = Annotated[Synthetic | None, Option(help="A generated network instead of --data.")]
RoundObjective = Annotated[
    Literal["direct", "cascade"], Option(help="Users activated by the seeds, or the whole cascade.")
]
RoundFeedback = Annotated[
    Literal["one_hop", "cascade"], Option(help="Out-edges of the seeds, or of every active user.")
]
MinActions = Annotated[
    int,
    Option(
        callback=between(0, 1_000_000_000),
        help="Leave out users with fewer actions, and then isolated ones; the paper used 50. 0: as the data comes.",
    ),
]


def _activation_window(text: str | None) -> str | None:
    return text if text in (None, "none") else span(text)


ActivationWindow = Annotated[
    str | None,
    Option(
        callback=_activation_window,
        metavar=f"{SPAN}|none",
        help="How long a neighbour's action counts as a response, such as 7d; none: no limit.",
        show_default="the data set's own",
    ),
]
Scale = Annotated[float, Option(min=0.001, max=1e6, help="Factor on the size of the generated network.")]


def prepared(
    dataset: Dataset, min_actions: int = 0, products: int | None = None, window: str | None = None, *, seed: int = 0
) -> Dataset:
    """The data set, prepared as asked; ``window`` is such as 7d, none for no limit, None for the data set's own."""
    from tensorucb.data import prepare

    if not (min_actions or products or window):
        return dataset
    return prepare(
        dataset,
        min_interactions=min_actions,
        drop_isolated=min_actions > 0,
        window="keep" if window is None else None if window == "none" else window,
        n_products=products,
        rng=seed,
    )


@dataclass(frozen=True)
class LoadedNetwork:
    """A network that has been read or generated, and what a manifest says of it."""

    name: str
    content: Dataset | Sandbox
    about: dict[str, Any]

    def environment(
        self,
        settings: WorldSettings,
        cache: Path,
        report: Callable[[int, int, str], None] | None,
        *,
        replay: bool = False,
        features: Features = "ours",
        **fit: Any,
    ) -> Environment:
        """The network with a truth to play against, or with its log; what is computed of a data set is kept."""
        from tensorucb.data import Dataset
        from tensorucb.experiments import Environment, environment_from_dataset, replay_from_dataset
        from tensorucb.features import laplacian_eigenmap

        if isinstance(self.content, Dataset):
            if replay:
                return replay_from_dataset(self.content, settings=settings, cache=cache, report=report)
            fit |= {"features": features, "cache": cache, "report": report}
            return environment_from_dataset(self.content, settings=settings, **fit)
        world = Environment.from_sandbox(self.content, settings=settings, name=self.name)
        return world if features == "ours" else world.with_users(laplacian_eigenmap(world.graph))


def generated(
    kind: Synthetic,
    *,
    seed: int,
    draw: int = 0,
    scale: float = 1.0,
    product_effect: float = PRODUCT_EFFECT,
    **strategies: float,
) -> LoadedNetwork:
    """A generated network of this kind; ``draw`` numbers further ones for the same seed."""
    import numpy as np

    from tensorucb.data import digg_like, flixster_like

    make: Any = digg_like if kind == "digg" else flixster_like
    effects = {"product_effect": product_effect, **strategies}
    about = {"generator": make.__name__, "scale": scale, "seed": seed, **effects}
    rng = np.random.default_rng([seed, draw]) if draw else seed
    return LoadedNetwork(f"{kind}-like", make(scale, rng=rng, **effects), about)


def load_network(
    data: Path | None,
    synthetic: Synthetic | None,
    generate: Callable[..., LoadedNetwork],
    *,
    seed: int,
    min_actions: int = 0,
    products: int | None = None,
    window: str | None = None,
) -> LoadedNetwork:
    """Read the data set and have it `prepared`, or generate the network."""
    if synthetic is not None and data is None:
        only = "--min-actions, --products and --window are for --data; a generated network has none."
        refuse(min_actions or products or window, only)
        return generate(synthetic, seed=seed)
    if data is None or synthetic is not None:
        raise BadParameter("give either --data DIR or --synthetic digg|flixster.")
    from tensorucb.data import checksum, read_dataset

    dataset = prepared(read_dataset(data), min_actions, products, window, seed=seed)
    preparation = {"min_actions": min_actions, "products": products, "window": window}
    about = {"name": dataset.name, "checksum": checksum(dataset), "preparation": preparation}
    return LoadedNetwork(dataset.name, dataset, about)


# -- policies --

PolicyNames = Annotated[
    list[str] | None,
    Option(
        "--policy",
        metavar="LABEL|MODULE:CLASS",
        help="Only this policy: its label, such as LinUCB, or MODULE:CLASS for one of your own, from a file in this "
        "directory or an installed package. Repeatable.",
    ),
]


def chosen_policies(by_label: Mapping[str, Policy], names: Sequence[str] | None) -> dict[str, Policy]:
    """The policies that ``--policy`` names, in this order; all that are known if it names none."""
    if not names:
        return dict(by_label)
    chosen: dict[str, Policy] = {}
    for name in names:
        if name in by_label:
            chosen[name] = by_label[name]
        elif ":" in name:
            policy = _own_policy(name)
            # Its own name in tables, unless that is somebody else's.
            chosen[policy.name if policy.name not in {**by_label, **chosen} else name] = policy
        else:
            raise InputError(
                f"there is no policy {name!r}. Known: {'; '.join(by_label)}; or MODULE:CLASS for one of your own."
            )
    return chosen


def _own_policy(name: str) -> Policy:
    """A policy made from ``MODULE:CLASS`` without arguments; an error says what it lacks."""
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise InputError(f"--policy {name!r} must be MODULE:CLASS, such as mine:Greedy for class Greedy in mine.py.")
    try:
        imported = _imported(name, module)
        try:
            value: Any = attrgetter(path)(imported)
        except AttributeError:
            classes = [each for each in vars(imported).values() if inspect.isclass(each) and each.__module__ == module]
            class_names = ", ".join(each.__name__ for each in classes) or "none"
            raise InputError(f"{module} has no {path!r}. Its classes: {class_names}.") from None
        if not inspect.isclass(value):
            raise InputError(f"it must name a class; it names {type(value).__name__} {path!r}.")
        try:
            policy: Any = value()
        except Exception as error:
            advice = "It is called without arguments; give each a default."
            raise InputError(f"{path}() failed ({_said(error)}). {advice}") from error
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
