"""Where ``reproduce`` and ``compare`` play: a data set, prepared as asked, or a generated network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._options import MANY, finite

if TYPE_CHECKING:
    from tensorucb.data import Dataset, Sandbox
    from tensorucb.experiments import Environment, WorldSettings
    from tensorucb.graph import Graph

__all__ = [
    "PRODUCT_EFFECT",
    "STRATEGY_EFFECT",
    "MinActions",
    "Preparation",
    "ProductEffect",
    "Scale",
    "Strategies",
    "StrategyEffect",
    "Synthetic",
    "TruthPrior",
    "World",
    "load_world",
    "parse_truth_prior",
]

_DAY = 86_400.0

MinActions = Annotated[
    int,
    typer.Option(
        min=0,
        max=MANY,
        help="Leave out users with fewer actions, and then isolated ones; the paper used 50. 0: as the data comes.",
    ),
]

PRODUCT_EFFECT = 1.5
ProductEffect = Annotated[
    float,
    typer.Option(
        min=0.0, help="How much the product matters in the generated network; at 0 it does not.", callback=finite
    ),
]
STRATEGY_EFFECT = 1.0
Strategies = Annotated[
    int,
    typer.Option(
        min=0,
        max=1000,
        help="Number of strategies (channels, offers …) of the generated network; one is chosen for each seed.",
    ),
]
StrategyEffect = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=20.0,
        help="How much the strategy matters, in logits; at 0 the choice does not matter.",
        callback=finite,
    ),
]
Scale = Annotated[
    float, typer.Option(min=0.001, max=1e6, help="Factor on the size of the generated network.", callback=finite)
]
TruthPrior = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Beta prior of the truth that is fitted to the log: A − 1 extra successes and B − 1 failures of each edge "
        "and topic.",
        show_default="1.1,3",
    ),
]


class Synthetic(StrEnum):
    """A generated network of the size of one of the paper's."""

    digg = "digg"
    flixster = "flixster"


@dataclass(frozen=True)
class Preparation:
    """What is done to a data set first; by default nothing.

    Parameters
    ----------
    min_actions
        Users with fewer actions are left out, and then isolated ones.
    products
        Keep that many, drawn at random.
    window
        Days within which a neighbour's action counts as a response; 0 for no limit, None for the data set's own.
    """

    min_actions: int = 0
    products: int | None = None
    window: float | None = None

    def __call__(self, dataset: Dataset, *, seed: int = 0) -> Dataset:
        """The data set, prepared."""
        from tensorucb.data import prepare

        if self == Preparation():
            return dataset
        return prepare(
            dataset,
            min_interactions=self.min_actions,
            drop_isolated=self.min_actions > 0,
            window="keep" if self.window is None else self.window * _DAY or None,
            n_products=self.products,
            rng=seed,
        )


@dataclass(frozen=True)
class World:
    """A network that has been read or generated, and what a manifest says of it."""

    name: str
    content: Dataset | Sandbox
    about: dict[str, Any]

    @property
    def graph(self) -> Graph:
        """The network."""
        return self.content.graph

    def environment(
        self,
        settings: WorldSettings,
        cache: Path,
        tell: Callable[[str], None],
        truth_prior: tuple[float, float] | None = None,
    ) -> Environment:
        """The world with its truth; features and truth of a data set are kept in ``cache``."""
        from tensorucb.data import Dataset
        from tensorucb.experiments import Environment, environment_from_dataset

        if isinstance(self.content, Dataset):
            prior: dict[str, Any] = {} if truth_prior is None else {"truth_prior": truth_prior}
            return environment_from_dataset(self.content, settings=settings, cache=cache, tell=tell, **prior)
        return Environment.from_sandbox(self.content, settings=settings, name=self.name)


def load_world(
    data: Path | None,
    synthetic: Synthetic | None,
    scale: float,
    seed: int,
    preparation: Preparation,
    product_effect: float = PRODUCT_EFFECT,
    *,
    strategies: int = 0,
    strategy_effect: float = STRATEGY_EFFECT,
    network: int = 0,
) -> World:
    """Read and prepare the data set, or generate the network; ``network`` numbers further draws of the generator."""
    if (data is None) == (synthetic is None):
        raise typer.BadParameter("give either --data DIR or --synthetic digg|flixster.")
    if data is not None:
        from tensorucb.data import checksum, read_dataset

        if product_effect != PRODUCT_EFFECT:
            raise typer.BadParameter("--product-effect is for --synthetic; a data set has its own.")
        if strategies:
            raise typer.BadParameter("--strategies is for --synthetic; a data set says nothing about strategies.")
        dataset = preparation(read_dataset(data), seed=seed)
        about: dict[str, Any] = {"name": dataset.name, "checksum": checksum(dataset), "preparation": vars(preparation)}
        return World(dataset.name, dataset, about)
    assert synthetic is not None
    if preparation != Preparation():
        raise typer.BadParameter("--min-actions, --products and --window are for --data; a generated network has none.")
    import numpy as np

    from tensorucb.data import digg_like, flixster_like

    make = digg_like if synthetic is Synthetic.digg else flixster_like
    effects: dict[str, Any] = {"product_effect": product_effect}
    if strategies:
        effects |= {"n_strategies": strategies, "strategy_effect": strategy_effect}
    rng = np.random.default_rng([seed, network]) if network else seed
    about = {"generator": make.__name__, "scale": scale, "seed": seed, **effects}
    return World(f"{synthetic.value}-like", make(scale, rng=rng, **effects), about)


def parse_truth_prior(text: str | None) -> tuple[float, float] | None:
    """``"1.1,3"`` as two numbers."""
    if text is None:
        return None
    try:
        alpha, beta = (float(part) for part in text.split(","))
        if not (1.0 <= alpha < float("inf") and 1.0 <= beta < float("inf")):
            raise ValueError
    except ValueError as error:
        raise typer.BadParameter(
            f"--truth-prior must be two numbers of at least 1 with a comma between, such as 1.1,3; got {text!r}."
        ) from error
    return alpha, beta
