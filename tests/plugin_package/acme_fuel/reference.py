# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines the ops in plain NumPy: arrays by position, properties by keyword."""

from __future__ import annotations

from typing import Any

import numpy as np

from acme_fuel.ops import CumulativeSumOp, PadOp, RollOp, SoftsignOp, SquaredReluOp

Array = np.ndarray[Any, Any]


def squared_relu(x: Array) -> Array:
    positive = np.maximum(x, x.dtype.type(0))
    return (positive * positive).astype(x.dtype)


def softsign(x: Array) -> Array:
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    return (wide / (1 + np.abs(wide))).astype(x.dtype)


def pad(x: Array, *, width: int, value: float) -> Array:
    return np.pad(x, width, constant_values=value)


def roll(x: Array, *, shift: int) -> Array:
    return np.roll(x, shift, -1)


def cumulative_sum(x: Array) -> Array:
    return np.cumsum(x, -1, dtype=x.dtype)


REFERENCES = {
    SquaredReluOp: squared_relu,
    SoftsignOp: softsign,
    PadOp: pad,
    RollOp: roll,
    CumulativeSumOp: cumulative_sum,
}
