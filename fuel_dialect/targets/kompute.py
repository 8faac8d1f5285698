# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Compute shaders through Kompute on a Vulkan device: types of 32 bits and less, packed into words.

The rates are those of an integrated GPU; the launch is one dispatch of a recorded sequence. The
shaders bring their own transcendental functions, since Vulkan promises little of the built-in ones.
"""

from __future__ import annotations

from fuel_dialect.kinds import GENERATED
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.limits import (
    BUFFERS,
    MOST_LAUNCHES,
    OWN_SCALARS,
    SCALARS,
    LargestBuffer,
    LongestRow,
    MostElements,
    MostScalars,
    ScanSteps,
)
from fuel_dialect.targets.op_sets import OpSet, Precision
from fuel_dialect.traits import AmplifiesError

LARGEST_BUFFER = LargestBuffer(128 * 2**20, "the maxStorageBufferRange of common drivers")

MOST_ELEMENTS = MostElements(2**31 - 2**17)
"""Shaders count in 32 bits, and a little beyond the last element."""

LONGEST_ROW = LongestRow(trips=60_000, workgroup_size=256, groups=16)
"""Lavapipe stops after 65,535 turns of all loops of an invocation and says nothing."""

PRECISION = (Precision(OpSet(AmplifiesError, ("f32",)), 160), Precision(OpSet(), 128))
"""128 since drivers differ; `pow`: exp(y log x), sampled over the whole range, with some room."""

LIMITS = (
    LARGEST_BUFFER,
    MOST_ELEMENTS,
    LONGEST_ROW,
    ScanSteps(MOST_LAUNCHES),
    MostScalars(SCALARS),
)

DESCRIPTION = TargetDescription(
    name="kompute",
    runs_on=("vulkan",),
    dtypes=("i1", "i8", "i16", "i32", "ui8", "ui32", "bf16", "f16", "f32"),
    sources=(
        KernelSource(
            "shaders",
            GENERATED,
            buffers=BUFFERS,
            limits=LIMITS,
            precision=PRECISION,
        ),
    ),
    tables=("scalars",),
    rewrites=("scans", "factors", "rows"),
    step_buffers=SCALARS - OWN_SCALARS,
    bytes_per_ns=60.0,
    operations_per_ns=400.0,
    flops_per_ns=800.0,
    launch_ns=20_000,
    tile=256,
    threads=1,
    lowering="fuel_lowering.kompute.lower:lower_run",
    driver="fuel_runtime.devices.vulkan.driver:open_vulkan",
    probe="fuel_runtime.devices.vulkan.probe:find",
    printer="fuel_lowering.kompute.target:KomputeTarget",
    shades=("#c4572e", "#dd8a67", "#8d3b1c"),
    is_default=True,
)
