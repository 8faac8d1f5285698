# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-optimize`: the list of passes, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fuel_dialect.progress import steps
from fuel_passes.finishing.cut_runs import CutRunsPass
from fuel_passes.finishing.form_runs import FormRunsPass, Granularity
from fuel_passes.finishing.insert_contiguous import InsertContiguousPass
from fuel_passes.finishing.insert_copies import InsertCopiesPass
from fuel_passes.finishing.order import OrderPass
from fuel_passes.finishing.order_runs import OrderRunsPass
from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass
from fuel_passes.finishing.spill_values import SpillValuesPass
from fuel_passes.forking.bake_variants import BakeVariantsPass
from fuel_passes.forking.collector import paused_collector
from fuel_passes.forking.converge import ConvergePass
from fuel_passes.forking.find_paths import FindPathsPass
from fuel_passes.forking.fork_placements import ForkPlacementsPass
from fuel_passes.forking.fork_variants import ForkVariantsPass
from fuel_passes.forking.plugins import Step
from fuel_passes.forming.form_kernels import FormKernelsPass
from fuel_passes.forming.pin_kernels import PinKernelsPass
from fuel_passes.forming.pin_ops import PinOpsPass
from fuel_passes.forming.prepare_weights import PrepareWeightsPass
from fuel_passes.legalize.decompose import DecomposePass
from fuel_passes.legalize.promote_dtypes import PromoteDtypesPass
from fuel_passes.legalize.recognize import RecognizePass
from fuel_passes.legalize.simplify import SimplifyAfter, SimplifyPass
from fuel_passes.legalize.strip_plan import StripPlanPass
from fuel_passes.planning.measurements import MeasurementSource
from fuel_passes.planning.plan import PlanPass
from fuel_passes.restore import all_or_nothing
from fuel_passes.walk import check_decisions

Variants = Literal["bake", "keep"]
Precision = Literal["fast", "exact"]


@dataclass(frozen=True)
class OptimizePass(ModulePass):
    """
    Turns a tensor program into an optimised module: runs of kernels, and branches of arms.

    The result is IR that computes the same; applying the pass to it changes nothing, and it can
    be planned again for another topology.

    Options:
    `variants=bake` (default) leaves a same-device choice of kernels only where their prices are so
    near that a measurement could turn it; `variants=keep` keeps every variant.
    `granularity=segment|chain`: see `fuel-form-runs`.
    `topology=NAME`, instead of the `fuel.topology` of the module: a preset, as `topology=cpu-h100`
    or in quotes, `topology="cpu+h100"`, or a file, in quotes, `topology="machine.json"`.
    `precision=exact` refuses a program that would need dtype promotion.
    `device="cuda:0"`: see `fuel-plan`; then nothing is forked to another device.
    `place="NAME=DEVICE"`, pins separated by commas: see `fuel-pin-ops`.
    `deterministic=true`, `max-ulps=N` and `measurements="FILE.json"`: see `fuel-plan`.
    `reach=R` and `refuge=F`: which other devices become arms; see `fuel-fork-placements`.
    `prepare-bytes=N`: the `bytes` of `fuel-prepare-weights`; 0 prepares nothing.
    `plugins=false` leaves out the passes and patterns of other packages (a session also leaves
    out their selectors); ops and kernels of theirs that the program uses are used.
    """

    name = "fuel-optimize"

    variants: Variants = "bake"
    granularity: Granularity = "segment"
    topology: str | None = None
    precision: Precision = "fast"
    device: str | None = None
    place: tuple[str, ...] = ()
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | MeasurementSource | None = None
    reach: int | float = 4.0
    refuge: int | float = 0.8
    prepare_bytes: int | None = None
    plugins: bool = True

    def passes(self) -> tuple[ModulePass, ...]:
        """The passes in order."""
        topology = self.topology
        asked: dict[str, Any] = {
            "topology": topology,
            "deterministic": self.deterministic,
            "max_ulps": self.max_ulps,
            "measurements": self.measurements,
        }
        forks = (
            ForkPlacementsPass(reach=self.reach, refuge=self.refuge, **asked),
            *self._find_paths("fuel-fork-placements"),
        )
        bake = (BakeVariantsPass(topology=topology),) if self.variants == "bake" else ()
        return (
            PinOpsPass(self.place, topology),
            StripPlanPass(),
            SimplifyPass(),
            *((SimplifyAfter(RecognizePass()),) if self.plugins else ()),
            SimplifyAfter(PromoteDtypesPass(topology=topology, precision=self.precision)),
            SimplifyAfter(DecomposePass(topology=topology)),
            FormKernelsPass(topology=topology),
            PinKernelsPass(),
            PrepareWeightsPass(self.prepare_bytes, topology),
            ForkVariantsPass(**asked),
            *self._find_paths("fuel-fork-variants"),
            PlanPass(device=self.device, **asked),
            *(forks if self.device is None else ()),
            ConvergePass(topology=topology),
            *bake,
            InsertCopiesPass(topology=topology),
            InsertContiguousPass(topology=topology),
            OrderPass(),
            SpillValuesPass(granularity=self.granularity, topology=topology),
            FormRunsPass(granularity=self.granularity, topology=topology),
            CutRunsPass(topology),
            OrderRunsPass(topology),
            ReuseBuffersPass(),
        )

    def _find_paths(self, after: Step) -> tuple[ModulePass, ...]:
        if not self.plugins:
            return ()
        asked = self.topology, self.deterministic, self.max_ulps, self.measurements
        return (FindPathsPass(after, *asked),)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_decisions(op)  # what is nested too deep cannot even be cloned
        with all_or_nothing(op):
            self.rewrite(ctx, op)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        """Applies the passes to a module of the caller's own: an error leaves it half changed."""
        with paused_collector():
            passes = self.passes()
            for inner in steps("optimise", passes, len(passes), lambda each: each.name):
                inner.apply(ctx, op)
