"""The commands of a round: ``tensorucb ask``, ``preview``, ``tell`` and ``close``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, asked, listed_ids, names_of_users, refuse, typed
from tensorucb.cli._output import Answer, Block, Next, Remark, Table, confirmed, count, report_lines, say, shown
from tensorucb.errors import EarlyCloseError, InputError, StateError
from tensorucb.money import money
from tensorucb.question import ARGUMENTS, USER_LISTS

if TYPE_CHECKING:
    from tensorucb._json_rows import JsonRows
    from tensorucb.campaign import Ask, Campaign, Preview, TellReport

Texts = list[str] | None


def ask(
    campaign: Campaign,
    product: str | None = Option(
        None, help="The product's id in the catalogue; not needed if that is empty.", metavar="ID"
    ),
    features: str | None = Option(None, help="Its features instead, with commas between them.", metavar="NUMBERS"),
    strategy: str | None = Option(None, help="The strategy that everybody gets.", metavar="ID"),
    strategies: str | None = Option(
        None, help="Choose among these strategies: `all`, or ids with commas between them.", metavar="all|IDS"
    ),
    per_user: bool | None = Option(
        None, "--per-user/--one-for-all", help="The best of --strategies for each user, or for all."
    ),
    k: int | None = asked("k", "--k", "-k", min=1),
    exclude: Texts = asked("exclude"),
    candidates: Texts = asked("candidates"),
    must_include: Texts = asked("must_include"),
    users: Texts = asked("users"),
    shadow: Texts = asked("shadow"),
    cooldown: str | None = asked("cooldown"),
    audience_rest: str | None = asked("audience_rest"),
    budget: float | None = asked("budget"),
    costs: Path | None = asked("costs", also="A table with columns user and cost."),
    quotas: Texts = asked("quotas", "--quota", also="One number is for all. Repeatable."),
    minima: Texts = asked("minima", "--minimum", also="One number is for all. Repeatable."),
    groups: Path | None = asked("groups", also="A table with columns user and group."),
    holdout: float | None = asked("holdout"),
    window: opt.Window = None,
    deadline: str | None = asked("deadline"),
    credit: str | None = asked("credit"),
    objective: str | None = asked("objective"),
    epsilon: float | None = asked("epsilon"),
    request_id: str | None = asked("request_id"),
    proposal: str | None = asked("proposal"),
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Open a round: who to contact for a product, and what to expect.

    Options that name users may be repeated. Each takes an id exactly as it is, or @FILE, a file with one id on each
    line or a table of users; an id that begins with @ is written with two: @@ann. What is left out comes from [ask] of
    the campaign file.
    """
    result = campaign.ask(**_arguments(**locals()))
    explanation: Any = result.explain()
    # Rows of a log find the rounds of their product by themselves; without a product they need the round's number.
    place = [] if result.product is not None else [str(result.number)]
    following = opt.next_command(storage, "tell", campaign.name, *place, "FILE")
    blocks = _chosen(result, explanation, f"Round {result.id} (number {result.number})")
    return Answer(result, blocks, Next(f"contact them, then {following}"), explanation=explanation)


def preview(campaign: Campaign, **options: Any) -> Answer:
    """Say who would be chosen now, and what to expect, with the options of ask; nothing is opened."""
    result = campaign.preview(**_arguments(campaign, **options))
    beside = []
    if options["users"]:
        beside = [f"That is {result.difference:+z.1f} responders beside the campaign's own choice."]
    return Answer(
        result,
        _chosen(result, result.explanation, "Preview: nothing is opened"),
        beside,
        f"To open this very round or none: the same options to ask, and --proposal {result.proposal}",
    )


# The same options: a round that was looked at is opened by the same line with another word.
preview.__signature__ = inspect.signature(ask)  # type: ignore[attr-defined]
preview.__annotations__ = ask.__annotations__


def _arguments(campaign: Campaign, **options: Any) -> dict[str, Any]:
    """The arguments of `Campaign.ask` from the options of a command."""
    from tensorucb.campaign._grow import column_from

    arguments = {name: options[name] for name in ARGUMENTS}
    product, features = options["product"], options["features"]
    strategy, strategies = options["strategy"], options["strategies"]
    refuse(product is not None and features is not None, "give --product or --features, not both.")
    refuse(strategy is not None and strategies is not None, "give --strategy or --strategies, not both.")
    one_for_all = options["per_user"] and strategy is not None
    refuse(one_for_all, "--per-user needs --strategies: all, or ids with commas between them.")
    refuse(
        options["shadow"] and strategies is not None,
        "--shadow goes with --strategy, if all users got the same one. If they did not, say who got which in "
        "Python: campaign.ask(…, strategies=…, shadow={user: strategy}).",
    )
    arguments["quotas"] = _by_group("--quota", options["quotas"])
    arguments["minima"] = _by_group("--minimum", options["minima"])
    if product is not None:
        [arguments["product"]] = _known([product], campaign.products())
    elif features is not None:
        arguments["product"] = opt.numbers("--features", features)
    if strategy is not None or strategies not in (None, "all"):
        names = [strategy] if strategy is not None else strategies.split(",")
        arguments["strategies"] = _known(names, campaign.strategies())
    columns = names_of_users(campaign)
    for name in USER_LISTS:
        option, may_be_empty = f"--{name.replace('_', '-')}", ARGUMENTS[name].zero
        arguments[name] = listed_ids(campaign.graph, options[name], option, columns, may_be_empty=may_be_empty)
    for name, meaning in (("costs", "cost"), ("groups", "group")):
        if options[name] is not None:
            arguments[name] = column_from(campaign, options[name], meaning)
    return arguments


def _known(texts: Sequence[str], catalogue: Sequence[int | str]) -> list[int | str]:
    """Ids as the catalogue has them; one that it does not have stays as it was typed."""
    from tensorucb.campaign._catalogue import by_text

    ids = by_text(catalogue)
    return [ids.get(text, text) for text in map(typed, texts)]


def _by_group(option: str, texts: list[str] | None) -> dict[str, int] | int | None:
    if not texts:
        return None
    for_all = len(texts) == 1 and "=" not in texts[0]
    example = "north=3, or 3"
    numbers = {"": texts[0]} if for_all else opt.assignments(option, texts, example, "a group", str.rpartition)
    sound = all(re.fullmatch("[0-9]{1,18}", number) for number in numbers.values())
    refuse(not sound, f"{option} must look like {example}; got {', '.join(map(repr, texts))}.")
    by_group = {group: int(number) for group, number in numbers.items()}
    return by_group[""] if for_all else by_group


def _chosen(result: Ask | Preview, explanation: Any, title: str) -> Iterator[Block]:
    rows = []
    most = 3 if result.strategies is None else 2  # so that a line fits into a terminal
    for seed in explanation.seeds:
        best = ", ".join(f"{shown(each.user)} {each.probability:.2f}" for each in seed.followers[:most])
        place = f"{seed.rank} held out" if seed.status == "held_out" else f"{seed.rank}"
        gets = () if result.strategies is None else (shown(seed.strategy),)
        rows.append((place, shown(seed.user), *gets, f"{seed.gain:,.2f}", f"{seed.score:,.2f}", best))
    left = ("", "User") if result.strategies is None else ("", "User", "Strategy")
    words = (*left, "Strongest followers")
    by_value = any(seed.metric == "value" for seed in explanation.seeds)
    caption = (
        f"Adds: this user's part of the expected {'revenue' if by_value else 'responses'}, beyond the users above; "
        "chosen users themselves do not count. Alone: if nobody else were contacted."
    )
    if getattr(result, "held_out", ()):
        caption += " Held out: do not contact them; they show what happens without contact."
    yield Table((*left, "Adds", "Alone", words[-1]), rows, words=words, title=title, caption=caption)
    if result.reach is not None:
        yield f"Expected reach {result.reach}."
        if result.reach.revenue is not None:
            yield f"Expected revenue {result.reach.revenue}."
    if result.cost is not None:
        returned = "" if result.return_on_cost is None else f" Return on cost {result.return_on_cost}."
        yield f"Contacting them costs {money(result.cost)}.{returned}"
    if explanation.certificate:
        yield f"Certificate: {explanation.certificate}"
    if result.fatigue is not None:
        rest = result.fatigue.rest
        advice = "" if rest is None else f" Let them rest: --audience-rest {rest}."
        yield f"{result.fatigue}{advice}"


def tell(
    name: opt.Name,
    files: list[str] = Argument(
        ...,
        help="The round (its id or number; without it, the log says which), and a .csv, .ndjson or .parquet file, "
        "or - for NDJSON on stdin.",
        metavar="[ROUND] FILE",
    ),
    strict: opt.Strict = False,
    max_left_out: opt.MaxLeftOut = 0.5,
    columns: opt.Columns = None,
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Store responses of a round, or of all rounds in a log, late and in any order; again changes nothing.

    A row says whether a follower responded to a contacted user (fields source, target, outcome: 0 or 1), or that
    somebody bought (fields user, time). Fields time, event_id and amount (what it brought) may be added. Without ROUND
    each row needs a field round, or a field product (or item): it then counts for the rounds of that product in whose
    window it falls, and in which its user was chosen or follows somebody who was. Other rows are left out and counted.
    """
    *rounds, file = files
    refuse(len(rounds) > 1, f"give a ROUND and a FILE, or a FILE alone; got {', '.join(map(repr, files))}.")
    rows = _stdin_rows() if file == "-" else file  # before the campaign is open: somebody may type them
    options: Any = {"strict": strict, "max_left_out": max_left_out, "columns": opt.column_names(columns)}
    with opt.campaign_at(storage, name, "tell") as campaign:
        report = campaign.tell(rounds[0], rows, **options) if rounds else campaign.tell_log(rows, **options)
    return Answer(report, _told(report))


def _told(report: TellReport) -> Iterator[Block]:
    by_round, other = getattr(report, "rounds", None), getattr(report, "other", 0)
    yield (
        f"{report.accepted:,} accepted ({report.late:,} late), {report.duplicates:,} told before, "
        f"{len(report.contradictions):,} contradictions."
    )
    if by_round:
        lines = [(shown(each), f"{r.accepted:,}", f"{r.late:,}", f"{r.duplicates:,}") for each, r in by_round.items()]
        yield Table(("Round", "Accepted", "Late", "Told before"), lines, words=("Round",))
    if other:
        yield f"  {count(other, 'row')} of no round {'is' if other == 1 else 'are'} left out."
    yield from report_lines(f"  {entry}" for entry in (*report.left_out, *report.remarks))
    if report.outside_window:
        yield Remark(
            f"  {report.outside_window:,} before the contact or after the window count for nothing; "
            "check that times are unix seconds or ISO times, and their zone."
        )
    for clash in report.contradictions:
        edge = shown(clash.source) if clash.target is None else f"{shown(clash.source)} -> {shown(clash.target)}"
        yield Remark(f"  row {clash.row}: {edge}: {clash.told} came, {clash.kept} stands")


def _stdin_rows() -> JsonRows:
    """The rows on stdin, which are read as a file of them is."""
    from tensorucb._json_rows import JsonRows

    if sys.stdin is None:
        raise InputError("nothing comes on stdin: it is closed. Name a file instead of -.")
    return JsonRows(sys.stdin.buffer.read(), "stdin", written=True)


def close(
    name: opt.Name,
    round_id: str = Argument(..., help="The round: its id, from ask, or its number.", metavar="ROUND"),
    cancel: bool = Option(False, help="Learn nothing, since nobody was contacted."),
    early: bool = Option(False, help="Do not ask, though most responses may still come."),
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> Answer:
    """Close a round, so that silence becomes "no" and the model learns it; or cancel it."""

    def ended(early: bool) -> Answer:
        with opt.campaign_at(storage, name, "close") as campaign:
            record = campaign.cancel(round_id) if cancel else campaign.close(round_id, early=early)
            model = campaign.model_hash() if json else None
        following = Next(opt.next_command(storage, "status", name))
        return Answer(record, f"Round {shown(record.id)} is {record.status}.", following, model=model)

    try:
        return ended(early)
    except EarlyCloseError as error:
        # Nothing is open while somebody at a terminal is asked, and no bar is drawn.
        if sys.stdin is None or not sys.stdin.isatty():
            raise
        say(error.args[0], err=True)
        if not confirmed("Close it now?"):
            raise StateError("nothing was closed, since the question was not answered with yes.") from None
    return ended(early=True)
