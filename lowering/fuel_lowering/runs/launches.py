# SPDX-License-Identifier: MIT OR Apache-2.0
"""
From a `fuel.run` to buffers and launches, for the targets that launch kernels.

What a target adds is an `Emitter`, which writes the kernels of one form. The rest is here: leaves
become buffers that are uploaded once, what only kernels read lies in temporaries whose memory is
shared by liveness, and a scan that is no single kernel becomes the launches of its steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import LoweringError
from fuel_dialect.ops.base import AnyTensor, ConstOp, tensor_type
from fuel_dialect.ops.control import KernelOp, RunOp, ScanOp, YieldOp
from fuel_dialect.ops.linear_algebra import MatmulOp
from fuel_dialect.ops.memory import IotaOp, WeightOp
from fuel_dialect.targets.limits import MOST_LAUNCHES
from fuel_dialect.traits import ChecksIndices, Leaf
from fuel_lowering.kernels.forms import Form, PatchForm, form_of, patch_form
from fuel_lowering.runs.lowered import (
    Buffer,
    BufferRole,
    DeviceKernel,
    DeviceRun,
    Launch,
    WeightUse,
)
from fuel_lowering.runs.reuse import taken_buffers
from fuel_passes.forming.form_kernels import form_kernels

ALIGNMENT = 16
"""Bytes that buffers begin at a multiple of."""

CHECK = "check"
"""The name of a scalar that is the number of the first checked op of a launch."""

OFFSET = "offset_"
"""What the name of a scalar begins with that is the first element of the parameter it names."""


@dataclass(frozen=True)
class EmittedLaunch:
    """
    A launch, bound to slots of the form.

    Slots are the arguments, then the results, then the temporaries of the form; -1 is the status.
    `scalars` are the values of the kernel's scalars in order; those that the run knows (`CHECK`,
    `OFFSET`) are left out.
    """

    kernel: int
    slots: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Emitted:
    """The kernels of a form, the launches that compute it, and the temporaries between these."""

    kernels: tuple[DeviceKernel, ...]
    launches: tuple[EmittedLaunch, ...]
    temporaries: tuple[tuple[str, int], ...] = ()
    """Element type and number of elements of each."""


class Emitter(Protocol):
    """What writes the kernels of a target."""

    @property
    def target(self) -> str:
        """The name of the target: `triton`, `kompute`."""
        ...

    @property
    def sums_vectors(self) -> bool:
        """Whether the product of a row and a matrix is better read as sums along the rows."""
        ...

    def emit(self, form: Form) -> Emitted:
        """The kernels of a form. Raises `LoweringError` for one that the target cannot run."""
        ...

    def patches(self, form: PatchForm) -> bool:
        """Whether the target can write elements of the form's result and leave those between."""
        ...


def lower_run(run: RunOp, entry: str, emitter: Emitter) -> DeviceRun:
    """The launches of a run. Raises `LoweringError`."""
    return _Lowering(run, entry, emitter).lower()


@dataclass(frozen=True)
class _Place:
    """Where a value lies: a buffer, and the first element in it."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class _Moving:
    """How the arguments and results of a kernel lie, as far as its code depends on it."""

    moves: frozenset[int] = frozenset()
    unaligned: frozenset[int] = frozenset()


class _Lowering:
    def __init__(self, run: RunOp, entry: str, emitter: Emitter):
        self.run = run
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
        self.places: dict[SSAValue, _Place] = {}
        self.status: int | None = None
        self.taken: dict[SSAValue, SSAValue] = {}
        self.copies: dict[tuple[Any, _Moving], tuple[KernelOp, Emitted]] = {}

    def lower(self) -> DeviceRun:
        run = self.run.clone()
        block, self.taken = run.body.block, taken_buffers(run)
        take_out_factors(block)
        for index, argument in enumerate(block.args):
            self.places[argument] = self._buffer("input", argument, index)
        outputs = self._outputs(block)
        for op in block.ops:
            if op.has_trait(Leaf):
                self.leaf(op)
            elif isinstance(op, KernelOp):
                self._kernel(op, outputs)
            elif op is not block.last_op:
                raise LoweringError(f"{op.name}: a run holds kernels and leaves only")
        assert block.last_op is not None
        for index, value in enumerate(block.last_op.operands):
            self._give(value, index)
        return self._finished()

    def _finished(self) -> DeviceRun:
        launches, buffers = share_temporaries(self.launches, self.buffers)
        return DeviceRun(
            self.entry,
            self.emitter.target,
            tuple(self.kernels),
            buffers,
            launches,
            tuple(tensor_type(v) for v in self.run.body.block.args),
            tuple(tensor_type(v) for v in self.run.outputs),
            self.constants,
            self.weights,
            tuple(self.checks),
            tuple(self.run.reused().items()),
        )

    # Buffers.

    def _new(self, buffer: Buffer) -> _Place:
        self.buffers.append(buffer)
        return _Place(len(self.buffers) - 1)

    def _buffer(self, role: BufferRole, value: SSAValue, index: int = 0, key: str = "") -> _Place:
        type = tensor_type(value)
        return self._new(Buffer(role, dtypes.of_type(type).name, _elements(type), index, key))

    def temporary(self, value: SSAValue) -> _Place:
        """A place of a value's own."""
        return self._buffer("temporary", value)

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
            while value in self.taken:
                found[value] = index
                value = self.taken[value]
        return found

    def _give(self, value: SSAValue, index: int) -> None:
        """Copy a value that lies elsewhere into the result of that number."""
        place = self.places[value]
        buffer = self.buffers[place.buffer]
        if (buffer.role, buffer.index) != ("output", index):
            self.copy(value.type, place, self._buffer("output", value, index))

    def leaf(self, op: Operation) -> None:
        """A constant or weight: a buffer that is written once."""
        (result,) = op.results
        self.places[result] = self._leaf_place(op, result)

    def _leaf_place(self, op: Operation, result: SSAValue) -> _Place:
        if isinstance(op, WeightOp):
            key = op.key.data
            self.weights[key] = WeightUse(key, tensor_type(result))
            return self._buffer("weight", result, key=key)
        key = f"constant_{len(self.constants)}"
        self.constants[key] = _array(op)
        return self._buffer("constant", result, key=key)

    # Kernels.

    def _kernel(self, kernel: KernelOp, outputs: Mapping[SSAValue, int]) -> None:
        for result in kernel.outputs:
            index = outputs.get(result)
            if index is None:
                self.places[result] = self.temporary(result)
            else:
                self.places[result] = self._buffer("output", result, index)
        scan = scan_of(kernel)
        if scan is not None and not scan.is_pointwise:
            _Steps(self, kernel, scan).lower()
            return
        places = [self.places[v] for v in (*kernel.inputs, *kernel.outputs)]
        self.launch(kernel, places, self._patch(kernel) or self.emit(kernel))

    def _patch(self, kernel: KernelOp) -> Emitted | None:
        """The code of a write that touches what is written alone, if its result allows that."""
        if len(kernel.outputs) != 1 or not self._lies_on_operand(kernel.outputs[0]):
            return None
        form = patch_form(kernel.clone(), kernel.label.data)
        return self.emitter.emit(form) if form and self.emitter.patches(form) else None

    def _lies_on_operand(self, result: SSAValue) -> bool:
        """Whether a result has the very memory of the operand that it takes over."""
        if result not in self.taken:
            return False
        own, taken = (self.buffers[self.places[v].buffer] for v in (result, self.taken[result]))
        if taken.role == "input":
            return own.role == "output" and self.run.reused().get(own.index) == taken.index
        return own.role == taken.role == "output" and own.index == taken.index

    def emit(self, kernel: KernelOp, moving: _Moving | None = None) -> Emitted:
        """The code of a kernel whose operands move, or not."""
        moving = moving or _Moving()
        clone = kernel.clone()
        form = form_of(clone, kernel.label.data, self.emitter.sums_vectors)
        form.moves, form.unaligned = moving.moves, moving.unaligned
        return self.emitter.emit(form)

    def launch(self, kernel: KernelOp, places: Sequence[_Place], emitted: Emitted) -> None:
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
        self, code: DeviceKernel, bound: Sequence[_Place], launch: EmittedLaunch, check: int
    ) -> None:
        offsets = {
            f"{OFFSET}{parameter.name}": place.offset
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
                    place.offset if f"{OFFSET}{parameter.name}" in offsets else 0
                    for parameter, place in zip(code.parameters, bound, strict=True)
                ),
                tuple(scalars),
                launch.grid,
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
            renamed = rename(code, name)
            if taken.get(name) == renamed:
                return renamed
        return code if name == code.name else rename(code, name)

    def _checked(self, kernel: KernelOp) -> int:
        """The number of a kernel's first op with indices."""
        first = len(self.checks) + 1
        checked = [op for op in kernel.body.block.ops if op.has_trait(ChecksIndices)]
        self.checks += [op.name.removeprefix("fuel.") for op in checked]
        return first

    def _status(self) -> _Place:
        if self.status is None:
            self.status = self._new(Buffer("status", "i32", 1)).buffer
        return _Place(self.status)

    def copy(self, type: Any, source: _Place, target: _Place) -> None:
        """Launch a kernel that copies elements from one place to another."""
        at, elements = [source, target], _elements(type)
        steps = [elements if self.buffers[place.buffer].elements > elements else 0 for place in at]
        key = type, self.moving(at, steps)
        if key not in self.copies:
            kernel = copy_kernel(type)
            self.copies[key] = kernel, self.emit(kernel, key[1])
        self.launch(self.copies[key][0], [source, target], self.copies[key][1])

    def moving(self, places: Sequence[_Place], steps: Sequence[int] = ()) -> _Moving:
        """How a kernel's operands lie, given where they are at first and how far a step is."""
        steps = steps or [0] * len(places)
        moves: set[int] = set()
        unaligned: set[int] = set()
        for slot, (place, step) in enumerate(zip(places, steps, strict=True)):
            itemsize = dtypes.BY_NAME[self.buffers[place.buffer].dtype].itemsize
            if place.offset or step:
                moves.add(slot)
            if place.offset * itemsize % ALIGNMENT or step * itemsize % ALIGNMENT:
                unaligned.add(slot)
        return _Moving(frozenset(moves), frozenset(unaligned))


class _Steps:
    """
    A scan as the launches of its steps.

    A value that a step computes lies where it is wanted: in the stacked ys if it is one of these,
    else, if it is a carry, in one of two buffers by turns. A carry is read where the step before
    left it, so nothing is copied but what no kernel of the body computes.
    """

    def __init__(self, lowering: _Lowering, kernel: KernelOp, scan: ScanOp):
        self.lowering = lowering
        self.kernel = kernel
        self.scan = scan
        if scan.end.until is not None:
            raise LoweringError(
                f"{kernel.label.data}: this target runs scans of a fixed number of steps; one with "
                "`until` runs on the cpu"
            )
        hoist_leaves(scan)
        form_kernels(scan.body.block)
        take_out_factors(scan.body.block)
        self.emitted: dict[tuple[KernelOp, frozenset[int], frozenset[int]], Emitted] = {}
        self.turns: dict[SSAValue, tuple[_Place, _Place]] = {}

    def lower(self) -> None:
        lowering, scan = self.lowering, self.scan
        outer = self._outer()
        carries = [outer[v] for v in scan.inits]
        count = scan.steps
        for step in range(count):
            index = count - 1 - step if scan.reverse is not None else step
            carries = self._step(step, index, carries, outer)
        for result, place in zip(scan.carry_results, carries, strict=True):
            for target in self._results(result):
                lowering.copy(result.type, place, target)

    def _outer(self) -> dict[SSAValue, _Place]:
        """Where the operands of the scan lie; what is no operand of the kernel is written first."""
        lowering, kernel = self.lowering, self.kernel
        block = kernel.body.block
        places: dict[SSAValue, _Place] = {
            argument: lowering.places[value]
            for argument, value in zip(block.args, kernel.inputs, strict=True)
        }
        for value in dict.fromkeys(self.scan.operands):
            if value in places:
                continue
            written = writing_kernel(value, block)
            place = lowering.temporary(value)
            at = [*(places[v] for v in written.arguments), place]
            lowering.launch(written.kernel, at, lowering.emit(written.kernel))
            places[value] = place
        return places

    def _results(self, value: SSAValue) -> list[_Place]:
        """Where the kernel gives a result of the scan: as often as it yields it."""
        last = self.kernel.body.block.last_op
        assert last is not None
        pairs = zip(last.operands, self.kernel.outputs, strict=True)
        return [self.lowering.places[output] for v, output in pairs if v is value]

    def _step(
        self, step: int, index: int, carries: Sequence[_Place], outer: Mapping[SSAValue, _Place]
    ) -> list[_Place]:
        scan = self.scan
        places: dict[SSAValue, _Place] = dict(zip(scan.carry_args, carries, strict=True))
        for argument, value in zip(scan.x_args, scan.xs, strict=True):
            size = _elements(tensor_type(argument))
            at = outer[value]
            places[argument] = _Place(at.buffer, at.offset + index * size)
        places |= {a: outer[v] for a, v in zip(scan.const_args, scan.consts, strict=True)}
        for op in scan.body.block.ops:
            if op.has_trait(Leaf):
                self._body_leaf(op, places)
            elif isinstance(op, KernelOp):
                self._body_kernel(op, step, index, places)
        self._stack(index, places)
        return [self._carried(v, step, places) for v in scan.end.carries]

    def _body_leaf(self, op: Operation, places: dict[SSAValue, _Place]) -> None:
        (result,) = op.results
        if result not in self.lowering.places:
            self.lowering.leaf(op)
        places[result] = self.lowering.places[result]

    def _body_kernel(
        self, op: KernelOp, step: int, index: int, places: dict[SSAValue, _Place]
    ) -> None:
        lowering = self.lowering
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
            self.emitted[key] = lowering.emit(op, moving)
        lowering.launch(op, at, self.emitted[key])

    def _moving(self, operands: Sequence[SSAValue], at: Sequence[_Place]) -> _Moving:
        """What moves between steps, so that one code serves all of them but perhaps the first."""
        steps = [
            _elements(tensor_type(value)) if self._is_stepped(value) else 0 for value in operands
        ]
        return self.lowering.moving(at, steps)

    def _is_stepped(self, value: SSAValue) -> bool:
        scan = self.scan
        if any(value is x for x in scan.x_args) or self._stacked(value) is not None:
            return True
        for argument, carried in zip(scan.carry_args, scan.end.carries, strict=True):
            if argument is value:
                return self._stacked(carried) is not None or any(carried is x for x in scan.x_args)
        return False

    def _stacked(self, value: SSAValue) -> int | None:
        """Which of the ys a value of the body is written to; None if it is none that is read."""
        if not isinstance(value.owner, KernelOp):
            return None
        for number, y in enumerate(self.scan.end.ys):
            if y is value and self._results(self.scan.y_results[number]):
                return number
        return None

    def _target(self, result: SSAValue, step: int, index: int) -> _Place:
        """Where a kernel of the body writes a result."""
        number = self._stacked(result)
        if number is not None:
            stack = self._results(self.scan.y_results[number])[0]
            return _Place(stack.buffer, stack.offset + index * _elements(tensor_type(result)))
        return self._turn(result, step)

    def _turn(self, value: SSAValue, step: int) -> _Place:
        """One of the two places of a value; those of one that is no carry are the same."""
        if value not in self.turns:
            first = self.lowering.temporary(value)
            is_carried = any(value is v for v in self.scan.end.carries)
            self.turns[value] = first, self.lowering.temporary(value) if is_carried else first
        return self.turns[value][step % 2]

    def _stack(self, index: int, places: Mapping[SSAValue, _Place]) -> None:
        """Copy what is to be stacked and does not lie there yet."""
        for value, stacked in zip(self.scan.end.ys, self.scan.y_results, strict=True):
            for stack in self._results(stacked):
                offset = stack.offset + index * _elements(tensor_type(value))
                target = _Place(stack.buffer, offset)
                if places[value] != target:
                    self.lowering.copy(value.type, places[value], target)

    def _carried(self, value: SSAValue, step: int, places: Mapping[SSAValue, _Place]) -> _Place:
        """Where the next step finds a carry; what was a carry before gets a place of its own."""
        if not any(value is argument for argument in self.scan.carry_args):
            return places[value]
        target = self._turn(value, step)
        self.lowering.copy(value.type, places[value], target)
        return target


# Kernels that the lowering adds.


@dataclass(frozen=True)
class Written:
    """A kernel that writes a value out, and the values of its block that it reads."""

    kernel: KernelOp
    arguments: tuple[SSAValue, ...]


def copy_kernel(type: Any) -> KernelOp:
    """A kernel that copies its operand."""
    operand = ConstOp.splat_of(0, type).result
    block = Block(arg_types=[type])
    block.add_op(YieldOp.create(operands=[block.args[0]]))
    return _movement("copy", [operand], block)


def _movement(label: str, inputs: Sequence[SSAValue], block: Block) -> KernelOp:
    assert block.last_op is not None
    return KernelOp.create(
        operands=inputs,
        result_types=[v.type for v in block.last_op.operands],
        properties={"kind": StringAttr("movement"), "label": StringAttr(label)},
        regions=[Region(block)],
    )


def writing_kernel(value: SSAValue, block: Block) -> Written:
    """A kernel that writes out a view of an argument, or a constant, of a block."""
    chain: list[Operation] = []
    source = value
    while isinstance(source.owner, Operation):
        chain.append(source.owner)
        if not source.owner.operands:
            break
        source = source.owner.operands[0]
    is_argument = not isinstance(source.owner, Operation)
    body = Block(arg_types=[source.type] if is_argument else [])
    known: dict[SSAValue, SSAValue] = {source: body.args[0]} if is_argument else {}
    for op in reversed(chain):
        clone = op.clone(known)
        body.add_op(clone)
        known[op.results[0]] = clone.results[0]
    body.add_op(YieldOp.create(operands=[known[value]]))
    arguments = (source,) if is_argument else ()
    return Written(_movement("write", arguments, body), arguments)


def take_out_factors(block: Block) -> None:
    """Constants that a product multiplies stand before its kernel: its factors lie in memory."""
    for kernel in list(block.ops):
        if not isinstance(kernel, KernelOp):
            continue
        products = [op for op in kernel.body.block.ops if isinstance(op, MatmulOp)]
        factors = [_root(operand) for product in products for operand in product.operands]
        for leaf in dict.fromkeys(v.owner for v in factors if isinstance(v.owner, Operation)):
            _take_out(leaf, kernel, block)


def _root(value: SSAValue) -> SSAValue:
    """What a chain of views begins with."""
    while isinstance(value.owner, Operation) and value.owner.operands:
        value = value.owner.operands[0]
    return value


def _take_out(leaf: Operation, kernel: KernelOp, block: Block) -> None:
    outside = leaf.clone()
    block.insert_op_before(outside, kernel)
    kernel.operands = [*kernel.operands, outside.results[0]]
    inner = kernel.body.block
    argument = inner.insert_arg(leaf.results[0].type, len(inner.args))
    leaf.results[0].replace_all_uses_with(argument)
    leaf.detach()
    leaf.erase()


def hoist_leaves(scan: ScanOp) -> None:
    """Constants of many values, and weights, of the body stand in front of the scan's kernels."""
    block = scan.body.block
    first = block.first_op
    for op in list(block.ops):
        if op.has_trait(Leaf) and op is not first:
            op.detach()
            assert first is not None
            block.insert_op_before(op, first)


def scan_of(kernel: KernelOp) -> ScanOp | None:
    """The scan that a kernel is."""
    return next((op for op in kernel.body.block.ops if isinstance(op, ScanOp)), None)


# Details.


def rename(kernel: DeviceKernel, name: str) -> DeviceKernel:
    """The same kernel under another name."""
    return replace(kernel, name=name, source=_whole_word(kernel.source, kernel.name, name))


def _whole_word(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def _elements(type: AnyTensor) -> int:
    return prod(type.get_shape())


def _array(op: Operation) -> np.ndarray[Any, Any]:
    if isinstance(op, ConstOp):
        return np.ascontiguousarray(op.to_numpy())
    if isinstance(op, IotaOp):
        return np.arange(_elements(tensor_type(op.result))).astype(np.float32)
    raise LoweringError(f"{op.name}: this target does not know the leaf")


def share_temporaries(
    launches: Sequence[Launch], buffers: Sequence[Buffer]
) -> tuple[tuple[Launch, ...], tuple[Buffer, ...]]:
    """
    The same launches with temporaries that are not alive at once in one buffer.

    A temporary takes the smallest free buffer that holds it and is at most twice as large.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for time, launch in enumerate(launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, time)
            last[buffer] = time
    kept = [b for b in range(len(buffers)) if buffers[b].role != "temporary"]
    number = {old: new for new, old in enumerate(kept)}
    slots: list[int] = []
    free: list[int] = []
    dying: dict[int, list[int]] = {}
    mapping = dict(number)
    ordered = sorted((t, b) for b, t in first.items() if buffers[b].role == "temporary")
    clock = 0
    for time, buffer in ordered:
        while clock < time:
            free += dying.pop(clock, [])
            clock += 1
        slot = _take_slot(free, slots, buffers[buffer].bytes)
        mapping[buffer] = len(kept) + slot
        dying.setdefault(last[buffer], []).append(slot)
    shared = [buffers[b] for b in kept] + [Buffer("temporary", "ui8", size) for size in slots]
    moved = tuple(
        replace(launch, buffers=tuple(mapping[b] for b in launch.buffers)) for launch in launches
    )
    return moved, tuple(shared)


def _take_slot(free: list[int], slots: list[int], bytes: int) -> int:
    fitting = [slot for slot in free if bytes <= slots[slot] <= 2 * bytes]
    if not fitting:
        slots.append(bytes)
        return len(slots) - 1
    best = min(fitting, key=lambda slot: slots[slot])
    free.remove(best)
    return best
