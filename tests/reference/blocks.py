"""Plain NumPy of the block learner: one row at a time, everything spelled out."""

from __future__ import annotations

import numpy as np


def logit(point, nodes, seen, source, target, product, mix, sizes):
    """One edge's logit for one product (vectors side by side, ``sizes`` of each)."""
    s = nodes.pulls(np.array([source]), mix[None])[0]
    u = (point.weights[0] @ s) * (point.weights[1] @ nodes.target[target])
    start = 0
    for w, size in zip(point.weights[2:], sizes, strict=True):
        u = u * (w @ np.append(product[start : start + size], 1.0))
        start += size
    total = u.sum() + point.targets[target] + product @ point.responses @ nodes.crossed(product.size)[source]
    if source in seen:
        total += point.effects[list(seen).index(source)] @ np.append(product, 1.0)
    if nodes.preference is not None:
        total += point.taste * (nodes.preference[target] @ mix)
    return total


def mixture(product, size):
    shares = np.maximum(product[:size], 0.0)
    return shares / shares.sum() if shares.sum() > 0 else np.full(size, 1.0 / size)


def rows(log):
    """(round, source, target, outcome, trials) of every row."""
    for t, record in enumerate(log):
        for q, source in enumerate(record.sources):
            for k in range(record.offsets[q], record.offsets[q + 1]):
                yield t, int(source), int(record.targets[k]), float(record.outcomes[k]), float(record.trials[k])


def log_posterior(prior, point, nodes, seen, log, sizes):
    total = 0.0
    for t, i, j, y, n in rows(log):
        product = log[t].product
        u = logit(point, nodes, seen, i, j, product, mixture(product, sizes[0]), sizes)
        total += y * u - n * np.logaddexp(0.0, u)
    sources = np.append(point.weights[0], point.responses)
    vectors = [sources, *(w.ravel() for w in point.weights[1:])]
    for v, precision, natural in zip(vectors, prior.precisions, prior.naturals, strict=True):
        total -= 0.5 * v @ precision @ v - natural @ v
    for number, variance in enumerate(prior.group_variances):
        of = prior.groups == number + 1
        total -= 0.5 * np.sum((sources[of] - prior.group_means[of]) ** 2) / variance
    for d, precision, natural in zip(point.effects, prior.effect_precisions, prior.effect_naturals, strict=True):
        total -= 0.5 * d @ (precision + np.diag(1.0 / prior.variances)) @ d - natural @ d
    b = point.targets
    total -= np.sum(0.5 * prior.target_precisions * b**2 - prior.target_naturals * b)
    return total - 0.5 * prior.taste_precision * point.taste**2 + prior.taste_natural * point.taste


def block_sums(point, nodes, seen, log, sizes, block):
    """Σ w f fᵀ, Σ w f, Σ w, Σ (y − p) f and Σ (y − p) by pull, target or round, as dictionaries."""
    found = {}
    for t, i, j, y, n in rows(log):
        product = log[t].product
        mix = mixture(product, sizes[0])
        p = 1.0 / (1.0 + np.exp(-logit(point, nodes, seen, i, j, product, mix, sizes)))
        a, b = point.weights[0] @ nodes.pulls(np.array([i]), mix[None])[0], point.weights[1] @ nodes.target[j]
        c, start = np.ones(len(a)), 0
        for w, size in zip(point.weights[2:], sizes, strict=True):
            c = c * (w @ np.append(product[start : start + size], 1.0))
            start += size
        f = (b * c, a * c, a * b)[block]
        key = ((t, i), j, t)[block]
        w, e = n * p * (1 - p), y - n * p
        new = (w * np.outer(f, f), w * f, w, e * f, e)
        found[key] = new if key not in found else tuple(x + z for x, z in zip(found[key], new, strict=True))
    return found


def edge_scores(point, nodes, seen, graph, product, sizes):
    mix = mixture(product, sizes[0])
    u = [
        logit(point, nodes, seen, int(i), int(j), product, mix, sizes)
        for i, j in zip(graph.sources, graph.targets, strict=True)
    ]
    return 1.0 / (1.0 + np.exp(-np.array(u)))


def deviations(state, nodes, graph, product, sizes, p, cap):
    """Root of (ψ − Kᵀz)ᵀ Σ (ψ − Kᵀz) + zᵀVz of every source with out-edges; nan for the others."""
    mix, z = mixture(product, sizes[0]), np.append(product, 1.0)
    out, crossed = np.full(graph.n_nodes, np.nan), nodes.crossed(product.size)
    c, start = 1.0, 0
    for w, size in zip(state.point.weights[2:], sizes, strict=True):
        c = c * (w @ np.append(product[start : start + size], 1.0))
        start += size
    for i in range(graph.n_nodes):
        edges = np.flatnonzero(graph.sources == i)
        if not edges.size:
            continue
        w = p[edges] * (1 - p[edges])
        f = (w[:, None] * (nodes.target[graph.targets[edges]] @ state.point.weights[1].T) * c).sum(0) / w.sum()
        # Sources of ranks 0 and 2 are constants.
        f = np.delete(f, [0, 2])
        psi = np.append(np.outer(f, nodes.pulls(np.array([i]), mix[None])[0]), np.outer(product, crossed[i]))
        V = np.diag(state.prior.variances)
        if i in state.seen:
            place = int(np.searchsorted(state.seen, i))
            V = state.effect_covariances[place]
            psi = psi - z @ state.gains[place]
        out[i] = min(np.sqrt(psi @ state.weight_covariance @ psi + z @ V @ z), cap)
    return out
