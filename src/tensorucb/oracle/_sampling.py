"""`Sampling`: how a cascade is sampled, and how sure the answer is to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

from tensorucb.checks import check_choice, check_instance, check_number, check_share
from tensorucb.choices import Algorithm
from tensorucb.errors import InputError

QUALITY = 14.0
_BYTES_PER_MEMBER = 12  # stored, reduced to candidates, and inverted


class Plan(NamedTuple):
    """What an algorithm needs to know: accuracy, failure probability, quality, and the most members to store."""

    algorithm: Algorithm
    epsilon: float
    delta: float
    quality: float
    limit: int


@dataclass(frozen=True)
class Sampling:
    """How the cascade objective is sampled; the direct objective needs no samples.

    Parameters
    ----------
    algorithm
        ``"opim"`` (OPIM-C, stops on a measured certificate) or ``"tim"`` (TIM+, the paper's), which takes neither
        quotas or minima nor a budget.
    epsilon, delta
        Sampling may cost at most ``epsilon`` of the greedy factor, with probability at least ``1 - delta`` (default
        ``1 / n_nodes``).
    quality
        ``opim`` goes on sampling until the noise of its choice (the standard errors of the seeds' gains added up, and
        three times that of their whole coverage) is at most ``1 / quality`` of the coverage; 0 stops at the
        certificate. With the default the seeds' spread is within 1 % of TIM+'s on average, for any number of seeds.
        Where seeds chosen by direct gain alone cover nearly as much, 9/14 of it is enough.
    max_memory
        Bytes for stored RR sets. When they are used up the run stops, and ``ratio`` tells what is certified by then.

    Examples
    --------
    >>> import tensorucb as tu
    >>> star = tu.Graph.from_edges(["hub"] * 3, ["a", "b", "c"])
    >>> tu.select_seeds(star, [1.0] * 3, 1, sampling=tu.Sampling(algorithm="tim"), rng=0).algorithm
    'tim'
    """

    algorithm: Algorithm = "opim"
    epsilon: float = 0.1
    delta: float | None = None
    quality: float = QUALITY
    max_memory: float = 2.0**31

    def __post_init__(self) -> None:
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        epsilon = check_number("epsilon", self.epsilon, low=1e-4, high=1.0, hint="The usual value is 0.1.")
        delta = 0.5 if self.delta is None else check_share("delta", self.delta, zero=False, one=False)
        if epsilon == 1.0 or delta < 1e-100:
            raise InputError(
                f"must be below 1 and delta at least 1e-100; got {epsilon:g} and {delta:g}.", argument="epsilon"
            )
        check_number("quality", self.quality, high=1e6, hint=f"The usual value is {QUALITY:g}.")
        check_number("max_memory", self.max_memory, low=2.0**20, high=2.0**60, hint="It is a number of bytes.")

    def plan(self, n: int) -> Plan:
        """The same for a graph of ``n`` nodes."""
        delta = 1.0 / max(n, 2) if self.delta is None else float(self.delta)
        limit = int(min(self.max_memory, 2.0**40)) // _BYTES_PER_MEMBER
        return Plan(self.algorithm, float(self.epsilon), delta, float(self.quality), limit)


def check_sampling(sampling: object) -> Sampling:
    """The sampling of a call; None is the default."""
    wanted = "a tensorucb.Sampling or None"
    return Sampling() if sampling is None else check_instance("sampling", sampling, Sampling, wanted)
