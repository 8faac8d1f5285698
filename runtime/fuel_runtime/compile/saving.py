# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes compiled programs to files, which `loading` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fuel_dialect.errors import SaveFileError
from fuel_lowering import bytecode, cache
from fuel_lowering.numpy.run import NumpyRun
from fuel_runtime.compile import saved_file
from fuel_runtime.compile.hardware import backends_of, hardware_of
from fuel_runtime.compile.saved_file import ARRAYS, BYTECODE, CODE, ENDING, KERNELS, MODULE, WEIGHTS
from fuel_runtime.compile.saved_values import RUNS, encode
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.safetensors_files import packed
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from fuel_runtime.call.state import StateType
    from fuel_runtime.compile.code import Code
    from fuel_runtime.compile.parts import Parts
    from fuel_runtime.devices.interface import Device


def save(
    path: Path,
    module: str,
    code: Code,
    members: StateType,
    with_weights: bool,
    walk: Mapping[str, str],
) -> None:
    """
    Writes a program, with the text of its walk by the name of its file.

    Raises `SaveFileError` for another ending of the name, and `OSError`.
    """
    if path.suffix != ENDING:
        raise SaveFileError(f"{path}: the name of a saved program ends in {ENDING}")
    parts = code.parts
    arrays: dict[str, Any] = {}
    constants = {
        name: code.weights[name] for name in sorted(code.constants) if name in code.weights
    }
    content = _code_of(code, members, arrays) | {"constants": encode(constants, arrays)}
    found: dict[str, bytes] = {
        MODULE: module.encode(),
        CODE: msgspec.json.encode(content),
        BYTECODE: bytecode.packed({**_texts(parts), **walk}),
        ARRAYS: packed(arrays),
        **{KERNELS + key: data for key, data in _compiled(parts).items()},
    }
    if with_weights:
        given = {n: array for n, array in code.weights.items() if n not in constants}
        found[WEIGHTS] = packed(given)
    facts = {
        "entry": parts.signature.entry,
        "generation": code.generation,
        "bounds": dict(code.bounds),
        "hardware": {d.name.label: hardware_of(d) for d in _devices(parts)},
        "targets": {d.name.label: backends_of(d) for d in _devices(parts)},
    }
    write_whole(path, lambda file: saved_file.write(file, facts, found))


def _texts(parts: Parts) -> dict[str, str]:
    """Returns the texts that loading executes, by the names of their files."""
    runs = (run for run in parts.lowered.values() if isinstance(run, NumpyRun))
    return {file: text for run in runs for file, text in run.texts.items()}


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


def _compiled(parts: Parts) -> Mapping[str, bytes]:
    """Returns what the compilers of devices made of the kernels of a program, by cache key."""
    with cache.collecting() as found:
        for name, owner in parts.owners.items():
            if isinstance(owner, BufferDevice):
                owner.compile_again(parts.lowered[name])
    return found
