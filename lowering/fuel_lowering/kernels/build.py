# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a kernel to its form, which the table of kinds names."""

from __future__ import annotations

from typing import cast

from fuel_dialect.kinds import POINTWISE, KernelKind, kind_named, kind_of
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.plugins import named
from fuel_lowering.kernels.form import Form


def form_of(kernel: KernelOp, name: str) -> Form:
    """
    Returns the form of a kernel that `fuel-legalize-kernels` has rewritten.

    Raises `LoweringError` for a kernel that has none: of an op that no loop nest computes, or a
    scan whose body is not elementwise over one shape (`ScanOp.is_pointwise`).
    """
    kind = _kind_of(kernel)
    form = cast(Form, named(kind.form)(kernel, name))
    form.kind = kind.name
    return form


def _kind_of(kernel: KernelOp) -> KernelKind:
    """Returns the kind of a kernel; of a call, that of the kernel which its op would make."""
    kind = kind_named(kernel.kind.data)
    if kind.form:
        return kind
    called = (kind_of(type(op)) for op in kernel.body.block.ops)
    return next((k for k in called if k.form and k is not POINTWISE), POINTWISE)
