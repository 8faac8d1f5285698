# SPDX-License-Identifier: MIT OR Apache-2.0
"""Matrix products, by the body that suits the device: through shared memory or registers alone."""

from __future__ import annotations

from math import prod

from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kompute.register_matmul import RegisterMatmul
from fuel_lowering.kompute.shared_matmul import SharedMatmul, fits
from fuel_lowering.kompute.tuning import Tuning
from fuel_lowering.runs.emitter import Emitted


def emit_matmul(form: MatmulForm, tuning: Tuning) -> Emitted:
    """Returns the shaders of a product; none where it has no elements."""
    if not prod(form.shape):
        return Emitted((), ())
    body = SharedMatmul if tuning.shares_tiles and fits(form) else RegisterMatmul
    return body(form).emit()
