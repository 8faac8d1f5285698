# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emitter of shaders: a table from forms to their writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm, MapForm
from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.rows import RowForm
from fuel_lowering.kernels.scan import ScanForm
from fuel_lowering.kompute.in_place import can_write_in_place, emit_in_place
from fuel_lowering.kompute.map import emit_map
from fuel_lowering.kompute.matmul import Matmul
from fuel_lowering.kompute.rows import emit_rows
from fuel_lowering.kompute.scan import emit_scan
from fuel_lowering.kompute.shared_matmul import SharedMatmul, fits
from fuel_lowering.kompute.tuning import CPU, Tuning
from fuel_lowering.kompute.writer import check_dtype
from fuel_lowering.runs.emitter import Emitted


def emit_matmul(form: MatmulForm, tuning: Tuning) -> Emitted:
    """Writes a product by the body that suits the device; nothing where there are no elements."""
    if not prod(form.shape):
        return Emitted((), ())
    writer = SharedMatmul if tuning.shares_tiles and fits(form) else Matmul
    return writer(form).emit()


WRITERS: dict[type[Form], Callable[[Any, Tuning], Emitted]] = {
    MapForm: lambda form, tuning: emit_map(form),
    InPlaceForm: lambda form, tuning: emit_in_place(form),
    RowForm: emit_rows,
    MatmulForm: emit_matmul,
    ScanForm: emit_scan,
}
"""The writer of each form; a form that is not here has no shader."""


@dataclass(frozen=True)
class KomputeEmitter:
    """Writes shaders for one kind of device."""

    tuning: Tuning = CPU
    target: str = "kompute"

    def writes_in_place(self, form: InPlaceForm) -> bool:
        """Returns True if no part of a 32-bit word is written alone."""
        return can_write_in_place(form)

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError`."""
        for argument in form.arguments:
            check_dtype(dtypes.of_type(argument), form.name)
        for value in form.results:
            check_dtype(form.dtype(value), form.name)
        writer = WRITERS.get(type(form))
        if writer is None:
            raise LoweringError(f"{form.name}: kompute writes no shader of a {type(form).__name__}")
        return writer(form, self.tuning)
