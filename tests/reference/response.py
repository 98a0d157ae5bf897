"""Plain NumPy of the response model, from raw inputs and one edge at a time; nothing of the package is used."""

from __future__ import annotations

from itertools import combinations

import numpy as np


class Users:
    """Features of users from what a caller hands in: columns, and past taste, credit and exposure by topic."""

    def __init__(self, columns, taste=None, credit=None, exposure=None):
        parts = [standard(columns)]
        self.influence = self.preference = None
        self.readiness = np.zeros(len(columns))
        if taste is not None:
            self.readiness = np.log((taste.sum(axis=1) + 2.0) / (taste.sum() / len(taste) + 2.0))
            activity = np.log1p(taste.sum(axis=1))
            parts.append(standard(activity[:, None]))
            liking = np.log1p(taste)
            beyond = liking - np.outer(activity, liking.mean(axis=0) / activity.mean())
            self.preference = (beyond - beyond.mean()) / beyond.std()
        if credit is not None:
            self.credit, self.expected = credit, exposure * (credit.sum() / exposure.sum())
            self.influence = np.log((credit.sum(axis=1) + 2.0) / (self.expected.sum(axis=1) + 2.0))
            parts.append(standard(self.influence[:, None]))
        self.target = np.hstack(parts)

    def source(self, i, mix):
        """s_i(x): features, then past influence and taste for this context beyond the overall ones."""
        extra = []
        if self.influence is not None:
            now = np.log((self.credit[i] @ mix + 2.0) / (self.expected[i] @ mix + 2.0))
            extra.append(now - self.influence[i])
        if self.preference is not None:
            extra.append(self.preference[i] @ mix)
        return np.append(self.target[i], extra)

    def target_row(self, j, mix):
        """What multiplies γ: features, then taste for this context."""
        return np.append(self.target[j], [] if self.preference is None else self.preference[j] @ mix)


def standard(columns):
    centred = columns - columns.mean(axis=0)
    return np.clip(centred / columns.std(axis=0), -8.0, 8.0)


def mixture(x):
    shares = np.maximum(x, 0.0)
    return shares / shares.sum() if shares.sum() > 0 else np.full(len(x), 1.0 / len(x))


def split(own, sizes):
    return np.split(own, np.cumsum(sizes)[:-1])


def context(own, sizes):
    """A constant, the modes, every pair's Kronecker product, and that of all modes if there are three or more."""
    modes = split(own, sizes)
    groups = list(combinations(range(len(modes)), 2))
    if len(modes) > 2:
        groups.append(tuple(range(len(modes))))
    parts = [np.ones(1), own]
    for group in groups:
        product = np.ones(1)
        for mode in group:
            product = np.kron(product, modes[mode])
        parts.append(product)
    return np.concatenate(parts)


def source_row(users, i, own, sizes):
    """What multiplies θ in the logits of source i."""
    s, c = users.source(i, mixture(split(own, sizes)[0])), context(own, sizes)
    return np.concatenate([s, c, np.outer(own, users.target[i]).ravel()])


class Rounds:
    """Raw rounds (vectors, edges, outcomes) as rows: edges told more than once count as often, with their mean."""

    def __init__(self, graph, rounds):
        self.vectors = [np.asarray(vectors) for vectors, *_ in rounds]
        self.rows = []  # (round, source, target, mean outcome, trials, dose)
        for t, (_, edges, outcomes) in enumerate(rounds):
            told = {}
            for e, y in zip(edges, outcomes, strict=True):
                told.setdefault(int(e), []).append(float(y))
            followed = [int(graph.targets[e]) for e in told]
            for e, values in sorted(told.items()):
                i, j = int(graph.sources[e]), int(graph.targets[e])
                self.rows.append((t, i, j, float(np.mean(values)), len(values), followed.count(j)))
        self.seen = sorted({i for _, i, *_ in self.rows})
        self.observed = sorted({j for _, _, j, *_ in self.rows})


def logit(point, users, rounds, row, r, sizes):
    """One row's logit: source, round, target and dose."""
    t, i, j, _, _, m = row
    own = rounds.vectors[t]
    total = source_row(users, i, own, sizes) @ point.weights
    total += point.effects[rounds.seen.index(i)] @ np.append(1.0, own) + point.rounds[t]
    total += users.target_row(j, mixture(split(own, sizes)[0])) @ point.target_weights
    total += point.offsets[rounds.observed.index(j)] + users.readiness[j]
    return total + np.log(1.0 + r * (1.0 - point.saturation) * (m - 1))


def log_posterior(settings, prior, point, users, rounds, r, sizes):
    total = 0.0
    for row in rounds.rows:
        u, (*_, y, n, m) = logit(point, users, rounds, row, r, sizes), row
        total += n / (1.0 + r * (m - 1)) * (y * u - np.logaddexp(0.0, u))
    total -= 0.5 * np.sum((point.weights - prior.means) ** 2 / prior.variance("weights"))
    for d in point.effects:
        total -= 0.5 * np.sum(d**2 / prior.variance("effects"))
    total -= 0.5 * np.sum(point.target_weights**2 / prior.variance("target_weights"))
    total -= 0.5 * np.sum(point.offsets**2) / prior.variance("offsets")[0]
    total -= 0.5 * np.sum(point.rounds**2) / prior.variance("rounds")[0]
    return total - 0.5 * (point.saturation - settings.saturation) ** 2 / settings.saturation_variance


def sums(point, users, rounds, r, sizes):
    """By (round, source): Σ ω·p(1 − p) and Σ ω(y − p). The same by (round, target)."""
    pulls, cells = {}, {}
    for row in rounds.rows:
        t, i, j, y, n, m = row
        p = 1.0 / (1.0 + np.exp(-logit(point, users, rounds, row, r, sizes)))
        e, v, weight = y - p, p * (1.0 - p), n / (1.0 + r * (m - 1))
        pulls[t, i] = pulls.get((t, i), 0.0) + weight * np.array([v, e])
        cells[t, j] = cells.get((t, j), 0.0) + weight * np.array([v, e])
    return pulls, cells


def by_target(cells, rounds):
    """Curvature and slope of each target observed."""
    return np.sum([[np.array(sums) * (j == at) for at in rounds.observed] for (_, j), sums in cells.items()], axis=0).T


def crossed(cells, users, rounds, point, r, sizes, change):
    """Of each target, Σ w f·change over its cells, f being what multiplies γ, and the dose's slope in q."""
    doses = {(t, j): m for t, _, j, _, _, m in rounds.rows}
    total = np.zeros(len(rounds.observed))
    for (t, j), (w, _) in cells.items():
        more = r * (doses[t, j] - 1)
        f = users.target_row(j, mixture(split(rounds.vectors[t], sizes)[0])) @ change["target_weights"]
        f -= more / (1.0 + (1.0 - point.saturation) * more) * change["saturation"]
        total[rounds.observed.index(j)] += w * f
    return total


def edge_scores(fitted, users, graph, own, sizes):
    """The probability of every edge for one contact in a round like any other."""
    mix, seen = mixture(split(own, sizes)[0]), fitted.pulls.seen.tolist()
    scores = []
    for i, j in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
        u = source_row(users, i, own, sizes) @ fitted.point.weights
        u += users.target_row(j, mix) @ fitted.point.target_weights + fitted.offsets[j] + users.readiness[j]
        if i in seen:
            u += fitted.point.effects[seen.index(i)] @ np.append(1.0, own)
        scores.append(1.0 / (1.0 + np.exp(-u)))
    return np.array(scores)


def joint_covariance(fitted, users, rounds, curvature, sizes):
    """Of θ and all d_i: the inverse of the prior's precision plus that of the rows."""
    P, own = fitted.point.weights.size, fitted.prior.groups["effects"].size
    size = P + own * len(rounds.seen)
    precision = np.zeros((size, size))
    precision[:P, :P] = np.diag(1.0 / fitted.prior.variance("weights"))
    for place in range(len(rounds.seen)):
        at = P + own * place
        precision[at : at + own, at : at + own] = np.diag(1.0 / fitted.prior.variance("effects"))
    for (t, i), w in curvature.items():
        full = np.zeros(size)
        full[:P] = source_row(users, i, rounds.vectors[t], sizes)
        at = P + own * rounds.seen.index(i)
        full[at : at + own] = np.append(1.0, rounds.vectors[t])
        precision += w * np.outer(full, full)
    return np.linalg.inv(precision)


def deviations(fitted, users, rounds, curvature, n, own, sizes, known=None):
    """Of every source's part of the logit in a context; ``known`` · θ is no longer in doubt."""
    covariance, P = joint_covariance(fitted, users, rounds, curvature, sizes), fitted.point.weights.size
    if known is not None:
        along = covariance[:, :P] @ known
        covariance = covariance - np.outer(along, along) / (known @ along[:P])
    z, result = np.append(1.0, own), []
    for i in range(n):
        full = np.zeros(len(covariance))
        full[:P] = source_row(users, i, own, sizes)
        apart = 0.0
        if i in rounds.seen:
            at = P + z.size * rounds.seen.index(i)
            full[at : at + z.size] = z
        else:
            apart = z**2 @ fitted.prior.variance("effects")
        result.append(np.sqrt(full @ covariance @ full + apart))
    return np.array(result)


def learn_effects(place, Z, w, variances, n):
    """V of each source, and H_q = w V z of each pull."""
    V = np.array(
        [np.linalg.inv(np.diag(1.0 / variances) + (Z[place == i].T * w[place == i]) @ Z[place == i]) for i in range(n)]
    )
    return V, np.array([w[q] * V[place[q]] @ Z[q] for q in range(place.size)])


def gains(place, H, X, n):
    """K = Σ H_q x_qᵀ of each source."""
    return np.array(
        [
            sum((np.outer(H[q], X[q]) for q in np.flatnonzero(place == i)), np.zeros((H.shape[1], X.shape[1])))
            for i in range(n)
        ]
    )
