# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a kernel to its form."""

from __future__ import annotations

from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.traits import AlongAxesOp
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import map_form
from fuel_lowering.kernels.matmul import matmul_form
from fuel_lowering.kernels.rows import row_form
from fuel_lowering.kernels.scan import scan_form


def form_of(kernel: KernelOp, name: str) -> Form:
    """
    Returns the form of a kernel that `fuel-legalize-kernels` has rewritten.

    Raises `LoweringError` for a kernel that has none: of kind `library`, or a scan whose body is
    not elementwise over one shape (`ScanOp.is_pointwise`).
    """
    if kernel.kind.data == "scan":
        return scan_form(kernel, name)
    ops = kernel.body.block.ops
    if any(isinstance(op, MatmulOp) for op in ops):
        return matmul_form(kernel, name)
    if any(isinstance(op, AlongAxesOp) for op in ops):
        return row_form(kernel, name)
    return map_form(kernel, name)
