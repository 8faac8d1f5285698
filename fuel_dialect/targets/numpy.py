# SPDX-License-Identifier: MIT OR Apache-2.0
"""
NumPy on the host: every element type that NumPy or ml_dtypes holds, matmuls by BLAS.

It makes kernels in two ways: `tiles` are generated loops over pieces that fit the cache, shared out
over threads, with BLAS for products; `library` is one call for each op. The rates are those of one
present x86 core with wide vectors, and of the memory behind it.
"""

from __future__ import annotations

from fuel_dialect import dtypes
from fuel_dialect.targets.description import KernelSource, TargetDescription

DESCRIPTION = TargetDescription(
    name="numpy",
    dtypes=tuple(d.name for d in dtypes.TABLE if d.numpy_name is not None),
    sources=(
        KernelSource("tiles", ("pointwise", "reduction", "matmul", "movement", "scan")),
        KernelSource(
            "library",
            ("pointwise", "reduction", "matmul", "library"),
            launches="op",
            generic=True,
        ),
    ),
    bytes_per_ns=20.0,
    operations_per_ns=8.0,
    flops_per_ns=100.0,
    launch_ns=500,
    tile=32_768,
    threads=2,
    strides=(("matmul", "matrices"), ("library", "matrices")),
)
