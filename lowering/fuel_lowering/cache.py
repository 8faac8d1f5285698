# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps compiled kernels on disk, for every process of this user.

A cache never decides whether a compile succeeds: what cannot be read, does not match the checksum
of its key and bytes, or is not what the compiler makes, is compiled again, and what cannot be
written is not kept. Nobody waits for it: only regular files are opened. An entry or a folder of
another user, or that others may write, is not used. An entry is written to a file of its own and
renamed, so that a reader sees all of it or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from fuel_dialect import knobs

T = TypeVar("T")

_MAGIC = b"fuel\x02"
_HEADER_BYTES = len(_MAGIC) + 32
_SUFFIX = ".kernel"
_UNFINISHED = ".part"
_UNFINISHED_SECONDS = 3600.0
_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def key(*parts: str | bytes) -> str:
    """Names an entry by everything that its bytes depend on: source, target, options, versions."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get(key: str, read: Callable[[bytes], T]) -> T | None:
    """
    Returns what `read` makes of an entry; None where there is none, or none that can be used.

    An entry that `read` raises an error for is one that cannot be used. Entries that are offered
    are looked at first.
    """
    offered = _OFFERED.get(key)
    if offered is not None:
        with contextlib.suppress(Exception):
            return _collected(key, offered, read(offered))
    path = _path(key)
    if path is None or not _is_ours(path.parent, stat.S_ISDIR):
        return None
    try:
        stored = _content(path)
    except FileNotFoundError:
        return None
    except (OSError, MemoryError):
        return _drop(path)
    data = None if stored is None else _checked(key, stored)
    if data is None:
        return _drop(path)
    try:
        found = read(data)
    except Exception:  # a right checksum over wrong bytes: anything may go wrong with them
        return _drop(path)
    with contextlib.suppress(OSError):
        os.utime(path, follow_symlinks=False)
    return _collected(key, data, found)


def put(key: str, data: bytes) -> None:
    """Keeps an entry, and lets the least recently used ones go where the cache is full."""
    _collected(key, data, None)
    path = _path(key)
    if path is None or len(data) + _HEADER_BYTES > knobs.cache_bytes():
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(path.parent, stat.S_ISDIR):
            stored = _MAGIC + _digest(key, data) + data
            _write(path, stored)
            _make_room(path.parent, knobs.cache_bytes(), len(stored))


_OFFERED: dict[str, bytes] = {}
_COLLECTING: list[dict[str, bytes]] = []


@contextlib.contextmanager
def offering(entries: Mapping[str, bytes]) -> Iterator[None]:
    """Lets every thread find these entries in the block, whatever is on disk."""
    _OFFERED.update(entries)
    try:
        yield
    finally:
        for key in entries:
            _OFFERED.pop(key, None)


@contextlib.contextmanager
def collecting() -> Iterator[Mapping[str, bytes]]:
    """Gives the entries that any thread finds or keeps in the block, once it has ended."""
    found: dict[str, bytes] = {}
    _COLLECTING.append(found)
    try:
        yield found
    finally:
        # Equal dictionaries of two threads are told apart.
        _COLLECTING[:] = [each for each in _COLLECTING if each is not found]


def _collected(key: str, data: bytes, found: T) -> T:
    for collected in tuple(_COLLECTING):
        collected[key] = data
    return found


def clear() -> None:
    """Removes every entry."""
    folder = _folder()
    if folder is not None and _is_ours(folder, stat.S_ISDIR):
        with contextlib.suppress(OSError):
            _trim(folder, 0)


def _folder() -> Path | None:
    directory = knobs.cache_directory()
    return None if directory is None else directory / "kernels"


def _path(key: str) -> Path | None:
    folder = _folder()
    return None if folder is None else folder / f"{key}{_SUFFIX}"


def _is_ours(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Returns True for a folder or file of this user that nobody else may write."""
    try:
        return _is_trusted(path.stat(), is_kind)
    except OSError:
        return False


def _is_trusted(facts: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    is_own = not hasattr(os, "geteuid") or facts.st_uid == os.geteuid()
    return is_kind(facts.st_mode) and is_own and not facts.st_mode & _OF_OTHERS


def _content(path: Path) -> bytes | None:
    """Returns the bytes of a file; None for what is none of ours, or larger than is ever kept."""
    # Opening a device can do something or wait, so what it is is asked before; and once more of
    # what was opened, since it may have been replaced meanwhile.
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with open(os.open(path, _FLAGS), "rb") as file:
        facts = os.fstat(file.fileno())
        if not _is_trusted(facts, stat.S_ISREG) or facts.st_size > knobs.cache_bytes():
            return None
        return file.read(facts.st_size)


def _digest(key: str, data: bytes) -> bytes:
    digest = hashlib.sha256(len(key).to_bytes(8, "little"))
    digest.update(key.encode())
    digest.update(data)
    return digest.digest()


def _checked(key: str, stored: bytes) -> bytes | None:
    """Returns the data of an entry of a key; None if it is damaged, or that of another key."""
    data = stored[_HEADER_BYTES:]
    return data if stored[:_HEADER_BYTES] == _MAGIC + _digest(key, data) else None


def _drop(path: Path) -> None:
    """Removes what cannot be used, where that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()


def _write(path: Path, stored: bytes) -> None:
    number, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(stored)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


_ROOM: dict[tuple[Path, int], int] = {}
"""The bytes that this process may write, by folder and limit, before it looks at all entries."""


def _make_room(folder: Path, limit: int, written: int) -> None:
    """
    Keeps a folder within its limit after so many bytes were written.

    To look at all entries takes long where they are many, so a process does that once for an eighth
    of the limit. Of several processes each may go so far beyond it.
    """
    place = folder, limit
    left = _ROOM.get(place, 0) - written
    _ROOM[place] = left if left >= 0 else min(limit - _trim(folder, limit), limit // SHARE)


SHARE = 8
"""The part of the limit that is cleared at once, and that is written between two looks."""


def _trim(folder: Path, limit: int) -> int:
    """
    Removes entries, oldest first, where there are too many, and what dead processes left.

    Returns the bytes that stay.
    """
    entries: list[tuple[float, int, Path]] = []
    abandoned = time.time() - _UNFINISHED_SECONDS
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if path.suffix == _SUFFIX:
                entries.append((facts.st_mtime, facts.st_size, path))
            elif path.suffix == _UNFINISHED and facts.st_mtime < abandoned:
                path.unlink()
    held = sum(size for _, size, _ in entries)
    if held <= limit:
        return held
    for _, size, path in sorted(entries):
        if held <= limit - limit // SHARE:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        held -= size
    return held
