# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a plan may use: the topology stamped on the module, or a preset by name."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from fuel_dialect.attributes import TargetAttr, TopologyAttr
from fuel_dialect.errors import FuelPassError
from fuel_dialect.targets.description import BACKENDS, description_of

STAMP = "fuel.topology"
"""The attribute of a module that holds its topology."""

DEFAULT = "cpu"

PRESETS: dict[str, tuple[tuple[str, str], ...]] = {"cpu": (("cpu", "numpy"),)}
"""Devices and backends of each preset, most wanted first."""


def preset(name: str) -> TopologyAttr:
    """The topology of a preset. Raises `FuelPassError` if there is none of that name."""
    if name not in PRESETS:
        raise FuelPassError(
            f"topology {name!r} is not known; the presets are {', '.join(sorted(PRESETS))}"
        )
    targets = [TargetAttr.of(device, backend) for device, backend in PRESETS[name]]
    return TopologyAttr(StringAttr(name), ArrayAttr(targets))


def resolve(module: ModuleOp, option: str | None = None) -> TopologyAttr:
    """
    The preset that a pass was given; else the module's `fuel.topology`; else `cpu`.

    Raises `FuelPassError` for an unknown preset, a stamp that is no topology, and a backend that
    no description covers.
    """
    if option is not None:
        return preset(option)
    stamped = module.attributes.get(STAMP)
    if stamped is None:
        return preset(DEFAULT)
    if not isinstance(stamped, TopologyAttr):
        raise FuelPassError(f"{STAMP} must be a #fuel.topology<...>, got {stamped}")
    for target in stamped.targets:
        if description_of(target.backend.data) is None:
            raise FuelPassError(
                f"topology {stamped.label.data!r}: no backend {target.backend.data!r} is "
                f"described; there are {', '.join(BACKENDS)}"
            )
    return stamped
