"""Past campaigns as a warm start; and the log from which a campaign was created, which must not come in once more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Catalogue, Context, by_text, check_sizes, read_context, with_strategy
from tensorucb.campaign._documents import to_json
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import without_row
from tensorucb.campaign._responses import Batch, Resolved, check_sound, read_responses, resolve, text_places
from tensorucb.campaign._round import Round, round_id
from tensorucb.campaign._told import each_once, first_of, keys
from tensorucb.checks import shown
from tensorucb.errors import InputError, argument
from tensorucb.moments import duration, duration_text
from tensorucb.reports import LeftOut, Tolerance
from tensorucb.store._protocol import CampaignRecord, Responses

if TYPE_CHECKING:
    from tensorucb.data import ActionLog

_LOG = "a log of purchases"
_MOST_MARKS = 1 << 20  # of a longer log a sample is kept


@dataclass(frozen=True)
class HistoryReport:
    """What an import brought.

    Attributes
    ----------
    rounds, responses
        Past rounds that are new, and the responses in them.
    known_rounds
        Past rounds that had been imported before; they changed nothing.
    unknown
        Rows that name a user or an edge that is not in the network; they are left out.
    other
        Rows of a log whose product is not in the catalogue.
    used
        Rows of a log from which the campaign was created: left out, since its features hold them already.
    left_out
        Malformed rows and strangers by reason, with the first lines of each.
    remarks
        How the table was read where that is not plain.
    """

    rounds: int
    responses: int
    known_rounds: int
    unknown: int = 0
    other: int = 0
    used: int = 0
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()


class _Past(NamedTuple):
    """A past round; ``label`` is a hash of what tells it apart, ``span`` from when to when a log of purchases is."""

    context: Context
    label: str
    rows: Responses
    span: tuple[float, float] | None

    @classmethod
    def of(cls, context: Context, told: str | None, rows: Responses, span: tuple[float, float] | None = None) -> _Past:
        """The past round that the caller calls so."""
        # By id as well as by features: two products that are described alike are two products.
        return cls(context, hashlib.sha256(repr([told, to_json(context)]).encode()).hexdigest(), rows, span)


def import_history(
    handle: Handle, responses: Any, product: Any, window: Any, tolerance: Tolerance, columns: Any
) -> HistoryReport:
    """Learn from past campaigns, before everything else in the order of learning; see `Campaign.import_history`."""
    settings = handle.record.settings
    limit = settings["window"] if window is None else duration("window", window)

    def read(view: View) -> tuple[list[_Past], HistoryReport]:
        resolved, strangers = resolve(view.network, batch)
        report = check_sound(batch.report, strangers, tolerance)
        unknown = sum(entry.count for entry in strangers)
        other = used = 0
        if batch.by_edge.all():
            past = _from_edges(view, batch, resolved, product)
        else:
            past, other, used = _from_log(view, batch, resolved, product, limit)
        return past, HistoryReport(0, 0, 0, unknown, other, used, report.left_out, report.remarks)

    with handle.read() as view:
        batch = read_responses(responses, strings=view.network.strings, settings=settings, columns=columns)
        if batch.by_edge.any() and not batch.by_edge.all():
            one, other = batch.lines[batch.by_edge][0], batch.lines[~batch.by_edge][0]
            raise InputError(
                f"must be edge responses or a log of purchases; line {one} is the one and line {other} the other. "
                "Import them one after the other.",
                argument="history",
            )
        if product is None and batch.length and batch.texts("product") is None:
            raise InputError(
                "needs a field 'product' (or 'item') with ids of the catalogue.",
                argument="history",
                advice=("Say which column it is with ", argument("columns", {"product": "NAME"}), "."),
            )
        # All that needs no lock is done before others have to wait.
        seen = view.ledger.seq
        past, report = read(view)
    now = handle.clock()
    with handle.change(now) as view:
        if view.ledger.seq != seen:
            past, report = read(view)
        new = _write(view, handle.record, past, now)
    if new:
        handle.learn("tell")
    responses = sum(each.rows.size for each in new)
    return replace(report, rounds=len(new), responses=responses, known_rounds=len(past) - len(new))


def _from_edges(view: View, batch: Batch, resolved: Resolved, product: Any) -> list[_Past]:
    """Past rounds that were told by edge, one for each product, strategy and label."""
    at = resolved.rows
    catalogues = view.catalogues()
    products = strategies = labels = [None] * at.size
    if product is None and at.size:
        products = _entries(batch, "product", at, catalogues[0])
    if batch.texts("strategy") is not None and catalogues[1].ids:
        if isinstance(product, list | tuple):
            raise InputError("must be an id alone, since the history has a field 'strategy'.", argument="product")
        strategies = _entries(batch, "strategy", at, catalogues[1])
    if (column := batch.texts("round")) is not None:
        labels = column.gather(at).to_list()
    groups: dict[tuple[Any, Any, Any], list[int]] = {}
    for i, key in enumerate(zip(products, strategies, labels, strict=True)):
        groups.setdefault(key, []).append(i)
    past = []
    for (named, strategy, label), members in groups.items():
        context = read_context(named if product is None else product, *catalogues)
        if strategy is not None:
            context = with_strategy(context, strategy, catalogues[1])
        check_sizes(view.ledger, catalogues, context.sizes(None))
        past.append(_Past.of(context, label, _distinct(resolved.take(np.array(members)))))
    return past


def _entries(batch: Batch, name: str, rows: I64, catalogue: Catalogue) -> list[Any]:
    """Ids of a catalogue, by their text."""
    ids = by_text(catalogue.ids)
    column = batch.frame[name].gather(rows)
    if column.null_count():
        line = batch.lines[rows[column.is_null().arg_max()]]
        raise InputError(f"{name} in line {line} is empty. Remove the line or fill it in.")
    return [ids.get(text, text) for text in column.to_list()]


def _from_log(
    view: View, batch: Batch, resolved: Resolved, product: Any, window: float | None
) -> tuple[list[_Past], int, int]:
    """Past rounds from who bought what when: one for each product, whose buyers are the ones who were contacted.

    Also how many rows name other products, and how many were used before.

    Each buyer showed the product to those followers who had not bought it yet. A follower who bought it within the
    window responded, all others did not (`tensorucb.truth.activations`).
    """
    # The truth's kernels take a while to load, and most processes never need them.
    from tensorucb.truth import activations

    catalogues, network = view.catalogues(), view.network
    if product is None:
        texts = by_text(catalogues[0].ids)
        products: list[Any] = list(texts.values())
        names = products
        codes = text_places(batch.frame["product"], list(texts))[resolved.rows]
    else:
        products = [product]
        names = [read_context(product, *catalogues).product]
        codes = np.zeros(resolved.size, dtype=np.int64)
    kept = np.flatnonzero(codes >= 0)
    other = resolved.size - kept.size
    used = view.kept("used_log", UsedLog)
    marked = 0
    if used is not None and kept.size:
        already_used = used.holds(resolved.targets[kept], codes[kept], resolved.times[kept], names)
        marked = int(already_used.sum())
        kept = kept[~already_used]
        if not kept.size or (marked and not used.whole):
            which = f"these {marked:,} purchases" if used.whole else f"{marked:,} of these purchases, or more"
            raise InputError(
                f"the campaign was created from {which}: its features hold them, and as history "
                "they would count twice. Nothing was imported. Import purchases that are not in that log."
            )
    if not kept.size:
        return [], other, marked
    items = codes[kept]
    bought = resolved.take(kept)
    longest = None if window is None else duration_text(window)
    trials = activations(network.graph, bought.targets, items, bought.times, longest)
    order = np.argsort(trials.items, kind="stable")
    past = []
    for place in np.unique(items).tolist():
        context = read_context(products[place], *catalogues)
        check_sizes(view.ledger, catalogues, context.sizes(None))
        start, stop = np.searchsorted(trials.items, (place, place + 1), sorter=order).tolist()
        edges = trials.edges[order[start:stop]]
        if not edges.size:
            continue
        own = bought.take(items == place)
        sources, targets = (ends[edges].astype(np.int64) for ends in (network.graph.sources, network.graph.targets))
        outcomes = trials.successes[order[start:stop]].astype(np.float64)
        rows = Responses(
            sources,
            targets,
            outcomes,
            times=np.full(edges.size, np.nan),
            amounts=np.where(outcomes > 0.0, _first_amounts(own, network.graph.n_nodes)[targets], np.nan),
            event_ids=np.full(edges.size, None, dtype=object),
        )
        past.append(_Past.of(context, _LOG, rows, (float(own.times.min()), float(own.times.max()))))
    return past, other, marked


def _first_amounts(bought: Responses, n_users: int) -> F64:
    """For each user the amount of the first purchase that has one, NaN without."""
    priced = bought.take(np.isfinite(bought.amounts))
    latest_first = np.lexsort((priced.amounts, priced.times))[::-1]
    first = np.full(n_users, np.nan)
    first[priced.targets[latest_first]] = priced.amounts[latest_first]
    return first


def _distinct(rows: Resolved) -> Responses:
    """The responses of one past round, as a round is told them; a repeated one must tell the same."""
    first, _ = first_of(keys(rows))
    differs = np.flatnonzero(rows.outcomes != rows.outcomes[first])
    if differs.size:
        other = differs[0]
        before = first[other]
        raise InputError(
            f"lines {rows.lines[before]} and {rows.lines[other]} tell outcomes {rows.outcomes[before]:g} and "
            f"{rows.outcomes[other]:g} of one edge. If they belong to different past rounds, add a field 'round'."
        )
    # Event ids stay behind: old logs number their events in their own way.
    told = each_once(Responses.joined([rows]))
    return replace(told, event_ids=np.full(told.size, None, dtype=object))


def _write(view: View, campaign: CampaignRecord, rounds: Sequence[_Past], now: float) -> list[_Past]:
    """Add the past rounds that are new, and return them."""
    labelled: dict[str | None, list[Round]] = {}
    for record in view.ledger.rounds.values():
        labelled.setdefault(record.label, []).append(record)
    new = [past for past in rounds if not _known(view, past, labelled.get(past.label, []))]
    if new:
        counts = {"rounds": len(new), "responses": sum(past.rows.size for past in new)}
        seq = view.append("history_imported", None, counts, now)
    for number, past in enumerate(new, view.ledger.next_number()):
        record = Round(
            number=number,
            id=round_id(campaign, number),
            status="closed",
            opened=now,
            deadline=None,
            closed=now,
            revision=seq,
            request_id=None,
            kind="history",
            context=past.context,
            contacted=np.unique(past.rows.sources),
            value=view.catalogue("product").value(past.context.product),
            priced=bool(np.isfinite(past.rows.amounts).any()),
            label=past.label,
            span=past.span,
        )
        view.put_round(record)
        view.session.add_responses(view.number, number, past.rows, seq)
    return new


def _known(view: View, past: _Past, labelled: Sequence[Round]) -> bool:
    """Whether this round was imported before; since then somebody may have been forgotten, and be gone from both."""
    for record in labelled:
        held = view.told(record.number)
        columns = ("sources", "targets", "outcomes")
        if all(np.array_equal(getattr(held, name), getattr(past.rows, name)) for name in columns):
            return True
        _refuse_overlap(past, record)
    return False


def _refuse_overlap(past: _Past, before: Round) -> None:
    """A log that has grown holds the old purchases once more, and they would count twice."""
    if before.span is None or past.span is None or past.span[0] > before.span[1] or past.span[1] < before.span[0]:
        return
    start, stop = (datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S") for moment in before.span)
    raise InputError(
        f"purchases of product {shown(past.context.product)} from {start} to {stop} UTC were imported before, and this "
        "log has others of that time. Nothing was imported, since they would count twice. Import only rows after that."
    )


@dataclass(frozen=True, eq=False)
class UsedLog:
    """Marks of the rows of the log that a campaign was created from, to know them again in what is imported.

    A mark is a hash of product and time; ``users`` are the users whose they are, by graph row. Of a long log, which is
    not kept ``whole``, these are a sample: who finds some of it in an import cannot tell which other rows are new.
    """

    users: I64
    marks: NDArray[np.uint64]
    whole: bool

    @classmethod
    def of(cls, log: ActionLog) -> UsedLog:
        """The marks of a log, at the creation."""
        marks = _marks(log.items, log.times, log.item_ids.tolist())
        users = log.users.astype(np.int64)
        order = np.argsort(_mixed(marks, users))[:_MOST_MARKS]
        return cls(users[order], marks[order], whole=marks.size == order.size)

    def holds(self, users: I64, items: I64, times: F64, names: Sequence[Any]) -> NDArray[np.bool_]:
        """Which rows are known; ``items`` are places of their products among ``names``."""
        return np.isin(_mixed(_marks(items, times, names), users), _mixed(self.marks, self.users))

    def without(self, row: int) -> UsedLog:
        """The same once a user is forgotten."""
        return UsedLog(without_row(self.users, row), self.marks[self.users != row], self.whole)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as JSON and arrays."""
        return {"whole": self.whole}, {"users": self.users, "marks": self.marks}

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> UsedLog:
        """What :meth:`to_arrays` gave."""
        return cls(arrays["users"], arrays["marks"], settings["whole"])


def _marks(items: NDArray[Any], times: NDArray[Any], names: Sequence[Any]) -> NDArray[np.uint64]:
    texts = (hashlib.sha256(str(name).encode()).digest()[:8] for name in names)
    products = np.frombuffer(b"".join(texts), dtype="<u8").astype(np.uint64)[items]
    # Whole seconds, as whole numbers: files of other formats round the rest in other ways.
    return _mixed(products, np.rint(times))


def _mixed(hashes: NDArray[np.uint64], numbers: NDArray[Any]) -> NDArray[np.uint64]:
    mixed = (hashes ^ numbers.astype(np.int64).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))
