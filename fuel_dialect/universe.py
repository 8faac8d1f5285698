# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The xDSL plugin: names of the dialect, passes and targets, each with a lazy factory.

Every `xdsl-opt` on a machine with fuel installed imports this module, so it imports nothing else
but the names of the targets. Factories are named by string; passes and printers stand below the
dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe

from fuel_dialect.targets import own_names


def _lazy(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(import_module(module), name)


DIALECTS = {"fuel": ("fuel_dialect.dialect", "Fuel")}

PASSES = {
    "fuel-strip-plan": ("fuel_passes.legalize.strip_plan", "StripPlanPass"),
    "fuel-simplify": ("fuel_passes.legalize.simplify", "SimplifyPass"),
    "fuel-recognize": ("fuel_passes.legalize.recognize", "RecognizePass"),
    "fuel-promote-dtypes": ("fuel_passes.legalize.promote_dtypes", "PromoteDtypesPass"),
    "fuel-decompose": ("fuel_passes.legalize.decompose", "DecomposePass"),
    "fuel-pin-ops": ("fuel_passes.forming.pin_ops", "PinOpsPass"),
    "fuel-form-kernels": ("fuel_passes.forming.form_kernels", "FormKernelsPass"),
    "fuel-pin-kernels": ("fuel_passes.forming.pin_kernels", "PinKernelsPass"),
    "fuel-prepare-weights": ("fuel_passes.forming.prepare_weights", "PrepareWeightsPass"),
    "fuel-fork-variants": ("fuel_passes.forking.fork_variants", "ForkVariantsPass"),
    "fuel-find-paths": ("fuel_passes.forking.find_paths", "FindPathsPass"),
    "fuel-plan": ("fuel_passes.planning.plan", "PlanPass"),
    "fuel-fork-placements": ("fuel_passes.forking.fork_placements", "ForkPlacementsPass"),
    "fuel-converge": ("fuel_passes.forking.converge", "ConvergePass"),
    "fuel-bake-variants": ("fuel_passes.forking.bake_variants", "BakeVariantsPass"),
    "fuel-insert-copies": ("fuel_passes.finishing.insert_copies", "InsertCopiesPass"),
    "fuel-insert-contiguous": ("fuel_passes.finishing.insert_contiguous", "InsertContiguousPass"),
    "fuel-order": ("fuel_passes.finishing.order", "OrderPass"),
    "fuel-spill-values": ("fuel_passes.finishing.spill_values", "SpillValuesPass"),
    "fuel-form-runs": ("fuel_passes.finishing.form_runs", "FormRunsPass"),
    "fuel-cut-runs": ("fuel_passes.finishing.cut_runs", "CutRunsPass"),
    "fuel-order-runs": ("fuel_passes.finishing.order_runs", "OrderRunsPass"),
    "fuel-reuse-buffers": ("fuel_passes.finishing.reuse_buffers", "ReuseBuffersPass"),
    "fuel-legalize-kernels": ("fuel_passes.legalize.legalize_kernels", "LegalizeKernelsPass"),
    "fuel-unroll-scan": ("fuel_passes.legalize.unroll_scan", "UnrollScanPass"),
    "fuel-optimize": ("fuel_passes.pipeline", "OptimizePass"),
}


def _printer(target: str) -> Callable[[], Any]:
    """Returns the factory of the xDSL target that prints the runs of a target of fuel."""

    def load() -> Any:
        from fuel_dialect.plugins import named
        from fuel_dialect.targets.registry import description_of

        description = description_of(target)
        assert description is not None
        return named(description.printer)

    return load


FUEL_UNIVERSE = Universe(
    all_dialects={name: _lazy(*where) for name, where in DIALECTS.items()},
    all_passes={name: _lazy(*where) for name, where in PASSES.items()},
    all_targets={f"fuel-{name}": _printer(name) for name in own_names()},
)
