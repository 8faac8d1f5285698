# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Compiled kernels on disk, shared by every process of this user.

A cache never decides whether a compile succeeds: what cannot be read, or does not match its own
checksum, is compiled again, and what cannot be written is not kept. An entry is written to a file
of its own and renamed, so that a reader sees all of it or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

from fuel_dialect import knobs

_MAGIC = b"fuel\x01"
_DIGEST_BYTES = 32
_SUFFIX = ".kernel"
_UNFINISHED = ".part"
_UNFINISHED_SECONDS = 3600.0


def key(*parts: str | bytes) -> str:
    """Name an entry by everything that its bytes depend on: source, target, options, versions."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get(key: str) -> bytes | None:
    """Read an entry; None where there is none, or where its file is damaged."""
    path = _path(key)
    if path is None:
        return None
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    data = _checked(stored)
    with contextlib.suppress(OSError):
        if data is None:
            path.unlink()
        else:
            os.utime(path)
    return data


def put(key: str, data: bytes) -> None:
    """Keep an entry, and let the least recently used ones go where the cache is full."""
    path = _path(key)
    stored = _MAGIC + hashlib.sha256(data).digest() + data
    if path is None or len(stored) > knobs.cache_bytes():
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, stored)
        _trim(path.parent, knobs.cache_bytes())


def clear() -> None:
    """Remove every entry."""
    folder = _folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            _trim(folder, 0)


def _folder() -> Path | None:
    directory = knobs.cache_directory()
    return None if directory is None else directory / "kernels"


def _path(key: str) -> Path | None:
    folder = _folder()
    return None if folder is None else folder / f"{key}{_SUFFIX}"


def _checked(stored: bytes) -> bytes | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    data = stored[start:]
    whole = stored[:start] == _MAGIC + hashlib.sha256(data).digest()
    return data if whole else None


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


def _trim(folder: Path, limit: int) -> None:
    """Remove entries, oldest first, until what stays fits; and what dead processes left."""
    entries: list[tuple[float, int, Path]] = []
    abandoned = time.time() - _UNFINISHED_SECONDS
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            facts = path.stat()
            if path.suffix == _SUFFIX:
                entries.append((facts.st_mtime, facts.st_size, path))
            elif path.suffix == _UNFINISHED and facts.st_mtime < abandoned:
                path.unlink()
    held = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if held <= limit:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        held -= size
