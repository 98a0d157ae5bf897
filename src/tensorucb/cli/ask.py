"""``tensorucb ask``: open a round."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._campaign import STORAGE, Json, Name, Storage, as_ids, ask_document, campaign_at, fields
from tensorucb.cli._output import emit_json, print_to

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign

__all__ = ["ask"]

Users = list[str] | None


def ask(
    name: Name,
    product: Annotated[str | None, typer.Option(help="The product's id in the catalogue.")] = None,
    features: Annotated[str | None, typer.Option(help="Its features instead, with commas between them.")] = None,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="How many users.")] = None,
    exclude: Annotated[Users, typer.Option(help="Opt-outs: an id, or @FILE with one a line. Repeatable.")] = None,
    candidates: Annotated[Users, typer.Option(help="The only ones who may be chosen; likewise.")] = None,
    must_include: Annotated[Users, typer.Option(help="Who has to be chosen; likewise.")] = None,
    shadow: Annotated[Users, typer.Option(help="Whom somebody else chose; likewise.")] = None,
    cooldown: Annotated[float | None, typer.Option(help="Seconds since the last contact.")] = None,
    budget: Annotated[float | None, typer.Option(help="The most to spend, by the users' costs.")] = None,
    quota: Annotated[list[str] | None, typer.Option(help="GROUP=NUMBER, or one NUMBER for all. Repeatable.")] = None,
    holdout: Annotated[float, typer.Option(help="Share of the chosen not to contact.")] = 0.0,
    window: Annotated[float | None, typer.Option(help="Seconds in which a response counts.")] = None,
    deadline: Annotated[
        str | None, typer.Option(help="When the round closes by itself: unix seconds or an ISO time (UTC).")
    ] = None,
    credit: Annotated[str | None, typer.Option(help="For node events: any, last or shared.")] = None,
    objective: Annotated[str | None, typer.Option(help="direct or cascade; by default the campaign's.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Asking again with it gives the same round.")] = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Open a round: whom to contact for a product, and what to expect."""
    if (product is None) == (features is None):
        raise typer.BadParameter("give --product or --features.")
    if k is None and budget is None:
        raise typer.BadParameter("give --k, or --budget, or both.")
    vector = None if features is None else _numbers(features)
    quotas, closes = _quotas(quota), _moment(deadline)
    with campaign_at(storage, name) as campaign:
        graph = campaign.graph
        result = campaign.ask(
            _product_id(product, campaign.products()) if vector is None else vector,
            k,
            exclude=as_ids(graph, exclude),
            candidates=as_ids(graph, candidates),
            must_include=as_ids(graph, must_include),
            shadow=as_ids(graph, shadow),
            cooldown=cooldown,
            budget=budget,
            quotas=_by_label(quotas, campaign),
            holdout=holdout,
            window=window,
            deadline=closes,
            credit=credit,
            objective=objective,
            request_id=request_id,
        )
        explanation: Any = result.explain()
        if json:
            emit_json({**ask_document(result), "explanation": fields(explanation)})
            return
        _print(result, explanation)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--features must be numbers with commas between them; got {text!r}.") from None


def _product_id(text: str | None, known: tuple[int | str, ...]) -> int | str | None:
    """The id as the catalogue has it: files make numbers of ids that look so."""
    return next((product for product in known if str(product) == text), text)


def _quotas(given: list[str] | None) -> dict[str, int] | int | None:
    if not given:
        return None
    try:
        if len(given) == 1 and "=" not in given[0]:
            return int(given[0])
        return {group: int(number) for group, _, number in (text.rpartition("=") for text in given)}
    except ValueError:
        raise typer.BadParameter(f"--quota must look like north=3, or 3; got {given}.") from None


def _by_label(quotas: dict[str, int] | int | None, campaign: Campaign) -> dict[Any, int] | int | None:
    """Quotas by the groups' own labels: files make numbers of labels that look so."""
    world = campaign._world
    if not isinstance(quotas, dict) or world is None or world.groups is None:
        return quotas
    labels = {str(label): label for label in set(world.groups.tolist())}
    return {labels.get(group, group): number for group, number in quotas.items()}


def _moment(text: str | None) -> float | None:
    """Unix seconds of a number or an ISO time, which is UTC unless it has a zone."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"--deadline must be unix seconds or look like 2030-01-31T12:00; got {text!r}."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _print(result: Ask, explanation: Any) -> None:
    from rich.table import Table

    reach = result.reach
    table = Table(title=f"Round {result.id}", title_justify="left", box=None)
    for column in ("", "User", "Adds", "Direct, alone", "Strongest followers"):
        table.add_column(column)
    for seed in explanation.seeds:
        best = ", ".join(f"{user} {p:.2f}" for user, p in seed.followers[:3])
        mark = "held out" if seed.status == "held_out" else ""
        row = (f"{seed.user} {mark}".strip(), f"{seed.gain:.2f}", f"{seed.score:.2f}", best)
        table.add_row(str(seed.rank), *row)
    console = print_to()
    console.print(table)
    if reach is not None:
        console.print(f"Expected reach {reach}.", soft_wrap=True)
