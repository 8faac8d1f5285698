# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The text of one kernel while it is written: parameters, indices, loads, stores.

A block of values has one or two axes; an `Axis` is an index along one of them, a block that
broadcasts against the other. Where a layout does not step along an axis, that axis takes no part: a
value that is the same for all columns is loaded once a row.
"""

from __future__ import annotations

import abc
import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from textwrap import wrap
from typing import Any

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.dtypes import DType
from fuel_dialect.layout import Layout
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Elementwise
from fuel_lowering.kernels.form import Form
from fuel_lowering.kernels.indexing import address, coordinates, merged
from fuel_lowering.kernels.map import MapForm
from fuel_lowering.names import printable, stem
from fuel_lowering.runs.emitter import CHECK
from fuel_lowering.runs.launches import DeviceKernel, Parameter
from fuel_lowering.scalars.code import Code
from fuel_lowering.scalars.table import evaluate
from fuel_lowering.scalars.values import Value
from fuel_lowering.triton.language import LANGUAGE, RESERVED, loaded, stored

IMPORTS = "import triton\nimport triton.language as tl\n"
LIBRARY = "from triton.language.extra.cuda import libdevice\n"
STATUS = -1
INDENT = "    "
WIDTH = 100


@dataclass(frozen=True)
class Axis:
    """An index, as text, and the mask of the points that exist: empty where all do."""

    index: str
    mask: str = ""


@dataclass(frozen=True)
class Access:
    """Represents the place of an operand at the points of a block: offset, and mask."""

    offset: str
    mask: str = ""

    def __and__(self, mask: str) -> Access:
        """Returns the place under a further mask."""
        return replace(self, mask=conjunction([self.mask, mask]))


def conjunction(masks: Sequence[str]) -> str:
    """The mask of what is in all of some masks; the empty mask has everything."""
    parts = [part for mask in masks if mask for part in mask.split(" & ")]
    return " & ".join(dict.fromkeys(parts))


class KernelWriter(abc.ABC):
    """
    Writes the function of one kernel of a form.

    `temporaries` are buffers between the kernels of the form; their slots follow the results.
    """

    def __init__(
        self,
        form: Form,
        suffix: str = "kernel",
        temporaries: Sequence[tuple[str, int]] = (),
        wide: bool = False,
    ):
        self.form = form
        self.wide = wide
        """True if indices need 64 bits."""
        self.name = f"{identifier(form.name)}_{suffix}"
        self.code = Code(LANGUAGE)
        self.code.used |= RESERVED | {self.name, "status", CHECK}
        self.copies = isinstance(form, MapForm) and not any(
            op.has_trait(Elementwise) for op in form.ops
        )
        """True if elements are moved and nothing else."""
        self.slots = self._slots(temporaries)
        self.used: dict[int, bool] = {}
        self.values: dict[SSAValue, Value] = {}
        self.places: dict[str, str] = {}

    def _slots(self, temporaries: Sequence[tuple[str, int]]) -> list[Parameter]:
        """A parameter for each slot: arguments, results, temporaries."""
        form, slots = self.form, list[Parameter]()
        hints = _argument_hints(form)
        for number, type in enumerate(form.arguments):
            name = self.code.fresh(f"{hints.get(number) or 'x'}_ptr")
            dtype = dtypes.of_type(type).name
            slots.append(Parameter(name, dtype, prod(type.get_shape()), False))
        for number, value in enumerate(form.results):
            name = self.code.fresh(f"{value.name_hint or 'out'}_ptr")
            elements = self.result_elements(number)
            slots.append(Parameter(name, form.dtype(value).name, elements, True))
        for dtype, elements in temporaries:
            slots.append(Parameter(self.code.fresh("partial_ptr"), dtype, elements, True))
        return [
            replace(slot, aligned=number not in form.unaligned) for number, slot in enumerate(slots)
        ]

    def result_elements(self, number: int) -> int:
        return prod(tensor_type(self.form.results[number]).get_shape())

    # Lines.

    def line(self, text: str) -> None:
        self.code.lines.append(text)

    def let(self, name: str, text: str) -> str:
        """A line that gives an index or a mask a name; gives the name."""
        name = self.code.fresh(name)
        self.line(f"{name} = {text}")
        return name

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under `head`; what they name is not known after them."""
        self.line(head)
        start = len(self.code.lines)
        values, places = dict(self.values), dict(self.places)
        yield
        lines = self.code.lines
        lines[start:] = [f"{INDENT}{line}" for line in lines[start:]]
        self.values, self.places = values, places

    # Indices.

    def program(self, axis: int, size: int = 1) -> str:
        """The number of a program, times how many points it has."""
        text = f"tl.program_id({axis})"
        text = f"{text}.to(tl.int64)" if self.wide else text
        return text if size == 1 else f"{text} * {size}"

    def points(self, size: int, count: int, expand: str = "") -> str:
        """The indices of a program's points, of which there are `count` in all programs."""
        inside = f"tl.arange(0, {size}){expand}"
        if count > size:
            return f"{self.program(0, size)} + {inside}"
        return f"{inside}.to(tl.int64)" if self.wide else inside

    def place(
        self, axes: Sequence[tuple[Axis, Layout]], offset: int = 0, whole: bool = False
    ) -> Access:
        """
        Returns the offset of elements: the sum of what each axis adds by its part of a layout.

        `whole` is the place of a result, which has the shape of the block: an axis of extent 1
        takes part too, as its index is 0.
        """
        texts, masks = list[str](), list[str]()
        for axis, part in axes:
            text = self._along(axis, part) or (axis.index if whole else "")
            if text:
                texts.append(text)
                masks.append(axis.mask)
        if offset or not texts:
            texts.append(str(offset))
        return Access(" + ".join(texts).replace("+ -", "- "), conjunction(masks))

    def _along(self, axis: Axis, part: Layout) -> str:
        """Returns what an axis adds to an offset; empty if the layout does not step along it."""
        extents, (short,) = merged(part.shape, [Layout(part.shape, part.strides)])
        if not any(short.strides):
            return ""
        if len(extents) == 1:
            return address(short, [axis.index])
        texts = coordinates(axis.index, extents, "//")
        needed = [
            self.named_once(t) if s else "" for t, s in zip(texts, short.strides, strict=True)
        ]
        return address(short, needed)

    def named_once(self, text: str) -> str:
        """Returns a name for a coordinate, the same where it is wanted again."""
        if text not in self.places:
            self.places[text] = self.let("at", text)
        return self.places[text]

    # Values.

    def parameter(self, slot: int, writes: bool = False) -> str:
        """The name of a slot's parameter."""
        self.used[slot] = self.used.get(slot, False) or writes
        return "status" if slot == STATUS else self.slots[slot].name

    def load(self, slot: int, at: Access, dtype: DType, hint: str | None = None) -> Value:
        """The elements of a slot at some places, 0 where the mask has none."""
        pointer = self.parameter(slot)
        mask = f", {at.mask}, other=0" if at.mask else ""
        text = f"tl.load({sum_of(pointer, at.offset)}{mask})"
        return self.code.let(text if self.keeps(dtype) else loaded(text, dtype), dtype, hint)

    def keeps(self, dtype: DType) -> bool:
        """Returns True if elements are not widened: there and back, a NaN would lose its bits."""
        return self.copies and dtype.is_float and dtype.bits == 16

    def store(self, slot: int, at: Access, value: Value) -> None:
        text = value.text if self.keeps(value.dtype) else stored(value.text, value.dtype)
        pointer = self.parameter(slot, writes=True)
        mask = f", {at.mask}" if at.mask else ""
        self.line(f"tl.store({sum_of(pointer, at.offset)}, {text}{mask})")

    def value(self, value: SSAValue) -> Value:
        """A value at the points of the block: known, a constant, or loaded now."""
        value = self.resolve(value)
        if value in self.values:
            return self.values[value]
        if value in self.form.splats:
            return self._constant(self.form.splats[value])
        load = self.form.loads[value]
        term = self.load(load.argument, self.where(value), self.form.dtype(value), hint_of(value))
        self.values[value] = term
        return term

    def _constant(self, value: np.ndarray[Any, Any]) -> Value:
        term = self.code.constant(value)
        return Value(stored(term.text, term.dtype), term.dtype) if self.keeps(term.dtype) else term

    def resolve(self, value: SSAValue) -> SSAValue:
        """The value that another one repeats."""
        return value

    @abc.abstractmethod
    def where(self, value: SSAValue) -> Access:
        """Returns the place of a load at the points of the block."""

    def evaluate(self, ops: Sequence[Operation]) -> None:
        """The values of some elementwise ops, which are not computed again where known."""
        for op in ops:
            (result,) = op.results
            if result not in self.values:
                operands = [self.value(v) for v in op.operands]
                self.values[result] = evaluate(self.code, op, operands)

    def is_literal(self, value: SSAValue) -> bool:
        """Returns True if an op has turned out to give a number, whatever its operands are."""
        return value in self.values and not self.values[value].text.isidentifier()

    # The whole.

    def result_slot(self, number: int) -> int:
        return len(self.form.arguments) + number

    def temporary_slot(self, number: int) -> int:
        return len(self.form.arguments) + len(self.form.results) + number

    def finish(self, options: Sequence[tuple[str, int]]) -> tuple[DeviceKernel, tuple[int, ...]]:
        """The kernel, and the slots of its parameters."""
        order = tuple(sorted(slot for slot in self.used if slot != STATUS))
        parameters = [replace(self.slots[slot], writes=self.used[slot]) for slot in order]
        scalars: tuple[str, ...] = ()
        if STATUS in self.used:
            order = (*order, STATUS)
            parameters.append(Parameter("status", "i32", 1, True))
            scalars = (CHECK,)
        names = [*(parameter.name for parameter in parameters), *scalars]
        body = "\n".join(f"{INDENT}{line}" for line in self.code.lines)
        head = f"{comment(signature(self.form))}\n@triton.jit\n{definition(self.name, names)}\n"
        helpers = [f"{helper}\n\n" for helper in LANGUAGE.helpers(body)]
        imports = IMPORTS + (LIBRARY if re.search(r"\blibdevice\b", body) else "")
        source = f"{imports}\n\n{''.join(helpers)}{head}{body}\n"
        kernel = DeviceKernel(self.name, source, tuple(parameters), scalars, tuple(options))
        return kernel, order


def sum_of(pointer: str, offset: str) -> str:
    return pointer if offset == "0" else f"{pointer} + {offset}"


def identifier(name: str) -> str:
    """A name as one of Python."""
    return stem(name, "fuel")


def comment(text: str) -> str:
    lines = wrap(printable(text), WIDTH, initial_indent="# ", subsequent_indent="#     ")
    return "\n".join(lines)


def definition(name: str, arguments: Sequence[str]) -> str:
    """The first line of a function, or lines where one would be too long."""
    text = f"def {name}({', '.join(arguments)}):"
    if len(text) <= WIDTH:
        return text
    inside = "\n".join(
        wrap(
            ", ".join(arguments),
            WIDTH,
            initial_indent=INDENT,
            subsequent_indent=INDENT,
            break_long_words=False,
        )
    )
    return f"def {name}(\n{inside}\n):"


def signature(form: Form) -> str:
    """Returns the signature of a kernel: `softmax: f32[64,256] -> f32[64,256]`."""
    operands = ", ".join(_type(type) for type in form.arguments)
    results = ", ".join(_type(tensor_type(value)) for value in form.results)
    return f"{form.name}: {operands} -> {results}"


def _type(type: object) -> str:
    tensor = tensor_type(type) if isinstance(type, SSAValue) else type
    shape = ",".join(str(extent) for extent in tensor.get_shape())  # pyright: ignore
    return f"{dtypes.of_type(tensor)}[{shape}]"  # pyright: ignore


def _argument_hints(form: Form) -> dict[int, str]:
    hints: dict[int, str] = {}
    for value, load in form.loads.items():
        if isinstance(value, BlockArgument) and value.name_hint:
            hints.setdefault(load.argument, value.name_hint)
    return hints


def hint_of(value: SSAValue) -> str:
    return value.name_hint or "x"


def power_of_two(number: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(number - 1, 0).bit_length()
