# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scans that are no single kernel, as the launches of their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_lowering.kernels.scan import scan_of
from fuel_lowering.runs.builder import RunBuilder
from fuel_lowering.runs.copies import writing_kernel
from fuel_lowering.runs.emitter import Emitted
from fuel_lowering.runs.memory import Moving, Place, size_in_bytes


class Steps:
    """
    A scan as the launches of its steps.

    A value that a step computes lies where it is wanted: in the stacked ys if it is one of these,
    else, if it is a carry, in one of two buffers by turns. A carry is read where the step before
    left it, so nothing is copied but what no kernel of the body computes.
    """

    def __init__(self, builder: RunBuilder, kernel: KernelOp, scan: ScanOp):
        self.builder = builder
        self.kernel = kernel
        self.scan = scan
        if scan.end.until is not None:
            raise LoweringError(
                f"{kernel.label.data}: this target runs scans of a fixed number of steps; one with "
                "`until` runs on the cpu"
            )
        self.emitted: dict[tuple[KernelOp, frozenset[int], frozenset[int]], Emitted] = {}
        self.turns: dict[SSAValue, tuple[Place, Place]] = {}

    def lower(self) -> None:
        builder, scan = self.builder, self.scan
        outer = self._outer()
        carries = [outer[v] for v in scan.inits]
        count = scan.steps
        for step in range(count):
            index = count - 1 - step if scan.reverse is not None else step
            carries = self._step(step, index, carries, outer)
        for result, place in zip(scan.carry_results, carries, strict=True):
            for target in self._results(result):
                builder.copy(result.type, place, target)

    def _outer(self) -> dict[SSAValue, Place]:
        """Returns the places of the scan's operands; others than the kernel's are written."""
        builder, kernel = self.builder, self.kernel
        block = kernel.body.block
        places: dict[SSAValue, Place] = {
            argument: builder.places[value]
            for argument, value in zip(block.args, kernel.inputs, strict=True)
        }
        for value in dict.fromkeys(self.scan.operands):
            if value in places:
                continue
            written = writing_kernel(value, block)
            place = builder.temporary(value)
            at = [*(places[v] for v in written.arguments), place]
            builder.launch(written.kernel, at, builder.emit(written.kernel))
            places[value] = place
        return places

    def _results(self, value: SSAValue) -> list[Place]:
        """Returns the places of a result of the scan: as many as the kernel yields of it."""
        last = self.kernel.body.block.last_op
        assert last is not None
        pairs = zip(last.operands, self.kernel.outputs, strict=True)
        return [self.builder.places[output] for v, output in pairs if v is value]

    def _step(
        self, step: int, index: int, carries: Sequence[Place], outer: Mapping[SSAValue, Place]
    ) -> list[Place]:
        scan = self.scan
        places: dict[SSAValue, Place] = dict(zip(scan.carry_args, carries, strict=True))
        for argument, value in zip(scan.x_args, scan.xs, strict=True):
            places[argument] = outer[value].after(index * size_in_bytes(tensor_type(argument)))
        places |= {a: outer[v] for a, v in zip(scan.const_args, scan.consts, strict=True)}
        for op in scan.body.block.ops:
            if op.has_trait(Leaf):
                self._body_leaf(op, places)
            elif isinstance(op, KernelOp):
                self._body_kernel(op, step, index, places)
        self._stack(index, places)
        return [self._carried(v, step, places) for v in scan.end.carries]

    def _body_leaf(self, op: Operation, places: dict[SSAValue, Place]) -> None:
        (result,) = op.results
        if result not in self.builder.places:
            self.builder.leaf(op)
        places[result] = self.builder.places[result]

    def _body_kernel(
        self, op: KernelOp, step: int, index: int, places: dict[SSAValue, Place]
    ) -> None:
        builder = self.builder
        for result in op.outputs:
            places[result] = self._target(result, step, index)
        inner = scan_of(op)
        if inner is not None and not inner.is_pointwise:
            raise LoweringError(
                f"{self.kernel.label.data}: this target runs no scan inside a scan whose body is "
                "not elementwise"
            )
        operands = (*op.inputs, *op.outputs)
        at = [places[v] for v in operands]
        moving = self._moving(operands, at)
        key = (op, moving.moves, moving.unaligned)
        if key not in self.emitted:
            self.emitted[key] = builder.emit(op, moving)
        builder.launch(op, at, self.emitted[key])

    def _moving(self, operands: Sequence[SSAValue], at: Sequence[Place]) -> Moving:
        """Returns what moves between steps, so that one code serves all but perhaps the first."""
        steps = [
            size_in_bytes(tensor_type(value)) if self._is_stepped(value) else 0
            for value in operands
        ]
        return self.builder.moving(at, steps)

    def _is_stepped(self, value: SSAValue) -> bool:
        scan = self.scan
        if any(value is x for x in scan.x_args) or self._stacked(value) is not None:
            return True
        for argument, carried in zip(scan.carry_args, scan.end.carries, strict=True):
            if argument is value:
                return self._stacked(carried) is not None or any(carried is x for x in scan.x_args)
        return False

    def _stacked(self, value: SSAValue) -> int | None:
        """Returns the place of the y that a value of the body is; None if none is read."""
        if not isinstance(value.owner, KernelOp):
            return None
        for number, y in enumerate(self.scan.end.ys):
            if y is value and self._results(self.scan.y_results[number]):
                return number
        return None

    def _target(self, result: SSAValue, step: int, index: int) -> Place:
        """Returns the place to which a kernel of the body writes a result."""
        number = self._stacked(result)
        if number is not None:
            stack = self._results(self.scan.y_results[number])[0]
            return stack.after(index * size_in_bytes(tensor_type(result)))
        return self._turn(result, step)

    def _turn(self, value: SSAValue, step: int) -> Place:
        """One of the two places of a value; those of one that is no carry are the same."""
        if value not in self.turns:
            first = self.builder.temporary(value)
            is_carried = any(value is v for v in self.scan.end.carries)
            self.turns[value] = first, self.builder.temporary(value) if is_carried else first
        return self.turns[value][step % 2]

    def _stack(self, index: int, places: Mapping[SSAValue, Place]) -> None:
        """Copy what is to be stacked and does not lie there yet."""
        for value, stacked in zip(self.scan.end.ys, self.scan.y_results, strict=True):
            for stack in self._results(stacked):
                target = stack.after(index * size_in_bytes(tensor_type(value)))
                if places[value] != target:
                    self.builder.copy(value.type, places[value], target)

    def _carried(self, value: SSAValue, step: int, places: Mapping[SSAValue, Place]) -> Place:
        """Returns the place of a carry for the next step; an earlier carry gets one of its own."""
        if not any(value is argument for argument in self.scan.carry_args):
            return places[value]
        target = self._turn(value, step)
        self.builder.copy(value.type, places[value], target)
        return target
