"""The settings of a tensor regression, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tensorucb.checks import check_choice, check_count, check_number, check_sequence, check_share, plain, shown
from tensorucb.errors import InputError

_MOST_MODES = 64
_MOST_FEATURES = 100_000
_MOST_RANKS = 1000
_MOST_NUMBERS = 500_000_000


@dataclass(frozen=True, kw_only=True)
class TensorSettings:
    """Settings of the model and of its fixed point; see :class:`~tensorucb.learner.TensorRegression`."""

    dims: tuple[int, ...]
    rank: int
    likelihood: str = "gaussian"
    noise_variance: float = 0.1
    prior_variance: tuple[float, ...] = (1.0,)
    forgetting: float = 1.0
    intercepts: tuple[int, ...] = ()
    intercept_variance: float = 0.3
    tolerance: float = 1e-8
    max_sweeps: int = 100

    def __post_init__(self) -> None:
        # What the checks return is kept: kernels compile again for every other kind of number.
        kept: dict[str, Any] = {
            "dims": tuple(check_count(f"dims[{mode}]", size, 1, _MOST_FEATURES) for mode, size in enumerate(self.dims)),
            "intercepts": tuple(
                check_count(f"intercepts[{g}]", size, 1, 2**31 - 1) for g, size in enumerate(self.intercepts)
            ),
            "rank": check_count("rank", self.rank, 1, _MOST_RANKS),
            "max_sweeps": check_count("max_sweeps", self.max_sweeps, 1),
            "tolerance": check_number("tolerance", self.tolerance, low=1e-300),
            "forgetting": check_share("forgetting", self.forgetting, zero=False),
            "prior_variance": tuple(check_number("prior_variance", v, strict=True) for v in self.prior_variance),
        }
        for name in ("noise_variance", "intercept_variance"):
            kept[name] = check_number(name, getattr(self, name), strict=True)
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        check_choice("likelihood", self.likelihood, ("gaussian", "logistic"))
        _check_size(self)
        if len(self.prior_variance) != len(self.dims):
            raise InputError(
                f"prior_variance must be one number or one for each of the {len(self.dims)} modes; "
                f"got {len(self.prior_variance)}."
            )

    @classmethod
    def build(
        cls, dims: Sequence[int], rank: int, *, prior_variance: float | Sequence[float] = 1.0, **options: Any
    ) -> TensorSettings:
        """Settings from a caller's arguments: sequences become tuples, one variance serves all modes."""
        shape = as_entries("dims", dims, "dims=(10, 10, 10), one dimension for each mode")
        if not np.iterable(prior_variance):
            prior_variance = (plain(prior_variance),) * len(shape)
        spread = as_entries("prior_variance", prior_variance, "prior_variance=1.0, or one number for each mode")
        options["intercepts"] = as_entries("intercepts", options.get("intercepts", ()), "intercepts=(n_nodes, n_nodes)")
        others = {name: plain(value) for name, value in options.items()}
        return cls(dims=shape, rank=plain(rank), prior_variance=spread, **others)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TensorSettings:
        """The settings that :meth:`as_json` wrote."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise InputError(f"learner settings must be {', '.join(sorted(known))}; got {shown(list(values))}.")
        lists = {name: tuple(values[name]) for name in ("dims", "prior_variance", "intercepts")}
        return cls(**{**values, **lists})

    def as_json(self) -> dict[str, Any]:
        """Plain values for a state file."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def as_entries(name: str, values: Any, example: str) -> tuple[Any, ...]:
    """The entries of a caller's sequence or array as a tuple of plain values, yet unchecked."""
    entries = tuple(plain(value) for value in check_sequence(name, values, f"a sequence of numbers, such as {example}"))
    if len(entries) > _MOST_MODES:
        raise InputError(f"{name} must have at most {_MOST_MODES} entries; got {len(entries)}.")
    return entries


def _check_size(settings: TensorSettings) -> None:
    """Refuse a model whose covariances would not fit in memory."""
    if not settings.dims:
        raise InputError("dims must name at least one mode; got an empty sequence. Pass e.g. dims=(10, 10, 10).")
    numbers = settings.rank * sum(d * d for d in settings.dims) + sum(settings.intercepts)
    if numbers > _MOST_NUMBERS:
        raise InputError(
            f"dims={shown(settings.dims)} and rank={settings.rank} need {numbers:,} numbers, more than "
            f"{_MOST_NUMBERS:,}. Use fewer features or a lower rank."
        )
