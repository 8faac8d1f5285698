# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forms of scans whose body is elementwise: a loop over steps at each point."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from xdsl.ir import Operation, SSAValue

from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.ops.scan import ScanOp
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.form import Form, Load, arguments, fill, take, yielded
from fuel_lowering.kernels.indexing import select_axes


@dataclass(eq=False)
class ScanForm(Form):
    """
    A loop over steps at each point of `shape`; nothing passes between points.

    `carries` are variables of the body, neither loads nor splats. They begin with `inits`, which
    are loads or splats over `shape`; each step ends with a parallel copy of `next_carries` into
    them, any of which may be another carry. Loads in `x_steps` are of step 0, and lie that many
    elements on at each step; other loads stay. `ops` are the body, `ys` what it gives at each step.
    `sources` says, for each result of the kernel, which final carry it is or which ys, stacked:
    element i of step t at t * prod(shape) + i. With `reverse` steps count from `length` - 1 down.
    """

    shape: tuple[int, ...] = ()
    length: int = 0
    reverse: bool = False
    inits: list[SSAValue] = field(default_factory=list[SSAValue])
    carries: list[SSAValue] = field(default_factory=list[SSAValue])
    next_carries: list[SSAValue] = field(default_factory=list[SSAValue])
    ys: list[SSAValue] = field(default_factory=list[SSAValue])
    x_steps: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    sources: tuple[tuple[Literal["carry", "y"], int], ...] = ()

    @property
    def points(self) -> int:
        """The number of points."""
        return prod(self.shape)

    @property
    def is_idle(self) -> bool:
        """Returns True if no step changes a carry or gives a y that is read."""
        stacks = any(kind == "y" for kind, _ in self.sources)
        return not self.length or not (self.changing or stacks)

    @property
    def changing(self) -> list[int]:
        """The numbers of the carries that a step changes."""
        pairs = zip(self.carries, self.next_carries, strict=True)
        return [number for number, (now, following) in enumerate(pairs) if now is not following]


@dataclass(frozen=True)
class ScanSchedule:
    """
    Represents the cuts of a scan, and with them the places of its carries.

    A program or invocation takes `lanes` points through the steps of one launch; `parts` are the
    first step of each launch and the one after its last. Within a launch the carries live in
    registers; between launches each lies in a temporary of its own.
    """

    lanes: int
    parts: tuple[tuple[int, int], ...]

    @property
    def is_cut(self) -> bool:
        """Returns True if carries pass between launches."""
        return len(self.parts) > 1

    def groups(self, form: ScanForm, invocations: int = 1) -> int:
        """Returns the workgroups, of that many invocations, that cover the points of a form."""
        return -(-form.points // (self.lanes * invocations))


def schedule_scan(form: ScanForm, lanes: int, most_steps: int | None = None) -> ScanSchedule:
    """Cuts the steps of a scan into launches of at most `most_steps`; at least one launch."""
    most = most_steps or max(form.length, 1)
    starts = range(0, form.length, most) if form.length else [0]
    return ScanSchedule(lanes, tuple((s, min(s + most, form.length)) for s in starts))


def scan_of(kernel: KernelOp) -> ScanOp | None:
    """Returns the scan that a kernel holds, if it holds one."""
    return next((op for op in kernel.body.block.ops if isinstance(op, ScanOp)), None)


def scan_form(kernel: KernelOp, name: str) -> ScanForm:
    block = kernel.body.block
    (scan,) = (op for op in block.ops if isinstance(op, ScanOp))
    if not scan.is_pointwise:
        raise LoweringError(
            f"{name}: a scan is one kernel if its body is elementwise over the shape of its carries"
        )
    outer = Form(name, arguments(kernel), yielded(block))
    fill(outer, block)
    form = ScanForm(name, outer.arguments, outer.results)
    form.shape = tuple(tensor_type(scan.inits[0]).get_shape())
    form.length, form.reverse = scan.steps, scan.reverse is not None
    form.carries = list(scan.carry_args)
    form.inits = list(scan.inits)
    passed = [*scan.inits, *scan.x_args, *scan.const_args]
    for inside, value in zip(passed, scan.operands, strict=True):
        _pass_in(outer, form, inside, value)
    for op in scan.body.block.ops:
        if op is not scan.end:
            take(form, op)
    _step_views(form)
    form.next_carries, form.ys = list(scan.end.carries), list(scan.end.ys)
    form.sources = tuple(_source(scan, value) for value in form.results)
    return form


def _source(scan: ScanOp, value: SSAValue) -> tuple[Literal["carry", "y"], int]:
    number = next(i for i, output in enumerate(scan.outputs) if output is value)
    carries = len(scan.inits)
    return ("carry", number) if number < carries else ("y", number - carries)


def _pass_in(outer: Form, form: ScanForm, argument: SSAValue, value: SSAValue) -> None:
    """Tells the body of an operand of the scan; an x is one step of it."""
    if value in outer.splats:
        form.splats[argument] = outer.splats[value]
        return
    load = outer.loads[value]
    if len(load.layout.shape) > len(tensor_type(argument).get_shape()):
        form.x_steps[argument] = load.layout.strides[0]
        load = Load(load.argument, select_axes(load.layout, range(1, len(load.layout.shape))))
    form.loads[argument] = load


def _step_views(form: ScanForm) -> None:
    """A view of an x moves with it."""
    for value in form.loads:
        source = value
        while isinstance(source.owner, Operation):
            source = source.owner.operands[0]
        if source in form.x_steps:
            form.x_steps[value] = form.x_steps[source]
