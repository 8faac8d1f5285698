# SPDX-License-Identifier: MIT OR Apache-2.0
"""Weights, iota and transfers (`fuel_dialect.ops.memory`). The reference has one memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import WeightError
from fuel_dialect.reference.precision import Array


def weight(
    *, key: str, weights: Mapping[str, Array], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    if key not in weights:
        raise WeightError(f"weight {key!r} is missing; given are {', '.join(weights) or 'none'}")
    array = np.asarray(weights[key])
    if (array.shape, array.dtype) != (shape, dtype):
        raise WeightError(
            f"weight {key!r} is {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
        )
    return array


def iota(*, shape: tuple[int, ...]) -> Array:
    return np.arange(shape[0]).astype(np.float32)


def copy(x: Array, *, to: DeviceAttr) -> Array:
    return x


def move(x: Array, *, to: DeviceAttr) -> Array:
    return x
