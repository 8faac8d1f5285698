# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads from a cubin, an ELF file, the sizes of a kernel's parameters and its block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import unpack_from

SIZED = 4
"""The form of an attribute that is followed by so many bytes of value."""

PARAMETER, BLOCK = 0x17, 0x10


@dataclass(frozen=True)
class Entry:
    """The parameters of a kernel in order, in bytes, and how many threads a block of it has."""

    sizes: tuple[int, ...]
    threads: int


def entry_of(cubin: bytes, name: str) -> Entry:
    """The facts of a kernel of a cubin."""
    sizes: dict[int, int] = {}
    threads = 0
    for attribute, value in _attributes(_section(cubin, f".nv.info.{name}")):
        if attribute == PARAMETER:
            _, ordinal, _, flags = unpack_from("<IHHI", value)
            sizes[ordinal] = flags >> 18
        elif attribute == BLOCK:
            (threads,) = unpack_from("<I", value)
    return Entry(tuple(sizes[ordinal] for ordinal in range(len(sizes))), threads)


def _section(elf: bytes, name: str) -> bytes:
    assert elf.startswith(b"\x7fELF")
    (table,) = unpack_from("<Q", elf, 40)
    size, count, names = unpack_from("<HHH", elf, 58)
    sections = [unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    for label, _, _, _, start, bytes in sections:
        begin = sections[names][4] + label
        if elf[begin : elf.index(b"\0", begin)].decode() == name:
            return elf[start : start + bytes]
    raise AssertionError(f"the cubin has no section {name}")


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(section):
        form, attribute, size = unpack_from("<BBH", section, place)
        place += 4
        if form == SIZED:
            yield attribute, section[place : place + size]
            place += size
