# SPDX-License-Identifier: MIT OR Apache-2.0
"""A run while its launches are collected: buffers, named kernels, launches and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.movement import checked_name, checks_indices
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.targets.limits import MOST_LAUNCHES
from fuel_dialect.tensors import tensor_type
from fuel_lowering.kernels.build import form_of
from fuel_lowering.runs.copies import copy_kernel
from fuel_lowering.runs.emitter import CHECK, OFFSET, Emitted, EmittedLaunch, Emitter
from fuel_lowering.runs.launches import Buffer, BufferRole, DeviceKernel, DeviceRun, Launch
from fuel_lowering.runs.leaves import WeightUse, array_of
from fuel_lowering.runs.memory import (
    ALIGNMENT,
    Moving,
    Place,
    elements,
    share_temporaries,
    size_in_bytes,
)

if TYPE_CHECKING:
    import numpy as np


class RunBuilder:
    """Collects the buffers, kernels and launches of one run."""

    def __init__(self, entry: str, emitter: Emitter):
        self.entry = entry
        self.emitter = emitter
        self.buffers: list[Buffer] = []
        self.kernels: dict[DeviceKernel, int] = {}
        self.numbers: dict[DeviceKernel, int] = {}
        """The number of a kernel by the code as it was emitted, before it got a name of its own."""
        self.launches: list[Launch] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.weights: dict[str, WeightUse] = {}
        self.checks: list[str] = []
        self.places: dict[SSAValue, Place] = {}
        self.status: int | None = None
        self.origin = -1
        """The number of the kernel that is being lowered; -1 for none."""
        self.copies: dict[tuple[Any, Moving], tuple[KernelOp, Emitted]] = {}

    def finish(self, run: RunOp) -> DeviceRun:
        """Returns the run that has been collected, with the types and reuses of `run`."""
        launches, buffers = share_temporaries(self.launches, self.buffers)
        return DeviceRun(
            self.entry,
            self.emitter.target,
            tuple(self.kernels),
            buffers,
            launches,
            tuple(tensor_type(v) for v in run.body.block.args),
            tuple(tensor_type(v) for v in run.outputs),
            self.constants,
            self.weights,
            tuple(self.checks),
            tuple(run.reused().items()),
        )

    # Buffers.

    def _new(self, buffer: Buffer) -> Place:
        self.buffers.append(buffer)
        return Place(len(self.buffers) - 1)

    def buffer(self, role: BufferRole, value: SSAValue, index: int = 0, key: str = "") -> Place:
        type = tensor_type(value)
        return self._new(Buffer(role, dtypes.of_type(type).name, elements(type), index, key))

    def temporary(self, value: SSAValue) -> Place:
        """A place of a value's own."""
        return self.buffer("temporary", value)

    def leaf(self, op: Operation) -> None:
        """A constant or weight: a buffer that is written once."""
        (result,) = op.results
        self.places[result] = self._leaf_place(op, result)

    def _leaf_place(self, op: Operation, result: SSAValue) -> Place:
        if isinstance(op, WeightOp):
            key = op.key.data
            self.weights[key] = WeightUse(key, tensor_type(result))
            return self.buffer("weight", result, key=key)
        key = f"constant_{len(self.constants)}"
        self.constants[key] = array_of(op)
        return self.buffer("constant", result, key=key)

    # Kernels.

    def emit(self, kernel: KernelOp, moving: Moving | None = None) -> Emitted:
        """The code of a kernel whose operands move, or not."""
        moving = moving or Moving()
        form = form_of(kernel, kernel.label.data)
        form.moves, form.unaligned = moving.moves, moving.unaligned
        return self.emitter.emit(form)

    def launch(self, kernel: KernelOp, places: Sequence[Place], emitted: Emitted) -> None:
        """Add the launches of a kernel, whose arguments and results lie at `places`."""
        temporaries = [
            self._new(Buffer("temporary", dtype, elements))
            for dtype, elements in emitted.temporaries
        ]
        slots = [*places, *temporaries]
        check = self._checked(kernel)
        for launch in emitted.launches:
            code = emitted.kernels[launch.kernel]
            bound = [self._status() if slot < 0 else slots[slot] for slot in launch.slots]
            self._add(code, bound, launch, check)
        if len(self.launches) > MOST_LAUNCHES:
            raise LoweringError(
                f"{self.entry}: the run takes more than {MOST_LAUNCHES} launches; a scan of that "
                "many steps must have an elementwise body to be one kernel"
            )

    def _add(
        self, code: DeviceKernel, bound: Sequence[Place], launch: EmittedLaunch, check: int
    ) -> None:
        offsets = {
            f"{OFFSET}{parameter.name}": parameter.first_element(place.byte_offset)
            for parameter, place in zip(code.parameters, bound, strict=True)
        }
        given = iter(launch.scalars)
        scalars: list[int] = []
        for name in code.scalars:
            if name == CHECK:
                scalars.append(check)
            else:
                scalars.append(offsets.pop(name) if name in offsets else next(given))
        if code not in self.numbers:
            self.numbers[code] = self.kernels.setdefault(self._named(code), len(self.kernels))
        number = self.numbers[code]
        self.launches.append(
            Launch(
                number,
                tuple(place.buffer for place in bound),
                tuple(
                    place.byte_offset if f"{OFFSET}{parameter.name}" in offsets else 0
                    for parameter, place in zip(code.parameters, bound, strict=True)
                ),
                tuple(scalars),
                launch.grid,
                self.origin,
            )
        )

    def _named(self, code: DeviceKernel) -> DeviceKernel:
        """A kernel under a name that no other kernel of the run has."""
        if code in self.kernels:
            return code
        taken = {kernel.name: kernel for kernel in self.kernels}
        number, name = 1, code.name
        while name in taken:
            number += 1
            name = f"{code.name}_{number}"
            renamed = code.renamed(name)
            if taken.get(name) == renamed:
                return renamed
        return code if name == code.name else code.renamed(name)

    def _checked(self, kernel: KernelOp) -> int:
        """The number of a kernel's first op with indices."""
        first = len(self.checks) + 1
        checked = [op for op in kernel.body.block.ops if checks_indices(op)]
        self.checks += map(checked_name, checked)
        return first

    def _status(self) -> Place:
        if self.status is None:
            self.status = self._new(Buffer("status", "i32", 1)).buffer
        return Place(self.status)

    def copy(self, type: Any, source: Place, target: Place) -> None:
        """Launch a kernel that copies elements from one place to another."""
        at, size = [source, target], size_in_bytes(type)
        steps = [size if self.buffers[place.buffer].bytes > size else 0 for place in at]
        key = type, self.moving(at, steps)
        if key not in self.copies:
            kernel = copy_kernel(type)
            self.copies[key] = kernel, self.emit(kernel, key[1])
        self.launch(self.copies[key][0], [source, target], self.copies[key][1])

    def moving(self, places: Sequence[Place], steps: Sequence[int] = ()) -> Moving:
        """Returns how a kernel's operands lie, given their first places and the bytes of a step."""
        steps = steps or [0] * len(places)
        moves: set[int] = set()
        unaligned: set[int] = set()
        for slot, (place, step) in enumerate(zip(places, steps, strict=True)):
            if place.byte_offset or step:
                moves.add(slot)
            if place.byte_offset % ALIGNMENT or step % ALIGNMENT:
                unaligned.add(slot)
        return Moving(frozenset(moves), frozenset(unaligned))
