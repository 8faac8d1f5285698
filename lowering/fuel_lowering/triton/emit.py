# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The emitter of Triton kernels.

The table of kinds names the writers: functions of a form that give its `Emitted`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuel_dialect.errors import LoweringError
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm
from fuel_lowering.runs.emitter import Emitted, writer_of
from fuel_lowering.triton.map import emit_in_place
from fuel_lowering.triton.source import POINTEES


@dataclass(frozen=True)
class TritonEmitter:
    """Writes Triton kernels."""

    target: str = "triton"

    def emit_in_place(self, form: InPlaceForm) -> Emitted | None:
        """Returns the kernel of a write in place: every element can be written alone."""
        self._check(form)
        return emit_in_place(form)

    def emit(self, form: Form) -> Emitted:
        """Returns the kernels of a form. Raises `LoweringError` for a type that Triton lacks."""
        self._check(form)
        return writer_of(form, self.target)(form)

    def _check(self, form: Form) -> None:
        for value in (*form.loads, *form.results):
            dtype = form.dtype(value)
            if dtype.name not in POINTEES:
                raise LoweringError(
                    f"{form.name}: a Triton kernel takes elements of {', '.join(POINTEES)}, "
                    f"got {dtype}"
                )
