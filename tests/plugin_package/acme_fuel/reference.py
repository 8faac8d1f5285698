# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines the ops in plain NumPy: arrays by position, properties by keyword."""

from __future__ import annotations

from typing import Any

import numpy as np

from acme_fuel.ops import SoftsignOp, SquaredReluOp

Array = np.ndarray[Any, Any]


def squared_relu(x: Array) -> Array:
    positive = np.maximum(x, x.dtype.type(0))
    return (positive * positive).astype(x.dtype)


def softsign(x: Array) -> Array:
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    return (wide / (1 + np.abs(wide))).astype(x.dtype)


REFERENCES = {SquaredReluOp: squared_relu, SoftsignOp: softsign}
