# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scan kernels: the loop over steps runs inside, at each point, with the carries in registers."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from fuel_dialect.layout import Layout
from fuel_lowering.kernels.indexing import needs_64_bits
from fuel_lowering.kernels.scan import ScanForm, ScanSchedule, schedule_scan
from fuel_lowering.runs.emitter import Emitted, EmittedLaunch
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.scalars.values import Value
from fuel_lowering.triton.language import typed
from fuel_lowering.triton.map import point_axis
from fuel_lowering.triton.writer import Access, Axis, KernelWriter, power_of_two

BLOCK = 256
"""Points of a program: few, as there are seldom many and each has all steps to do."""

WARP_POINTS = 64


def emit_scan(form: ScanForm) -> Emitted:
    """One kernel, one launch; none where there is no point."""
    points = form.points
    if not points:
        return Emitted((), ())
    schedule = schedule_scan(form, min(power_of_two(points), BLOCK))
    kernel, slots = ScanWriter(form, schedule).write()
    grid = (schedule.groups(form), 1, 1)
    return Emitted((kernel,), (EmittedLaunch(0, slots, (), grid),))


class ScanWriter(KernelWriter):
    """Writes the kernel of a `ScanForm`."""

    def __init__(self, form: ScanForm, schedule: ScanSchedule):
        self.count = form.points
        stacked = Layout((form.length, self.count), (self.count, 1))
        layouts = [stacked, *(_all_steps(form, value) for value in form.loads)]
        super().__init__(form, wide=needs_64_bits(self.count * form.length, layouts))
        self.scan = form
        self.block_size = schedule.lanes
        self.axis = Axis("i")
        self.code.used |= {"i", "step", "at_step"}
        self.known_blocks: set[SSAValue] = set()

    def write(self) -> tuple[DeviceKernel, tuple[int, ...]]:
        form = self.scan
        self.axis = point_axis(self, self.block_size, self.count)
        carries = self._begin()
        read = {v for op in form.ops for v in op.operands}
        for value in form.loads:
            if value in read and value not in form.x_steps:
                self.value(value)
        if not form.is_idle:
            self._steps(carries)
        for number, (kind, index) in enumerate(form.sources):
            if kind == "carry":
                at = Access("i", self.axis.mask)
                self.store(self.result_slot(number), at, self.values[form.carries[index]])
        warps = max(1, min(4, self.block_size // WARP_POINTS))
        return self.finish((("num_warps", warps),))

    # Carries.

    def _begin(self) -> list[str]:
        """Variables for the carries, with their initial values."""
        names: list[str] = []
        for carry, init in zip(self.scan.carries, self.scan.inits, strict=True):
            hint = carry.name_hint or "carry"
            initial = self._initial(init, f"{hint}_0")
            name = self.code.fresh(hint)
            self.line(f"{name} = {self._block(initial, self._is_block(init))}")
            names.append(name)
            self.values[carry] = Value(name, initial.dtype)
        self.known_blocks.update(self.scan.carries)
        return names

    def _initial(self, init: SSAValue, hint: str) -> Value:
        if init in self.form.splats:
            return self.value(init)
        slot = self.form.loads[init].argument
        return self.load(slot, self.where(init), self.form.dtype(init), hint)

    def _steps(self, carries: list[str]) -> None:
        form = self.scan
        with self.block(f"for step in range({form.length}):"):
            if form.reverse:
                self.line(f"at_step = {form.length - 1} - step")
            self.evaluate(form.ops)
            for number, (kind, index) in enumerate(form.sources):
                if kind == "y":
                    at = Access(f"i + {self._times(self.count)}", self.axis.mask)
                    self.store(self.result_slot(number), at, self.value(form.ys[index]))
            self._copy(carries)

    def _copy(self, carries: list[str]) -> None:
        """Copy next values into the carries in parallel, as Python assigns a tuple."""
        form = self.scan
        new: dict[str, str] = {}
        for number in form.changing:
            value = form.next_carries[number]
            new[carries[number]] = self._block(self.value(value), self._is_block(value))
        if new:
            self.line(f"{', '.join(new)} = {', '.join(new.values())}")

    def _block(self, term: Value, is_block: bool) -> str:
        """A value as a block: a carry keeps its shape."""
        text = typed(term.text, term.register)
        return text if is_block else f"tl.broadcast_to({text}, ({self.block_size},))"

    def _is_block(self, value: SSAValue) -> bool:
        if value in self.known_blocks:
            return True
        if value in self.form.splats:
            return False
        if value in self.form.loads:
            layout = self.form.loads[value].layout
            return any(s and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True))
        assert isinstance(value.owner, Operation)
        is_block = not self.is_literal(value)
        is_block &= any(map(self._is_block, value.owner.operands))
        if is_block:
            self.known_blocks.add(value)
        return is_block

    # Where things lie.

    def where(self, value: SSAValue) -> Access:
        layout = self.form.loads[value].layout
        access = self.place([(self.axis, layout)], layout.offset)
        if value not in self.scan.x_steps:
            return access
        step = self._times(self.scan.x_steps[value])
        return Access(step if access.offset == "0" else f"{access.offset} + {step}", access.mask)

    def _times(self, size: int) -> str:
        """The number of the step times a size."""
        factor = f"tl.full((), {size}, tl.int64)" if self.wide else size
        return f"{'at_step' if self.scan.reverse else 'step'} * {factor}"


def _all_steps(form: ScanForm, value: SSAValue) -> Layout:
    """Returns the offsets of an operand over all steps."""
    layout = form.loads[value].layout
    step = form.x_steps.get(value, 0)
    return Layout((form.length, *layout.shape), (step, *layout.strides), layout.offset)
