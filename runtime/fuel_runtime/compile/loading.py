# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads compiled programs from the files that `saving` writes."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuel_dialect.attributes import DeviceAttr, TargetAttr
from fuel_dialect.context import load_program
from fuel_dialect.errors import ArrayFileError, SaveFileError
from fuel_lowering import cache
from fuel_passes.planning.topology import check_generation, resolve
from fuel_runtime.call.survey import Survey
from fuel_runtime.compile.build import build, build_straight
from fuel_runtime.compile.functions import find_function
from fuel_runtime.compile.parts import Parts
from fuel_runtime.compile.saved_values import decode
from fuel_runtime.compile.saving import (
    ARRAYS,
    CODE,
    FORMAT,
    KERNELS,
    MANIFEST,
    MODULE,
    WEIGHTS,
    backends_of,
    hardware_of,
)
from fuel_runtime.mapped_arrays import MappedFile, Reader, stored
from fuel_runtime.safetensors_files import arrays_in

if TYPE_CHECKING:
    from fuel_dialect.targets.machine import Topology
    from fuel_runtime.call.live import Steering
    from fuel_runtime.compile.executable import Executable
    from fuel_runtime.devices.interface import Device
    from fuel_runtime.devices.present import Devices


DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""The errors that reading a damaged file raises."""


@dataclass(frozen=True)
class SavedFile:
    """Holds the parts of a file, which agree with their checksums."""

    path: Path
    facts: Mapping[str, Any]
    parts: Mapping[str, memoryview]
    mapped: MappedFile

    def text(self, name: str) -> str:
        """Returns a part as text."""
        return bytes(self.parts[name]).decode()

    def arrays(self, name: str) -> Mapping[str, Any]:
        """Returns the arrays of a part, which stay in the file; none if there is no such part."""
        return arrays_in(self.mapped, self.parts[name]) if name in self.parts else {}

    def kernels(self) -> dict[str, bytes]:
        """Returns what compilers made, by the keys of the kernel cache."""
        names = (name for name in self.parts if name.startswith(KERNELS))
        return {name.removeprefix(KERNELS): bytes(self.parts[name]) for name in names}


def load(
    path: Path,
    devices: Devices,
    weights: Mapping[str, Any] | None,
    steering: Steering,
    bounds: Mapping[str, Any],
    topology: Topology | None,
) -> Executable:
    """
    Returns the executable of a file.

    `bounds` are the options that a session demands, and `topology` the machine that a person told
    it. Raises `SaveFileError` for a file that is damaged, of another version of fuel, for other
    hardware or not within the bounds; `TopologyChanged`; and what `Session.compile` raises for
    weights and policies.
    """
    file = _read(path)
    _check(file, devices, bounds)
    generation = file.facts["generation"]
    if topology is not None and generation:
        check_generation(generation, topology)
    try:
        arrays, given = file.arrays(ARRAYS), dict(file.arrays(WEIGHTS))
        content = json.loads(file.text(CODE))
        lowered = decode(content["lowered"], arrays)
        straight = content["straight"] and decode(content["straight"], arrays)
    except (LookupError, TypeError, ValueError, AttributeError, ArrayFileError) as error:
        raise SaveFileError(f"{path}: not a whole saved program: {error}") from error
    # Prepared weights are those of the weights in the file: others are prepared anew.
    ready = {} if weights else given
    given = {**given, **(weights or {})}
    own = replace(devices, present=tuple(d for d in devices.present if _is_in(d, file)))
    with cache.offering(file.kernels()):
        wishes = steering.policy.force or steering.policy.forbid or steering.replayed
        if straight and not wishes and ready.keys() >= set(straight["prepared"]):
            parts = _parts(straight, lowered, own)
            kept = {"generation": generation, "bounds": file.facts["bounds"]}
            return build_straight(
                file.text(MODULE), parts, straight["report"], straight["members"], given, **kept
            )
        module = load_program(file.text(MODULE))
        function = find_function(module, file.facts["entry"])
        planned = topology or resolve(module)
        bounds = file.facts["bounds"]
        return build(module, function, own, given, steering, planned, lowered, bounds, ready)


def _parts(straight: Mapping[str, Any], lowered: Mapping[str, Any], devices: Devices) -> Parts:
    """Returns the parts of a program without decisions."""
    targets = {name: TargetAttr.of(*target) for name, target in straight["targets"].items()}
    owners = {name: devices.serving(target) for name, target in targets.items()}
    nothing = Survey(None, {}, {}, {})
    signature, leaves, route = (straight[name] for name in ("signature", "leaves", "route"))
    return Parts(signature, devices, nothing, {}, lowered, targets, owners, leaves, route)


def _is_in(device: Device, file: SavedFile) -> bool:
    return device.name.label in file.facts["hardware"]


def _read(path: Path) -> SavedFile:
    """Reads the parts of a file. Raises `SaveFileError`, and `OSError` for no file."""
    mapped = MappedFile(path)
    try:
        with zipfile.ZipFile(Reader(mapped.buffer)) as archive:
            infos = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise SaveFileError(f"{path}: not a saved program: its parts are compressed")
            if sum(info.file_size for info in infos) > len(mapped.buffer):
                raise SaveFileError(f"{path}: not a whole saved program: its parts overlap")
            facts = _facts(path, archive)
            parts = {info.filename: stored(mapped.buffer, info) for info in infos}
    except DAMAGE as error:
        raise SaveFileError(f"{path}: not a whole saved program: {error}") from error
    del parts[MANIFEST]
    for name in {*facts["parts"], *parts}:
        data = parts.get(name)
        if data is None or hashlib.sha256(data).hexdigest() != facts["parts"].get(name):
            raise SaveFileError(f"{path}: not a whole saved program: its part {name} is damaged")
    return SavedFile(path, facts, parts, mapped)


FACTS: Mapping[str, type | tuple[type, ...]] = {
    "entry": str,
    "generation": str,
    "bounds": dict,
    "hardware": dict,
    "targets": dict,
    "parts": dict,
}


def _facts(path: Path, archive: zipfile.ZipFile) -> Mapping[str, Any]:
    """Reads the first part, and checks versions before anything else is believed."""
    try:
        facts = json.loads(archive.read(MANIFEST))
        form, made_by = facts["format"], facts["fuel"]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise SaveFileError(f"{path}: not a saved program: {error}") from error
    here = version("fuel-compiler")
    if form != FORMAT or made_by != here:
        raise SaveFileError(
            f"{path} was saved by fuel {made_by} in format {form}; this is fuel {here}, which "
            f"reads its own of format {FORMAT}: compile the program again"
        )
    wrong = [name for name, kind in FACTS.items() if not isinstance(facts.get(name), kind)]
    if wrong:
        raise SaveFileError(f"{path}: not a whole saved program: its {wrong[0]} cannot be read")
    return facts


def _check(file: SavedFile, devices: Devices, bounds: Mapping[str, Any]) -> None:
    """Raises `SaveFileError` unless a session has the hardware and asks for no more."""
    for label, hardware in file.facts["hardware"].items():
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
        lacking = _lacking(file.facts["targets"].get(label, ()), backends_of(device))
        if lacking:
            raise SaveFileError(
                f"{file.path} was saved for {label}/{lacking}, which this session does not have"
            )
    made = file.facts["bounds"]
    if bounds.get("deterministic") and not made.get("deterministic"):
        raise SaveFileError(f"{file.path} was not compiled with deterministic=True")
    most, said = bounds.get("max_ulps"), made.get("max_ulps")
    if most is not None and (said is None or said > most):
        raise SaveFileError(f"{file.path} was not compiled with max_ulps={most}, but {said}")


def _lacking(wanted: Iterable[str], have: Iterable[str]) -> str | None:
    here = set(have)
    return next((name for name in wanted if name not in here), None)
