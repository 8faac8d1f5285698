# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-find-paths`: the pathfinders and pruners of other packages, in lockstep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern

from fuel_dialect.attributes import ArmAttr
from fuel_dialect.errors import FuelPassError, PluginError
from fuel_dialect.plugins import PATHFINDERS, PRUNERS, Plugin, found
from fuel_passes.forking.plugins import (
    STEPS,
    Bounded,
    Maker,
    Pathfinder,
    Planning,
    Pruner,
    Step,
    guarded,
)
from fuel_passes.planning.candidates import candidates_for
from fuel_passes.planning.measurements import MeasurementSource
from fuel_passes.planning.topology import check_plan, resolve
from fuel_passes.restore import all_or_nothing
from fuel_passes.walk import branches, functions


@dataclass(frozen=True)
class FindPathsPass(ModulePass):
    """
    Runs the pathfinders of other packages that belong after a step of `fuel-optimize`.

    Pruners run first, for the arms that the step itself made, and again after every pathfinder.
    Both are entry points (`fuel.pathfinders`, `fuel.pruners`), taken in the order of their names.
    Without such packages nothing happens.

    A pathfinder only adds arms, and their origin begins with its name; a pruner only drops arms
    that passes made. What does otherwise, fails, does not end, leaves a module that does not
    verify, or cannot be imported is a `PluginError` that names the package, and the module is
    unchanged then.

    Options: `after=fuel-fork-variants|fuel-fork-placements` (default fuel-fork-variants);
    `topology=NAME` (default: the module's `fuel.topology`, else `cpu`); `deterministic=true`,
    `max-ulps=N` and `measurements=FILE` as for `fuel-plan`: what the pathfinders are told.
    """

    name = "fuel-find-paths"

    after: Step = "fuel-fork-variants"
    topology: str | None = None
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | MeasurementSource | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.after not in STEPS:
            raise FuelPassError(
                f"fuel-find-paths: after is {' or '.join(STEPS)}, not {self.after!r}"
            )
        pathfinders = [(p, p.load_as(Pathfinder)) for p in found(PATHFINDERS)]
        pruners = [(p, p.load_as(Pruner)) for p in found(PRUNERS)]
        if not pathfinders and not pruners:
            return
        topology = resolve(op, self.topology)
        check_plan(op, topology)
        asked = self.deterministic, self.max_ulps, self.measurements
        steps = _Steps(ctx, op, Planning(candidates_for(topology, *asked)), pruners)
        for plugin, pathfinder in pathfinders:
            _check_step(plugin, pathfinder)
        with all_or_nothing(op):
            steps.prune()
            for plugin, pathfinder in pathfinders:
                if pathfinder.after == self.after:
                    steps.run(plugin, pathfinder.make, _check_added)
                    steps.prune()


def _check_step(plugin: Plugin, pathfinder: Pathfinder) -> None:
    if pathfinder.after not in STEPS:
        raise PluginError(f"{plugin} runs after {' or '.join(STEPS)}, not {pathfinder.after!r}")


_Arm = tuple[str, str, ArmAttr]
"""A function, a decision of it, and what is known of one of its arms."""

_Check = Callable[[Plugin, Counter[_Arm], Counter[_Arm]], None]
"""Raises `PluginError` for the arms that a pass has added and dropped."""


@dataclass(frozen=True)
class _Steps:
    ctx: Context
    module: ModuleOp
    planning: Planning
    pruners: list[tuple[Plugin, Pruner]]

    def prune(self) -> None:
        for plugin, pruner in self.pruners:
            self.run(plugin, pruner.make, _check_dropped)

    def run(self, plugin: Plugin, make: Maker, check: _Check) -> None:
        """Apply one pass, and look at what it did to the arms."""
        before = _arms(self.module)
        with guarded(plugin, self.module):
            self._apply(plugin, make(self.planning))
        after = _arms(self.module)
        check(plugin, after - before, before - after)

    def _apply(self, plugin: Plugin, made: object) -> None:
        if isinstance(made, ModulePass):
            made.apply(self.ctx, self.module)
        elif isinstance(made, RewritePattern):
            bounded = Bounded(made, plugin, self.module)
            PatternRewriteWalker(bounded, apply_recursively=False).rewrite_module(self.module)
        else:
            raise PluginError(f"{plugin} must make a ModulePass or a RewritePattern, not {made!r}")


def _arms(module: ModuleOp) -> Counter[_Arm]:
    return Counter(
        (function.sym_name.data, branch.id.data, arm)
        for function in functions(module)
        for branch in branches(function)
        for arm in branch.arms
    )


def _check_added(plugin: Plugin, added: Counter[_Arm], dropped: Counter[_Arm]) -> None:
    for _, branch, arm in dropped:
        raise PluginError(f"{plugin} dropped an arm of {branch} on {arm.target}; it may only add")
    for _, branch, arm in added:
        if not arm.origin.data.startswith(f"{plugin.name}: "):
            raise PluginError(
                f"{plugin} added an arm of {branch} whose origin is {arm.origin.data!r}; it must "
                f"begin with {plugin.name + ': '!r}"
            )


def _check_dropped(plugin: Plugin, added: Counter[_Arm], dropped: Counter[_Arm]) -> None:
    for _, branch, arm in added:
        raise PluginError(f"{plugin} added an arm of {branch} on {arm.target}; it may only drop")
    for _, branch, arm in dropped:
        if not arm.is_planned:
            raise PluginError(f"{plugin} dropped an arm of {branch} that a person wrote")
