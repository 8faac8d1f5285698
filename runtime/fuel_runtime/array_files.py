# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads and writes files of named arrays, `.safetensors` and `.npz`: arguments, weights and results.

safetensors carries every element type of fuel; npz has no name for bf16 and the 8-bit floats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import ArgumentError, ArrayFileError, WeightError
from fuel_dialect.progress import steps
from fuel_runtime.call.binding import as_array
from fuel_runtime.call.host_memory import wanting
from fuel_runtime.call.signature import Array, Port, describe
from fuel_runtime.mapped_arrays import LazyArrays
from fuel_runtime.npz_files import load_npz, save_npz
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from os import PathLike

    from fuel_dialect.dtypes import DType

INDEX = ".safetensors.index.json"
"""The ending of the index of a checkpoint that is several files."""

MOST_NAMES = 8
"""Of the weights given, how many a message names."""


def load_arrays(path: str | PathLike[str]) -> LazyArrays:
    """
    Map a `.safetensors` or `.npz` file, or several by their `.safetensors.index.json`.

    Only arrays that are asked for are read; they are read-only. Raises `ArrayFileError`, one line,
    for another ending and for a file that is truncated, damaged or claims what it does not hold,
    and `OSError` for one that cannot be read. What is wrong with one array alone is said when it is
    asked for, as is `OutOfMemory` of one that is compressed.
    """
    if os.fspath(path).endswith(INDEX):
        return _load_index(Path(path))
    return _FORMATS[check_ending(path)][0](Path(path))


def save_arrays(path: str | PathLike[str], arrays: Mapping[str, Array]) -> None:
    """
    Write arrays to a `.safetensors` or `.npz` file, as a whole or not at all.

    Raises `ArrayFileError` for another ending and for an element type that npz cannot name.
    """
    ending = check_ending(path)
    check_storable(path, {name: dtypes.of(array.dtype) for name, array in arrays.items()})
    write = _FORMATS[ending][1]
    write_whole(Path(path), lambda file: write(file, arrays))


def check_ending(path: str | PathLike[str]) -> str:
    """The ending of the name of an array file. Raises `ArrayFileError` for one fuel cannot read."""
    if "\0" in (text := os.fspath(path)):
        raise ArrayFileError(f"{text!r} is no name of a file: it holds a zero byte")
    ending = Path(path).suffix
    if ending not in _FORMATS:
        raise ArrayFileError(f"{os.fspath(path)}: the name must end in {' or '.join(_FORMATS)}")
    return ending


def check_storable(path: str | PathLike[str], types: Mapping[str, DType]) -> None:
    """Raise `ArrayFileError` if the file's format has no name for one of the element types."""
    if check_ending(path) != ".npz":
        return
    for name, dtype in types.items():
        if not hasattr(np, dtype.numpy_name or ""):
            raise ArrayFileError(
                f"{os.fspath(path)}: npz cannot hold {name!r}, which is {dtype}; "
                "write a .safetensors file, which can"
            )


def bind_weights(
    needed: Mapping[str, Sequence[Port]], given: Mapping[str, Any]
) -> dict[str, Array]:
    """
    The arrays of the weights of a program, by key; what the program does not read is left out.

    They are used where they lie, not copied, when their elements are contiguous. Raises
    `WeightError` that names every weight that is missing or has another shape or dtype.
    """
    bound: dict[str, Array] = {}
    faults: list[str] = []
    for key, ports in steps("load weights", needed.items(), len(needed), lambda each: each[0]):
        if len(ports) > 1:
            types = " and as ".join(describe(port.dtype.name, port.shape) for port in ports)
            faults.append(f"{key!r}: the program reads it as {types}; a weight has one type")
            continue
        if key not in given:
            expected = describe(ports[0].dtype.name, ports[0].shape)
            faults.append(f"{key!r}: missing, expected {expected}")
            continue
        for port in ports:
            try:
                with wanting(f"weight {port}", port.bytes):
                    bound[key] = np.asarray(as_array(given[key], port, f"{key!r}"), order="C")
            except ArgumentError as error:
                faults.append(str(error))
    if faults:
        names = sorted(given)
        have = ", ".join(names[:MOST_NAMES]) or "none"
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise WeightError(f"weights: {'; '.join(faults)} (given: {have}{more})")
    return bound


_Load = Callable[[Path], LazyArrays]
_Save = Callable[[IO[bytes], Mapping[str, Array]], None]


def _load_safetensors(path: Path) -> LazyArrays:
    from fuel_runtime.safetensors_files import load_safetensors

    return load_safetensors(path)


def _load_index(path: Path) -> LazyArrays:
    from fuel_runtime.safetensors_files import load_index

    return load_index(path)


def _save_safetensors(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    from fuel_runtime.safetensors_files import save_safetensors

    save_safetensors(file, arrays)


_FORMATS: Mapping[str, tuple[_Load, _Save]] = {
    ".safetensors": (_load_safetensors, _save_safetensors),
    ".npz": (load_npz, save_npz),
}
