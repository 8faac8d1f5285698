# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads and writes the format npz: a zip archive of arrays.

A member that is stored as it is is mapped, and its checksum compared when it is asked for; one that
is compressed is read then.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from fuel_dialect.errors import ArrayFileError, FuelError, OutOfMemory
from fuel_runtime.call.host_memory import out_of_memory, physical_bytes, wanting
from fuel_runtime.call.signature import Array, describe
from fuel_runtime.mapped_arrays import (
    LazyArrays,
    MappedFile,
    Reader,
    check_rank,
    checked,
    damaged,
    open_aligned,
    stored,
    view,
)

_T = TypeVar("_T")

MOST_EXPANSION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""The compressions of npz files, and the bytes that one byte can expand to."""


@dataclass(frozen=True)
class Member:
    """Represents an array in an archive."""

    info: zipfile.ZipInfo
    data: memoryview
    """Its bytes in the file, compressed or not."""
    header: int
    """The bytes before its elements."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool


def load_npz(path: Path) -> LazyArrays:
    """Maps a file. Raises `ArrayFileError` if it is damaged or no archive, and `OSError`."""
    file = MappedFile(path)
    magic = np.lib.format.MAGIC_PREFIX
    if file.buffer[: len(magic)] == magic:
        raise ArrayFileError(f"{path}: not an npz file, but a single array")
    if file.buffer and file.buffer[:2] != b"PK":
        raise ArrayFileError(f"{path}: not an npz file, which is a zip archive of arrays")
    archive, members = _guarded(path, lambda: _members(file))
    return LazyArrays(
        {
            name: partial(_guarded, path, partial(_read, file, archive, name, member))
            for name, member in members.items()
        }
    )


def _guarded(path: Path, act: Callable[[], _T]) -> _T:
    """Returns what an action does; raises its errors as those of a damaged file."""
    try:
        return act()
    except FuelError:
        raise
    except MemoryError as error:
        raise out_of_memory(f"{path}", error) from error
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds for wrong bytes
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise damaged(path, f"{reason}") from None


def _members(file: MappedFile) -> tuple[zipfile.ZipFile, dict[str, Member]]:
    """
    Returns an archive, and its arrays by name.

    What members claim is compared with what the file can hold before anything is unpacked.
    """
    path, archive = file.path, zipfile.ZipFile(Reader(file.buffer))
    infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
        twice = next(name for name in names if names.count(name) > 1)
        raise damaged(path, f"it has {twice!r} twice")
    if sum(info.compress_size for info in infos.values()) > len(file.buffer):
        raise damaged(path, "its members take more than it has")
    return archive, {name: _member(file, archive, name, info) for name, info in infos.items()}


def _member(file: MappedFile, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> Member:
    """Raises `ArrayFileError` for a member that is no array, or not as large as it claims."""
    path, rate = file.path, MOST_EXPANSION.get(info.compress_type)
    if rate is None:
        raise damaged(path, f"{name!r} is compressed as npz files are not")
    if info.file_size > rate * info.compress_size:
        raise damaged(
            path,
            f"{name!r} claims {info.file_size:,} bytes, more than {info.compress_size:,} "
            "compressed ones hold",
        )
    with archive.open(info) as opened:
        version = np.lib.format.read_magic(opened)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        # Version 3.0 is for names of fields alone.
        if version not in readers:
            raise damaged(path, f"{name!r} has a header of the unknown version {version}")
        shape, is_fortran, dtype = readers[version](opened)
        header = opened.tell()
    check_rank(path, name, shape)
    if dtype.hasobject:
        raise damaged(path, "Object arrays cannot be loaded: they are pickles, which run code")
    claimed = header + prod(shape) * dtype.itemsize
    if claimed != info.file_size:
        raise damaged(
            path,
            f"{name!r} claims to be {describe(str(dtype), shape)}, {claimed:,} bytes with its "
            f"header, and has {info.file_size:,}",
        )
    return Member(info, stored(file.buffer, info), header, dtype, shape, is_fortran)


def _read(file: MappedFile, archive: zipfile.ZipFile, name: str, member: Member) -> Array:
    """Returns an array: a view if it is stored as it is, else a new one."""
    file.check()
    path, info, size = file.path, member.info, member.info.file_size
    if info.compress_type == zipfile.ZIP_STORED:
        if zlib.crc32(member.data) != info.CRC:
            raise damaged(path, f"Bad CRC-32 for file {info.filename!r}")
        order = "F" if member.is_fortran else "C"
        return view(path, name, member.data, member.header, member.dtype, member.shape, order)
    if size > (most := physical_bytes()):
        raise OutOfMemory(f"cpu: {name!r} of {path}, {size:,} bytes; the host has {most:,}")
    with archive.open(info) as opened, wanting(f"{name!r} of {path}", size):
        array = np.lib.format.read_array(opened, allow_pickle=False)
    array.flags.writeable = False
    return checked(path, name, array)


def save_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Writes arrays as `numpy.savez` does, which cannot write an array called "file"."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with open_aligned(archive, f"{name}.npy") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
