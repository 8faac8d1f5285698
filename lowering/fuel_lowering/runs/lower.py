# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a `fuel.run` to launches, for the targets that launch kernels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from xdsl.ir import Block, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.traits import Leaf
from fuel_lowering.kernels.map import in_place_form
from fuel_lowering.kernels.scan import scan_of
from fuel_lowering.runs.builder import RunBuilder
from fuel_lowering.runs.emitter import Emitted, Emitter
from fuel_lowering.runs.launches import DeviceRun
from fuel_lowering.runs.reuse import reused_buffers
from fuel_lowering.runs.steps import Steps
from fuel_passes.legalize.legalize_kernels import legal_run
from fuel_passes.planning.topology import as_planned


def lower_run(run: RunOp, entry: str, emitter: Emitter) -> DeviceRun:
    """
    Returns the launches of a run. Raises `LoweringError`.

    The run stays as it is, since it can be planned again: its kernels are legalized, as the
    description of the emitter's target asks, on a copy.
    """
    legal = legal_run(run, as_planned(run, emitter.target))
    return _Lowering(legal, entry, emitter).lower()


class _Lowering:
    def __init__(self, run: RunOp, entry: str, emitter: Emitter):
        self.run = run
        self.builder = RunBuilder(entry, emitter)
        self.reused: dict[SSAValue, SSAValue] = {}

    def lower(self) -> DeviceRun:
        block, self.reused = self.run.body.block, reused_buffers(self.run)
        for index, argument in enumerate(block.args):
            self.builder.places[argument] = self.builder.buffer("input", argument, index)
        outputs, numbers = self._outputs(block), count()
        for op in block.ops:
            if op.has_trait(Leaf):
                self.builder.leaf(op)
            elif isinstance(op, KernelOp):
                self.builder.origin = next(numbers)
                self._kernel(op, outputs)
            elif op is not block.last_op:
                raise LoweringError(f"{op.name}: a run holds kernels and leaves only")
        assert block.last_op is not None
        self.builder.origin = -1
        for index, value in enumerate(block.last_op.operands):
            self._give(value, index)
        return self.builder.finish(self.run)

    def _outputs(self, block: Block) -> dict[SSAValue, int]:
        """The results that the kernels write where they are wanted: each value's first."""
        assert block.last_op is not None
        found: dict[SSAValue, int] = {}
        for index, value in enumerate(block.last_op.operands):
            if isinstance(value.owner, KernelOp):
                found.setdefault(value, index)
        return found | self._handed_on(block)

    def _handed_on(self, block: Block) -> dict[SSAValue, int]:
        """
        The values that lie in the memory of a result which takes over that of an operand.

        A kernel may write where it reads: it computes each element from the operand's at the same
        place, and from other operands.
        """
        assert block.last_op is not None
        found: dict[SSAValue, int] = {}
        for index in self.run.reused():
            value: SSAValue = block.last_op.operands[index]
            while value in self.reused:
                found[value] = index
                value = self.reused[value]
        return found

    def _give(self, value: SSAValue, index: int) -> None:
        """Copy a value that lies elsewhere into the result of that number."""
        place = self.builder.places[value]
        buffer = self.builder.buffers[place.buffer]
        if (buffer.role, buffer.index) != ("output", index):
            self.builder.copy(value.type, place, self.builder.buffer("output", value, index))

    def _kernel(self, kernel: KernelOp, outputs: Mapping[SSAValue, int]) -> None:
        for result in kernel.outputs:
            index = outputs.get(result)
            if index is None:
                self.builder.places[result] = self.builder.temporary(result)
            else:
                self.builder.places[result] = self.builder.buffer("output", result, index)
        scan = scan_of(kernel)
        if scan is not None and not scan.is_pointwise:
            Steps(self.builder, kernel, scan).lower()
            return
        places = [self.builder.places[v] for v in (*kernel.inputs, *kernel.outputs)]
        self.builder.launch(kernel, places, self._in_place(kernel) or self.builder.emit(kernel))

    def _in_place(self, kernel: KernelOp) -> Emitted | None:
        """Returns the code of a write that touches what it writes alone, if its result allows."""
        if len(kernel.outputs) != 1 or not self._lies_on_operand(kernel.outputs[0]):
            return None
        form = in_place_form(kernel, kernel.label.data)
        return self.builder.emitter.emit_in_place(form) if form else None

    def _lies_on_operand(self, result: SSAValue) -> bool:
        """Returns True if a result has the very memory of the operand that it takes over."""
        if result not in self.reused:
            return False
        builder, pair = self.builder, (result, self.reused[result])
        own, reused = (builder.buffers[builder.places[v].buffer] for v in pair)
        if reused.role == "input":
            return own.role == "output" and self.run.reused().get(own.index) == reused.index
        return own.role == reused.role == "output" and own.index == reused.index
