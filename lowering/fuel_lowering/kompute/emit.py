# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The emitter of shaders.

The table of kinds names the writers: functions of a form and a tuning that give its `Emitted`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuel_dialect import dtypes
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm
from fuel_lowering.kompute.in_place import can_write_in_place, emit_in_place
from fuel_lowering.kompute.tuning import CPU, Tuning
from fuel_lowering.kompute.writer import check_dtype
from fuel_lowering.runs.emitter import Emitted, writer_of


@dataclass(frozen=True)
class KomputeEmitter:
    """Writes shaders for one kind of device."""

    tuning: Tuning = CPU
    target: str = "kompute"

    def emit_in_place(self, form: InPlaceForm) -> Emitted | None:
        """Returns the shader of a write in place; no part of a 32-bit word is written alone."""
        self._check(form)
        return emit_in_place(form) if can_write_in_place(form) else None

    def emit(self, form: Form) -> Emitted:
        """Returns the kernels of a form. Raises `LoweringError` for a type that no shader takes."""
        self._check(form)
        return writer_of(form, self.target)(form, self.tuning)

    def _check(self, form: Form) -> None:
        for argument in form.arguments:
            check_dtype(dtypes.of_type(argument), form.name)
        for value in form.results:
            check_dtype(form.dtype(value), form.name)
