"""Past campaigns as a warm start; and the log from which a campaign was created, which must not come in once more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Catalogue, Context, by_text, check_sizes, read_context, with_strategy
from tensorucb.campaign._documents import to_json
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import without_row
from tensorucb.campaign._responses import Batch, Resolved, check_sound, read_responses, resolve, text_places
from tensorucb.campaign._round import Round, round_id
from tensorucb.campaign._told import keys
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


_Past = tuple[list[tuple[Round, Responses]], int, int]
"""Past rounds, not numbered yet, with their responses; and how many rows name other products, or were used before."""


def import_history(
    handle: Handle, responses: Any, product: Any, window: Any, tolerance: Tolerance, columns: Any
) -> HistoryReport:
    """Learn from past campaigns, before everything else in the order of learning; see `Campaign.import_history`."""
    limit = handle.record.settings["window"] if window is None else duration("window", window)

    def read(view: View) -> _Past:
        rows, _ = resolve(view.network, batch)
        if batch.by_edge.all():
            return _from_edges(view, batch, rows, product)
        return _from_log(view, batch, rows, product, limit)

    with handle.read() as view:
        batch = read_responses(
            responses, strings=view.network.strings, settings=handle.record.settings, columns=columns
        )
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
        _, strangers = resolve(view.network, batch)
        read_rows = check_sound(batch.report, strangers, tolerance)
        seen, past = view.ledger.seq, read(view)
    now = handle.clock()
    with handle.change(now) as view:
        if view.ledger.seq != seen:
            past = read(view)
        report = _write(view, handle.record, past, now)
    if report.rounds:
        handle.learn("tell")
    unknown = sum(entry.count for entry in strangers)
    return replace(report, unknown=unknown, left_out=read_rows.left_out, remarks=read_rows.remarks)


def _past_round(
    context: Context, label: str | None, rows: Responses, span: tuple[float, float] | None = None
) -> tuple[Round, Responses]:
    """A past round, whose mark is a hash of the caller's label and the context."""
    # By id as well as by features: two products that are described alike are two products.
    mark = hashlib.sha256(repr([label, to_json(context)]).encode()).hexdigest()
    record = Round(
        number=0,
        id="",
        status="closed",
        opened=0.0,
        deadline=None,
        closed=0.0,
        revision=0,
        request_id=None,
        kind="history",
        context=context,
        contacted=np.unique(rows.sources),
        label=mark,
        span=span,
        priced=bool(np.isfinite(rows.amounts).any()),
    )
    return record, rows


def _from_edges(view: View, batch: Batch, resolved: Resolved, product: Any) -> _Past:
    """Past rounds that were told by edge, one for each product, strategy and label."""
    at = resolved.rows.tolist()
    nothing: list[Any] = [None] * len(at)
    labels = _values(batch, "round", at) or nothing
    catalogues = view.catalogues()
    products = nothing if product is not None else _entries(batch, "product", at, catalogues[0])
    strategies = nothing
    if batch.texts("strategy") is not None and catalogues[1].ids:
        if isinstance(product, list | tuple):
            raise InputError("must be an id alone, since the history has a field 'strategy'.", argument="product")
        strategies = _entries(batch, "strategy", at, catalogues[1])
    groups: dict[tuple[Any, Any, Any], list[int]] = {}
    for i, key in enumerate(zip(products, strategies, labels, strict=True)):
        groups.setdefault(key, []).append(i)
    past = []
    for (named, strategy, label), members in groups.items():
        chosen = named if product is None else product
        context = read_context(chosen, *catalogues)
        if strategy is not None:
            context = with_strategy(context, strategy, catalogues[1])
        check_sizes(view.ledger, catalogues, [vector.size for vector in context.vectors])
        rows = _distinct(resolved.take(np.array(members, dtype=np.int64)))
        past.append(_past_round(context, label, rows))
    return past, 0, 0


def _values(batch: Batch, name: str, rows: list[int]) -> list[str | None]:
    """The texts of a column; nothing if it did not come."""
    texts = batch.texts(name)
    return [] if texts is None else texts.gather(rows).to_list()


def _entries(batch: Batch, name: str, rows: list[int], catalogue: Catalogue) -> list[int | str]:
    """Ids of a catalogue, by their text."""
    texts = by_text(catalogue.ids)
    entries: list[int | str] = []
    for row, text in zip(rows, _values(batch, name, rows), strict=True):
        if text is None:
            raise InputError(f"{name} in line {batch.lines[row]} is empty. Remove the line or fill it in.")
        entries.append(texts.get(text, text))
    return entries


def _from_log(view: View, batch: Batch, resolved: Resolved, product: Any, window: float | None) -> _Past:
    """Past rounds from who bought what when: one for each product, whose buyers are the ones who were contacted.

    Each buyer showed the product to those followers who had not bought it yet. A follower who bought it within the
    window responded, all others did not (`tensorucb.truth.activations`).
    """
    # The truth's kernels take a while to load, and most processes never need them.
    from tensorucb.truth import activations

    catalogues, network = view.catalogues(), view.network
    if product is None:
        texts = by_text(catalogues[0].ids)
        codes = text_places(batch.frame["product"], list(texts))[resolved.rows]
        ids: list[Any] = list(texts.values())
        contexts = {place: ids[place] for place in np.unique(codes[codes >= 0]).tolist()}
    else:
        codes, contexts = np.zeros(resolved.size, dtype=np.int64), {0: product}
        ids = [read_context(product, *catalogues).product]
    kept = np.flatnonzero(codes >= 0)
    other = resolved.size - kept.size
    used = view.kept("used_log", UsedLog)
    marked = 0
    if used is not None and kept.size:
        already_used = used.holds(resolved.targets[kept], codes[kept], resolved.times[kept], ids)
        marked, kept = int(already_used.sum()), kept[~already_used]
        if not kept.size:
            raise InputError(
                f"the campaign was created from these {marked:,} purchases: its features hold them, and as history "
                "they would count twice. Nothing was imported. Import purchases that are not in that log."
            )
    users = resolved.targets[kept]
    items = codes[kept]
    times = resolved.times[kept]
    spent = resolved.amounts[kept]
    if not users.size:
        return [], other, 0
    longest = None if window is None else duration_text(window)
    trials = activations(network.graph, users, items, times, longest)
    order = np.argsort(trials.items, kind="stable")
    first, last = np.full(items.max() + 1, np.inf), np.full(items.max() + 1, -np.inf)
    np.minimum.at(first, items, times)
    np.maximum.at(last, items, times)
    past = []
    for place, entry in contexts.items():
        context = read_context(entry, *catalogues)
        check_sizes(view.ledger, catalogues, [vector.size for vector in context.vectors])
        start, stop = np.searchsorted(trials.items, (place, place + 1), sorter=order).tolist()
        edges, nothing = trials.edges[order[start:stop]], np.full(stop - start, np.nan)
        ends = network.graph.sources[edges].astype(np.int64), network.graph.targets[edges].astype(np.int64)
        outcomes = trials.successes[order[start:stop]].astype(np.float64)
        own = items == place
        worth = _first_amounts(users[own], times[own], spent[own], network.graph.n_nodes)[ends[1]]
        amounts = np.where(outcomes > 0.0, worth, np.nan)
        rows = Responses(*ends, outcomes, nothing, amounts, np.full(edges.size, None, dtype=object))
        if edges.size:
            past.append(_past_round(context, _LOG, rows, (float(first[place]), float(last[place]))))
    return past, other, marked


def _first_amounts(users: I64, times: F64, amounts: F64, n_users: int) -> F64:
    """For each user the amount of the first purchase that has one, NaN without."""
    priced_rows = np.flatnonzero(np.isfinite(amounts))
    latest_first = priced_rows[np.lexsort((amounts[priced_rows], times[priced_rows]))[::-1]]
    first = np.full(n_users, np.nan)
    first[users[latest_first]] = amounts[latest_first]
    return first


def _distinct(resolved: Resolved) -> Responses:
    """The responses of one past round, by edge; a repeated one must tell the same."""
    _, index, inverse = np.unique(keys(resolved), return_index=True, return_inverse=True)
    outcomes, lines = resolved.outcomes, resolved.lines
    differs = np.flatnonzero(outcomes != outcomes[index[inverse]])
    if differs.size:
        i, first = int(differs[0]), int(index[inverse[differs[0]]])
        raise InputError(
            f"lines {lines[first]} and {lines[i]} tell outcomes {outcomes[first]:g} and {outcomes[i]:g} of one "
            "edge. If they belong to different past rounds, add a field 'round'."
        )
    # Event ids stay behind: old logs number their events in their own way.
    return replace(resolved.take(index), event_ids=np.full(index.size, None, dtype=object))


def _write(view: View, campaign: CampaignRecord, history: _Past, now: float) -> HistoryReport:
    rounds, other, used = history
    labelled: dict[str | None, list[Round]] = {}
    for record in view.ledger.rounds.values():
        labelled.setdefault(record.label, []).append(record)
    new = [(past, rows) for past, rows in rounds if not _known(view, past, rows, labelled.get(past.label, []))]
    responses = sum(int(rows.sources.size) for _, rows in new)
    if new:
        payload = {"rounds": len(new), "responses": responses}
        seq = view.append("history_imported", None, payload, now)
        for at, (past, rows) in enumerate(new, view.ledger.next_number()):
            value = view.catalogue("product").value(past.product)
            named = replace(past, number=at, id=round_id(campaign, at), opened=now, closed=now, revision=seq)
            view.put_round(replace(named, value=value))
            view.session.add_responses(view.number, at, rows, seq)
    return HistoryReport(len(new), responses, len(rounds) - len(new), other=other, used=used)


def _known(view: View, past: Round, rows: Responses, labelled: Sequence[Round]) -> bool:
    """Whether this round was imported before; since then somebody may have been forgotten, and be gone from both."""
    for record in labelled:
        held = view.told(record.number)
        columns = ("sources", "targets", "outcomes")
        if all(np.array_equal(getattr(held, name), getattr(rows, name)) for name in columns):
            return True
        _refuse_overlap(past, record)
    return False


def _refuse_overlap(past: Round, before: Round) -> None:
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

    A mark is a hash of product and time; ``users`` are the users whose they are, by graph row.
    """

    users: I64
    marks: NDArray[np.uint64]

    @classmethod
    def of(cls, log: ActionLog) -> UsedLog:
        """The marks of a log, at the creation."""
        marks = _marks(log.items, log.times, log.item_ids.tolist())
        users = log.users.astype(np.int64)
        order = np.argsort(_mixed(marks, users))[:_MOST_MARKS]
        return cls(users[order], marks[order])

    def holds(self, users: I64, items: I64, times: F64, names: Sequence[Any]) -> NDArray[np.bool_]:
        """Which rows are known; ``items`` are places of their products among ``names``."""
        return np.isin(_mixed(_marks(items, times, names), users), _mixed(self.marks, self.users))

    def without(self, row: int) -> UsedLog:
        """The same once a user is forgotten."""
        return UsedLog(without_row(self.users, row), self.marks[self.users != row])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as JSON and arrays."""
        return {}, vars(self)

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> UsedLog:
        """What :meth:`to_arrays` gave."""
        return cls(**arrays)


def _marks(items: NDArray[Any], times: NDArray[Any], names: Sequence[Any]) -> NDArray[np.uint64]:
    texts = (hashlib.sha256(str(name).encode()).digest()[:8] for name in names)
    products = np.frombuffer(b"".join(texts), dtype="<u8").astype(np.uint64)[items]
    # Whole seconds, as whole numbers: files of other formats round the rest in other ways.
    return _mixed(products, np.rint(times))


def _mixed(hashes: NDArray[np.uint64], numbers: NDArray[Any]) -> NDArray[np.uint64]:
    mixed = (hashes ^ numbers.astype(np.int64).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))
