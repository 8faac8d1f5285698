# SPDX-License-Identifier: MIT OR Apache-2.0
"""Constants (`fuel_dialect.ops.base`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuel_dialect.reference.constants import elements_of
from fuel_dialect.reference.precision import Array


def const(*, value: float | bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return elements_of(value, shape, dtype)
