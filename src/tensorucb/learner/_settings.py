"""What a tensor regression is told at birth, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tensorucb.errors import InputError

__all__ = ["TensorSettings"]

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
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        for name in ("noise_variance", "intercept_variance", "tolerance"):
            _positive(name, getattr(self, name))
        for value in self.prior_variance:
            _positive("prior_variance", value)
        if len(self.prior_variance) != len(self.dims):
            raise InputError(
                f"prior_variance must be one number or one for each of the {len(self.dims)} modes; "
                f"got {len(self.prior_variance)}."
            )
        if not 0.0 < self.forgetting <= 1.0:
            raise InputError(f"forgetting must lie in (0, 1], 1 meaning none; got {self.forgetting!r}.")

    @classmethod
    def build(
        cls, dims: Sequence[int], rank: int, *, prior_variance: float | Sequence[float] = 1.0, **options: Any
    ) -> TensorSettings:
        """Settings from a caller's arguments: sequences become tuples, one variance serves all modes."""
        shape = tuple(d if isinstance(d, bool | float) else int(d) for d in dims)
        spread = prior_variance if isinstance(prior_variance, Sequence) else (prior_variance,) * len(shape)
        options["intercepts"] = tuple(int(n) for n in options.get("intercepts", ()))
        return cls(dims=shape, rank=rank, prior_variance=tuple(float(v) for v in spread), **options)

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


def _whole(name: str, values: tuple[int, ...], example: str, *, empty: bool = False) -> None:
    good = all(isinstance(v, int | np.integer) and not isinstance(v, bool) and v >= 1 for v in values)
    if not good or not (values or empty):
        raise InputError(f"{name} must be made of whole numbers of at least 1; got {values!r}. Pass e.g. {example}.")


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < np.inf:
        raise InputError(f"{name} must be a positive finite number; got {value!r}.")
