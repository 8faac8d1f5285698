# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads compiled programs from the files that `saving` writes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.errors import FuelError, SaveFileError
from fuel_lowering import bytecode, cache
from fuel_runtime.call.survey import Survey
from fuel_runtime.compile.assembling import build_straight
from fuel_runtime.compile.hardware import backends_of, hardware_of
from fuel_runtime.compile.parts import Parts
from fuel_runtime.compile.saved_file import (
    ARRAYS,
    BYTECODE,
    CODE,
    MODULE,
    WEIGHTS,
    SavedFile,
    read,
)
from fuel_runtime.compile.saved_values import decode

if TYPE_CHECKING:
    from fuel_dialect.targets.machine import Topology
    from fuel_runtime.call.live import Steering
    from fuel_runtime.compile.executable import Executable
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.devices.present import Devices


def load(
    path: Path,
    devices: Devices,
    weights: Mapping[str, Any] | None,
    steering: Steering,
    bounds: Mapping[str, Any],
    topology: Topology | None,
) -> tuple[Executable, Mapping[str, Any]]:
    """
    Returns the executable of a file, and all weights: those that are given and those in the file.

    `bounds` are the options that a session demands, and `topology` the machine that a person told
    it. Raises `SaveFileError` for a file that is damaged, of another version of fuel, for other
    hardware or not within the bounds; `TopologyChanged`; and what `Session.compile` raises for
    weights and policies.
    """
    file = read(path)
    _check(file, devices, bounds)
    generation = file.facts.generation
    if topology is not None and generation:
        from fuel_passes.planning.topology import check_generation

        check_generation(generation, topology)
    try:
        arrays, given = file.arrays(ARRAYS), dict(file.arrays(WEIGHTS))
        content = msgspec.json.decode(file.parts[CODE])
        lowered = decode(content["lowered"], arrays)
        straight = content["straight"] and decode(content["straight"], arrays)
        constants = decode(content["constants"], arrays)
        codes = bytecode.unpacked(file.parts[BYTECODE])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, FuelError) as error:
        raise SaveFileError(f"{path}: not a whole saved program: {error}") from error
    # Prepared weights are those of the weights in the file: others are prepared anew.
    ready = ChainMap(constants, {} if weights else given)
    merged = ChainMap(constants, cast(Any, weights or {}), given)
    own = replace(devices, present=tuple(d for d in devices.present if _is_in(d, file)))
    kept = msgspec.to_builtins(file.facts.bounds)
    with cache.offering(file.kernels()), bytecode.offering(codes):
        wishes = steering.policy.force or steering.policy.forbid or steering.replayed
        if straight and not wishes and ready.keys() >= set(straight["prepared"]):
            report, members = straight["report"], straight["members"]
            parts = _parts(straight, lowered, own)
            text = file.text(MODULE)
            executable = build_straight(
                text, parts, report, members, merged, generation, kept, constants
            )
            return executable, merged
        return _built(file, own, merged, steering, topology, lowered, kept, ready), merged


def _built(
    file: SavedFile,
    devices: Devices,
    weights: Mapping[str, Any],
    steering: Steering,
    topology: Topology | None,
    *known: Any,
) -> Executable:
    """Returns the executable of the IR of a file, with what is known of it."""
    from fuel_dialect.context import parse_module
    from fuel_passes.planning.topology import resolve
    from fuel_runtime.compile.build import build
    from fuel_runtime.compile.functions import find_function

    module = parse_module(file.text(MODULE), f"{file.path}", is_trusted=True)
    function = find_function(module, file.facts.entry)
    planned = topology or resolve(module)
    return build(module, function, devices, weights, steering, planned, *known)


def _parts(straight: Mapping[str, Any], lowered: Mapping[str, Any], devices: Devices) -> Parts:
    """Returns the parts of a program without decisions."""
    targets = {name: TargetAttr.of(*target) for name, target in straight["targets"].items()}
    owners = {name: devices.serving(target) for name, target in targets.items()}
    nothing = Survey(None, {}, {}, {})
    signature, leaves, route = (straight[name] for name in ("signature", "leaves", "route"))
    return Parts(signature, devices, nothing, {}, lowered, targets, owners, leaves, route)


def _is_in(device: Device, file: SavedFile) -> bool:
    return device.name.label in file.facts.hardware


def _check(file: SavedFile, devices: Devices, bounds: Mapping[str, Any]) -> None:
    """Raises `SaveFileError` unless a session has the hardware and asks for no more."""
    for label, hardware in file.facts.hardware.items():
        missing = devices.why_not(DeviceAttr.of(label))
        if missing is not None:
            raise SaveFileError(f"{file.path} was saved for {label} ({hardware}): {missing}")
        device = devices.at(DeviceAttr.of(label))
        here = hardware_of(device)
        if here != hardware:
            raise SaveFileError(
                f"{file.path} was saved for {label} = {hardware}; here it is {here}: compile the "
                "program on this machine"
            )
        lacking = _lacking(file.facts.targets.get(label, ()), backends_of(device))
        if lacking:
            raise SaveFileError(
                f"{file.path} was saved for {label}/{lacking}, which this session does not have"
            )
    made = file.facts.bounds
    if bounds.get("deterministic") and not made.deterministic:
        raise SaveFileError(f"{file.path} was not compiled with deterministic=True")
    most, said = bounds.get("max_ulps"), made.max_ulps
    if most is not None and (said is None or said > most):
        raise SaveFileError(f"{file.path} was not compiled with max_ulps={most}, but {said}")


def _lacking(wanted: Iterable[str], have: Iterable[str]) -> str | None:
    here = set(have)
    return next((name for name in wanted if name not in here), None)
