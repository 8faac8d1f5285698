# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads and writes the format safetensors, and reads checkpoints that are several such files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from fuel_dialect.errors import ArrayFileError
from fuel_passes.strict_json import MOST, checked, decode, load
from fuel_runtime.call.signature import Array
from fuel_runtime.mapped_arrays import LazyArrays, MappedFile, check_rank, damaged, view

DTYPES: Mapping[str, tuple[str, int]] = {
    "BOOL": ("bool", 1),
    "I8": ("int8", 1),
    "I16": ("int16", 2),
    "I32": ("int32", 4),
    "I64": ("int64", 8),
    "U8": ("uint8", 1),
    "U16": ("uint16", 2),
    "U32": ("uint32", 4),
    "U64": ("uint64", 8),
    "F16": ("float16", 2),
    "F32": ("float32", 4),
    "F64": ("float64", 8),
    "C64": ("complex64", 8),
    "BF16": ("bfloat16", 2),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "F8_E8M0": ("float8_e8m0fnu", 1),
}
"""The element types of a header, as NumPy or ml_dtypes name them, with their bytes."""

LENGTH_BYTES = 8
"""The bytes before the header; they say how long it is."""

MOST_HEADER_BYTES = 100_000_000
"""The longest header that the format allows."""

METADATA = "__metadata__"

Count = Annotated[int, Meta(ge=0, le=MOST)]


class Entry(Struct, frozen=True):
    """Represents an array in a header."""

    dtype: str
    shape: tuple[Count, ...]
    data_offsets: tuple[Count, Count]


class Index(Struct, frozen=True):
    """Represents the index of a checkpoint."""

    weight_map: dict[str, str]
    """The file of each array."""


def load_safetensors(path: Path) -> LazyArrays:
    """Maps a file. Raises `ArrayFileError` if it is damaged, and `OSError`."""
    file = MappedFile(path)
    return arrays_in(file, file.buffer)


def load_index(path: Path) -> LazyArrays:
    """
    Maps the files of a checkpoint by its index.

    Raises `ArrayFileError` for an index that is none, or names a file that is elsewhere, cannot be
    read or lacks an array, and `OSError` for an index that cannot be read.
    """
    try:
        text = bytes(MappedFile(path).buffer).decode()
    except UnicodeDecodeError as error:
        raise ArrayFileError(f"{path} is no text: {error}") from error
    places = decode(text, Index, f"{path}", ArrayFileError).weight_map
    for name in places.values():
        is_here = os.path.basename(name) == name and "\0" not in name
        if not is_here or not name.endswith(".safetensors"):
            raise ArrayFileError(f"{path}: {name!r} is no safetensors file in its folder")
    files: dict[str, LazyArrays] = {}
    for name in dict.fromkeys(places.values()):
        try:
            files[name] = load_safetensors(path.parent / name)
        except OSError as error:
            raise ArrayFileError(f"{path}: it names {name}: {error}") from error
    missing = next((key for key, name in places.items() if key not in files[name]), None)
    if missing is not None:
        raise ArrayFileError(f"{path}: {places[missing]} has no array {missing!r}")
    return LazyArrays({key: partial(files[name].__getitem__, key) for key, name in places.items()})


def arrays_in(file: MappedFile, buffer: memoryview) -> LazyArrays:
    """Returns the arrays of a file of this format inside a mapped one. Raises `ArrayFileError`."""
    path = file.path
    there = max(len(buffer) - LENGTH_BYTES, 0)
    size = int.from_bytes(buffer[:LENGTH_BYTES], "little")
    if len(buffer) < LENGTH_BYTES or size > there:
        raise damaged(path, f"it has {there:,} bytes for a header of {size:,}")
    if size > MOST_HEADER_BYTES:
        raise damaged(path, f"its header takes {size:,} bytes; {MOST_HEADER_BYTES:,} are allowed")
    start = LENGTH_BYTES + size
    entries = _header(path, bytes(buffer[LENGTH_BYTES:start]))
    _check_places(path, entries, len(buffer) - start)
    return LazyArrays(
        {name: partial(_read, file, buffer[start:], name, entry) for name, entry in entries.items()}
    )


def _header(path: Path, header: bytes) -> dict[str, Entry]:
    where = f"{damaged(path, 'its header')}"
    try:
        loaded = checked(load(header.decode(), where, ArrayFileError), dict, where, ArrayFileError)
    except UnicodeDecodeError as error:
        raise damaged(path, f"its header is no text: {error}") from None
    checked(loaded.pop(METADATA, {}), dict[str, str], f"{where}.{METADATA}", ArrayFileError)
    return checked(loaded, dict[str, Entry], where, ArrayFileError)


def _check_places(path: Path, entries: Mapping[str, Entry], size: int) -> None:
    """Raises `ArrayFileError` unless arrays of their sizes follow one another up to the end."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        check_rank(path, name, entry.shape)
        first, after = entry.data_offsets
        if first != end or after < first:
            raise damaged(path, f"{name!r} lies at {first:,} to {after:,}, not from {end:,} on")
        known = DTYPES.get(entry.dtype)
        if known is not None and (takes := prod(entry.shape) * known[1]) != after - first:
            raise damaged(
                path,
                f"{name!r} of shape {list(entry.shape)} takes {takes:,} bytes and has "
                f"{after - first:,}",
            )
        end = after
    if end != size:
        raise damaged(path, f"its arrays take {end:,} bytes and it has {size:,}")


def _read(file: MappedFile, data: memoryview, name: str, entry: Entry) -> Array:
    """Returns an array as a view."""
    file.check()
    known = DTYPES.get(entry.dtype)
    if known is None:
        raise ArrayFileError(
            f"{file.path}: {name!r} is {entry.dtype}, which NumPy has no dtype for"
        )
    return view(file.path, name, data, entry.data_offsets[0], _dtype(known[0]), entry.shape)


def _dtype(name: str) -> np.dtype[Any]:
    if hasattr(np, name):
        return np.dtype(getattr(np, name))
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def packed(arrays: Mapping[str, Array]) -> bytes:
    """Returns the bytes of a file of some arrays. Raises `ArrayFileError` for a reserved name."""
    from safetensors.numpy import save

    if METADATA in arrays:
        raise ArrayFileError(f"an array called {METADATA!r} cannot be in a safetensors file")
    return save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def save_safetensors(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Writes a file of some arrays."""
    file.write(packed(arrays))
