"""The rounds that are kept for refits: one record for each distinct context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorucb.arrays import F64, I32, I64


@dataclass(frozen=True)
class ToldContext:
    """All that was told about one context, in one round or several.

    Pull q is ``sources[q]``, seen on ``targets[offsets[q]:offsets[q + 1]]``.
    """

    own: F64  # the context's vectors side by side, scaled
    sources: I64  # distinct
    offsets: I64  # where each source's rows begin
    targets: I32  # of each row, distinct for a source
    outcomes: F64  # their sum
    trials: F64  # how often the row was seen
    gains: F64  # (sources, 1 + k): H_q, the part of each pull in how d_i follows θ; zero until it is learned

    def without_rows(self) -> ToldContext:
        """What is left of an absorbed round: its pulls and their gains, which count until the next refit."""
        none = {name: getattr(self, name)[:0] for name in ("targets", "outcomes", "trials")}
        return replace(self, offsets=np.zeros_like(self.offsets), **none)


def make_told(own: F64, sources: I64, targets: I32, outcomes: F64, trials: F64 | None = None) -> ToldContext:
    """What a round told, from rows in any order; an edge seen twice becomes one row with two trials."""
    order = np.lexsort((targets, sources))
    sources, targets = sources[order], targets[order]
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
    rows = np.flatnonzero(new)
    counts = np.ones(order.size) if trials is None else trials[order]
    distinct, first = np.unique(sources[rows], return_index=True)
    return ToldContext(
        own,
        distinct.astype(np.int64),
        np.append(first, rows.size).astype(np.int64),
        targets[rows],
        np.add.reduceat(outcomes[order], rows) if rows.size else np.empty(0),
        np.add.reduceat(counts, rows) if rows.size else np.empty(0),
        np.zeros((distinct.size, 1 + own.size)),
    )


def with_told(log: tuple[ToldContext, ...], record: ToldContext) -> tuple[ToldContext, ...]:
    """The log with one more round, which joins an earlier one of the same context, unless that was absorbed."""
    for place, old in enumerate(log):
        if old.targets.size and np.array_equal(old.own, record.own):
            both = [(np.repeat(r.sources, np.diff(r.offsets)), r.targets, r.outcomes, r.trials) for r in (old, record)]
            merged = make_told(old.own, *(np.concatenate(parts) for parts in zip(*both, strict=True)))
            merged.gains[np.searchsorted(merged.sources, old.sources)] = old.gains
            return (*log[:place], merged, *log[place + 1 :])
    return (*log, record)


def with_gains(rounds: Sequence[ToldContext], gains: F64) -> tuple[ToldContext, ...]:
    """The rounds with these gains of all their pulls, one after the other."""
    ends = np.cumsum([r.sources.size for r in rounds])[:-1]
    return tuple(replace(r, gains=part) for r, part in zip(rounds, np.split(gains, ends), strict=True))
