# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a kernel to its form."""

from __future__ import annotations

from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.traits import AlongAxesOp
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.map import map_form
from fuel_lowering.kernels.matmul import matmul_form
from fuel_lowering.kernels.rewrites import expand_rows, expand_vectors
from fuel_lowering.kernels.rows import row_form
from fuel_lowering.kernels.scan import scan_form


def form_of(kernel: KernelOp, name: str, sums_vectors: bool = False) -> Form:
    """
    The form of a kernel. The kernel is changed: ops of rows become their definitions and, with
    `sums_vectors`, products of one row become sums.

    Raises `LoweringError` for a kernel that has none: of kind `library`, or a scan whose body is
    not elementwise over one shape (`ScanOp.is_pointwise`).
    """
    block = kernel.body.block
    kind = kernel.kind.data
    if kind == "scan":
        return scan_form(kernel, name)
    expand_rows(block)
    if sums_vectors:
        expand_vectors(block)
    if any(isinstance(op, MatmulOp) for op in block.ops):
        return matmul_form(kernel, name)
    if any(isinstance(op, AlongAxesOp) for op in block.ops):
        return row_form(kernel, name)
    return map_form(kernel, name)
