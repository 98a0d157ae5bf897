"""Credit and learning in plain loops over dictionaries, for comparison."""

from __future__ import annotations

import math


def credit(rule, edges, acted, opened, window, p):
    """Outcome of each edge. edges: [(i, j)] in graph order; acted: [(user, time)]; p: {(i, j): probability}."""
    end = math.inf if window is None else opened + window
    inside = [(user, time) for user, time in acted if opened <= time <= end]
    first = {}
    for user, time in inside:
        first[user] = min(time, first.get(user, math.inf))
    result = dict.fromkeys(edges, 0.0)
    for j, moment in first.items():
        eligible = [edge for edge in edges if edge[1] == j]
        if not eligible:
            continue
        if rule == "any":
            for edge in eligible:
                result[edge] = 1.0
        elif rule == "last":
            best, when = None, -math.inf
            for edge in eligible:
                own = max([time for user, time in inside if user == edge[0] and time <= moment], default=opened)
                if own > when:
                    best, when = edge, own
            result[best] = 1.0
        else:
            survive = math.prod(1.0 - p[edge] for edge in eligible)
            for edge in eligible:
                # The last bit of the quotient may lie above 1.
                result[edge] = min(1.0, p[edge] / (1.0 - survive)) if survive < 1.0 else 1.0 / len(eligible)
    return result


def learned(out_edges, contacted, told, credits):
    """Outcomes of a closed round by edge: silence is 0, what was told and credited combine by maximum."""
    edges = [edge for edge in out_edges if edge[0] in contacted]
    return {edge: max(told.get(edge, 0.0), credits.get(edge, 0.0)) for edge in edges}
