"""Where ``reproduce`` and ``compare`` play: a data set, prepared as asked, or a generated network; and the options."""

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

_DAY = 86_400.0


class Synthetic(StrEnum):
    """A generated network of the size of one of the paper's."""

    digg = "digg"
    flixster = "flixster"


class Objective(StrEnum):
    """What a round is worth."""

    direct = "direct"
    cascade = "cascade"


class Feedback(StrEnum):
    """What a round shows."""

    one_hop = "one_hop"
    cascade = "cascade"


Data = Annotated[Path | None, typer.Option(help="Directory with a network and an action log.")]
SyntheticNetwork = Annotated[Synthetic | None, typer.Option(help="A generated network instead of --data.")]
RoundObjective = Annotated[Objective, typer.Option(help="Users activated by the seeds, or the whole cascade.")]
RoundFeedback = Annotated[Feedback, typer.Option(help="Out-edges of the seeds, or of every active user.")]
MinActions = Annotated[
    int,
    typer.Option(
        min=0,
        max=MANY,
        help="Leave out users with fewer actions, and then isolated ones; the paper used 50. 0: as the data comes.",
    ),
]

ProductEffect = Annotated[
    float,
    typer.Option(
        min=0.0, help="How much the product matters in the generated network; at 0 it does not.", callback=finite
    ),
]
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
class Generator:
    """How a network is generated.

    Parameters
    ----------
    scale
        Factor on its size.
    product_effect
        How much the product matters.
    strategies, strategy_effect
        Number of strategies, and how much they matter.
    """

    scale: float = 1.0
    product_effect: float = 1.5
    strategies: int = 0
    strategy_effect: float = 1.0

    def __call__(self, kind: Synthetic, *, seed: int, draw: int = 0) -> LoadedNetwork:
        """Generate a network of this kind; ``draw`` numbers further ones for the same seed."""
        import numpy as np

        from tensorucb.data import digg_like, flixster_like

        make = digg_like if kind is Synthetic.digg else flixster_like
        effects: dict[str, Any] = {"product_effect": self.product_effect}
        if self.strategies:
            effects |= {"n_strategies": self.strategies, "strategy_effect": self.strategy_effect}
        rng = np.random.default_rng([seed, draw]) if draw else seed
        about = {"generator": make.__name__, "scale": self.scale, "seed": seed, **effects}
        return LoadedNetwork(f"{kind.value}-like", make(self.scale, rng=rng, **effects), about)


@dataclass(frozen=True)
class LoadedNetwork:
    """A network that has been read or generated, and what a manifest says of it."""

    name: str
    content: Dataset | Sandbox
    about: dict[str, Any]

    @property
    def graph(self) -> Graph:
        """The users and their connections."""
        return self.content.graph

    def environment(
        self,
        settings: WorldSettings,
        cache: Path,
        tell: Callable[[str], None],
        truth_prior: tuple[float, float] | None = None,
    ) -> Environment:
        """The network with a truth to play against; features and truth of a data set are kept in ``cache``."""
        from tensorucb.data import Dataset
        from tensorucb.experiments import Environment, environment_from_dataset

        if isinstance(self.content, Dataset):
            prior: dict[str, Any] = {} if truth_prior is None else {"truth_prior": truth_prior}
            return environment_from_dataset(self.content, settings=settings, cache=cache, tell=tell, **prior)
        return Environment.from_sandbox(self.content, settings=settings, name=self.name)


def load_network(
    data: Path | None,
    synthetic: Synthetic | None,
    *,
    seed: int,
    preparation: Preparation | None = None,
    generator: Generator | None = None,
) -> LoadedNetwork:
    """Read and prepare the data set, or generate the network."""
    preparation, generator = preparation or Preparation(), generator or Generator()
    if synthetic is not None and data is None:
        if preparation != Preparation():
            raise typer.BadParameter(
                "--min-actions, --products and --window are for --data; a generated network has none."
            )
        return generator(synthetic, seed=seed)
    if data is None or synthetic is not None:
        raise typer.BadParameter("give either --data DIR or --synthetic digg|flixster.")
    if generator.product_effect != Generator.product_effect:
        raise typer.BadParameter("--product-effect is for --synthetic; a data set has its own.")
    if generator.strategies:
        raise typer.BadParameter("--strategies is for --synthetic; a data set says nothing about strategies.")
    from tensorucb.data import checksum, read_dataset

    dataset = preparation(read_dataset(data), seed=seed)
    about = {"name": dataset.name, "checksum": checksum(dataset), "preparation": vars(preparation)}
    return LoadedNetwork(dataset.name, dataset, about)


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
