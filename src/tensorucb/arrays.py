"""Names for the kinds of arrays that the package works with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["F64", "I32", "I64"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
