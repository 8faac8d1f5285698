# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lowers a `fuel.run` to the text of a Python function."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.kinds import REDUCTION
from fuel_dialect.layout import Layout
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_lowering.names import printable
from fuel_lowering.numpy.builder import Builder, Rows
from fuel_lowering.numpy.emit import rule_of
from fuel_lowering.numpy.in_place import lies_over, written_over
from fuel_lowering.numpy.phases import write_phases, write_rows
from fuel_lowering.numpy.rows import RowBuilder, rows_of
from fuel_lowering.numpy.run import BEGAN, NumpyRun
from fuel_lowering.numpy.steps import COPY, Place, Step, Straight, assign, needed
from fuel_lowering.numpy.tiles import cut, iteration_rows, write_tiles
from fuel_lowering.numpy.values import CALL, Ref, broadcast_if_needed, computed_like
from fuel_lowering.numpy.writer import FunctionWriter
from fuel_lowering.runs.reuse import reused_buffers


def lower_run(run: RunOp, entry: str, reuse: bool = True) -> NumpyRun:
    """
    The function of a run.

    `reuse` lets values of the workspace share memory. Raises `LoweringError` for an op that the
    target does not know.
    """
    return _Run(run, entry, reuse).lower()


class _Run:
    def __init__(self, run: RunOp, entry: str, reuse: bool):
        self.run = run
        self.entry = entry
        self.writer = FunctionWriter(reuse, keeps_operands=not run.reused())
        for name in (entry, f"{entry}_scratch", BEGAN):
            self.writer.names.fresh(name)
        self.values: dict[SSAValue, Ref] = {}
        self.reused = reused_buffers(run)
        self.over = written_over(run, self.reused) if reuse else {}
        self.kernels = 0

    def lower(self) -> NumpyRun:
        block, writer = self.run.body.block, self.writer
        arguments = [self._argument(argument) for argument in block.args]
        leaves = Builder(writer, self.values, rule_of)
        for op in block.ops:
            if op.has_trait(Leaf):
                leaves.add(op)
            elif isinstance(op, KernelOp):
                self._kernel(op)
            elif op is not block.last_op:
                raise LoweringError(f"{op.name}: a run holds kernels and leaves only")
        results = self._results()
        return NumpyRun(
            self.entry,
            writer.source(self.entry, arguments, results),
            tuple(tensor_type(v) for v in block.args),
            tuple(tensor_type(v) for v in self.run.outputs),
            writer.constants,
            writer.weights,
            writer.needs_scratch,
            self.kernels,
            writer.scratch_bytes,
            writer.slot_bytes,
            tuple(writer.marks),
        )

    def _argument(self, argument: SSAValue) -> str:
        type = tensor_type(argument)
        shape, dtype = tuple(type.get_shape()), dtypes.of_type(type).numpy
        name = self.writer.names.fresh(argument.name_hint, "x")
        layout = Layout.contiguous(shape)
        self.values[argument] = Ref(shape, dtype, layout, name, name, CALL)
        return name

    # Results.

    @property
    def _yielded(self) -> Sequence[SSAValue]:
        assert self.run.body.block.last_op is not None
        return self.run.body.block.last_op.operands

    def _results(self) -> list[str]:
        """The names to return. No two are one array, and none is an argument or a constant."""
        names: list[str] = []
        for value in self._yielded:
            ref = self.values[value]
            name = self.writer.text(broadcast_if_needed(ref))
            is_own = isinstance(value.owner, KernelOp)
            names.append(name if is_own and name not in names else f"{name}.copy()")
        return names

    # Kernels.

    def _kernel(self, kernel: KernelOp) -> None:
        writer = self.writer
        self.kernels += 1
        writer.clock += 1
        writer.mark()
        for line in textwrap.wrap(printable(_title(kernel)), 92):
            writer.line(f"# {line}")
        inner: dict[SSAValue, Ref] = {
            argument: self.values[operand]
            for argument, operand in zip(kernel.body.block.args, kernel.inputs, strict=True)
        }
        builder = _builder(kernel, writer, inner)
        yielded = builder.add_block(kernel.body.block)
        used = [v for v, r in zip(yielded, kernel.outputs, strict=True) if r.first_use is not None]
        steps = needed(builder.steps, used)
        own = {result for step in steps for result in step.results}
        given = [] if builder.rows else self._given(kernel, yielded, steps)
        wanted = [
            (value, self._place(result, value.shape, given))
            for value, result in zip(yielded, kernel.outputs, strict=True)
            if result.first_use is not None
        ]
        places = assign(wanted, steps, own)
        self._write(steps, places, kernel, builder.rows, given)
        writer.has_written |= any(result in self.reused for result in kernel.outputs)
        writer.clock += 1
        writer.touch(self.values[r] for r in kernel.outputs if r in self.values)

    def _given(self, kernel: KernelOp, yielded: Sequence[Ref], steps: Sequence[Step]) -> list[Ref]:
        """Returns the operand that a result is computed over, if there is one."""
        for value, result in zip(yielded, kernel.outputs, strict=True):
            operand = self.over.pop(result, None)
            if operand is None or result.first_use is None:
                continue
            ref = self.values[operand]
            if yielded.count(value) == 1 and lies_over(ref, value, steps, yielded):
                self.over[result] = operand
                return [ref]
        return []

    def _write(
        self,
        steps: list[Step],
        places: dict[Ref, Place],
        kernel: KernelOp,
        rows: Rows | None,
        given: Sequence[Ref],
    ) -> None:
        """By tiles where all steps can be, else what can be of them, else one after the other."""
        writer, name = self.writer, kernel.label.data
        shape = _shape_of_product(kernel) if rows is None else rows.shape
        before, rest = _copies_apart(steps, places)
        by_rows = rows or iteration_rows(rest)
        grid = None if by_rows is None or not rest else cut(by_rows, rest)
        if before and (grid is not None or shape is not None):
            Straight(writer, before, {}, kept=[s.result for s in before]).write()
            steps = rest
        if grid is not None and rows is not None:
            write_rows(writer, steps, rows, grid, places, name)
        elif grid is not None:
            write_tiles(writer, steps, grid, places, name, given)
        elif shape is not None:
            write_phases(writer, steps, shape, places, name, given)
        else:
            Straight(writer, steps, places, given=given).write()

    def _place(self, result: SSAValue, shape: tuple[int, ...], given: Sequence[Ref]) -> Place:
        """
        Returns the place of a kernel's result: a fresh array if the run yields it, else a buffer.

        The kernel sees it in a shape of its own.
        """
        ref = computed_like(tensor_type(result), result.name_hint)
        self.values[result] = ref
        reused = self.reused.get(result, self.over.get(result) if given else None)
        if reused is not None:
            where = self.values[reused]
            place = Place(self.writer.text(where), where.home, where.buffer)
        elif self._is_given(result):
            place = Place(self.writer.names.fresh(ref.hint, "y"), CALL, fresh=True)
        else:
            place = Place.of(self.writer.buffer(ref.hint, ref.shape, ref.dtype))
        place.hold(ref)
        self.writer.dtype(ref.dtype)
        if shape == ref.shape:
            return place
        place.make(self.writer, ref.shape, ref.dtype)
        seen = ref.reshape(shape)
        return Place(self.writer.text(seen), seen.home, place.buffer)

    def _is_given(self, value: SSAValue) -> bool:
        """Returns True if the run yields a value, or one that takes over its buffer."""
        heirs = {old: new for new, old in (*self.reused.items(), *self.over.items())}
        while value in heirs:
            value = heirs[value]
        return any(value is other for other in self._yielded)


def _shape_of_product(kernel: KernelOp) -> tuple[int, ...] | None:
    products = (op for op in kernel.body.block.ops if isinstance(op, MatmulOp))
    product = next(products, None)
    return None if product is None else tuple(tensor_type(product.result).get_shape())


def _builder(kernel: KernelOp, writer: FunctionWriter, values: dict[SSAValue, Ref]) -> Builder:
    rows = rows_of(kernel.body.block) if kernel.kind.data == REDUCTION.name else None
    if rows is None or not rows.are_long:
        return Builder(writer, values, rule_of)
    return RowBuilder(writer, values, rule_of, rows)


def _copies_apart(
    steps: Sequence[Step], places: Mapping[Ref, Place]
) -> tuple[list[Step], list[Step]]:
    """Reshapes that copy what other kernels computed, and the other steps."""
    own = {result for step in steps for result in step.results}
    before = [
        step
        for step in steps
        if step.recipe is COPY
        and step.fills is not None
        and step.result not in places
        and own.isdisjoint(operand.root for operand in step.operands)
    ]
    return before, [step for step in steps if step not in before]


def _title(kernel: KernelOp) -> str:
    inputs = ", ".join(_short(v) for v in kernel.inputs)
    outputs = ", ".join(_short(v) for v in kernel.outputs)
    return f"{kernel.kind.data} {kernel.label.data}: {inputs or '()'} -> {outputs}"


def _short(value: SSAValue) -> str:
    type = tensor_type(value)
    return f"{dtypes.of_type(type)}[{','.join(map(str, type.get_shape()))}]"
