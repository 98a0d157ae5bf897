"""Names for the kinds of arrays that the package works with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Arrays = dict[str, NDArray[Any]]
"""Named plain arrays, such as those of a state."""
Vectors = tuple[F64, ...]
"""One vector per mode of a context: the product, and whatever else describes a round."""
