# SPDX-License-Identifier: MIT OR Apache-2.0
"""
NumPy on the host: every element type that NumPy or ml_dtypes holds, matmuls by BLAS.

The rates are those of one present x86 core with wide vectors, and of the memory behind it.
"""

from __future__ import annotations

from fuel_dialect import dtypes
from fuel_dialect.targets.description import TargetDescription

DESCRIPTION = TargetDescription(
    name="numpy",
    dtypes=tuple(d.name for d in dtypes.TABLE if d.numpy_name is not None),
    kinds=("pointwise", "reduction", "matmul", "movement", "scan", "library"),
    bytes_per_ns=20.0,
    operations_per_ns=8.0,
    flops_per_ns=100.0,
    launch_ns=500,
    tile=32_768,
    threads=2,
    strides=(("matmul", "matrices"),),
)
