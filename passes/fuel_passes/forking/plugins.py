# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a package that adds passes declares: pathfinders, which add arms, and pruners."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern

from fuel_dialect.errors import FuelError, PluginError
from fuel_dialect.plugins import Plugin
from fuel_passes.planning.candidates import Candidates
from fuel_passes.planning.topology import Topology

Step = Literal["fuel-fork-variants", "fuel-fork-placements"]
"""The passes after which pathfinders run."""

STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(frozen=True)
class Planning:
    """What a pass may know of the plan that it takes part in."""

    candidates: Candidates
    """What could run a kernel, and at what price, as the options of the pass have it."""

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


@contextmanager
def guarded(plugin: Plugin) -> Generator[None]:
    """Say whose mistake it is where code of a plug-in fails. Errors of fuel stay as they are."""
    try:
        yield
    except FuelError:
        raise
    except Exception as error:
        raise PluginError(f"{plugin} failed: {type(error).__name__}: {error}") from error
