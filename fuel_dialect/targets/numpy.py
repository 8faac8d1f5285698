# SPDX-License-Identifier: MIT OR Apache-2.0
"""
NumPy on the host: every element type that NumPy or ml_dtypes holds, matmuls by BLAS.

It makes kernels in two ways: `tiles` are generated loops over pieces that fit the cache, shared out
over threads, with BLAS for products; `library` is one call for each op. What BLAS adds up in which
order depends on how many threads it may use, so where bits have to stay the same, `einsum` makes
the products, in NumPy's own loops. The rates are those of one
present x86 core with wide vectors, and of the memory behind it. BLAS makes no products of integers;
f16 and bf16 are widened, in kernels of their own and slowly by NumPy.
"""

from __future__ import annotations

from fuel_dialect import dtypes
from fuel_dialect.kinds import GENERATED
from fuel_dialect.targets.description import DtypeRates, KernelSource, TargetDescription
from fuel_dialect.targets.op_sets import OpSet, Unstable
from fuel_dialect.traits import Contraction

PRODUCTS = Unstable(
    OpSet(Contraction, dtypes.FLOATS), "where a library may use another number of threads"
)

DESCRIPTION = TargetDescription(
    name="numpy",
    runs_on=("cpu",),
    dtypes=tuple(d.name for d in dtypes.TABLE if d.numpy_name is not None),
    sources=(
        KernelSource(
            "tiles",
            GENERATED,
            unstable=(PRODUCTS,),
        ),
        KernelSource(
            "library",
            ("pointwise", "reduction", "matmul", "library"),
            launches="op",
            generic=True,
            unstable=(PRODUCTS,),
        ),
        KernelSource("einsum", ("matmul", "scan", "library"), fallback=True, rate=0.1),
    ),
    bytes_per_ns=20.0,
    operations_per_ns=8.0,
    flops_per_ns=100.0,
    launch_ns=500,
    tile=32_768,
    threads=2,
    tables=("scalars",),
    by_dtype=(
        ("i1", DtypeRates(operations_per_ns=16.0)),
        ("i8", DtypeRates(operations_per_ns=16.0, flops_per_ns=1.7)),
        ("ui8", DtypeRates(operations_per_ns=16.0, flops_per_ns=1.7)),
        ("i16", DtypeRates(operations_per_ns=12.0, flops_per_ns=1.4)),
        ("i32", DtypeRates(flops_per_ns=1.1)),
        ("ui32", DtypeRates(flops_per_ns=1.1)),
        ("i64", DtypeRates(operations_per_ns=3.6, flops_per_ns=1.1)),
        ("bf16", DtypeRates(operations_per_ns=1.0, flops_per_ns=80.0)),
        ("f16", DtypeRates(operations_per_ns=0.16, flops_per_ns=45.0)),
        ("f64", DtypeRates(operations_per_ns=4.0, flops_per_ns=50.0)),
    ),
    strides=(("matmul", "matrices"), ("library", "matrices")),
    lowering="fuel_lowering.numpy.lower:lower_run",
    probe="fuel_runtime.devices.host.probe:find",
    printer="fuel_lowering.numpy.target:NumpyTarget",
    shades=("#3b6ea8", "#6a93c2", "#27496f"),
    is_default=True,
)
