# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Devices that are dictionaries of arrays, and whose kernels the reference evaluates.

They stand in for real ones where the runtime itself is tested: memory is apart from the host's and
metered, what may not happen to it raises, and everything that is done is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import parse_module
from fuel_dialect.errors import DeviceUnavailable, IndexOutOfRange, LoweringError, OutOfMemory
from fuel_dialect.interpreter.evaluate import evaluate, evaluate_op
from fuel_dialect.movement import checks_indices
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp, RunOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.targets.description import TargetDescription
from fuel_dialect.targets.registry import registered
from fuel_dialect.tensors import tensor_type
from fuel_dialect.traits import Leaf
from fuel_lowering.runs.launches import Buffer, DeviceKernel, DeviceRun, Launch, Parameter
from fuel_lowering.runs.leaves import WeightUse
from fuel_runtime.devices.emulated.work import Work
from fuel_runtime.devices.interface import BoundLaunch, Driver, Limits
from fuel_runtime.devices.marks import Mark
from fuel_runtime.devices.opening import open_devices
from fuel_runtime.devices.present import Devices

Array = np.ndarray[Any, np.dtype[Any]]

DRIVERS = {"triton": "fake_devices:open_absent", "kompute": "fake_devices:open_software"}

REGISTRY: Mapping[str, TargetDescription] = {
    name: replace(
        description,
        driver=DRIVERS[name],
        lowering="fake_devices:lower_run",
        emulator="fake_devices:open_fake",
    )
    if name in DRIVERS
    else description
    for name, description in registered().items()
}
"""The targets of fuel, those of devices with memory of their own with fake drivers."""


def fake(names: str, threads: int = 2, **capacities: int) -> Devices:
    """Devices of the session's own: `fake("cpu,cuda:0", cuda=4096)` limits the memory of one."""
    devices = [DeviceAttr.of(name.strip()) for name in names.split(",")]
    emulate = {
        device.label: capacities.get(device.kind.data)
        for device in devices
        if device.kind.data != "cpu"
    }
    return open_devices(names, threads, emulate or None, REGISTRY)


def open_absent(device: DeviceAttr) -> FakeDriver:
    raise DeviceUnavailable(f"the driver of {device} is not installed; install a driver")


def open_software(device: DeviceAttr) -> FakeDriver:
    return FakeDriver(device, None, Limits(on_host_cores=True))


def open_fake(device: DeviceAttr, capacity: int | None) -> FakeDriver:
    return FakeDriver(device, capacity, Limits())


@dataclass(eq=False)
class Handle:
    """Memory, or launches that were recorded; both end with the last reference to it."""

    number: int
    launches: tuple[BoundLaunch, ...] = ()


@dataclass
class FakeDriver(Driver):
    """Memory by handle; the driver refuses what would be a fault on real hardware."""

    device: DeviceAttr
    capacity: int | None
    limits: Limits

    def __post_init__(self) -> None:
        self.memory: WeakKeyDictionary[Handle, Array] = WeakKeyDictionary()
        self.recordings: WeakSet[Handle] = WeakSet()
        self.done: Counter[str] = Counter()
        self.numbers = count(1)
        self.is_open = True
        self.work = Work()
        self.refused = ""

    @property
    def identity(self) -> str:
        return f"fake {self.device.kind.data}"

    @property
    def used(self) -> int:
        return sum(memory.nbytes for memory in self.memory.values())

    def allocate(self, bytes: int) -> Handle:
        assert self.is_open
        assert bytes > 0
        assert bytes % 16 == 0
        if self.capacity is not None and self.used + bytes > self.capacity:
            free = self.capacity - self.used
            raise OutOfMemory(f"{self.device}: {bytes} bytes are wanted, {free} are free")
        handle = Handle(next(self.numbers))
        self.memory[handle] = np.full(bytes, 0xA5, np.uint8)
        self.done["allocate"] += 1
        return handle

    def free(self, handle: Handle) -> None:
        assert self.is_open
        recorded = {h for r in self.recordings for b in r.launches for h in b.handles}
        assert handle not in recorded, "memory of a recording is freed"
        assert self.work.mark().is_done(), "memory is freed that the device may write to"
        del self.memory[handle]

    def write(self, handle: Handle, host: Array, offset: int = 0) -> None:
        assert host.dtype == np.uint8
        assert host.ndim == 1
        target, bytes = self.memory[handle][offset : offset + host.size], host.copy()
        self.work.do(lambda: target.__setitem__(slice(None), bytes))
        self.done["write"] += 1

    def read(self, handle: Handle, host: Array) -> None:
        assert host.dtype == np.uint8
        self.work.finish(self.watchdog)
        host[:] = self.memory[handle][: host.size]
        self.done["read"] += 1

    def copy(self, source: Handle, destination: Handle, bytes: int) -> None:
        read, written = self.memory[source][:bytes], self.memory[destination][:bytes]
        self.work.do(lambda: written.__setitem__(slice(None), read))
        self.done["copy"] += 1

    def zero(self, handle: Handle, bytes: int) -> None:
        cleared = self.memory[handle][:bytes]
        self.work.do(lambda: cleared.fill(0))

    def load(self, kernel: DeviceKernel) -> tuple[DeviceKernel, ModuleOp]:
        self.done["load"] += 1
        if self.refused and self.refused in kernel.source:
            raise LoweringError(f"{kernel.name}: the compiler knows no {self.refused}")
        return kernel, parse_module(kernel.source)

    def record(self, launches: Sequence[BoundLaunch]) -> Handle:
        assert launches
        recording = Handle(next(self.numbers), tuple(launches))
        self.recordings.add(recording)
        self.done["record"] += 1
        return recording

    def replay(self, recording: Handle) -> None:
        self.done["replay"] += 1
        assert recording in self.recordings
        self.work.do(lambda: self._replay(recording))

    def _replay(self, recording: Handle) -> None:
        assert recording in self.recordings, "a recording is given up before it has run"
        for launch in recording.launches:
            self._launch(launch)

    def _launch(self, launch: BoundLaunch) -> None:
        kernel, module = launch.loaded
        (function,) = module.ops
        assert isinstance(function, FuncOp)
        body = function.body.block
        end = body.last_op
        assert end is not None
        views = [
            self._view(handle, value)
            for handle, value in zip(launch.handles, (*body.args, *end.operands), strict=False)
        ]
        inputs = [view.copy() for view in views[: len(body.args)]]
        inner = _inner_weights(module).values()
        weights = {
            op.key.data: self._view(handle, op.result)
            for handle, op in zip(launch.handles[len(views) :], inner, strict=False)
        }
        try:
            results = evaluate(module, *inputs, weights=weights)
        except IndexOutOfRange:
            self.memory[launch.handles[-1]][:4] = np.array(launch.scalars, "<i4").view(np.uint8)
            return
        for view, result in zip(views[len(body.args) :], results, strict=True):
            view[...] = result
        self.done["launch"] += 1
        assert len(launch.handles) == len(kernel.parameters)

    def _view(self, handle: Handle, value: SSAValue) -> Array:
        shape, dtype = _shape(value), dtypes.of_type(tensor_type(value)).numpy
        bytes = prod(shape) * dtype.itemsize
        return self.memory[handle][:bytes].view(dtype).reshape(shape)

    def discard(self, recording: Handle) -> None:
        assert self.is_open
        self.work.do(lambda: self.recordings.remove(recording))

    def synchronise(self) -> None:
        assert self.is_open
        self.done["synchronise"] += 1
        self.work.finish(self.watchdog)

    def mark(self) -> Mark:
        return self.work.mark()

    def free_bytes(self) -> int | None:
        return None if self.capacity is None else self.capacity - self.used

    def total_bytes(self) -> int | None:
        return self.capacity

    def close(self) -> None:
        assert not self.recordings
        self.is_open = False


# Lowering: one kernel of the device for each of the program, as IR text.


def lower_run(run: RunOp, entry: str) -> DeviceRun:
    return _Lowering(run, entry).lower()


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(tensor_type(value).get_shape())


def _inner_weights(op: Operation) -> dict[str, WeightOp]:
    """The weights that a kernel reads inside, such as in the step of a scan, by their names."""
    return {inner.key.data: inner for inner in op.walk() if isinstance(inner, WeightOp)}


class _Lowering:
    def __init__(self, run: RunOp, entry: str):
        self.run = run
        self.entry = entry
        self.buffers: list[Buffer] = []
        self.place: dict[SSAValue, int] = {}
        self.kernels: list[DeviceKernel] = []
        self.launches: list[Launch] = []
        self.constants: dict[str, Array] = {}
        self.weights: dict[str, WeightUse] = {}
        self.checks: list[str] = []
        self.status: int | None = None
        self.origin = -1

    def lower(self) -> DeviceRun:
        block = self.run.body.block
        end = block.last_op
        assert end is not None
        for index, argument in enumerate(block.args):
            self._buffer(argument, "input", index)
        yielded, numbers = list(end.operands), count()
        for op in block.ops:
            if op.has_trait(Leaf):
                self._leaf(op)
            elif isinstance(op, KernelOp):
                self.origin = next(numbers)
                self._kernel(op, yielded)
        self.origin = -1
        for index, value in enumerate(yielded):
            if yielded.index(value) != index:
                self._copy(value, index)
        return DeviceRun(
            self.entry,
            "fake",
            tuple(self.kernels),
            tuple(self.buffers),
            tuple(self.launches),
            tuple(tensor_type(v) for v in block.args),
            tuple(tensor_type(v) for v in self.run.outputs),
            self.constants,
            self.weights,
            tuple(self.checks),
            tuple(self.run.reused().items()),
        )

    def _buffer(self, value: SSAValue, role: Any, index: int = 0, key: str = "") -> int:
        dtype = dtypes.of_type(tensor_type(value)).name
        self.buffers.append(Buffer(role, dtype, prod(_shape(value)), index, key))
        self.place[value] = len(self.buffers) - 1
        return self.place[value]

    def _leaf(self, op: Any) -> None:
        if isinstance(op, WeightOp):
            self._buffer(op.result, "weight", key=op.key.data)
            self.weights[f"w{len(self.weights)}"] = WeightUse(op.key.data, tensor_type(op.result))
            return
        key = f"c{len(self.constants)}"
        (self.constants[key],) = evaluate_op(op, [])
        self._buffer(op.results[0], "constant", key=key)

    def _kernel(self, op: KernelOp, yielded: list[SSAValue]) -> None:
        for result in op.outputs:
            if result in yielded:
                self._buffer(result, "output", yielded.index(result))
            else:
                self._buffer(result, "temporary")
        block = Block(arg_types=[value.type for value in op.inputs])
        clone = op.clone(dict(zip(op.inputs, block.args, strict=True)))
        block.add_ops([clone, ReturnOp(*clone.results)])
        checked = [o for o in op.walk() if isinstance(o, FuelOp) and checks_indices(o)]
        inner = list(_inner_weights(op).values())
        for weight in inner:
            self._leaf(weight)
        values = [*op.inputs, *op.outputs, *(weight.result for weight in inner)]
        self._launch(op.label.data, block, values, checked)

    def _copy(self, value: SSAValue, index: int) -> None:
        block = Block(arg_types=[value.type])
        block.add_op(ReturnOp(block.args[0]))
        source = self.place[value]
        self._buffer(value, "output", index)
        target, self.place[value] = self.place[value], source
        self._launch("copy", block, [value], (), (target,))

    def _launch(
        self,
        name: str,
        block: Block,
        values: Sequence[SSAValue],
        checked: Sequence[FuelOp],
        more: tuple[int, ...] = (),
    ) -> None:
        end = block.last_op
        assert end is not None
        types = [v.type for v in block.args], [v.type for v in end.operands]
        module = ModuleOp([FuncOp("main", types, Region(block))])
        buffers = (*(self.place[value] for value in values), *more)
        scalars: tuple[int, ...] = ()
        if checked:
            self.checks.append(checked[0].mnemonic())
            scalars = (len(self.checks),)
            buffers = (*buffers, self._status())
        used = [self.buffers[i] for i in buffers]
        kernel = DeviceKernel(
            name,
            str(module),
            tuple(Parameter(f"p{i}", b.dtype, b.elements, True) for i, b in enumerate(used)),
            tuple(f"s{i}" for i in range(len(scalars))),
        )
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        number = self.kernels.index(kernel)
        offsets = (0,) * len(buffers)
        launch = Launch(number, buffers, offsets, scalars, (1, 1, 1), self.origin)
        self.launches.append(launch)

    def _status(self) -> int:
        if self.status is None:
            self.buffers.append(Buffer("status", "i32", 1))
            self.status = len(self.buffers) - 1
        return self.status
