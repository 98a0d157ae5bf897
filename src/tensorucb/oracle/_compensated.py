"""Compensated coverage: how good seeds are, from far fewer walks than by counting the sets that hold one of them.

A walk that follows in-edges backwards meets a seed by chance, and the chance is known at each step. So a walk scores,
in place of 0 or 1, these chances up to the step at which a seed joined it. The mean is the same for all seed sets, and
the noise is less where a walk passes by many seeds that it does not meet. The first step needs no walk: it is the
direct gain. `docs/oracle.md` has the proof, `_compensated_kernels` how it is counted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tensorucb.arrays import I64
from tensorucb.oracle._compensated_kernels import joined_walks, squared_scores
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._greedy import Cover, Rule, WalkTask, greedy
from tensorucb.oracle._greedy_kernels import direct_gains, frequent_nodes
from tensorucb.oracle.rr import Collection, Sampler

_FREQUENT = (1024, 32)  # nodes in most sets that are looked at, and of these, candidates: at least, and per pick
_CANDIDATES = (256, 4)
_MOST_PICKS = 50  # among more of them, the noise of the last ones tells
# Of the variance of sets that are covered or not: beyond the first it does not pay, and no less is believed, since a
# mean over all picks says little about the last ones of many.
_MOST_VARIANCE = 0.5
_LEAST_VARIANCE = 0.25


def is_possible(sampler: Sampler, problem: SeedProblem) -> bool:
    """Whether walks are whole and from any root, edges have coins of their own, and only k limits the choice."""
    plain = problem.groups is None and problem.costs is None and problem.worth is None and problem.own is None
    plain = plain and problem.picks <= _MOST_PICKS
    return (
        plain
        and problem.redundancy == 0.0
        and problem.model == "ic"
        and not sampler.marked.size
        and not sampler.own.any()
    )


def compensated_cover(collection: Collection, problem: SeedProblem, cover: Cover, rivals: I64) -> Cover | None:
    """The greedy choice by compensated coverage, with the bound of ``cover``; None where it is hardly less noisy.

    The seeds of ``cover`` are among the candidates, and ``rivals``, those of the largest direct gain.
    """
    sampler = collection.sampler
    members, sizes, lengths = collection.walks()
    scale = collection.sets / sampler.total
    roots = np.bincount(members[np.cumsum(lengths) - lengths], minlength=problem.n)
    worth = scale * problem.direct_worth()
    worth[0] += collection.counts - roots
    network = (sampler.graph.out_offsets, sampler.graph.targets, sampler.probabilities)
    nodes = _candidates(collection, problem, np.concatenate([cover.rows, rivals]))
    gains = np.empty(nodes.size)
    direct_gains(*network, worth, nodes, gains)
    number = np.full(problem.n, -1, dtype=np.int32)
    number[nodes] = np.arange(nodes.size)
    stop, *joined = joined_walks(members, sizes, lengths, number, collection.counts[nodes])
    unhit = np.ones(problem.n)
    walks = (members, stop, *joined, unhit, np.zeros(problem.n))
    run = greedy(WalkTask(nodes, gains, worth, network, walks), problem, Rule())
    rows = nodes[run.chosen]
    covered = float(run.gains.sum())
    # Sets that are covered or not have the variance 1 for each one covered.
    share = squared_scores(members, lengths, stop, unhit) / covered
    if share > _MOST_VARIANCE:
        return None
    share = max(share, _LEAST_VARIANCE)
    return replace(
        cover,
        rows=rows,
        gains=run.gains,
        covered=covered,
        sets=min(float(collection.sets), covered),
        noise=math.sqrt(share) * float(np.sqrt(np.maximum(run.gains, 0.0)).sum()),
        deviation=math.sqrt(share * covered),
        lost=0.0,
        ahead=math.inf,
    )


def _candidates(collection: Collection, problem: SeedProblem, also: I64) -> I64:
    """The allowed nodes in most sets, and ``also``."""
    sampler = collection.sampler
    wanted = max(_FREQUENT[0], _FREQUENT[1] * problem.picks)
    nodes, _ = frequent_nodes(collection.touched, collection.counts, problem.allowed, wanted, sampler.numbers)
    sampler.numbers[nodes] = -1
    kept = np.lexsort((nodes, -collection.counts[nodes]))[: max(_CANDIDATES[0], _CANDIDATES[1] * problem.picks)]
    return np.union1d(nodes[kept], also)
