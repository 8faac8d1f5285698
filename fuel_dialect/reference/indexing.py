# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reading by index (`fuel_dialect.ops.indexing`). An index outside its extent raises."""

from __future__ import annotations

import numpy as np

from fuel_dialect.reference.bounds import check_indices
from fuel_dialect.reference.precision import Array


def index_select(x: Array, indices: Array, *, dim: int) -> Array:
    check_indices("index_select", indices, x.shape[dim])
    return np.take(x, indices.astype(np.intp), axis=dim)


def gather(x: Array, indices: Array, *, dim: int) -> Array:
    check_indices("gather", indices, x.shape[dim])
    window = tuple(slice(None if d == dim else n) for d, n in enumerate(indices.shape))
    return np.take_along_axis(x[window], indices.astype(np.intp), axis=dim)
