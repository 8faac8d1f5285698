# SPDX-License-Identifier: MIT OR Apache-2.0
"""Declares the passes of other packages: pathfinders, which add arms, and pruners."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from fuel_dialect.context import verify_program
from fuel_dialect.errors import FuelError, PluginError, ProgramError
from fuel_dialect.plugins import Plugin
from fuel_dialect.targets.machine import Topology
from fuel_passes.planning.candidates import Candidates

Step = Literal["fuel-fork-variants", "fuel-fork-placements"]
"""The passes after which pathfinders run."""

STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class Planning:
    """Represents what a pass may know of the plan that it takes part in."""

    candidates: Candidates
    """The candidates for kernels and their prices, as the options of the pass have it."""

    @property
    def topology(self) -> Topology:
        """The machine that is planned for."""
        return self.candidates.topology


Maker: TypeAlias = Callable[[Planning], ModulePass | RewritePattern]
"""Makes the pass of one application; a pattern is applied to each op once."""


@dataclass(frozen=True)
class Pathfinder:
    """
    Adds arms: branches, or arms of the branches that passes made. Entry points: `fuel.pathfinders`.

    Arm 0 of a branch that it makes computes what stood there before. The origin of its arms begins
    with the name of its entry point and a colon, so that `fuel-strip-plan` takes them out again.
    """

    after: Step
    make: Maker


@dataclass(frozen=True)
class Pruner:
    """Drops arms that passes made, of those that it finds not worth keeping: `fuel.pruners`."""

    make: Maker


REWRITES_PER_OP = 16
"""A pattern that changes more than so many times the ops of a module is taken not to end."""

LEAST_REWRITES = 1024
"""Represents the change that a pattern may make in a small module."""


class Bounded(RewritePattern):
    """A pattern of a plug-in that may change a module so many times, and no more."""

    def __init__(self, inner: RewritePattern, plugin: Plugin, module: ModuleOp):
        self.inner = inner
        self.plugin = plugin
        self.most = max(REWRITES_PER_OP * sum(1 for _ in module.walk()), LEAST_REWRITES)
        self.left = self.most

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Applies the pattern. Raises `PluginError` once it has changed too much."""
        self.inner.match_and_rewrite(op, rewriter)
        if not rewriter.has_done_action:
            return
        self.left -= 1
        if not self.left:
            raise PluginError(
                f"{self.plugin} does not end: it has matched {self.most} times; a pattern must "
                "change what it matches into something that it does not match"
            )


@contextmanager
def guarded(plugin: Plugin, module: ModuleOp | None = None) -> Generator[None]:
    """
    Says whose mistake it is where code of a plug-in fails, or leaves a module that is none.

    Errors of fuel stay as they are, and so does an interrupt of the user.
    """
    before = None if module is None else _interface(module)
    try:
        yield
        if module is not None:
            verify_program(module, f"{plugin} leaves a module that is wrong")
    except ProgramError as error:
        raise PluginError(str(error)) from error
    except (FuelError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(f"{plugin} failed: {type(error).__name__}: {error}") from error
    if module is not None and _interface(module) != before:
        raise PluginError(f"{plugin} changed what a function takes or gives; it must leave that")


def _interface(module: ModuleOp) -> list[dict[str, Attribute]]:
    """Returns the name, type and attributes of each function."""
    return [dict(op.properties) for op in module.body.ops if isinstance(op, FuncOp)]
