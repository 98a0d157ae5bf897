"""Where ``reproduce`` and ``compare`` play: a data set, prepared as asked, or a generated network; and the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import BadParameter, Option

from tensorucb.cli._options import SPAN, between, finite, span

if TYPE_CHECKING:
    from tensorucb.data import Dataset, Sandbox
    from tensorucb.experiments import Environment, WorldSettings

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
Scale = Annotated[
    float, Option(min=0.001, max=1e6, help="Factor on the size of the generated network.", callback=finite)
]


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
class Generator:
    """How a network is generated: the factor on its size, and how much products and strategies matter."""

    scale: float = 1.0
    product_effect: float = 1.5
    strategies: int = 0
    strategy_effect: float = 1.0

    def __call__(self, kind: Synthetic, *, seed: int, draw: int = 0) -> LoadedNetwork:
        """Generate a network of this kind; ``draw`` numbers further ones for the same seed."""
        import numpy as np

        from tensorucb.data import digg_like, flixster_like

        make = digg_like if kind == "digg" else flixster_like
        effects: dict[str, Any] = {"product_effect": self.product_effect}
        if self.strategies:
            effects |= {"n_strategies": self.strategies, "strategy_effect": self.strategy_effect}
        rng = np.random.default_rng([seed, draw]) if draw else seed
        about = {"generator": make.__name__, "scale": self.scale, "seed": seed, **effects}
        return LoadedNetwork(f"{kind}-like", make(self.scale, rng=rng, **effects), about)


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


def load_network(
    data: Path | None,
    synthetic: Synthetic | None,
    generator: Generator,
    *,
    seed: int,
    min_actions: int = 0,
    products: int | None = None,
    window: str | None = None,
) -> LoadedNetwork:
    """Read and prepare the data set, or generate the network."""
    if synthetic is not None and data is None:
        if min_actions or products or window:
            raise BadParameter("--min-actions, --products and --window are for --data; a generated network has none.")
        return generator(synthetic, seed=seed)
    if data is None or synthetic is not None:
        raise BadParameter("give either --data DIR or --synthetic digg|flixster.")
    if generator.product_effect != Generator.product_effect:
        raise BadParameter("--product-effect is for --synthetic; a data set has its own.")
    if generator.strategies:
        raise BadParameter("--strategies is for --synthetic; a data set says nothing about strategies.")
    from tensorucb.data import checksum, read_dataset

    dataset = prepared(read_dataset(data), min_actions, products, window, seed=seed)
    preparation = {"min_actions": min_actions, "products": products, "window": window}
    about = {"name": dataset.name, "checksum": checksum(dataset), "preparation": preparation}
    return LoadedNetwork(dataset.name, dataset, about)
