# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says what a session asks of the optimiser: the machine, and the options of the pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import HOST
from fuel_dialect.context import make_context
from fuel_dialect.determinism import mark_deterministic
from fuel_dialect.errors import ArgumentError
from fuel_dialect.targets.machine import Topology
from fuel_dialect.targets.presets import PRESETS
from fuel_runtime.call.host_memory import physical_bytes
from fuel_runtime.devices.described_topology import bounded, topology_for

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.devices.present import Devices


def planned_for(
    topology: str | PathLike[str] | Topology | None, devices: Devices
) -> str | Topology:
    """
    The topology that a session plans for: the one it was given, else what its devices say.

    Raises `FuelPassError` for a preset or a file that is none.
    """
    found = _topology(topology, devices)
    told = bounded(found, devices)
    return HOST if topology is None and told is PRESETS[HOST] else told


def _topology(topology: str | PathLike[str] | Topology | None, devices: Devices) -> Topology:
    if topology is None:
        return topology_for(devices)
    if isinstance(topology, Topology):
        return topology
    if not isinstance(topology, str | PathLike):
        raise ArgumentError(
            "session: topology is the name of a preset, a .json file or a Topology, "
            f"not {topology!r}"
        )
    from fuel_passes.planning.topology import preset, read

    name = os.fspath(topology)
    return read(name) if name.endswith(".json") else preset(name)


@dataclass(frozen=True)
class Planning:
    """Has programs planned for the machine of a session, with its options of `fuel-optimize`."""

    topology: str | Topology
    devices: Devices
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those that are not as by default."""
    is_told: bool = False
    """True if a person said what the topology is."""

    def __post_init__(self) -> None:
        if not self.options:
            return
        from fuel_passes.options import why_not

        for name, value in self.options.items():
            reason = why_not(name, value)
            if reason is not None:
                raise ArgumentError(f"session: {reason}")

    @property
    def machine(self) -> Topology:
        """The topology, where that is a preset too."""
        if not isinstance(self.topology, str):
            return self.topology
        from fuel_passes.planning.topology import preset

        return preset(self.topology)

    @property
    def told(self) -> Topology | None:
        """The topology that a person said; None if nobody did."""
        return self.machine if self.is_told else None

    def topology_of(self, module: ModuleOp) -> Topology:
        """Returns the topology that a module is planned for."""
        from fuel_passes.planning.topology import resolve

        told = self.topology
        return resolve(module, told) if isinstance(told, str) else told

    @property
    def bounds(self) -> Mapping[str, Any]:
        """The options that say which kernels may be used at all."""
        return {
            "deterministic": self.options.get("deterministic", False),
            "max_ulps": self.options.get("max_ulps"),
        }

    def take(self, module: ModuleOp) -> None:
        """
        Check the plan of a module that is taken as it is, and say on it what it may use.

        It has to be made for the topology that the session was told, or else for the one that the
        module states. Raises `TopologyChanged` if it is not. What a session's devices amount to is
        no more than a guess at rates, and no reason to refuse.
        """
        from fuel_passes.planning.topology import STAMP, attribute_of, check_plan, resolve

        if self.is_told:
            told = self.topology
            check_plan(module, resolve(module, told) if isinstance(told, str) else told)
        elif STAMP in module.attributes:
            check_plan(module, resolve(module))
        if self.options.get("deterministic"):
            mark_deterministic(module, True)
        if not isinstance(self.topology, str):
            module.attributes.setdefault(STAMP, attribute_of(self.topology))

    def optimize(self, module: ModuleOp, place: tuple[str, ...]) -> None:
        """Optimises a module in place; it carries a topology that has no name from then on."""
        from fuel_passes.pipeline import OptimizePass
        from fuel_passes.planning.topology import STAMP, attribute_of

        named = self.topology if isinstance(self.topology, str) else None
        if not isinstance(self.topology, str):
            module.attributes[STAMP] = attribute_of(self.topology)
        options = {"prepare_bytes": self._room_for_prepared(), **self.options}
        OptimizePass(topology=named, place=place, **options).rewrite(make_context(), module)

    def _room_for_prepared(self) -> int | None:
        """Returns the bytes that prepared weights may take, by the memory of devices present."""
        from fuel_passes.forming.prepare_weights import room_in

        present = (device.total_bytes() for device in self.devices.present)
        return room_in([physical_bytes(), *present])
