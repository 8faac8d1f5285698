# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Maps files of arrays: an array is a view of its file, and nothing is read before it is asked for.

A mapped file may be replaced by another of its name, as `whole_files` and most tools do it, or be
deleted. One that is changed in place is refused when the next array is asked for; views that a
program has by then show the change, and the process ends if the file has become shorter.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from fuel_dialect.errors import ArrayFileError
from fuel_runtime.call.signature import Array

LOCAL_HEADER, NAME_LENGTHS = 30, 26
"""The bytes before the name of a member of a zip archive, and where among them lengths are."""

ALIGNMENT = 64
"""The bytes whose multiples members of archives start at."""

ZIP64_FIELD = 20
"""The bytes of the field that holds long sizes."""

GAP, GAP_FIELD = struct.Struct("<HH"), 0xD935
"""The head of a field that readers skip, and its number, which other tools use for the same."""

MOST_DIMS = 64
"""The most dims that an array of NumPy has."""


class LazyArrays(Mapping[str, Array]):
    """Holds arrays of files by name; each is mapped or read when it is asked for, and read-only."""

    def __init__(self, readers: Mapping[str, Callable[[], Array]]):
        self._readers = readers

    def __getitem__(self, name: str) -> Array:
        """Returns an array. Raises `ArrayFileError` if it is damaged or its file has changed."""
        return self._readers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._readers)})"


class MappedFile:
    """Holds a file that is mapped for reading. Raises `OSError` if it cannot be."""

    def __init__(self, path: Path):
        self.path = path
        self._place = path.absolute()
        if stat.S_ISFIFO(path.stat().st_mode):  # opening one waits for somebody who writes
            raise OSError(errno.ESPIPE, "a pipe cannot be mapped; write it to a file", str(path))
        with path.open("rb") as file:
            self._found = os.fstat(file.fileno())
            size = self._found.st_size
            self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else None
        self.buffer = memoryview(self._map or b"")

    def check(self) -> None:
        """Raises `ArrayFileError` if the file has been changed since it was mapped."""
        if self._map is not None and self._map.size() < len(self.buffer):
            raise ArrayFileError(f"{self.path} has become shorter since it was opened")
        try:
            now = os.stat(self._place)
        except OSError:
            return
        is_same = (now.st_dev, now.st_ino) == (self._found.st_dev, self._found.st_ino)
        if is_same and now.st_mtime_ns != self._found.st_mtime_ns:
            raise ArrayFileError(f"{self.path} has changed since it was opened")


class Reader(io.RawIOBase):
    """Represents a mapped file as one that is read from its start to its end."""

    def __init__(self, buffer: memoryview):
        self._buffer, self._place = buffer, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        place = (0, self._place, len(self._buffer))[whence] + offset
        if place < 0:
            raise OSError(f"no place {place} in a file")
        self._place = place
        return place

    def readinto(self, into: Any) -> int:
        part = self._buffer[self._place : self._place + len(into)]
        into[: len(part)] = part
        self._place += len(part)
        return len(part)


def stored(buffer: memoryview, info: zipfile.ZipInfo) -> memoryview:
    """Returns the bytes of a member of a zip archive. Raises `ValueError` if it is cut short."""
    lengths = struct.unpack_from("<HH", buffer, info.header_offset + NAME_LENGTHS)
    start = info.header_offset + LOCAL_HEADER + sum(lengths)
    if start + info.compress_size > len(buffer):
        raise ValueError(f"{info.filename!r} ends behind the end of the file")
    return buffer[start : start + info.compress_size]


def open_aligned(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Opens a member of a zip archive for writing, where a reader that maps it finds it aligned."""
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    header = LOCAL_HEADER + len(info.filename.encode()) + ZIP64_FIELD + GAP.size
    start = archive.fp.tell() + header
    gap = -start % ALIGNMENT
    info.extra = GAP.pack(GAP_FIELD, gap) + bytes(gap)
    return archive.open(info, "w", force_zip64=True)


def damaged(path: Path, reason: str) -> ArrayFileError:
    """Returns the error of a file that is cut short, or is not what it claims to be."""
    return ArrayFileError(f"{path}: not a whole {path.suffix[1:]} file: {reason}")


def check_rank(path: Path, name: str, shape: Sequence[int]) -> None:
    """Raises `ArrayFileError` for more dims than an array can have."""
    if len(shape) > MOST_DIMS:
        raise damaged(path, f"{name!r} has {len(shape)} dims; an array has {MOST_DIMS} at most")


def view(
    path: Path,
    name: str,
    buffer: memoryview,
    offset: int,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    order: Literal["C", "F"] = "C",
) -> Array:
    """
    Returns the array at a place of a buffer: a view, or a copy if its elements are not aligned.

    Raises `ArrayFileError` for a shape that no array has, and for wrong truth values.
    """
    try:
        array = np.ndarray(tuple(shape), dtype, buffer, offset, order=order)
    except (ValueError, TypeError, OverflowError) as error:
        raise damaged(path, f"{name!r} of shape {list(shape)}: {error}") from None
    if not array.flags.aligned:
        array = array.copy(order)
        array.flags.writeable = False
    return checked(path, name, array)


def checked(path: Path, name: str, array: Array) -> Array:
    """Returns an array. Raises `ArrayFileError` for truth values that are neither 0 nor 1."""
    if array.dtype == np.bool_ and array.size and (most := int(array.view(np.uint8).max())) > 1:
        raise damaged(path, f"{name!r} has truth values, one of which is {most}")
    return array
