"""The settings of a tensor regression, and what its samples must look like; both are checked here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import (
    check_array,
    check_choice,
    check_count,
    check_number,
    check_rows,
    check_sequence,
    check_share,
    plain,
    shown,
)
from tensorucb.errors import InputError, ShapeError

_MOST_MODES = 64
_MOST_FEATURES = 100_000
_MOST_RANKS = 1000
_MOST_NUMBERS = 500_000_000


_positive = partial(check_number, strict=True)
# What the checks return is kept: kernels compile again for every other kind of number.
_OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "likelihood": partial(check_choice, words=("gaussian", "logistic")),
    "noise_variance": _positive,
    "forgetting": partial(check_share, zero=False),
    "intercept_variance": _positive,
    "tolerance": partial(check_number, low=1e-300),
    "max_sweeps": check_count,
}


@dataclass(frozen=True, kw_only=True)
class TensorSettings:
    """Settings of the model and of its fixed point, as `build` makes them; `TensorRegression` explains each.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings
    >>> TensorSettings.build((3, 2), 1, noise_variance=0.5).dims
    (3, 2)
    """

    dims: tuple[int, ...]
    rank: int
    likelihood: str = "gaussian"
    noise_variance: float = 0.1
    prior_variance: tuple[float, ...]
    forgetting: float = 1.0
    intercepts: tuple[int, ...]
    intercept_variance: float = 0.3
    tolerance: float = 1e-8
    max_sweeps: int = 100

    @classmethod
    def build(
        cls,
        dims: Sequence[int],
        rank: int,
        *,
        prior_variance: float | Sequence[float] = 1.0,
        intercepts: Sequence[int] = (),
        **options: Any,
    ) -> TensorSettings:
        """Checked settings from a caller's arguments: sequences become tuples, one variance serves all modes."""
        shape = _entries("dims", dims, "dims=(10, 10, 10), one dimension for each mode")
        if not np.iterable(prior_variance):
            prior_variance = (prior_variance,) * len(shape)
        spread = _entries("prior_variance", prior_variance, "prior_variance=1.0, or one number for each mode")
        groups = _entries("intercepts", intercepts, "intercepts=(n_nodes, n_nodes)")
        made = cls(
            dims=tuple(check_count(f"dims[{mode}]", size, 1, _MOST_FEATURES) for mode, size in enumerate(shape)),
            rank=check_count("rank", rank, 1, _MOST_RANKS),
            prior_variance=tuple(_positive("prior_variance", value) for value in spread),
            intercepts=tuple(check_count(f"intercepts[{g}]", size, 1, 2**31 - 1) for g, size in enumerate(groups)),
            **{name: _OPTIONS[name](name, value) for name, value in options.items()},
        )
        modes, numbers = len(made.dims), made.rank * sum(d * d for d in made.dims) + sum(made.intercepts)
        if not modes:
            raise InputError("dims must name at least one mode; got an empty sequence. Pass e.g. dims=(10, 10, 10).")
        if numbers > _MOST_NUMBERS:
            raise InputError(
                f"dims={shown(made.dims)} and rank={made.rank} need {numbers:,} numbers, more than "
                f"{_MOST_NUMBERS:,}. Use fewer features or a lower rank."
            )
        if len(spread) != modes:
            given = len(spread)
            raise InputError(f"prior_variance must be one number or one for each of the {modes} modes; got {given}.")
        return made

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TensorSettings:
        """The settings that :meth:`as_json` wrote."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise InputError(f"learner settings must be {', '.join(sorted(known))}; got {shown(list(values))}.")
        return cls.build(**values)

    def as_json(self) -> dict[str, Any]:
        """Plain values for a state file."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    # -- samples --

    def checked_samples(self, features: Any, groups: Any) -> tuple[list[F64], I64]:
        """Finite ``(N, d_l)`` features, one array per mode, and the ``(N, G)`` members of the groups of intercepts."""
        modes, sizes = len(self.dims), self.intercepts
        given = check_sequence("features", features, f"a sequence of {modes} arrays, one per mode")
        if len(given) != modes:
            raise ShapeError(f"features must be a sequence of {modes} arrays, one per mode; got {len(given)}.")
        arrays = [check_array(f"features[{mode}]", x, ("N?", self.dims[mode])) for mode, x in enumerate(given)]
        lengths = [len(array) for array in arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"features of all modes must have one length; got {lengths}.")
        wanted = f"a sequence of {len(sizes)} arrays, one for each entry of intercepts={sizes}"
        given = [] if groups is None else check_sequence("groups", groups, wanted)
        if len(given) != len(sizes):
            raise ShapeError(f"groups must be {wanted}; got {len(given)}.")
        members = np.empty((lengths[0], len(sizes)), dtype=np.int64)
        for index, (value, size) in enumerate(zip(given, sizes, strict=True)):
            rows = check_rows(f"groups[{index}]", value, size)
            if rows.size != lengths[0]:
                raise ShapeError(f"groups[{index}] must be {lengths[0]} whole numbers; got {rows.size}.")
            members[:, index] = rows
        return arrays, members

    def checked_outcomes(self, y: Any, length: int) -> F64:
        """Finite outcomes, one per row; in [0, 1] for the logistic likelihood."""
        hint = "One outcome for each row of features."
        if self.likelihood == "gaussian":
            return check_array("y", y, (length,), hint=hint)
        hint += " The logistic likelihood takes outcomes in [0, 1]; use likelihood='gaussian' for others."
        return check_array("y", y, (length,), low=0.0, high=1.0, hint=hint)


def _entries(name: str, values: Any, example: str) -> tuple[Any, ...]:
    """The entries of a caller's sequence or array as a tuple of plain values, yet unchecked."""
    entries = tuple(plain(value) for value in check_sequence(name, values, f"a sequence of numbers, such as {example}"))
    if len(entries) > _MOST_MODES:
        raise InputError(f"{name} must have at most {_MOST_MODES} entries; got {len(entries)}.")
    return entries
