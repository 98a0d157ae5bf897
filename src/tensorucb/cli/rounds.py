"""The commands of a round: ``tensorucb ask``, ``tell`` and ``close``."""

from __future__ import annotations

import json as jsonlib
import math
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import IDS, SPAN, STORAGE, campaign_at, finite, listed_ids, span, typed
from tensorucb.cli._output import count, emit_json, emit_record, left_out, print_table, say, shown
from tensorucb.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign, TellReport

Users = list[str] | None


def ask(
    name: opt.Name,
    product: Annotated[
        str | None, Option(help="The product's id in the catalogue; not needed if that is empty.", metavar="ID")
    ] = None,
    features: Annotated[
        str | None, Option(help="Its features instead, with commas between them.", metavar="NUMBERS")
    ] = None,
    strategy: Annotated[str | None, Option(help="The strategy that everybody gets.", metavar="ID")] = None,
    strategies: Annotated[
        str | None,
        Option(help="Choose among these strategies: `all`, or ids with commas between them.", metavar="all|IDS"),
    ] = None,
    per_user: Annotated[
        bool | None, Option("--per-user/--one-for-all", help="The best of --strategies for each user, or for all.")
    ] = None,
    k: Annotated[int | None, Option("--k", "-k", min=1, help="How many users.")] = None,
    exclude: Annotated[Users, Option(help="Who must not be chosen, such as opt-outs.", metavar=IDS)] = None,
    candidates: Annotated[Users, Option(help="The only users who may be chosen.", metavar=IDS)] = None,
    must_include: Annotated[Users, Option(help="Who has to be chosen.", metavar=IDS)] = None,
    shadow: Annotated[
        Users, Option(help="Users chosen by someone else; the round only records and learns.", metavar=IDS)
    ] = None,
    cooldown: Annotated[
        str | None,
        Option(help="Leave out users contacted less than this ago: 7d, 12h; 0: nobody.", parser=span, metavar=SPAN),
    ] = None,
    budget: Annotated[
        float | None, Option(help="The most to spend, by the costs of users and strategies.", callback=finite)
    ] = None,
    quota: Annotated[
        list[str] | None,
        Option(help="The most users of a group, or one number for all groups. Repeatable.", metavar="GROUP=NUMBER"),
    ] = None,
    holdout: Annotated[
        float | None, Option(help="Share of the chosen not to contact, to measure the lift.", callback=finite)
    ] = None,
    window: opt.Window = None,
    deadline: Annotated[
        str | None,
        Option(help="When the round closes by itself: 3d from now, an ISO time (UTC) or unix seconds.", metavar="TIME"),
    ] = None,
    credit: Annotated[
        str | None, Option(help="Which contacted users a purchase counts for.", metavar="any|last|shared")
    ] = None,
    objective: Annotated[
        str | None, Option(help="What the choice counts; by default as in the campaign.", metavar="direct|cascade")
    ] = None,
    request_id: Annotated[str | None, Option(help="Asking again with it gives the same round.", metavar="ID")] = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Open a round: who to contact for a product, and what to expect.

    Options that name users may be repeated. Each takes an id exactly as it is, or @FILE, a file with one id on each
    line; an id that begins with @ is written with two: @@ann. What is left out comes from [ask] of the campaign file.
    """
    if product is not None and features is not None:
        raise BadParameter("give --product or --features, not both.")
    if strategy is not None and strategies is not None:
        raise BadParameter("give --strategy or --strategies, not both.")
    if per_user and strategy is not None:
        raise BadParameter("--per-user needs --strategies: all, or ids with commas between them.")
    if shadow and strategies is not None:
        raise BadParameter(
            "--shadow goes with --strategy, if all users got the same one. If they did not, say who got which in "
            "Python: campaign.ask(…, strategies=…, shadow={user: strategy})."
        )
    vector = None if features is None else _numbers(features)
    quotas, closes = _quotas(quota), _moment(deadline)
    if isinstance(closes, float) and closes <= time.time() and request_id is None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M")
        raise BadParameter(f"--deadline {deadline!r} is in the past: it is now {now} UTC.")
    with campaign_at(storage, name, "ask") as campaign:
        graph = campaign.graph
        result = campaign.ask(
            vector if product is None else _known(product, campaign.products()),
            k,
            strategies=_strategy_ids(strategy, strategies, campaign.strategies()),
            per_user=per_user,
            exclude=listed_ids(graph, exclude, "--exclude"),
            candidates=listed_ids(graph, candidates, "--candidates", may_be_empty=False),
            must_include=listed_ids(graph, must_include, "--must-include"),
            shadow=listed_ids(graph, shadow, "--shadow", may_be_empty=False),
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
        _emit(result, explanation=explanation)
    else:
        _print(result, explanation)
        following = opt.next_command(storage, "tensorucb", "tell", name, str(result.number), "FILE")
        say(f"Next: contact them, then {following}")


def _emit(ask: Ask, **more: Any) -> None:
    from tensorucb.campaign._documents import to_json

    emit_json({**to_json(ask), **to_json(more)})


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise BadParameter(f"--features must be numbers with commas between them; got {text!r}.")
    return numbers


def _known(text: str, known: tuple[int | str, ...]) -> int | str:
    from tensorucb.campaign._catalogue import by_text

    return by_text(known).get(typed(text), typed(text))


def _strategy_ids(one: str | None, several: str | None, known: tuple[int | str, ...]) -> Any:
    """The strategies as the catalogue has them."""
    if one is not None:
        return [_known(one, known)]
    if several is None or several == "all":
        return several
    return [_known(text, known) for text in several.split(",")]


def _quotas(given: list[str] | None) -> dict[str, int] | int | None:
    if not given:
        return None
    parts = [text.rpartition("=") for text in given]
    if not all(re.fullmatch("[0-9]{1,18}", number) for _, _, number in parts):
        raise BadParameter(f"--quota must look like north=3, or 3; got {', '.join(map(repr, given))}.")
    if len(given) == 1 and "=" not in given[0]:
        return int(given[0])
    if not all(equals for _, equals, _ in parts):
        raise BadParameter("--quota is one number for all groups, or a GROUP=NUMBER for each; not both.")
    quotas = {typed(group): int(number) for group, _, number in parts}
    if len(quotas) < len(parts):
        raise BadParameter("--quota names a group twice; give each group one number.")
    return quotas


def _by_label(quotas: dict[str, int] | int | None, campaign: Campaign) -> dict[Any, int] | int | None:
    """Quotas by the groups' own labels: files make numbers of labels that look so."""
    if not isinstance(quotas, dict) or campaign.groups is None:
        return quotas
    labels = {str(label): label for label in set(campaign.groups.tolist())}
    return {labels.get(group, group): number for group, number in quotas.items()}


def _moment(text: str | None) -> float | str | None:
    """A span from now as it is; unix seconds of a number or an ISO time, which is UTC unless it has a zone."""
    if text is None:
        return None
    from tensorucb.moments import duration, is_moment, unix_seconds

    seconds = unix_seconds(text)
    if is_moment(seconds):
        return seconds
    try:
        duration("it", text)
    except InputError:
        looks = "look like 3d or 12h from now, or 2030-01-31T12:00, or be unix seconds"
        raise BadParameter(f"--deadline must {looks}; got {text!r}.") from None
    return text


def _print(result: Ask, explanation: Any) -> None:
    rows = []
    for seed in explanation.seeds:
        best = ", ".join(f"{shown(each.user)} {each.probability:.2f}" for each in seed.followers[:3])
        place = f"{seed.rank} held out" if seed.status == "held_out" else f"{seed.rank}"
        gets = () if result.strategies is None else (shown(seed.strategy),)
        rows.append((place, shown(seed.user), *gets, f"{seed.gain:.2f}", f"{seed.score:.2f}", best))
    left = ("", "User") if result.strategies is None else ("", "User", "Strategy")
    words = (*left, "Strongest followers")
    caption = (
        "Adds: this user's part of the expected responses, beyond the users above; chosen users themselves do not "
        "count. Alone: if nobody else were contacted."
    )
    if result.held_out:
        caption += " Held out: do not contact them; they show what happens without contact."
    title = f"Round {result.id} (number {result.number})"
    print_table((*left, "Adds", "Alone", words[-1]), rows, words=words, title=title, caption=caption)
    if result.reach is not None:
        say(f"Expected reach {result.reach}.")
    if result.cost is not None:
        say(f"Contacting them costs {result.cost:g}.")


def tell(
    name: opt.Name,
    files: Annotated[
        list[str],
        Argument(
            help="The round (its id or number; without it, the log says which), and a .csv, .ndjson or .parquet file, "
            "or - for NDJSON on stdin.",
            metavar="[ROUND] FILE",
            show_default=False,
        ),
    ],
    unknown: opt.Unknown = "refuse",
    columns: opt.Columns = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Store responses of a round, or of all rounds in a log, late and in any order; again changes nothing.

    A row says whether a follower responded to a contacted user (fields source, target, outcome: 0 or 1), or that
    somebody bought (fields user, time). Fields time and event_id may be added. Without ROUND each row needs a field
    round, or a field product (or item): it then counts for the rounds of that product in whose window it falls, and in
    which its user was chosen or follows somebody who was. Other rows are left out and counted.
    """
    *rounds, file = files
    if len(rounds) > 1:
        raise BadParameter(f"give a ROUND and a FILE, or a FILE alone; got {', '.join(map(repr, files))}.")
    named = opt.column_names(columns)
    rows = _stdin() if file == "-" else file
    with campaign_at(storage, name, "tell") as campaign:
        options: Any = {"unknown": unknown, "columns": named}
        if rounds:
            report = campaign.tell(rounds[0], rows, **options)
        else:
            report = campaign.tell_log(rows, **options)
    if json:
        emit_record(report)
    else:
        _print_told(report)


def _print_told(report: TellReport) -> None:
    by_round, other = getattr(report, "rounds", None), getattr(report, "other", 0)
    say(
        f"{report.accepted:,} accepted ({report.late:,} late), {report.duplicates:,} told before, "
        f"{len(report.contradictions):,} contradictions."
    )
    if by_round:
        lines = [(shown(each), f"{r.accepted:,}", f"{r.late:,}", f"{r.duplicates:,}") for each, r in by_round.items()]
        print_table(("Round", "Accepted", "Late", "Told before"), lines, words=("Round",))
    if other:
        say(f"  {count(other, 'row')} of no round {'is' if other == 1 else 'are'} left out.")
    if report.unknown:
        say(f"  {left_out(report.unknown)}")
    if report.outside_window:
        say(
            f"  {report.outside_window:,} before the contact or after the window count for nothing; "
            "check that times are unix seconds or ISO times in UTC.",
            err=True,
        )
    for clash in report.contradictions:
        edge = shown(clash.source) if clash.target is None else f"{shown(clash.source)} -> {shown(clash.target)}"
        say(f"  row {clash.row}: {edge}: {clash.told} came, {clash.kept} stands", err=True)


def _stdin() -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_stdin_lines(), 1):
        try:
            row = jsonlib.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"row {number} on stdin is not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise InputError(f"row {number} on stdin must be a JSON object; got {line.strip()[:60]!r}.")
        rows.append(row)
    return rows


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise InputError("nothing comes on stdin: it is closed. Name a file instead of -.")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8")
    try:
        yield from (line for line in sys.stdin if line.strip())
    except UnicodeDecodeError:
        raise FileFormatError("stdin is not UTF-8 text; send NDJSON in UTF-8.") from None


def close(
    name: opt.Name,
    round_id: Annotated[
        str, Argument(help="The round: its id, from ask, or its number.", metavar="ROUND", show_default=False)
    ],
    cancel: Annotated[bool, Option("--cancel", help="Learn nothing, since nobody was contacted.")] = False,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Close a round, so that silence becomes "no" and the model learns it; or cancel it."""
    with campaign_at(storage, name, "close") as campaign:
        ended = campaign.cancel(round_id) if cancel else campaign.close(round_id)
        model = campaign.model_hash() if json else None
    if json:
        _emit(ended, model=model)
        return
    say(f"Round {shown(ended.id)} is {ended.status}.")
    say(f"Next: {opt.next_command(storage, 'tensorucb', 'status', name)}")
