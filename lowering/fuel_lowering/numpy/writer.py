# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The function of a run while it is being written.

Lines go to the outermost place where they can stand: the module, the workspace, the call, or the
body of the loop that is open. So a view of a weight is made once, a view of a buffer once per
workspace, and only what changes per step is in a loop.
"""

from __future__ import annotations

import builtins
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuel_dialect.layout import Layout
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.numpy.buffers import ALIGNMENT, Buffer, place
from fuel_lowering.numpy.names import (
    NUMPY_FUNCTIONS,
    Names,
    dtype_definition,
    dtype_name,
    scalar_literal,
    scalar_name,
    weight_name,
    words,
)
from fuel_lowering.numpy.results import is_remembered
from fuel_lowering.numpy.values import CALL, MODULE, SCRATCH, Ref
from fuel_lowering.runs.leaves import WeightUse

INDENT = "    "
WIDTH = 92
"""Columns of a line, without the indentation of the function it is in."""


@dataclass(eq=False)
class SlotBuffers:
    """The tile temporaries of one kernel: one set for each thread that may take part."""

    name: str
    buffers: list[Buffer]


@dataclass(eq=False)
class FunctionWriter:
    """Collects the lines, buffers, constants and weights of one run."""

    reuse: bool = True
    keeps_operands: bool = True
    """True if nothing is written over an operand of the run."""
    has_written: bool = False
    names: Names = field(default_factory=Names)
    clock: int = 0
    prelude: dict[str, None] = field(default_factory=dict)
    scratch: list[str] = field(default_factory=list)
    sections: list[list[str]] = field(default_factory=lambda: [[]])
    buffers: list[Buffer] = field(default_factory=list)
    slots: list[SlotBuffers] = field(default_factory=list)
    scratch_bytes: int = 0
    slot_bytes: int = 0
    results: list[str] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    """The lines of the source at which kernels begin, and that after the last, once it is whole."""
    constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    weights: dict[str, WeightUse] = field(default_factory=dict)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    _module_names: dict[str, str] = field(default_factory=dict)

    @property
    def level(self) -> int:
        """The home of values that the innermost open body defines."""
        return CALL + len(self.sections) - 1

    def line(self, text: str) -> None:
        """A line of the innermost open body."""
        self.sections[-1].append(text)

    def mark(self) -> None:
        """Notes that a kernel begins at the next line of the function."""
        self.marks.append(len(self.sections[0]))

    def check(self, text: str) -> None:
        """A line that may raise; the error says if it does before an operand is written over."""
        if not self.keeps_operands and not self.has_written:
            self.line("with support.before_writes:")
            text = INDENT + text
        self.line(text)

    def _line_at(self, home: int, text: str) -> None:
        if home == MODULE:
            self.prelude[text] = None
        elif home == SCRATCH:
            self.scratch.append(text)
        else:
            self.sections[home - CALL].append(text)

    def open(self) -> None:
        """Open a loop or function body: what it defines is one level deeper."""
        self.sections.append([])

    def close(self, *headers: str) -> None:
        """Put the innermost body, under its header lines, into the one around it."""
        body = self.sections.pop() or ["pass"]
        for header in headers[:-1]:
            self.line(header)
        self.line(headers[-1])
        self.sections[-1] += [INDENT + text for text in body]

    # Values.

    def text(self, ref: Ref) -> str:
        """The name of a value's array; views get one when they are first asked for."""
        if ref.text is not None:
            return ref.text
        assert ref.base is not None
        base = self.text(ref.base)
        if ref.expression == "{}":
            ref.text, ref.home = base, ref.base.home
            return base
        ref.home = ref.base.home
        ref.text = self.names.fresh(ref.hint or f"{base}_view")
        self._line_at(ref.home, f"{ref.text} = {ref.expression.format(base)}")
        return ref.text

    def touch(self, refs: Iterable[Ref]) -> None:
        """The memory behind values is read now."""
        for ref in refs:
            buffer = ref.root.buffer
            if buffer is not None:
                buffer.live_at(self.clock)

    def dtype(self, dtype: np.dtype[Any]) -> str:
        """The name of a dtype, which the module then defines."""
        name = dtype_name(dtype)
        self.dtypes[name] = dtype
        return name

    def scalar(self, value: np.ndarray[Any, Any], shape: tuple[int, ...] = ()) -> Ref:
        """A splat: a rank-0 array that stands for all elements. Ufuncs take those fastest."""
        name = scalar_name(value)
        name = self._name_once(name, name)
        literal, dtype = scalar_literal(value), self.dtype(value.dtype)
        self._line_at(MODULE, f"{name} = np.array({literal}, {dtype})")
        scalar = Layout.contiguous(())
        return Ref(shape, value.dtype, scalar, name, name, MODULE, splat=value)

    def _name_once(self, what: str, hint: str) -> str:
        """The name for something of the module, the same wherever it is asked for."""
        if what not in self._module_names:
            self._module_names[what] = self.names.fresh(hint)
        return self._module_names[what]

    def constant(self, array: np.ndarray[Any, Any], hint: str | None) -> Ref:
        """An array that is bound when the source is loaded."""
        name = self.names.fresh(hint, "constant")
        self.constants[name] = array
        return Ref(array.shape, array.dtype, Layout.contiguous(array.shape), name, name, MODULE)

    def weight(self, key: str, type: AnyTensor, dtype: np.dtype[Any]) -> Ref:
        """A weight, bound when the source is loaded; its name follows from its key."""
        name = self._name_once(f"weight {key}", weight_name(key))
        self.weights[name] = WeightUse(key, type)
        shape = tuple(type.get_shape())
        return Ref(shape, dtype, Layout.contiguous(shape), name, name, MODULE)

    # Memory.

    def buffer(self, hint: str | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """A buffer of the workspace, alive from now."""
        self.dtype(dtype)
        name = self.names.fresh(hint, "t")
        buffer = Buffer(name, shape, dtype, self.clock, self.clock)
        self.buffers.append(buffer)
        return buffer

    def slot_buffers(self, buffers: list[Buffer]) -> str:
        """Tile temporaries for each slot; the name of the tuple of their sets."""
        name = self.names.fresh("tiles")
        self.slots.append(SlotBuffers(name, buffers))
        return name

    def empty(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """A fresh array of the call, for a result."""
        if not is_remembered(shape, dtype):
            self.line(f"{name} = empty({shape}, {self.dtype(dtype)})")
            return
        memory = self.names.fresh(f"{name}_memory")
        self.results.append(memory)
        self.scratch.append(f"{memory} = support.Results({shape}, {self.dtype(dtype)})")
        self.line(f"{name} = {memory}()")

    # Text.

    @property
    def needs_scratch(self) -> bool:
        return bool(self.buffers or self.slots or self.results)

    def source(self, entry: str, arguments: list[str], results: list[str]) -> str:
        """The module: imports, constants, the workspace and the function."""
        call = self.sections[0]
        self.mark()
        own = len(call)
        workspace = self._workspace(entry, call) if self.needs_scratch else []
        if self.needs_scratch:
            arguments = [*arguments, "scratch"]
        function = [f"def {entry}({', '.join(arguments)}):"]
        unpacked = len(function) + len(call) - own
        function += [INDENT + text for text in [*call, *wrapped("return ", results)]]
        parts = [self._header([*self.prelude, *workspace, *function]), workspace, function]
        before = sum(len(part) + 2 for part in parts[:-1] if part)
        self.marks = [before + unpacked + mark for mark in self.marks]
        return "\n\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def _header(self, lines: list[str]) -> list[str]:
        """Imports, dtypes and constants, as far as the lines need them."""
        used = _words_of(lines)
        constants: list[str] = []
        for line in reversed(self.prelude):
            if line.split(" = ")[0] in used:
                constants.append(line)
                used |= words(line)
        functions = sorted((used & NUMPY_FUNCTIONS) - set(dir(builtins)))
        imports = _import(functions) if functions else []
        kinds = [dtype_definition(d) for name, d in sorted(self.dtypes.items()) if name in used]
        return [*imports, *kinds, *reversed(constants)]

    def _workspace(self, entry: str, call: list[str]) -> list[str]:
        """`entry_scratch`, and its results unpacked at the head of the function."""
        body: list[str] = []
        if self.buffers:
            size = place(self.buffers, self.reuse)
            self.scratch_bytes = size + ALIGNMENT
            body.append(f"arena = support.arena({size})")
            body += [f"{b.name} = {_view('arena', b)}" for b in self.buffers]
        body += self.scratch
        if self.slots:
            size = max(place(s.buffers, self.reuse) for s in self.slots)
            self.slot_bytes = size + ALIGNMENT
            body.append(f"slots = [support.arena({size}) for _ in range(pool.threads)]")
        for group in self.slots:
            views = [f"{INDENT * 2}{_view('slot', b)}," for b in group.buffers]
            body += [f"{group.name} = [", f"{INDENT}(", *views, f"{INDENT})"]
            body += [f"{INDENT}for slot in slots", "]"]
        used = _words_of(call)
        made = [*(b.name for b in self.buffers), *(line.split(" = ")[0] for line in self.scratch)]
        exported = [name for name in [*made, *(s.name for s in self.slots)] if name in used]
        call[:0] = wrapped("", exported, " = scratch")
        lines = [*body, *wrapped("return ", exported)]
        return [f"def {entry}_scratch():", *(INDENT + text for text in lines)]


def _import(functions: Sequence[str]) -> list[str]:
    line = f"from numpy import {', '.join(functions)}"
    return [line] if len(line) <= WIDTH else wrapped("from numpy import ", functions)


def bundle(names: Sequence[str]) -> str:
    """A tuple of names."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def wrapped(head: str, names: Sequence[str], tail: str = "") -> list[str]:
    """The tuple of names between two texts, on several lines where it is long."""
    line = f"{head}{bundle(names)}{tail}"
    if len(line) <= WIDTH:
        return [line]
    inner = textwrap.wrap(f"{', '.join(names)},", WIDTH - len(INDENT), break_long_words=False)
    return [f"{head}(", *(INDENT + text for text in inner), f"){tail}"]


def _words_of(lines: Iterable[str]) -> set[str]:
    """The names that lines of source, comments aside, contain."""
    return set[str]().union(*(words(line) for line in lines if not line.lstrip().startswith("#")))


def _view(arena: str, buffer: Buffer) -> str:
    dtype = dtype_name(buffer.dtype)
    return f"support.view({arena}, {buffer.offset}, {buffer.shape}, {dtype})"
