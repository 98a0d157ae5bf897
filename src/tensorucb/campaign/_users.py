"""What a campaign knows of its users: a plain matrix of features, or a `UserProfile` with all its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import LARGEST, check_array
from tensorucb.errors import InputError, ShapeError
from tensorucb.features import UserProfile

Users = NDArray[np.float64] | UserProfile

# A plain matrix is stored under this name alone, as it was before there were profiles; a part of one as "users_taste".
_NAME = "users"
_PART = "users_"


def as_users(values: ArrayLike | UserProfile | None, n: int) -> Users | None:
    """What was given of ``n`` users, checked; a profile stays one."""
    if values is None:
        return None
    if isinstance(values, UserProfile):
        if values.n != n:
            raise ShapeError(f"the user profile must have one row for each of the {n} users; got {values.n}.")
        return values
    return check_array("user features", values, (n, "d"), hint=f"One row for each of the {n} users.")


def users_to_arrays(users: Users | None) -> dict[str, NDArray[Any]]:
    """Named arrays for the world's blob."""
    if users is None:
        return {}
    if isinstance(users, UserProfile):
        return {_PART + name: part for name, part in users.parts().items()}
    return {_NAME: users}


def users_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Users | None:
    """The users of :func:`users_to_arrays`'s arrays among others."""
    # An earlier version took features of any size; today's policies refuse them, but the campaign must go on.
    held = {name: np.clip(array, -LARGEST, LARGEST) for name, array in arrays.items() if name.startswith(_NAME)}
    parts = {name.removeprefix(_PART): array for name, array in held.items() if name.startswith(_PART)}
    return UserProfile(**parts) if parts else held.get(_NAME)


def some_users(users: Users | None, keep: NDArray[np.bool_]) -> Users | None:
    """The rows of those who stay."""
    if users is None:
        return None
    return users.select(keep) if isinstance(users, UserProfile) else users[keep]


def grown_users(old: Users | None, values: ArrayLike | UserProfile | None, m: int) -> Users | None:
    """The users with ``m`` new ones.

    In a campaign with a profile, new users may come with features alone or with a profile; parts that do not come are
    zero: no past that we know of.
    """
    new = as_users(values, m)
    if isinstance(old, UserProfile):
        return _grown_profile(old, new, m)
    if isinstance(new, UserProfile):
        if old is not None and m and len(new.parts()) > 1:
            raise InputError(
                "the campaign was created with a plain matrix of user features, so new users cannot have a profile. "
                f"Pass an (m, {old.shape[1]}) array."
            )
        new = new.features
    return joined(_NAME, old, new, m)


def _grown_profile(old: UserProfile, new: Users | None, m: int) -> UserProfile:
    if m == 0:
        return old
    if new is None:
        raise InputError("the campaign has users' features, so new users need them; got none.")
    held, came = old.parts(), (new if isinstance(new, UserProfile) else UserProfile(new)).parts()
    unknown = [name for name in came if name not in held]
    if unknown:
        raise InputError(
            f"the campaign's user profile has no {' and no '.join(unknown)}, so new users cannot have any. "
            f"Leave it out; the campaign knows {', '.join(held)}."
        )
    for name, part in came.items():
        if part.shape[1] != held[name].shape[1]:
            raise ShapeError(f"{name} of new users must have {held[name].shape[1]} columns; got {part.shape[1]}.")
    nothing = {name: np.zeros((m, part.shape[1])) for name, part in held.items()}
    fresh = {**nothing, **came}
    return UserProfile(**{name: np.concatenate([part, fresh[name]]) for name, part in held.items()})


def joined(name: str, old: NDArray[Any] | None, new: NDArray[Any] | None, m: int) -> NDArray[Any] | None:
    """A column or matrix by user with the rows of ``m`` new ones."""
    if old is None:
        if new is not None and m:
            raise InputError(f"the campaign has no {name}, so new users cannot have them.")
        return None
    if m == 0:
        return old
    if new is None:
        raise InputError(f"the campaign has {name}, so new users need them; got none.")
    if new.ndim == 2 and new.shape[1] != old.shape[1]:
        raise ShapeError(f"new users must have {old.shape[1]} features; got {new.shape[1]}.")
    return np.concatenate([old, new])
