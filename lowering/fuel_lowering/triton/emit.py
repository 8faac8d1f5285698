# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emitter of Triton kernels: a table from forms to their writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuel_dialect.errors import LoweringError
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import InPlaceForm, MapForm
from fuel_lowering.kernels.matmul import MatmulForm
from fuel_lowering.kernels.rows import RowForm
from fuel_lowering.kernels.scan import ScanForm
from fuel_lowering.runs.emitter import Emitted
from fuel_lowering.triton.map import emit_in_place, emit_map
from fuel_lowering.triton.matmul import emit_matmul
from fuel_lowering.triton.rows import emit_rows
from fuel_lowering.triton.scan import emit_scan
from fuel_lowering.triton.source import POINTEES

WRITERS: dict[type[Form], Callable[[Any], Emitted]] = {
    MapForm: emit_map,
    InPlaceForm: emit_in_place,
    RowForm: emit_rows,
    MatmulForm: emit_matmul,
    ScanForm: emit_scan,
}
"""The writer of each form; a form that is not here has no Triton kernel."""


@dataclass(frozen=True)
class TritonEmitter:
    """Writes Triton kernels."""

    target: str = "triton"

    def writes_in_place(self, form: InPlaceForm) -> bool:
        """Returns True: every element of memory can be written alone."""
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
        writer = WRITERS.get(type(form))
        if writer is None:
            raise LoweringError(f"{form.name}: triton writes no kernel of a {type(form).__name__}")
        return writer(form)
