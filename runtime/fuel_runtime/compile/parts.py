# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds what is known of a program once its runs are lowered and a route is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_dialect.attributes import TargetAttr
    from fuel_dialect.ops.control import BranchOp, RunOp
    from fuel_lowering.runs.functions import LoweredRun
    from fuel_lowering.runs.leaves import WeightUse
    from fuel_runtime.call.route import Route
    from fuel_runtime.call.signature import Array, Signature
    from fuel_runtime.call.survey import Survey
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.devices.present import Devices
    from fuel_runtime.picker.decision import Pick


@dataclass(frozen=True)
class Parts:
    """All that is known once every run is lowered and a route is chosen."""

    signature: Signature
    devices: Devices
    survey: Survey
    choices: Mapping[BranchOp, Pick]
    lowered: Mapping[str, LoweredRun]
    targets: Mapping[str, TargetAttr]
    """The target of each run."""
    owners: Mapping[str, Device]
    """The device of each run."""
    leaves: Mapping[str, Array | WeightUse]
    """The leaves outside of runs by name: elements, or the weight that they are."""
    route: Route

    @cached_property
    def runs(self) -> Mapping[str, RunOp]:
        """The runs by name."""
        return {name: run for run, name in self.survey.runs.items()}
