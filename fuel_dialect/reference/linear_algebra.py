# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix multiplication (`fuel_dialect.ops.linear_algebra`)."""

from __future__ import annotations

import numpy as np

from fuel_dialect.reference.precision import Array, narrow, widen


def matmul(a: Array, b: Array) -> Array:
    """Entry h of a batch dim of A meets entry h // (A / B) of B; f32 accumulates bf16 and f16."""
    for dim, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        if m != n:
            b = np.repeat(b, m // n, axis=dim)
    with np.errstate(all="ignore"):
        return narrow(np.matmul(widen(a), widen(b)), a.dtype)
