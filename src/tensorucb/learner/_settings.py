"""What a tensor regression is told at birth, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tensorucb.errors import InputError

__all__ = ["TensorSettings", "as_entries", "check_positive"]

CHOICES = {
    "likelihood": ("gaussian", "logistic"),
    "posterior": ("factorised", "joint"),
    "second_moments": ("mean_field", "full"),
    "scale": ("none", "first_batch"),
}


@dataclass(frozen=True, kw_only=True)
class TensorSettings:
    """Settings of the model and of its fixed point; see :class:`~tensorucb.learner.TensorRegression`."""

    dims: tuple[int, ...]
    rank: int
    likelihood: str = "gaussian"
    posterior: str = "factorised"
    second_moments: str = "mean_field"
    noise_variance: float = 0.1
    prior_variance: tuple[float, ...] = (1.0,)
    forgetting: float = 1.0
    scale: str = "none"
    intercepts: tuple[int, ...] = ()
    intercept_variance: float = 0.3
    tolerance: float = 1e-8
    max_sweeps: int = 100

    def __post_init__(self) -> None:
        _whole("dims", self.dims, "dims=(10, 10, 10), one dimension for each mode")
        _whole("intercepts", self.intercepts, "intercepts=(n_nodes, n_nodes)", empty=True)
        _whole("rank", (self.rank,), "rank=5")
        _whole("max_sweeps", (self.max_sweeps,), "max_sweeps=100")
        for name, allowed in CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        for name in ("noise_variance", "intercept_variance", "tolerance"):
            check_positive(name, getattr(self, name))
        for value in self.prior_variance:
            check_positive("prior_variance", value)
        if len(self.prior_variance) != len(self.dims):
            raise InputError(
                f"prior_variance must be one number or one for each of the {len(self.dims)} modes; "
                f"got {len(self.prior_variance)}."
            )
        if not _is_number(self.forgetting) or not 0.0 < self.forgetting <= 1.0:
            raise InputError(f"forgetting must be a number in (0, 1], 1 meaning none; got {self.forgetting!r}.")

    @classmethod
    def build(
        cls, dims: Sequence[int], rank: int, *, prior_variance: float | Sequence[float] = 1.0, **options: Any
    ) -> TensorSettings:
        """Settings from a caller's arguments: sequences become tuples, one variance serves all modes."""
        shape = as_entries("dims", dims, "dims=(10, 10, 10), one dimension for each mode")
        if isinstance(prior_variance, int | float) or np.ndim(prior_variance) == 0:
            prior_variance = (_plain(prior_variance),) * len(shape)
        spread = as_entries("prior_variance", prior_variance, "prior_variance=1.0, or one number for each mode")
        options["intercepts"] = as_entries("intercepts", options.get("intercepts", ()), "intercepts=(n_nodes, n_nodes)")
        others = {name: _plain(value) for name, value in options.items()}
        return cls(dims=shape, rank=_plain(rank), prior_variance=spread, **others)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TensorSettings:
        """The settings that :meth:`as_json` wrote."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise InputError(f"learner settings must be {', '.join(sorted(known))}; got {', '.join(sorted(values))}.")
        lists = {name: tuple(values[name]) for name in ("dims", "prior_variance", "intercepts")}
        return cls(**{**values, **lists})

    def as_json(self) -> dict[str, Any]:
        """Plain values for a state file."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def as_entries(name: str, values: Any, example: str) -> tuple[Any, ...]:
    """The entries of a caller's sequence or array as a tuple of plain values, yet unchecked."""
    if isinstance(values, str | bytes | Mapping) or not np.iterable(values):
        raise InputError(f"{name} must be a sequence of numbers; got {values!r}. Pass e.g. {example}.")
    return tuple(_plain(value) for value in values)


def _plain(value: Any) -> Any:
    # NumPy's numbers would pass every check and then fail to become JSON.
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _whole(name: str, values: tuple[int, ...], example: str, *, empty: bool = False) -> None:
    good = all(isinstance(v, int | np.integer) and not isinstance(v, bool) and v >= 1 for v in values)
    if not good or not (values or empty):
        raise InputError(f"{name} must be made of whole numbers of at least 1; got {values!r}. Pass e.g. {example}.")


def check_positive(name: str, value: float, *, zero: bool = False) -> float:
    """A positive finite number (or 0 where ``zero`` allows it), or an error that says so."""
    if not _is_number(value) or not 0.0 <= value < np.inf or (value == 0.0 and not zero):
        kind = "a finite number of at least 0" if zero else "a positive finite number"
        raise InputError(f"{name} must be {kind}; got {value!r}.")
    return float(value)
