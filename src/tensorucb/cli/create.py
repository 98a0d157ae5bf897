"""``tensorucb create``: a new campaign from files."""

from __future__ import annotations

import json as jsonlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, fields, read_table
from tensorucb.cli._options import MANY, Json, Seed, finite, typed
from tensorucb.cli._output import emit_json, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorucb.graph import Graph
    from tensorucb.policies import Policy

__all__ = ["create"]


def create(
    name: Name,
    edges: Annotated[Path, typer.Option(help="Edge list: .csv, .tsv (also .gz) or .parquet.")],
    users: Annotated[
        Path | None,
        typer.Option(help="Features: a column `user`, numbers, optionally `cost` and `group`. Without: an eigenmap."),
    ] = None,
    products: Annotated[Path | None, typer.Option(help="Catalogue: a column `product`, and numbers.")] = None,
    strategies: Annotated[
        Path | None, typer.Option(help="Strategies: a column `strategy`, numbers, optionally `cost`.")
    ] = None,
    policy: Annotated[str, typer.Option(help="A policy of this package.")] = "TensorUCB",
    settings: Annotated[
        str, typer.Option(help="The policy's arguments as JSON; a policy among them by its name.")
    ] = "{}",
    objective: Annotated[
        str, typer.Option(help="What the choice counts. direct: responses of followers; cascade: all who are reached.")
    ] = "direct",
    credit: Annotated[str, typer.Option(help="For node events: any, last or shared.")] = "any",
    window: Annotated[float | None, typer.Option(help="Seconds in which a response counts.", callback=finite)] = None,
    dim: Annotated[int, typer.Option(min=1, max=MANY, help="Dimension of the eigenmap, without --users.")] = 10,
    id_type: Annotated[str, typer.Option(help="auto, int or str (keeps 007 as it is).")] = "auto",
    seed: Seed = 0,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Create a campaign from an edge list, and optionally files of users, products and strategies."""
    if storage.startswith("memory:"):
        raise InputError("a campaign in memory ends with this command; use --storage sqlite:///file.db.")
    with Progress("create"):
        from tensorucb.campaign import create_campaign
        from tensorucb.graph import Graph

        graph = Graph.read(edges, id_type=id_type, self_loops="drop")  # type: ignore[arg-type]
        table = (
            None if users is None else read_table(users, "user", text=("user",) if graph.ids.dtype.kind == "U" else ())
        )
        if table is not None:
            graph = Graph.read(edges, id_type=id_type, self_loops="drop", nodes=table[0])  # type: ignore[arg-type]
        columns = {} if table is None else table[1]
        costs, groups = columns.pop("cost", None), columns.pop("group", None)
        offered, prices = (None, None) if strategies is None else _catalogue(strategies, "strategy")
        with create_campaign(
            typed(name),
            graph=graph,
            users=_features(graph, columns, table is not None, dim),
            policy=_policy(policy, settings),
            storage=storage,
            products=None if products is None else _catalogue(products, "product")[0],
            strategies=offered,
            strategy_costs=prices,
            costs=None if costs is None else costs.to_numpy(),
            groups=None if groups is None else groups.to_list(),
            objective=objective,
            credit=credit,
            window=window,
            seed=seed,
        ) as campaign:
            status, url = campaign.status(), campaign.store.masked_url
    if json:
        emit_json({"storage": url, **fields(status)})
        return
    say(
        f"Campaign {shown(status.name)} with {status.users:,} users, {status.edges:,} edges, {status.products} "
        f"products and {status.strategies} strategies in {shown(url)}. Next: tensorucb ask {shown(status.name)}"
    )


def _policy(name: str, settings: str) -> Policy:
    try:
        arguments = jsonlib.loads(settings)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--settings of {name} must be its arguments as a JSON object ({error}).") from error
    return _built(name, arguments)


def _built(name: Any, arguments: Any) -> Policy:
    """A policy by its name; an argument ``policy`` is the name of another, or its ``type`` and ``arguments``."""
    from tensorucb import policies

    known = [n for n in policies.__all__ if _is_policy_class(getattr(policies, n))]
    if name not in known:
        raise InputError(f"policy must be one of {', '.join(known)}; got {name!r}.")
    if not isinstance(arguments, dict):
        raise InputError(f"--settings of {name} must be its arguments as a JSON object; got {arguments!r}.")
    if isinstance(inner := arguments.get("policy"), str | dict):
        spec = {"type": inner} if isinstance(inner, str) else inner
        arguments = {**arguments, "policy": _built(spec.get("type"), spec.get("arguments", {}))}
    try:
        built: Policy = getattr(policies, name)(**arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"--settings of {name} must be its arguments as a JSON object ({error}).") from error
    return built


def _is_policy_class(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "bind") and value.__name__ not in ("BasePolicy", "Policy")


def _matrix(columns: dict[str, Any], what: str) -> NDArray[Any]:
    import numpy as np

    words = [name for name, column in columns.items() if not column.dtype.is_numeric()]
    if words:
        raise InputError(f"{what} must have numbers as features; column {words[0]!r} holds something else.")
    return np.column_stack([column.to_numpy() for column in columns.values()]).astype(np.float64)


def _features(graph: Graph, columns: dict[str, Any], given: bool, dim: int) -> NDArray[Any] | None:
    if columns:
        return _matrix(columns, "users")
    if given:
        return None
    from tensorucb.features import laplacian_eigenmap

    return laplacian_eigenmap(graph, dim=min(dim, graph.n_nodes - 2))


def _catalogue(path: Path, kind: str) -> tuple[dict[int | str, Any], dict[int | str, float] | None]:
    """Features by id, and costs by id where strategies have them."""
    ids, columns = read_table(path, kind, text=(kind,))
    costs = columns.pop("cost", None) if kind == "strategy" else None
    if not columns:
        raise InputError(f"{str(path)!r} has no columns of features beside {kind!r}.")
    if len(set(ids)) < len(ids):
        raise InputError(f"{str(path)!r} names a {kind} twice.")
    # Ids that a text file writes as numbers are numbers; 007 is not how 7 is written.
    numbers = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", str(value)) for value in ids)
    if numbers and path.suffix.lower() in (".csv", ".tsv", ".gz"):
        ids = [int(value) for value in ids]
    prices = None if costs is None else dict(zip(ids, costs.to_list(), strict=True))
    return dict(zip(ids, _matrix(columns, "products" if kind == "product" else "strategies"), strict=True)), prices
