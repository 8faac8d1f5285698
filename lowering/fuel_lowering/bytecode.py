# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Compiles generated Python, or finds what was compiled of it before.

Python takes far longer to compile a text than to read its bytecode. A saved program has that with
it, and offers it while it is loaded.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import MAGIC_NUMBER
from types import CodeType
from typing import cast

NOTHING: Mapping[str, CodeType] = {}
_OFFERED: ContextVar[Mapping[str, CodeType]] = ContextVar("offered bytecode", default=NOTHING)


def code_of(source: str, file: str) -> CodeType:
    """Returns the code of a text; `file` is its name in tracebacks."""
    offered = _OFFERED.get()
    known = offered.get(_key(source, file)) if offered else None
    return known or compile(source, file, "exec")


def _key(source: str, file: str) -> str:
    return hashlib.blake2b(f"{file}\n{source}".encode(), digest_size=16).hexdigest()


def packed(sources: Mapping[str, str]) -> bytes:
    """Returns the bytecode of texts by the names of their files, for this version of Python."""
    codes = {_key(source, file): code_of(source, file) for file, source in sources.items()}
    return MAGIC_NUMBER + marshal.dumps(codes)


def unpacked(packed: memoryview) -> Mapping[str, CodeType]:
    """
    Returns what was packed; nothing if another version of Python did.

    Raises `ValueError` for what is no packed bytecode.
    """
    size = len(MAGIC_NUMBER)
    if packed[:size] != MAGIC_NUMBER:
        return NOTHING
    try:
        codes = marshal.loads(packed[size:])
    except (EOFError, TypeError) as error:
        raise ValueError(f"no bytecode: {error}") from error
    if not isinstance(codes, dict) or any(type(code) is not CodeType for code in codes.values()):
        raise ValueError("no bytecode")
    return cast("dict[str, CodeType]", codes)


@contextmanager
def offering(codes: Mapping[str, CodeType]) -> Iterator[None]:
    """Lets `code_of` find bytecode."""
    token = _OFFERED.set(codes)
    try:
        yield
    finally:
        _OFFERED.reset(token)
