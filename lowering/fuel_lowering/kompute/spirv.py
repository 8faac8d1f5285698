# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads the needs of a SPIR-V module from its words.

Numbers of instructions, capabilities and storage classes are those of the SPIR-V specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod

MAGIC = 0x07230203
HEADER_WORDS = 5


class Op(IntEnum):
    """The instructions that matter here."""

    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_MATRIX = 24
    TYPE_ARRAY = 28
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    CONSTANT = 43
    VARIABLE = 59


MODE_LOCAL_SIZE = 17
WORKGROUP = 4

CAPABILITIES: Mapping[int, str] = {
    1: "Shader",
    9: "Float16",
    10: "Float64",
    11: "Int64",
    12: "Int64Atomics",
    22: "Int16",
    39: "Int8",
    61: "GroupNonUniform",
    63: "GroupNonUniformArithmetic",
    4433: "StorageBuffer16BitAccess",
    4448: "StorageBuffer8BitAccess",
}
"""The capabilities that compute shaders ask for, by number."""


@dataclass(frozen=True)
class Facts:
    """Represents the needs of one shader."""

    local_size: tuple[int, int, int]
    shared_bytes: int
    capabilities: tuple[str, ...]

    @property
    def invocations(self) -> int:
        """The number of invocations of a workgroup."""
        return prod(self.local_size)


@dataclass
class _Module:
    local_size: tuple[int, int, int] = (1, 1, 1)
    capabilities: list[str] = field(default_factory=list[str])
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    """Bytes of each type."""
    pointees: dict[int, int] = field(default_factory=dict[int, int])
    constants: dict[int, int] = field(default_factory=dict[int, int])
    shared: int = 0


def facts_of(module: bytes) -> Facts:
    """Read a module. Raises `ValueError` for bytes that are none."""
    found = _Module()
    for code, words in _instructions(module):
        _read(found, code, words)
    return Facts(found.local_size, found.shared, tuple(found.capabilities))


def _instructions(module: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    words = tuple(memoryview(module[: len(module) // 4 * 4]).cast("I"))
    if len(words) < HEADER_WORDS or words[0] != MAGIC:
        raise ValueError("these bytes are no SPIR-V module in this machine's byte order")
    at = HEADER_WORDS
    while at < len(words):
        count = words[at] >> 16
        if count == 0 or at + count > len(words):
            raise ValueError(f"the SPIR-V module is cut off at word {at}")
        yield words[at] & 0xFFFF, words[at + 1 : at + count]
        at += count


def _read(found: _Module, code: int, words: tuple[int, ...]) -> None:
    match code:
        case Op.CAPABILITY:
            found.capabilities.append(CAPABILITIES.get(words[0], f"number {words[0]}"))
        case Op.EXECUTION_MODE if words[1] == MODE_LOCAL_SIZE:
            found.local_size = (words[2], words[3], words[4])
        case Op.CONSTANT:
            found.constants[words[1]] = words[2]
        case Op.TYPE_POINTER:
            found.pointees[words[0]] = words[2]
        case Op.VARIABLE if words[2] == WORKGROUP:
            found.shared += found.sizes[found.pointees[words[0]]]
        case _:
            _read_type(found, code, words)


def _read_type(found: _Module, code: int, words: tuple[int, ...]) -> None:
    sizes = found.sizes
    match code:
        case Op.TYPE_BOOL:
            sizes[words[0]] = 4
        case Op.TYPE_INT | Op.TYPE_FLOAT:
            sizes[words[0]] = words[1] // 8
        case Op.TYPE_VECTOR | Op.TYPE_MATRIX:
            sizes[words[0]] = sizes[words[1]] * words[2]
        case Op.TYPE_ARRAY:
            sizes[words[0]] = sizes.get(words[1], 0) * found.constants.get(words[2], 0)
        case Op.TYPE_STRUCT:
            sizes[words[0]] = sum(sizes.get(member, 0) for member in words[1:])
        case _:
            pass
