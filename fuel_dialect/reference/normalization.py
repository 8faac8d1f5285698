# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Softmax and norms along the last dim (`fuel_dialect.ops.normalization`).

bf16 and f16 are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fuel_dialect.reference.precision import Array, narrow, widen


def _rows(function: Callable[[Array], Any], x: Array) -> Array:
    """`function` of the widened rows; nothing is nothing."""
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        return narrow(function(widen(x)), x.dtype)


def softmax_last_dim(x: Array) -> Array:
    return _rows(_softmax, x)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax_last_dim(x: Array) -> Array:
    return _rows(_log_softmax, x)


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def layer_norm_last_dim(x: Array, *, eps: float) -> Array:
    return _rows(lambda x: _scale_to_unit(_centred(_centred(x)), eps), x)


def _centred(x: Array) -> Array:
    """x - mean(x). Twice leaves no error of a mean that is large beside the differences."""
    return x - x.mean(-1, keepdims=True)


def rms_norm_last_dim(x: Array, *, eps: float) -> Array:
    return _rows(lambda x: _scale_to_unit(x, eps), x)


def _scale_to_unit(x: Array, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps)."""
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + x.dtype.type(eps))
