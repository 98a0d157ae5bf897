"""``tensorucb ask``: open a round."""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, ask_document, campaign_at, fields
from tensorucb.cli._options import Json, finite, listed_ids, typed
from tensorucb.cli._output import emit_json, print_table, say, shown
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign

__all__ = ["ask"]

Users = list[str] | None
USERS = "ID|@FILE"
_END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def ask(
    name: Name,
    product: Annotated[str | None, typer.Option(help="The product's id in the catalogue.")] = None,
    features: Annotated[str | None, typer.Option(help="Its features instead, with commas between them.")] = None,
    strategy: Annotated[str | None, typer.Option(help="The id of the strategy that everybody gets.")] = None,
    strategies: Annotated[
        str | None,
        typer.Option(help="Choose among these strategies: `all`, or ids with commas between them.", metavar="all|IDS"),
    ] = None,
    per_user: Annotated[bool, typer.Option("--per-user", help="The best of --strategies for each user.")] = False,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="How many users.")] = None,
    exclude: Annotated[Users, typer.Option(help="Who must not be chosen, such as opt-outs.", metavar=USERS)] = None,
    candidates: Annotated[Users, typer.Option(help="The only users who may be chosen.", metavar=USERS)] = None,
    must_include: Annotated[Users, typer.Option(help="Who has to be chosen.", metavar=USERS)] = None,
    shadow: Annotated[
        Users, typer.Option(help="Users chosen by someone else; the round only records and learns.", metavar=USERS)
    ] = None,
    cooldown: Annotated[float | None, typer.Option(help="Seconds since the last contact.", callback=finite)] = None,
    budget: Annotated[
        float | None, typer.Option(help="The most to spend, by the costs of users and strategies.", callback=finite)
    ] = None,
    quota: Annotated[list[str] | None, typer.Option(help="GROUP=NUMBER, or one NUMBER for all. Repeatable.")] = None,
    holdout: Annotated[float, typer.Option(help="Share of the chosen not to contact.", callback=finite)] = 0.0,
    window: Annotated[float | None, typer.Option(help="Seconds in which a response counts.", callback=finite)] = None,
    deadline: Annotated[
        str | None, typer.Option(help="When the round closes by itself: unix seconds or an ISO time (UTC).")
    ] = None,
    credit: Annotated[str | None, typer.Option(help="For node events: any, last or shared.")] = None,
    objective: Annotated[str | None, typer.Option(help="direct or cascade; by default the campaign's.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Asking again with it gives the same round.")] = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Open a round: who to contact for a product, and what to expect.

    Options that name users may be repeated. Each takes an id exactly as it is, or @FILE, a file with one id on each
    line; an id that begins with @ is written with two: @@ann.
    """
    if (product is None) == (features is None):
        raise typer.BadParameter("give --product or --features.")
    if k is None and budget is None:
        raise typer.BadParameter("give --k, or --budget, or both.")
    _check_strategies(strategy, strategies, per_user, shadow)
    vector = None if features is None else _numbers(features)
    quotas, closes = _quotas(quota), _moment(deadline)
    if closes is not None and closes <= time.time() and request_id is None:
        raise typer.BadParameter(f"--deadline {deadline!r} is in the past: it is now {_utc(time.time())} UTC.")
    with campaign_at(storage, name, "ask") as campaign:
        graph = campaign.graph
        result = campaign.ask(
            _known_id(product, campaign.products()) if vector is None else vector,
            k,
            strategies=_strategy_ids(strategy, strategies, campaign.strategies()),
            per_user=per_user,
            exclude=listed_ids(graph, exclude, "--exclude"),
            candidates=_somebody(listed_ids(graph, candidates, "--candidates"), "--candidates"),
            must_include=listed_ids(graph, must_include, "--must-include"),
            shadow=_somebody(listed_ids(graph, shadow, "--shadow"), "--shadow"),
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
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise typer.BadParameter(f"--features must be numbers with commas between them; got {text!r}.")
    return numbers


def _somebody(ids: list[int | str] | None, option: str) -> list[int | str] | None:
    """The ids; an empty file, from which no round could come that was meant, is refused."""
    if ids == []:
        raise InputError(f"{option} names nobody: the file is empty. Put one id on each line, or leave the option out.")
    return ids


def _check_strategies(one: str | None, several: str | None, per_user: bool, shadow: Users) -> None:
    if one is not None and several is not None:
        raise typer.BadParameter("give --strategy or --strategies, not both.")
    if per_user and several is None:
        raise typer.BadParameter("--per-user needs --strategies: all, or ids with commas between them.")
    if shadow and several is not None:
        raise typer.BadParameter(
            "--shadow goes with --strategy, if all users got the same one. If they did not, say who got which in "
            "Python: campaign.ask(…, strategies=…, shadow={user: strategy})."
        )


def _strategy_ids(one: str | None, several: str | None, known: tuple[int | str, ...]) -> Any:
    """The strategies as the catalogue has them."""
    if one is not None:
        return [_known_id(one, known)]
    if several is None or several == "all":
        return several
    return [_known_id(text, known) for text in several.split(",")]


def _known_id(text: str | None, known: tuple[int | str, ...]) -> int | str | None:
    """The id as the catalogue has it, where some are numbers and some are text; ``007`` is never 7."""
    wanted = None if text is None else typed(text)
    if wanted in known:
        return wanted
    return next((entry for entry in known if str(entry) == wanted), wanted)


def _quotas(given: list[str] | None) -> dict[str, int] | int | None:
    if not given:
        return None
    parts = [text.rpartition("=") for text in given]
    if not all(re.fullmatch("[0-9]{1,18}", number) for _, _, number in parts):
        raise typer.BadParameter(f"--quota must look like north=3, or 3; got {', '.join(map(repr, given))}.")
    if len(given) == 1 and "=" not in given[0]:
        return int(given[0])
    if not all(equals for _, equals, _ in parts):
        raise typer.BadParameter("--quota is one number for all groups, or a GROUP=NUMBER for each; not both.")
    groups = [typed(group) for group, _, _ in parts]
    if len(set(groups)) < len(groups):
        raise typer.BadParameter("--quota names a group twice; give each group one number.")
    return {group: int(number) for group, (_, _, number) in zip(groups, parts, strict=True)}


def _by_label(quotas: dict[str, int] | int | None, campaign: Campaign) -> dict[Any, int] | int | None:
    """Quotas by the groups' own labels: files make numbers of labels that look so."""
    groups = campaign.groups if isinstance(quotas, dict) else None
    if not isinstance(quotas, dict) or groups is None:
        return quotas
    labels = {str(label): label for label in set(groups.tolist())}
    return {labels.get(group, group): number for group, number in quotas.items()}


def _moment(text: str | None) -> float | None:
    """Unix seconds of a number or an ISO time, which is UTC unless it has a zone."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            seconds = math.nan
    if not abs(seconds) <= _END_OF_TIME:
        raise typer.BadParameter(f"--deadline must be unix seconds or look like 2030-01-31T12:00; got {text!r}.")
    return seconds


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M")


def _print(result: Ask, explanation: Any) -> None:
    rows = []
    for seed in explanation.seeds:
        best = ", ".join(f"{shown(user)} {p:.2f}" for user, p in seed.followers[:3])
        place = f"{seed.rank} held out" if seed.status == "held_out" else f"{seed.rank}"
        gets = () if result.strategies is None else (shown(seed.strategy),)
        rows.append((place, shown(seed.user), *gets, f"{seed.gain:.2f}", f"{seed.score:.2f}", best))
    gets = () if result.strategies is None else ("Strategy",)
    columns = ("", "User", *gets, "Adds", "Alone", "Strongest followers")
    words = ("", "User", *gets, "Strongest followers")
    print_table(columns, rows, words=words, title=f"Round {result.id}")
    reach = result.reach
    if reach is not None:
        say(f"Expected reach {reach}.")
    if result.cost is not None:
        say(f"Contacting them costs {result.cost:g}.")
