# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Triton on an NVIDIA GPU: the types its kernels load and store.

The rates are those of a mid-range card; `presets` has those of the cards that it names. A scan is
priced as a loop of launches.
"""

from __future__ import annotations

from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.limits import MOST_LAUNCHES, ScanSteps

DESCRIPTION = TargetDescription(
    name="triton",
    dtypes=("i1", "i8", "i16", "i32", "i64", "ui8", "ui32", "bf16", "f16", "f32", "f64"),
    sources=(
        KernelSource(
            "generated",
            ("pointwise", "reduction", "matmul", "movement", "scan"),
            limits=(ScanSteps(MOST_LAUNCHES),),
        ),
    ),
    tables=("scalars",),
    bytes_per_ns=400.0,
    operations_per_ns=5_000.0,
    flops_per_ns=12_000.0,
    launch_ns=5_000,
    tile=1_024,
    threads=1,
    matmul_flops=(("bf16", 50_000.0), ("f16", 50_000.0), ("f64", 300.0)),
)
