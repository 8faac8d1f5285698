# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes the stubs of the methods that `fuel_dialect.builder` makes from op classes.

`python docs/make_stubs.py` writes them; a test fails when they are not fresh.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

from fuel_dialect.builder import numpy_methods, op_methods

FOLDER = Path(__file__).resolve().parents[1] / "fuel_dialect" / "builder"

HEAD = """\
# SPDX-License-Identifier: MIT OR Apache-2.0
# Written by docs/make_stubs.py; change the docstrings of the ops or the tables instead.
"""

OP_METHODS = """
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex, TypeAlias

from fuel_dialect.builder.arguments import GraphValue
from fuel_dialect.ops.base import FuelOp

Method: TypeAlias = Callable[..., Any]
Ranges: TypeAlias = Sequence[tuple[SupportsIndex, SupportsIndex]]

@dataclass(frozen=True)
class Family:
    note: str
    types: Mapping[str, str]
    properties: tuple[str, ...] = ()

def documented(method: Method, name: str, op: type[FuelOp], family: Family) -> Method: ...

class OpMethods(GraphValue):
    __slots__ = ()
"""

NUMPY_METHODS = """
from collections.abc import Mapping
from typing import Self, SupportsIndex

from fuel_dialect.builder.arguments import Axes
from fuel_dialect.builder.promotion import Operand

FORWARDED: Mapping[str, str]

class NumpyMethods:
    __slots__ = ()

    def __hash__(self) -> int: ..."""

STUBS = {
    "op_methods": (OP_METHODS, op_methods.OpMethods),
    "numpy_methods": (NUMPY_METHODS, numpy_methods.NumpyMethods),
}

WIDTH = 100
"""The columns of a line."""

OBJECT = ("__eq__", "__ne__")
"""Methods that `object` has with other types."""


def declaration(name: str, signature: str, end: str) -> str:
    """Return the first line of a method, or lines where one would be too long."""
    line = f"    def {name}{signature}:{end}"
    if len(line.partition("  #")[0]) <= WIDTH:
        return line
    inside, result = signature.removeprefix("(").rsplit(") -> ", 1)
    inner = f"        {inside}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"        {part}," for part in inside.split(", "))
    return f"    def {name}(\n{inner}\n    ) -> {result}:{end}"


def methods(owner: type) -> Iterator[str]:
    """Yield the declaration of each method of a class, with its docstring."""
    for name, method in vars(owner).items():
        if not inspect.isfunction(method):
            continue
        signature = str(inspect.signature(method)).replace("'", "")
        ignore = "  # pyright: ignore[reportIncompatibleMethodOverride]" if name in OBJECT else ""
        body = "" if method.__doc__ else " ..."
        yield declaration(name, signature, f"{body}{ignore}")
        if method.__doc__:
            lines = method.__doc__.splitlines()
            alone = len(lines) == 1
            text = f'"""{lines[0]}"""' if alone else '"""\n' + "\n".join(lines) + '\n"""'
            yield indent(text, " " * 8) + "\n"


def render(stub: str) -> str:
    """Return the text of a stub."""
    head, owner = STUBS[stub]
    return "\n".join([HEAD + head, *methods(owner)]).rstrip() + "\n"


if __name__ == "__main__":
    for stub in STUBS:
        (FOLDER / f"{stub}.pyi").write_text(render(stub))
