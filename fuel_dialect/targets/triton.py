# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Triton on an NVIDIA GPU: the types its kernels load and store.

The rates are those of a mid-range card; `presets` has those of the cards that it names. Such cards
have few units for f64, and make integers of 64 bits out of those of 32. A scan is priced as a loop
of launches.
"""

from __future__ import annotations

from fuel_dialect.kinds import GENERATED
from fuel_dialect.targets.description import DtypeRates, KernelSource, TargetDescription
from fuel_dialect.targets.limits import MOST_LAUNCHES, ScanSteps

DESCRIPTION = TargetDescription(
    name="triton",
    runs_on=("cuda",),
    dtypes=("i1", "i8", "i16", "i32", "i64", "ui8", "ui32", "bf16", "f16", "f32", "f64"),
    sources=(
        KernelSource(
            "generated",
            GENERATED,
            limits=(ScanSteps(MOST_LAUNCHES),),
        ),
    ),
    tables=("scalars",),
    rewrites=("scans", "factors", "rows", "vectors"),
    bytes_per_ns=400.0,
    operations_per_ns=5_000.0,
    flops_per_ns=12_000.0,
    launch_ns=5_000,
    tile=1_024,
    threads=1,
    concurrency="events",
    by_dtype=(
        ("bf16", DtypeRates(flops_per_ns=50_000.0)),
        ("f16", DtypeRates(flops_per_ns=50_000.0)),
        ("f64", DtypeRates(operations_per_ns=80.0, flops_per_ns=150.0)),
        ("i32", DtypeRates(operations_per_ns=2_500.0, flops_per_ns=600.0)),
        ("i64", DtypeRates(operations_per_ns=600.0, flops_per_ns=150.0)),
    ),
    lowering="fuel_lowering.triton.lower:lower_run",
    driver="fuel_runtime.devices.cuda.driver:open_cuda",
    emulator="fuel_runtime.devices.emulated.driver:open_emulated",
    probe="fuel_runtime.devices.cuda.probe:find",
    telemetry="fuel_runtime.devices.cuda.telemetry:provider",
    printer="fuel_lowering.triton.target:TritonTarget",
    shades=("#3f8a50", "#7bb489", "#235c32", "#a3bf4a"),
    is_default=True,
)
