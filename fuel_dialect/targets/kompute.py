# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Compute shaders through Kompute on a Vulkan device: 32-bit types, masks and half floats.

The rates are those of an integrated GPU; the launch is one dispatch of a recorded sequence. The
precision is what Vulkan promises of a sine: 2^-11, which is 2^13 units in the last place of 1.
"""

from __future__ import annotations

from fuel_dialect.targets.description import TargetDescription

DESCRIPTION = TargetDescription(
    name="kompute",
    dtypes=("i1", "i32", "ui32", "f16", "f32"),
    kinds=("pointwise", "reduction", "matmul", "movement", "library", "scan"),
    bytes_per_ns=60.0,
    operations_per_ns=400.0,
    flops_per_ns=800.0,
    launch_ns=20_000,
    tile=256,
    threads=1,
    ulps=8_192,
)
