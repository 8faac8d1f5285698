# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes compiled programs to files, which `loading` reads.

A file is a zip archive of named parts: `program.json` says what the others are for, with a checksum
of each; `module.mlir` is the optimised IR; `code.json` and `arrays.safetensors` hold the runs, and
the route of a program without decisions; `kernels/` has what compilers made of device code, and
`weights.safetensors` the weights, if they were asked for. The runs of the host are Python text that
loading executes: a file is as trusted as a program.
"""

from __future__ import annotations

import hashlib
import json
import platform
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fuel_dialect.errors import SaveFileError
from fuel_lowering import cache
from fuel_runtime.compile.saved_values import RUNS, encode
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.mapped_arrays import open_aligned
from fuel_runtime.safetensors_files import packed
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from fuel_runtime.call.state import StateType
    from fuel_runtime.compile.code import Code
    from fuel_runtime.compile.parts import Parts
    from fuel_runtime.devices.interface import Device

ENDING = ".fuel"
FORMAT = 1
"""The version of the parts and of what is in them."""

MANIFEST, MODULE, CODE = "program.json", "module.mlir", "code.json"
ARRAYS, WEIGHTS, KERNELS = "arrays.safetensors", "weights.safetensors", "kernels/"


def save(path: Path, module: str, code: Code, members: StateType, with_weights: bool) -> None:
    """Writes a program. Raises `SaveFileError` for another ending, and `OSError`."""
    if path.suffix != ENDING:
        raise SaveFileError(f"{path}: the name of a saved program ends in {ENDING}")
    parts = code.parts
    arrays: dict[str, Any] = {}
    content = _code_of(code, members, arrays)
    found: dict[str, bytes] = {
        MODULE: module.encode(),
        CODE: _json(content),
        ARRAYS: packed(arrays),
        **{KERNELS + key: data for key, data in _compiled(parts).items()},
    }
    if with_weights:
        found[WEIGHTS] = packed(code.weights)
    facts = {
        "format": FORMAT,
        "fuel": version("fuel-compiler"),
        "entry": parts.signature.entry,
        "generation": code.generation,
        "bounds": dict(code.bounds),
        "hardware": {d.name.label: hardware_of(d) for d in _devices(parts)},
        "targets": {d.name.label: backends_of(d) for d in _devices(parts)},
        "parts": {name: hashlib.sha256(data).hexdigest() for name, data in found.items()},
    }
    write_whole(path, lambda file: _write(file, {MANIFEST: _json(facts), **found}))


def _write(file: IO[bytes], parts: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            with open_aligned(archive, name) as part:
                part.write(data)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _code_of(code: Code, members: StateType, arrays: dict[str, Any]) -> dict[str, Any]:
    """Returns what is in `code.json`: runs, and the rest if the program has no decision."""
    parts = code.parts
    runs = {name: run for name, run in parts.lowered.items() if isinstance(run, RUNS)}
    is_straight = not parts.survey.decisions and len(runs) == len(parts.lowered)
    content: dict[str, Any] = {"lowered": encode(runs, arrays), "straight": None}
    if is_straight:
        targets = {name: _target_of(name, parts) for name in runs}
        content["straight"] = encode(
            {
                "signature": parts.signature,
                "targets": targets,
                "leaves": parts.leaves,
                "route": parts.route,
                "report": code.report,
                "prepared": [each.name for each in code.report.prepared],
                "members": [device.name for device in members.devices],
            },
            arrays,
        )
    return content


def _target_of(name: str, parts: Parts) -> list[str]:
    target = parts.targets[name]
    return [target.device.label, target.backend.data]


def _devices(parts: Parts) -> list[Device]:
    """Returns the devices that a program may use: all of the session if it has decisions."""
    devices = parts.devices
    if parts.survey.decisions:
        return list(dict.fromkeys((devices.host, *devices.present)))
    used = [devices.at(transfer.to) for transfer in parts.route.transfers]
    return list(dict.fromkeys((devices.host, *parts.owners.values(), *used)))


def hardware_of(device: Device) -> str:
    """Returns what has to be the same for generated code to run on a device."""
    return device.identity if isinstance(device, BufferDevice) else platform.machine()


def backends_of(device: Device) -> list[str]:
    """Returns the names of the targets of a device."""
    return [target.backend.data for target in device.targets]


def _compiled(parts: Parts) -> Mapping[str, bytes]:
    """Returns what the compilers of devices made of the kernels of a program, by cache key."""
    with cache.collecting() as found:
        for name, owner in parts.owners.items():
            if isinstance(owner, BufferDevice):
                owner.compile_again(parts.lowered[name])
    return found
