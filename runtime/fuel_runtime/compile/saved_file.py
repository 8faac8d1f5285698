# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Represents the file of a saved program: a zip archive of named parts, mapped and checked.

`program.json` says what the other parts are for, with a checksum of each; `module.mlir` is the
optimised IR; `code.json` and `arrays.safetensors` hold the runs, and the route of a program without
decisions; `bytecode` has what Python compiled of them; `kernels/` has what compilers made of device
code, and `weights.safetensors` the weights, if they were asked for. The runs of the host are Python
that loading executes: a file is as trusted as a program.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from fuel_dialect.errors import SaveFileError
from fuel_passes.strict_json import checked, load
from fuel_runtime.mapped_arrays import MappedFile, Reader, open_aligned, stored
from fuel_runtime.safetensors_files import arrays_in

ENDING = ".fuel"
FORMAT = 2
"""The version of the parts and of what is in them."""

MANIFEST, MODULE, CODE, BYTECODE = "program.json", "module.mlir", "code.json", "bytecode"
NEEDED = (MODULE, CODE, BYTECODE)
"""The parts that no program is without."""
ARRAYS, WEIGHTS, KERNELS = "arrays.safetensors", "weights.safetensors", "kernels/"


DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""The errors that reading a damaged file raises."""


class Made(Struct, frozen=True):
    """Says what made a file; of another one nothing else is believed."""

    format: int
    fuel: str
    """The version."""
    sources: str = ""
    """A digest of the code of fuel."""


class Bounds(Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the options that say which kernels of a program may be used at all."""

    deterministic: bool = False
    max_ulps: int | None = None


class Facts(Struct, frozen=True, forbid_unknown_fields=True):
    """Represents `program.json`."""

    format: int
    fuel: str
    sources: str
    entry: str
    generation: str
    bounds: Bounds
    hardware: dict[str, str]
    """The identity of each device."""
    targets: dict[str, list[str]]
    """The names of the targets of each device."""
    parts: dict[str, int]
    """The checksum of each other part."""


@dataclass(frozen=True)
class SavedFile:
    """Holds the parts of a file, which agree with their checksums."""

    facts: Facts
    parts: Mapping[str, memoryview]
    mapped: MappedFile

    @property
    def path(self) -> Path:
        """The path that it was opened by."""
        return self.mapped.path

    def text(self, name: str) -> str:
        """Returns a part as text."""
        return bytes(self.parts[name]).decode()

    def arrays(self, name: str) -> Mapping[str, Any]:
        """Returns the arrays of a part, which stay in the file; none if there is no such part."""
        return arrays_in(self.mapped, self.parts[name]) if name in self.parts else {}

    def kernels(self) -> dict[str, bytes]:
        """Returns what compilers made, by the keys of the kernel cache."""
        names = (name for name in self.parts if name.startswith(KERNELS))
        return {name.removeprefix(KERNELS): bytes(self.parts[name]) for name in names}


def read(path: Path) -> SavedFile:
    """Reads the parts of a file. Raises `SaveFileError`, and `OSError` for no file."""
    mapped = MappedFile(path)
    try:
        with zipfile.ZipFile(Reader(mapped.buffer)) as archive:
            infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise SaveFileError(f"{path}: not a saved program: its parts are compressed")
        if sum(info.file_size for info in infos) > len(mapped.buffer):
            raise SaveFileError(f"{path}: not a whole saved program: its parts overlap")
        parts = {info.filename: stored(mapped.buffer, info) for info in infos}
    except DAMAGE as error:
        raise SaveFileError(f"{path}: not a whole saved program: {error}") from error
    facts = _facts(path, bytes(parts.pop(MANIFEST, b"")))
    for name in {*NEEDED, *facts.parts, *parts}:
        data = parts.get(name)
        if data is None or zlib.crc32(data) != facts.parts.get(name):
            raise SaveFileError(f"{path}: not a whole saved program: its part {name} is damaged")
    return SavedFile(facts, parts, mapped)


def _facts(path: Path, manifest: bytes) -> Facts:
    """Reads the first part, and checks versions before anything else is believed."""
    where = f"{path}: not a saved program: {MANIFEST}"
    try:
        given = load(manifest.decode(), where, SaveFileError)
    except UnicodeDecodeError as error:
        raise SaveFileError(f"{where}: {error}") from None
    made, here = checked(given, Made, where, SaveFileError), made_here()
    if (made.format, made.fuel) != (here.format, here.fuel):
        raise SaveFileError(
            f"{path} was saved by fuel {made.fuel} in format {made.format}; this is fuel "
            f"{here.fuel}, which reads its own of format {here.format}: compile the program again"
        )
    if made.sources != here.sources:
        raise SaveFileError(
            f"{path} was saved by fuel {made.fuel} with other code (its digest is {made.sources}, "
            f"this one's {here.sources}): compile the program again"
        )
    return checked(given, Facts, where, SaveFileError)


@cache
def made_here() -> Made:
    """Returns what the files are made by that this process writes."""
    digest = hashlib.blake2b(digest_size=16)
    for package in ("fuel_dialect", "fuel_lowering", "fuel_runtime"):
        for name, content in _sources(import_module(package).__path__[0]):
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return Made(FORMAT, version("fuel-compiler"), digest.hexdigest())


def _sources(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the content of each source of a package, in order."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            for name, content in _sources(entry.path):
                yield f"{entry.name}/{name}", content
        elif entry.name.endswith(".py"):
            with open(entry.path, "rb") as file:
                yield entry.name, file.read()


def write(file: IO[bytes], facts: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Writes the parts of a program, and the facts of it with their checksums."""
    made = msgspec.to_builtins(made_here())
    sums = {name: zlib.crc32(data) for name, data in parts.items()}
    whole = msgspec.convert({**made, **facts, "parts": sums}, Facts)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {MANIFEST: msgspec.json.encode(whole), **parts}.items():
            with open_aligned(archive, name) as part:
                part.write(data)
