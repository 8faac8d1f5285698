# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a session asks of the planner: the machine, bounds, and times that were measured."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal, cast

from fuel_dialect.attributes import HOST
from fuel_dialect.errors import ArgumentError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_dialect.targets.machine import Topology
    from fuel_passes.pipeline import OptimizePass
    from fuel_passes.plan.measurements import MeasurementSource
    from fuel_runtime.devices import Devices


def planned_for(
    topology: str | PathLike[str] | Topology | None, devices: Devices
) -> str | Topology:
    """
    The topology that a session plans for: the one it was given, else what its devices say.

    Raises `FuelPassError` for a preset or a file that is none.
    """
    if topology is None:
        return _of_devices(devices)
    if not isinstance(topology, str | PathLike):
        return topology
    from fuel_passes.plan.topology import preset, read

    name = os.fspath(topology)
    return read(name) if name.endswith(".json") else preset(name)


def _of_devices(devices: Devices) -> str | Topology:
    """The preset of the host, or a machine with each other device in a slot beside it."""
    targets = tuple(device.target for device in devices.present)
    if all(target.device.label == HOST for target in targets):
        return "cpu"
    from fuel_dialect.targets.machine import assumed

    return assumed(str(devices), targets)


@dataclass(frozen=True)
class Planning:
    """How a session has programs planned."""

    topology: str | Topology
    deterministic: bool = False
    max_ulps: int | None = None
    measurements: str | PathLike[str] | MeasurementSource | None = None

    def __post_init__(self) -> None:
        most = cast(object, self.max_ulps)
        if most is None:
            return
        if not isinstance(most, int) or isinstance(most, bool) or most < 0:
            raise ArgumentError(f"session: max_ulps must be a whole number >= 0, got {most!r}")

    def prepare(self, module: ModuleOp, variants: Literal["bake", "keep"]) -> OptimizePass:
        """The pipeline for a module, which carries a topology that has no name from then on."""
        from fuel_passes.pipeline import OptimizePass
        from fuel_passes.plan.topology import STAMP, attribute_of

        named = self.topology if isinstance(self.topology, str) else None
        if not isinstance(self.topology, str):
            module.attributes[STAMP] = attribute_of(self.topology)
        measured = self.measurements
        if isinstance(measured, PathLike):
            measured = os.fspath(measured)
        return OptimizePass(
            variants=variants,
            topology=named,
            deterministic=self.deterministic,
            max_ulps=self.max_ulps,
            measurements=measured,
        )
