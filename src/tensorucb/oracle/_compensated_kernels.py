"""Compensated coverage: what a pick takes from walks that score chances in place of hits.

A walk scores seeds S by their chance of a hit at each step, up to the step τ at which one of them joined it:
``Σ_{t <= τ} (1 - Π_{c in S} (1 - p_cw))`` with w the node whose in-edges are decided at step t (`docs/oracle.md` has
the proof that this is fair). As long as no seed has joined, the chance at a node is the same in all walks. So all
steps at a node are counted together, as what is to be won there directly (``worth``), and only walks that somebody
joined are looked at one by one: whoever joins ends the walk after that step.

Glossary
    c, v         a candidate, and the node that it is
    i, m, w      a walk; a place in ``members``, which is also the step at which that member's in-edges are decided; and
                 the node there
    walks        ``(members, stop, starts, rows, since, unhit, chance)``: the steps of walk i end before ``stop[i]``;
                 candidate c joined the walks ``rows[starts[c]:starts[c + 1]]``, whose steps after that begin at
                 ``since``; ``unhit[w]`` is the probability that no seed has a live edge to w; ``chance`` is scratch, 0
                 everywhere
    network      ``(out_offsets, targets, p)``
    worth[0, w]  how many steps are left at w (and how many sets its own value stands for), times ``unhit[w]``
"""

from __future__ import annotations

import numpy as np

from tensorucb._kernels import inlined, kernel


@kernel
def joined_walks(members, sizes, lengths, number, counts):  # type: ignore[no-untyped-def]
    """``(stop, starts, rows, since)`` of walks that `sample_sets` has drawn, with ``sizes``.

    ``number[v]`` is the candidate of node v, -1 for none, and ``counts`` says how many walks each of them joined. The
    first step of each walk is left out.
    """
    stop = np.empty(lengths.size, np.int64)
    starts = np.zeros(counts.size + 1, np.int64)
    for c in range(counts.size):
        starts[c + 1] = starts[c] + counts[c]
    fill = starts[:-1].copy()
    rows = np.empty(starts[-1], np.int32)
    since = np.empty(starts[-1], np.int64)
    start = 0
    for i in range(lengths.size):
        step = start
        stop[i] = start + lengths[i]
        for m in range(start, stop[i]):
            c = number[members[m]]
            if c >= 0:
                while start + sizes[step] <= m:
                    step += 1
                rows[fill[c]] = i
                since[fill[c]] = step + 1
                fill[c] += 1
        start = stop[i]
    return stop, starts, rows, since


@inlined
def given_away(c, v, network, walks):  # type: ignore[no-untyped-def]
    """What seeds with c would score by direct worth, but do not, since c has ended the walk."""
    out_offsets, targets, p = network
    members, stop, starts, rows, since, unhit, chance = walks
    for e in range(out_offsets[v], out_offsets[v + 1]):
        chance[targets[e]] += (1.0 - chance[targets[e]]) * p[e]
    chance[v] = 1.0
    lost = 0.0
    for z in range(starts[c], starts[c + 1]):
        for m in range(since[z], stop[rows[z]]):
            lost += 1.0 - unhit[members[m]] * (1.0 - chance[members[m]])
    for e in range(out_offsets[v], out_offsets[v + 1]):
        chance[targets[e]] = 0.0
    chance[v] = 0.0
    return lost


@inlined
def end_walks(c, v, network, walks, worth):  # type: ignore[no-untyped-def]
    """Make c a seed: end the walks that it joined; ``worth`` is brought up to date for these alone."""
    out_offsets, targets, p = network
    members, stop, starts, rows, since, unhit, _ = walks
    for z in range(starts[c], starts[c + 1]):
        i = rows[z]
        for m in range(since[z], stop[i]):
            worth[0, members[m]] -= unhit[members[m]]
        stop[i] = min(stop[i], since[z])
    for e in range(out_offsets[v], out_offsets[v + 1]):
        unhit[targets[e]] *= 1.0 - p[e]
    unhit[v] = 0.0


@kernel
def squared_scores(members, lengths, stop, unhit):  # type: ignore[no-untyped-def]
    """The squares of what walks score by their seeds, added up."""
    total = 0.0
    start = 0
    for i in range(lengths.size):
        score = 0.0
        for m in range(start + 1, stop[i]):
            score += 1.0 - unhit[members[m]]
        total += score * score
        start += lengths[i]
    return total
