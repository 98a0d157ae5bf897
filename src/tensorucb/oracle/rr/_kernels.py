"""Sampling of reverse-reachable (RR) sets.

An RR set of a root ``v`` holds every node that reaches ``v`` over live edges, so the walk follows in-edges backwards.
Which in-edges of a node live does not depend on other nodes (a triggering model), whatever the redundancy. So seeds S
reach ``v`` with the probability that S meets its RR set, and all that is built on RR sets holds.

Glossary
    v, u        a node of the set whose in-edges are decided, and the source of one of them
    e, i        numbers of in-edges (sorted by target)
    p, bits     edge probabilities in the graph's order, and their bit patterns
    peak[v]     a byte c that stands for ``tops[c]``, an upper bound of the probabilities into v, at most an eighth too
                large
    needs[c]    the bound in units of 1/256, eight times in a word; 0 where it is too large for that
    inverses    1 / log(1 - top)
    reaches[c]  nodes of a larger in-degree are skipped over geometrically
    state[u]    free, marked (a walk that meets u stops there) or next to a marked node, which reaches u with
                probability ``chance[0, u]``, or ``chance[1, u]`` if u has one number for all its in-edges; in the
                current set or not
    s, r        the state of a set's random stream, and 64 random bits drawn from it
    ρ           redundancy: the probability that a node has one random number for all its in-edges
    stacked     what such a number means: of the intervals of length p, one upon the other, that of the live edge holds
                it (the linear threshold model, with ρ = 1). Otherwise edges live whose p is above it. The intervals of
                edges from marked nodes come first, so that ``chance[1, u]`` is the sum of their p
    nodes[0]    the first state of the stream from which the nodes of the current set draw whether they have one number,
                and which; node v has draws 2v and 2v + 1, so whoever asks gets the same

Roots. Without samples of a root alone (*live roots*, see `Sampler`), a root v is drawn together with the first of its
in-edges that lives: for edge i the weight is the value of v, times p of i, times the probability that no edge before it
lives. If v has one number for all its in-edges, the weight is the value of v times the largest p, and the number is
uniform below that. The entries of all in-edges come first, those of all nodes after them.

Resolution: three ways decide an edge, by its target's bound. Below 0.5, eight edges share a draw: a byte each,
and 53 more bits for an edge whose byte does not decide. From 0.5 on, two edges share a draw of 32 bits each, so
``p`` counts as rounded up to a multiple of 2**-32. Large in-degrees with small bounds are skipped over
geometrically, with 53 bits. On small graphs ``p`` itself is kept in 32-bit floating point. ``p = 0`` is never live and
``p = 1`` always. A node's number for all its in-edges has 53 bits.
"""

from __future__ import annotations

import math

import numpy as np

from tensorucb._kernels import GOLDEN, inlined, kernel, mix64, prefetch, stream, unit

_LOW, _S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_STEP32 = 1.0 / 4294967296.0
_BYTE = np.uint64(0xFF)
_S3, _S7, _S56 = np.uint64(3), np.uint64(7), np.uint64(56)
_NONE = np.uint64(0)
_SIGNS = np.uint64(0x8080808080808080)
# (256**j) * _PLACE has j in its highest byte.
_PLACE = np.uint64(0x0001020304050607)
_NO_SIGN = np.uint64(0x7FFFFFFFFFFFFFFF)
_S49 = np.uint64(49)  # leaves the exponent and three bits of the mantissa, as 20 does for 32-bit numbers
_LEAST, _LEAST32 = np.uint64((0x3FF << 3) - 254), np.int32((0x7F << 3) - 254)
_FREE, _IN, _MARKED, _NEXT, _OUT = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(0xFE)
_SKIP = 25.0  # a geometric skip costs about as much as 25 edges tossed eight at a draw


def peak_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``tops``, ``needs``, ``inverses`` and ``reaches`` of the 256 values that a peak can take."""
    patterns = (np.arange(256, dtype=np.uint64) + _LEAST) << _S49
    tops = np.minimum(patterns.view(np.float64), 1.0)
    tops[0] = 0.0
    bytes_ = np.floor(tops * 256.0).astype(np.uint64) + np.uint64(1)
    needs = np.where(bytes_ <= 128, bytes_ * np.uint64(0x0101010101010101), _NONE)
    with np.errstate(divide="ignore"):
        inverses = np.where(tops > 0.0, 1.0 / np.log1p(-tops), -1e300)
    # Skipping pays from the degree on at which _SKIP * (1 + degree * top) < degree.
    pays = _SKIP * tops < 0.99
    reaches = np.full(256, np.iinfo(np.int64).max)
    reaches[pays] = np.maximum(16, _SKIP / (1.0 - _SKIP * tops[pays])).astype(np.int64)
    return tops, needs, inverses, reaches


@kernel
def scan_probabilities(targets, bits, first, last, peak):  # type: ignore[no-untyped-def]
    """Raise the ``peak`` of each node to the largest probability into it."""
    for e in range(first, last):
        b = bits[e] & _NO_SIGN  # minus zero is zero
        # Without a branch: it would be mispredicted for every third edge.
        k = b >> _S49
        c = np.uint8(k - _LEAST + np.uint64(1)) if k > _LEAST else np.uint8(b > _NONE)
        t = np.uint32(targets[e])
        peak[t] = max(peak[t], c)


@kernel
def gather_probabilities(in_offsets, in_edges, p, first, last, ordered, bits, peak):  # type: ignore[no-untyped-def]
    """The probabilities into nodes ``first .. last`` in in-edge order, 32 bits each (``bits`` their patterns).

    Also ``peak`` of these nodes. One plain loop for each: the first has nothing but cache misses to wait for, so that
    many of them are under way at a time.
    """
    for i in range(in_offsets[first], in_offsets[last]):
        ordered[i] = np.float32(p[in_edges[i]])
    for v in range(first, last):
        top = np.int32(0)
        for i in range(in_offsets[v], in_offsets[v + 1]):
            top = max(top, bits[i])
        peak[v] = max(top >> 20, _LEAST32) - _LEAST32 + 1 if top > 0 else 0


@inlined
def _entry(draw, cumulative, guide):  # type: ignore[no-untyped-def]
    """The entry that a uniform number falls into."""
    x = unit(draw)
    i = np.int64(guide[np.int64(x * guide.size)])
    x *= cumulative[-1]
    while i < cumulative.size - 1 and cumulative[i] <= x:
        i += 1
    return i


@kernel
def guide_entries(cumulative, guide):  # type: ignore[no-untyped-def]
    """Where to begin to look for an entry, for each of as many equal parts of the total as there are entries."""
    size = cumulative.size
    i = 0
    for part in range(size):
        while i < size - 1 and cumulative[i] <= cumulative[-1] * (part / size):
            i += 1
        guide[part] = i


@inlined
def _top(v, in_offsets, p, stacked):  # type: ignore[no-untyped-def]
    """Below which one number for all in-edges makes one of them live; ``p`` are in in-edge order."""
    top = 0.0
    for i in range(in_offsets[v], in_offsets[v + 1]):
        top = top + p[i] if stacked else max(top, p[i])
    return min(top, 1.0)


@kernel
def live_entries(in_offsets, p, values, redundancy, stacked, cumulative, lone):  # type: ignore[no-untyped-def]
    """Sums of the weights of live roots, by ``p`` in in-edge order; and the chance that a node has no live in-edge.

    ``values`` is empty if all are 1. Entries of one number for all in-edges are there only with redundancy.
    """
    n, m = in_offsets.size - 1, p.size
    total = 0.0
    for v in range(n):
        value = (1.0 - redundancy) * (values[v] if values.size > 0 else 1.0)
        none = 1.0
        for i in range(in_offsets[v], in_offsets[v + 1]):
            total += value * none * p[i]
            cumulative[i] = total
            none *= 1.0 - p[i]
        lone[v] = none
    if redundancy > 0.0:
        for v in range(n):
            top = _top(v, in_offsets, p, stacked)
            total += redundancy * top * (values[v] if values.size > 0 else 1.0)
            cumulative[m + v] = total
            lone[v] = (1.0 - redundancy) * lone[v] + redundancy * (1.0 - top)


@kernel
def mark_nodes(rows, out_offsets, targets, p, stacked, state, chance):  # type: ignore[no-untyped-def]
    """Mark ``rows``, and note for their targets the chance that a live edge leads there from any of them."""
    one_number = chance.shape[0] > 1
    for r in range(rows.size):
        for e in range(out_offsets[rows[r]], out_offsets[rows[r] + 1]):
            t = targets[e]
            new = state[t] == _FREE
            if new:
                state[t] = _NEXT
                chance[0, t] = p[e]
            else:
                chance[0, t] += (1.0 - chance[0, t]) * p[e]
            if one_number:
                if new:
                    chance[1, t] = p[e]
                else:
                    chance[1, t] = chance[1, t] + p[e] if stacked else max(chance[1, t], p[e])
    for r in range(rows.size):
        state[rows[r]] = _MARKED


@kernel
def unmark_nodes(rows, out_offsets, targets, state):  # type: ignore[no-untyped-def]
    """Free ``rows`` and their targets."""
    for r in range(rows.size):
        state[rows[r]] = _FREE
        for e in range(out_offsets[rows[r]], out_offsets[rows[r] + 1]):
            state[targets[e]] = _FREE


@kernel
def _nearest(v, in_offsets, in_edges, in_sources, p, stacked, state, chance, draw, number):  # type: ignore[no-untyped-def]
    """Which marked node reached ``v``: the first with a live edge, given that there is one.

    ``number`` is that of all in-edges of ``v``, negative if it has none.
    """
    source = np.int64(0)
    level = number if number >= 0.0 else unit(draw) * chance[0, v]
    reached = 0.0
    for i in range(in_offsets[v], in_offsets[v + 1]):
        if state[in_sources[i]] == _MARKED:
            q = p[in_edges[i] if in_edges.size > 0 else i]
            if q > 0.0:
                source = np.int64(in_sources[i])
            if number < 0.0:
                reached += (1.0 - reached) * q
            else:
                reached = reached + q if stacked else max(reached, q)
            if level < reached:
                break
    return source


@kernel
def sample_sets(network, tables, marks, roots, redundancy, stacked, key, first, count, store, traced, limit, horizon):  # type: ignore[no-untyped-def]
    """RR sets ``first .. first + count``: members, in the order in which they joined, and lengths of each.

    Of a set that meets a marked node none are stored, and its length is 0; ``hits[credit[u]]`` counts the sets that
    stopped at the marked node ``u``. With ``store`` false only hits are counted. Sampling ends before the set whose
    members would exceed ``limit``. A walk expands at most ``horizon`` nodes. Edges from marked nodes are decided when a
    node joins the set, before any other edge into it, which spares the walk the rest; they are passed over later.
    ``roots`` is ``(cumulative, guide, in_targets)``: the sums of the weights by which roots are drawn (empty for equal
    ones), where to look for them, and the target of each in-edge if they are live roots. With ``traced`` it is noted
    for each member how large the set was once the member's in-edges were decided, which says when the others joined.
    Returns members, these sizes, lengths, the number of sets done, and of nodes expanded.

    A node with one number for all its in-edges that no marked node reached keeps its number: other edges are then live
    if it is below their probability, though it is known to be above those of the marked nodes.

    The steps are closures, since numba counts references to arrays that are passed to functions, which would take
    longer than the steps themselves. Each takes and returns ``size``, the end of the set, and ``s``, the state of
    its random stream; ``ends`` says that a marked node was met, by way of the last member.
    """
    in_offsets, in_edges, in_sources, p, peak = network
    tops, needs, inverses, reaches = tables
    state, chance, credit, hits = marks
    cumulative, guide, in_targets = roots
    scattered = in_edges.size > 0
    n = in_offsets.size - 1
    members = np.empty(n + 1024, np.int32)
    sizes = np.empty(members.size if traced else 0, np.int32)
    lengths = np.empty(count if store else 0, np.int32)
    nodes = np.zeros(1, np.uint64)
    root_number = np.full(2, -1.0)  # a live root, and its number for all in-edges
    # Of a live root: its first in-edge that is not decided yet, and the marked node that a live one is from.
    met = np.full(2, -1, np.int64)

    def one_number(v):  # type: ignore[no-untyped-def]
        """The number of ``v`` for all its in-edges in this set; -1 if each has its own."""
        if redundancy == 0.0:
            return -1.0
        if v == root_number[0]:
            return root_number[1]
        z = nodes[0] + np.uint64(2 * np.int64(v)) * GOLDEN
        return unit(mix64(z + GOLDEN)) if unit(mix64(z)) < redundancy else -1.0

    def join(u, size, s):  # type: ignore[no-untyped-def]
        """Add ``u`` to the set, unless it is there."""
        was, ends = state[u], False
        prefetch(in_offsets, np.int64(u))
        prefetch(peak, np.int64(u))
        if was == _FREE:
            state[u] = _IN
            members[size] = u
            size += 1
        elif was == _NEXT:
            state[u] = _NEXT | _IN
            members[size] = u
            size += 1
            number = one_number(u)
            if number >= 0.0:
                ends = number < chance[1, u]
            else:
                ends = unit(mix64(s)) < chance[0, u]
                s += GOLDEN
        elif met[0] >= 0 and was == _MARKED:
            met[1] = u
            ends = True
        return size, s, ends

    def toss_eight(e, stop, need, size, s):  # type: ignore[no-untyped-def]
        """In-edges ``e .. stop``, eight at a draw."""
        ends = False
        while e < stop and not ends:
            r = mix64(s)
            s += GOLDEN
            # The sign of each byte that is less than its share of ``need``, for the edges there are.
            hopes = ~((r | _SIGNS) - need) & ~r & _SIGNS
            if e + 8 > stop:
                hopes &= (np.uint64(1) << (np.uint64(stop - e) << _S3)) - np.uint64(1)
            asked = hopes if scattered else _NONE
            while asked != _NONE:
                sign = asked & (~asked + np.uint64(1))
                asked ^= sign
                prefetch(p, in_edges[e + np.int64(((sign >> _S7) * _PLACE) >> _S56)])
            while hopes != _NONE and not ends:
                sign = hopes & (~hopes + np.uint64(1))
                hopes ^= sign
                place = ((sign >> _S7) * _PLACE) >> _S56
                i = e + np.int64(place)
                # How far p reaches above the lower end of the byte's interval, in intervals.
                above = 256.0 * p[in_edges[i] if scattered else i] - np.float64((r >> (place << _S3)) & _BYTE)
                if above <= 0.0:
                    continue
                if above < 1.0:
                    fine = mix64(s)
                    s += GOLDEN
                    if unit(fine) >= above:
                        continue
                size, s, ends = join(in_sources[i], size, s)
            e += 8
        return size, s, ends

    def toss_two(e, stop, size, s):  # type: ignore[no-untyped-def]
        """In-edges ``e .. stop``, two at a draw."""
        ends = False
        r = _NONE
        half = False
        while e < stop and not ends:
            if half:
                r >>= _S32
            else:
                r = mix64(s)
                s += GOLDEN
            half = not half
            if np.float64(r & _LOW) * _STEP32 < p[in_edges[e] if scattered else e]:
                size, s, ends = join(in_sources[e], size, s)
            e += 1
        return size, s, ends

    def toss_together(e, stop, number, size, s):  # type: ignore[no-untyped-def]
        """In-edges ``e .. stop``, one number for all."""
        ends = False
        while e < stop and not ends:
            if number < p[in_edges[e] if scattered else e]:
                size, s, ends = join(in_sources[e], size, s)
            e += 1
        return size, s, ends

    def toss_stacked(v, number, size, s):  # type: ignore[no-untyped-def]
        """The in-edge of ``v`` whose interval holds the number, if there is one."""
        beside = state[v] & _NEXT != _FREE
        level = chance[1, v] if beside else 0.0
        for e in range(in_offsets[v], in_offsets[v + 1]):
            if beside and state[in_sources[e]] == _MARKED:
                continue
            level += p[in_edges[e] if scattered else e]
            if number < level:
                return join(in_sources[e], size, s)
        return size, s, False

    def leap(e, stop, top, inverse, size, s):  # type: ignore[no-untyped-def]
        """In-edges ``e .. stop``, most of them skipped over geometrically."""
        ends = False
        position = np.float64(e) - 1.0
        last = np.float64(stop)
        while not ends:
            # log of a number in (0, 1]: never of zero.
            skip = math.log(1.0 - unit(mix64(s))) * inverse
            s += GOLDEN
            # Before the floor, a 64-bit whole number: what a larger skip becomes differs between CPUs.
            if skip >= last - position:
                break
            position += 1.0 + math.floor(skip)
            if position >= last:
                break
            i = np.int64(position)
            r = mix64(s)
            s += GOLDEN
            if unit(r) * top < p[in_edges[i] if scattered else i]:
                size, s, ends = join(in_sources[i], size, s)
        return size, s, ends

    def toss(e, stop, c, size, s):  # type: ignore[no-untyped-def]
        """In-edges ``e .. stop`` of a node with peak ``c``, each with a coin of its own."""
        if needs[c] == _NONE:
            return toss_two(e, stop, size, s)
        if stop - e <= reaches[c]:
            return toss_eight(e, stop, needs[c], size, s)
        return leap(e, stop, tops[c], inverses[c], size, s)

    size = work = done = 0
    while done < count:
        at = first + done
        s = stream(key, at)
        alive = np.int64(-1)
        if cumulative.size == 0:
            root = np.int64(((mix64(s) >> _S32) * np.uint64(n)) >> _S32)
        else:
            # Ask for what the next two sets begin with: their entries are anywhere.
            prefetch(guide, np.int64(unit(mix64(stream(key, at + 2))) * guide.size))
            ahead = np.int64(guide[np.int64(unit(mix64(stream(key, at + 1))) * guide.size)])
            prefetch(cumulative, ahead)
            if in_targets.size > 0 and ahead < in_targets.size:
                prefetch(in_targets, ahead)
                prefetch(in_sources, ahead)
            root = _entry(mix64(s), cumulative, guide)
            if in_targets.size > 0:
                alive = root
                root = np.int64(in_targets[alive]) if alive < in_targets.size else alive - in_targets.size
        s += GOLDEN
        if state[root] == _MARKED:
            hits[credit[root]] += 1
            if store:
                lengths[done] = 0
            done += 1
            continue
        if size + n > members.size:
            grown = np.empty(max(2 * members.size, size + n), np.int32)
            grown[:size] = members[:size]
            members = grown
            if traced:
                grown = np.empty(members.size, np.int32)
                grown[:size] = sizes[:size]
                sizes = grown
        start = cursor = size
        if redundancy > 0.0:
            nodes[0] = mix64(s)
            s += GOLDEN
        ends = False
        newcomer = root
        if alive >= 0:
            # Its in-edges are decided in their order, those from marked nodes too.
            members[size] = root
            size += 1
            state[root] |= _IN
            if alive < in_targets.size:
                root_number[0], root_number[1] = root, -1.0
                met[0] = alive + 1
                newcomer = np.int64(in_sources[alive])
            else:
                top = _top(root, in_offsets, p, stacked)
                root_number[0], root_number[1] = root, unit(mix64(s)) * top
                s += GOLDEN
                ends = state[root] & _NEXT != _FREE and root_number[1] < chance[1, root]
                newcomer = np.int64(-1)
        if newcomer >= 0:
            size, s, ends = join(newcomer, size, s)
            if ends and alive >= 0:
                cursor += 1  # the root counts as expanded
                if traced:
                    sizes[cursor - 1] = size - start
        while cursor < size and cursor < start + horizon and not ends:
            v = members[cursor]
            cursor += 1
            if cursor < size:
                ahead = in_offsets[members[cursor]]
                prefetch(in_sources, ahead)
                if scattered:
                    prefetch(in_edges, ahead)
            e = in_offsets[v] if met[0] < 0 else met[0]
            stop = in_offsets[v + 1]
            c = peak[v]
            number = one_number(v)
            if number >= 0.0 and stacked:
                size, s, ends = toss_stacked(v, number, size, s)
            elif number >= 0.0:
                if number < tops[c]:
                    size, s, ends = toss_together(e, stop, number, size, s)
            else:
                size, s, ends = toss(e, stop, c, size, s)
            met[0] = -1
            if traced:
                sizes[cursor - 1] = size - start
        met[0] = -1
        for j in range(start, size):
            state[members[j]] &= _OUT
        work += cursor - start
        if ends:
            v = members[size - 1]
            nearest = met[1]
            if nearest < 0:
                nearest = _nearest(
                    v, in_offsets, in_edges, in_sources, p, stacked, state, chance, mix64(s), one_number(v)
                )
            hits[credit[nearest]] += 1
            met[1] = -1
            size = start
        elif not store:
            size = start
        elif size > limit:
            size = start
            break
        if store:
            lengths[done] = size - start
        done += 1
    return (
        members[:size].copy(),
        sizes[: size if traced else 0].copy(),
        lengths[: done if store else 0].copy(),
        done,
        work,
    )


@kernel
def count_members(members, counts, touched, seen):  # type: ignore[no-untyped-def]
    """Add one to ``counts`` for every member, and new ones to the ``seen`` touched nodes; how many those are then."""
    for i in range(members.size):
        v = members[i]
        if counts[v] == 0:
            touched[seen] = v
            seen += 1
        counts[v] += 1
    return seen


@kernel
def reduce_sets(members, lengths, number, offsets, reduced, row, at):  # type: ignore[no-untyped-def]
    """Append the candidates of each set; sets without any are dropped. Returns the next row and position.

    ``reduced`` has room for one more than it will hold: every member is written, only candidates are kept.
    """
    start = 0
    for i in range(lengths.size):
        before = at
        for j in range(start, start + lengths[i]):
            c = number[members[j]]
            reduced[at] = c
            at += c >= 0
        start += lengths[i]
        row += at > before
        offsets[row] = at
    return row, at


@kernel
def invert(offsets, reduced, rows, marginal):  # type: ignore[no-untyped-def]
    """The sets of each candidate, in compressed rows."""
    starts = np.zeros(marginal.size + 1, np.int64)
    for c in range(marginal.size):
        starts[c + 1] = starts[c] + marginal[c]
    fill = starts[:-1].copy()
    sets = np.empty(starts[-1], np.int32)
    for i in range(rows):
        for j in range(offsets[i], offsets[i + 1]):
            c = reduced[j]
            sets[fill[c]] = i
            fill[c] += 1
    return starts, sets


@inlined
def cover(c, index, gain):  # type: ignore[no-untyped-def]
    """Cover the sets of candidate ``c``, and take them out of ``gain``."""
    offsets, reduced, starts, sets, covered = index
    for q in range(starts[c], starts[c + 1]):
        i = sets[q]
        if covered[i] == 0:
            covered[i] = 1
            for j in range(offsets[i], offsets[i + 1]):
                gain[reduced[j]] -= 1


@kernel
def cover_sets(index, c, gain):  # type: ignore[no-untyped-def]
    """Cover the sets of candidate ``c``, and take them out of ``gain``."""
    cover(c, index, gain)
