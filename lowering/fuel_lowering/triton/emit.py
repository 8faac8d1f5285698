# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emitter of Triton kernels: which writer takes which form."""

from __future__ import annotations

from dataclasses import dataclass

from fuel_dialect.errors import LoweringError
from fuel_lowering.kernels.forms import Form, MapForm, MatmulForm, PatchForm, RowForm, ScanForm
from fuel_lowering.runs.launches import Emitted
from fuel_lowering.triton.map import emit_map
from fuel_lowering.triton.matmul import emit_matmul
from fuel_lowering.triton.rows import emit_rows
from fuel_lowering.triton.scan import emit_scan
from fuel_lowering.triton.source import POINTEES


@dataclass(frozen=True)
class TritonEmitter:
    """Writes Triton kernels."""

    target: str = "triton"
    sums_vectors: bool = True

    def patches(self, form: PatchForm) -> bool:
        """Every element of memory can be written alone."""
        return True

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError` for an element type Triton lacks."""
        for value in (*form.loads, *form.results):
            dtype = form.dtype(value)
            if dtype.name not in POINTEES:
                raise LoweringError(
                    f"{form.name}: a Triton kernel takes elements of {', '.join(POINTEES)}, "
                    f"got {dtype}"
                )
        if isinstance(form, MapForm):
            return emit_map(form)
        if isinstance(form, RowForm):
            return emit_rows(form)
        if isinstance(form, MatmulForm):
            return emit_matmul(form)
        assert isinstance(form, ScanForm)
        return emit_scan(form)
