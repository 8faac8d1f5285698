# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads and writes files of named arrays, `.safetensors` and `.npz`: arguments, weights and results.

safetensors carries every element type of fuel; npz has no name for bf16 and the 8-bit floats.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import ArgumentError, ArrayFileError, OutOfMemory, WeightError
from fuel_runtime.call.binding import as_array
from fuel_runtime.call.host_memory import out_of_memory, physical_bytes, wanting
from fuel_runtime.call.signature import Array, Port, describe
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from os import PathLike

    from fuel_dialect.dtypes import DType

MOST_DIMS = 64
"""The most dims that an array of NumPy has."""

MOST_EXPANSION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""The compressions of npz files, and the bytes that one byte can expand to."""

MOST_NAMES = 8
"""Of the weights given, how many a message names."""

NUMPY_NAMES: Mapping[str, str] = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
"""The element types of a safetensors header, as NumPy or ml_dtypes name them."""


def load_arrays(path: str | PathLike[str]) -> dict[str, Array]:
    """
    Read all arrays of a `.safetensors` or `.npz` file.

    Raises `ArrayFileError`, one line, for another ending and for a file that is truncated, damaged
    or claims what it does not hold, `OutOfMemory`, and `OSError` for one that cannot be read.
    """
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
    for key, ports in needed.items():
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


def _load_safetensors(path: Path) -> dict[str, Array]:
    with wanting(f"{path}", path.stat().st_size):
        return unpacked(path, path.read_bytes())


def unpacked(path: Path, content: bytes) -> dict[str, Array]:
    """Returns the arrays of the bytes of a safetensors file. Raises `ArrayFileError`."""
    import safetensors

    try:
        entries = safetensors.deserialize(content)
        _check_unique(path, content)
    except (safetensors.SafetensorError, RecursionError) as error:
        raise _damaged(path, f"{error}") from None
    return {name: _decoded(path, name, entry) for name, entry in entries}


def packed(arrays: Mapping[str, Array]) -> bytes:
    """Returns the bytes of a safetensors file of some arrays."""
    from safetensors.numpy import save

    return save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def _damaged(path: Path, reason: str) -> ArrayFileError:
    return ArrayFileError(f"{path}: not a whole {path.suffix[1:]} file: {reason}")


def _check_unique(path: Path, content: bytes) -> None:
    """Raises `ArrayFileError` for a header that names an array twice: readers disagree on it."""
    start = 8
    size = int.from_bytes(content[:start], "little")

    def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _damaged(path, f"its header has {twice!r} twice")
        return found

    json.loads(content[start : start + size], object_pairs_hook=refuse_twice)


def _decoded(path: Path, name: str, entry: Mapping[str, Any]) -> Array:
    known, shape = NUMPY_NAMES.get(entry["dtype"]), entry["shape"]
    if known is None:
        raise ArrayFileError(f"{path}: {name!r} is {entry['dtype']}, which NumPy has no dtype for")
    if hasattr(np, known):
        dtype = np.dtype(getattr(np, known))
    else:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, known))
    _check_shape(path, name, shape)
    try:
        array = np.frombuffer(entry["data"], dtype).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise _damaged(path, f"{name!r} of shape {shape}: {error}") from None
    return _checked(path, name, array)


def _check_shape(path: Path, name: str, shape: Sequence[int]) -> None:
    if len(shape) > MOST_DIMS:
        raise _damaged(path, f"{name!r} has {len(shape)} dims; an array has {MOST_DIMS} at most")


def _checked(path: Path, name: str, array: Array) -> Array:
    """Returns an array. Raises `ArrayFileError` for truth values that are neither 0 nor 1."""
    if array.dtype == np.bool_ and array.size and (most := int(array.view(np.uint8).max())) > 1:
        raise _damaged(path, f"{name!r} has truth values, one of which is {most}")
    return array


def _load_npz(path: Path) -> dict[str, Array]:
    with path.open("rb") as handle:
        start = handle.read(len(np.lib.format.MAGIC_PREFIX))
        if start == np.lib.format.MAGIC_PREFIX:
            raise ArrayFileError(f"{path}: not an npz file, but a single array")
        if start and not start.startswith(b"PK"):
            raise ArrayFileError(f"{path}: not an npz file, which is a zip archive of arrays")
        handle.seek(0)
        try:
            with zipfile.ZipFile(handle) as archive:
                return _members(path, archive)
        except (ArrayFileError, OutOfMemory):
            raise
        except MemoryError as error:
            raise out_of_memory(f"{path}", error) from error
        except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds for wrong bytes
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise _damaged(path, f"{reason}") from None


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, Array]:
    """
    Returns the arrays of an archive.

    What members claim is compared with what the file can hold before anything is unpacked.
    """
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(members) < len(archive.infolist()):
        names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
        twice = next(name for name in names if names.count(name) > 1)
        raise _damaged(path, f"it has {twice!r} twice")
    if sum(info.compress_size for info in members.values()) > path.stat().st_size:
        raise _damaged(path, "its members take more than it has")
    for name, info in members.items():
        _check_member(path, archive, name, info)
    total = sum(info.file_size for info in members.values())
    if total > (most := physical_bytes()):
        raise OutOfMemory(f"cpu: {path}, {total:,} bytes of arrays; the host has {most:,}")
    found: dict[str, Array] = {}
    for name, info in members.items():
        with archive.open(info) as member, wanting(f"{name!r} of {path}", info.file_size):
            array = np.lib.format.read_array(member, allow_pickle=False)
            found[name] = _checked(path, name, array)
    return found


def _check_member(path: Path, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> None:
    """Raises `ArrayFileError` for a member that is no array, or not as large as it claims."""
    rate = MOST_EXPANSION.get(info.compress_type)
    if rate is None:
        raise _damaged(path, f"{name!r} is compressed as npz files are not")
    if info.file_size > rate * info.compress_size:
        raise _damaged(
            path,
            f"{name!r} claims {info.file_size:,} bytes, more than {info.compress_size:,} "
            "compressed ones hold",
        )
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        # Version 3.0 is for names of fields alone.
        if version not in readers:
            raise _damaged(path, f"{name!r} has a header of the unknown version {version}")
        shape, _, dtype = readers[version](member)
        _check_shape(path, name, shape)
        claimed = member.tell() + prod(shape) * dtype.itemsize
    if dtype.hasobject or claimed == info.file_size:
        return
    raise _damaged(
        path,
        f"{name!r} claims to be {describe(str(dtype), shape)}, {claimed:,} bytes with its "
        f"header, and has {info.file_size:,}",
    )


def _save_safetensors(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    file.write(packed(arrays))


def _save_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """As `numpy.savez` does, which cannot write an array called "file"."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


_Load = Callable[[Path], dict[str, Array]]
_Save = Callable[[IO[bytes], Mapping[str, Array]], None]

_FORMATS: Mapping[str, tuple[_Load, _Save]] = {
    ".safetensors": (_load_safetensors, _save_safetensors),
    ".npz": (_load_npz, _save_npz),
}
