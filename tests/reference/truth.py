"""Plain transcriptions of the trials, the likelihood and one EM iteration, trial by trial."""

from __future__ import annotations

import itertools

import numpy as np


def trials(graph, users, items, times, window=None):
    """``(edge, item, success)`` of every trial, sorted."""
    first: dict[tuple[int, int], float] = {}
    for u, i, t in zip(users, items, times, strict=True):
        first[u, i] = min(t, first.get((u, i), np.inf))
    found = []
    for e, (v, w) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        for i in sorted({i for u, i in first if u == v}):
            delay = first.get((w, i), np.inf) - first[v, i]
            if delay > 0:
                found.append((e, i, bool(np.isfinite(delay) and (window is None or delay <= window))))
    return found


def groups(graph, found):
    """Successes by (item, target)."""
    result: dict[tuple[int, int], list[int]] = {}
    for e, i, success in found:
        if success:
            result.setdefault((i, int(graph.targets[e])), []).append(e)
    return result


def log_likelihood(graph, found, mixtures, p):
    total = sum(np.log(1 - p[e] @ mixtures[i]) for e, i, success in found if not success)
    for (i, _), edges in groups(graph, found).items():
        total += np.log(1 - np.prod([1 - p[e] @ mixtures[i] for e in edges]))
    return float(total)


def log_prior(p, prior):
    return float(((prior[0] - 1) * np.log(p) + (prior[1] - 1) * np.log(1 - p)).sum())


def em_step(graph, found, mixtures, p, prior):
    """Expected counts by enumeration of all coins of a group, then the mode of the Beta posterior."""
    fired, missed = np.zeros_like(p), np.zeros_like(p)
    for e, i, success in found:
        if not success:
            missed[e] += mixtures[i] * (1 - p[e]) / (1 - p[e] @ mixtures[i])
    for (i, _), edges in groups(graph, found).items():
        q = np.array([p[e] @ mixtures[i] for e in edges])
        worlds = [w for w in itertools.product([0, 1], repeat=len(edges)) if any(w)]
        weight = np.array([np.prod(np.where(w, q, 1 - q)) for w in worlds])
        on = weight @ np.array(worlds) / weight.sum()
        for e, share, qe in zip(edges, on, q, strict=True):
            fired[e] += share * mixtures[i] * p[e] / qe
            missed[e] += (1 - share) * mixtures[i] * (1 - p[e]) / (1 - qe)
    return (fired + prior[0] - 1) / (fired + missed + prior[0] + prior[1] - 2)
