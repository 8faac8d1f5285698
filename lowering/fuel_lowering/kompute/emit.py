# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernels of each form, as shaders."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_lowering.kernels.forms import Form, MapForm, MatmulForm, PatchForm, RowForm, ScanForm
from fuel_lowering.kompute.map import emit_map
from fuel_lowering.kompute.matmul import Matmul
from fuel_lowering.kompute.patch import can_patch, emit_patch
from fuel_lowering.kompute.rows import emit_rows
from fuel_lowering.kompute.scan import emit_scan
from fuel_lowering.kompute.shared_matmul import SharedMatmul, fits
from fuel_lowering.kompute.tuning import CPU, Tuning
from fuel_lowering.kompute.writer import check_dtype
from fuel_lowering.runs.launches import Emitted


@dataclass(frozen=True)
class KomputeEmitter:
    """Writes shaders for one kind of device."""

    tuning: Tuning = CPU
    target: str = "kompute"
    sums_vectors: bool = False

    def patches(self, form: PatchForm) -> bool:
        """No part of a 32-bit word is written alone."""
        return can_patch(form)

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError`."""
        for argument in form.arguments:
            check_dtype(dtypes.of_type(argument), form.name)
        for value in form.results:
            check_dtype(form.dtype(value), form.name)
        if isinstance(form, PatchForm):
            return emit_patch(form)
        if isinstance(form, MapForm):
            return emit_map(form)
        if isinstance(form, RowForm):
            return emit_rows(form, self.tuning)
        if isinstance(form, MatmulForm):
            return self._matmul(form)
        if isinstance(form, ScanForm):
            return emit_scan(form, self.tuning)
        raise LoweringError(f"{form.name}: kompute has no shader for a {form.__class__.__name__}")

    def _matmul(self, form: MatmulForm) -> Emitted:
        """A product; nothing where there are no elements."""
        if not prod(form.shape):
            return Emitted((), ())
        writer = SharedMatmul if self.tuning.shares_tiles and fits(form) else Matmul
        return writer(form).emit()
