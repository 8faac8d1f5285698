# SPDX-License-Identifier: MIT OR Apache-2.0
"""
For tests of the targets that launch kernels: a module, or one run, on a target and real arrays.

`LAUNCHERS` says what runs the launches of each target. Buffers lie between guards in one piece of
memory each, full of NaN where nothing was written, so that a kernel that reads or writes outside,
or reads what nothing wrote, is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate_op
from fuel_dialect.ops.control import BranchOp, RunOp, YieldOp
from fuel_dialect.ops.memory import CopyOp, WeightOp
from fuel_dialect.prepared import PREPARES, bind_prepared
from fuel_dialect.reference.precision import Array
from fuel_dialect.traits import Leaf
from fuel_lowering.runs.launches import Buffer, DeviceRun

GUARD = 256
UNTOUCHED = 0xA5

NOTHING: Mapping[str, Any] = {}


def run_on(
    target: str,
    module: ModuleOp,
    arguments: Sequence[Array],
    weights: Mapping[str, Array] = NOTHING,
    arms: Mapping[str, int] = NOTHING,
) -> tuple[Array, ...]:
    """The results of `main`, whose runs are all lowered to one target; copies are free."""
    launcher, lower = LAUNCHERS[target]()

    def results(
        function: FuncOp, arguments: Sequence[Array], weights: Mapping[str, Array]
    ) -> list[Array]:
        bound = bind_prepared(function, weights, lambda source, given: results(source, (), given))

        def call(run: RunOp, operands: Sequence[Array]) -> Sequence[Array]:
            return execute(lower(run, "main"), operands, bound, launcher)

        return _walk(function.body.block, arguments, call, bound, arms, "")

    functions = (op for op in module.ops if isinstance(op, FuncOp))
    main = next(f for f in functions if PREPARES not in f.attributes)
    return tuple(results(main, arguments, weights))


def _walk(
    block: Any,
    arguments: Sequence[Array],
    call: Callable[[RunOp, Sequence[Array]], Sequence[Array]],
    weights: Mapping[str, Array],
    arms: Mapping[str, int],
    path: str,
) -> list[Array]:
    """Evaluates a block of an optimised module."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        if isinstance(op, ReturnOp | YieldOp):
            return operands
        results = _results(op, operands, call, weights, arms, path)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("a block ends with what it gives")


def _results(
    op: Operation, operands: Sequence[Array], call: Any, weights: Any, arms: Any, path: str
) -> Sequence[Array]:
    if isinstance(op, RunOp):
        return call(op, operands)
    if isinstance(op, BranchOp):
        name = path + op.id.data
        arm = arms.get(name, 0)
        return _walk(op.arm_regions[arm].block, operands, call, weights, arms, f"{name}/{arm}/")
    if isinstance(op, CopyOp):
        return operands
    if isinstance(op, WeightOp):
        return [weights[op.key.data]]
    assert op.has_trait(Leaf)
    return evaluate_op(op, operands)  # pyright: ignore[reportArgumentType]


Launcher = Callable[[DeviceRun, Sequence[Array]], None]
"""Runs the launches of a run on its buffers, which are given as bytes."""


def execute(
    lowered: DeviceRun, operands: Sequence[Array], weights: Mapping[str, Array], launcher: Launcher
) -> list[Array]:
    """The results of a run. Raises `IndexOutOfRange` as a device does."""
    shared: dict[Hashable, Array] = {}
    for buffer in reversed(lowered.buffers):
        shared[_home(lowered, buffer)] = _memory(lowered, buffer, operands, weights)
    memory = [shared[_home(lowered, buffer)] for buffer in lowered.buffers]
    before = [m.copy() for m in memory]
    launcher(lowered, [m[GUARD:-GUARD] for m in memory])
    given = {("input", index) for _, index in lowered.reuses}
    for buffer, now, old in zip(lowered.buffers, memory, before, strict=True):
        _check_kept(now, old, 0 if (buffer.role, buffer.index) in given else buffer.bytes, buffer)
    status = [m for m, b in zip(memory, lowered.buffers, strict=True) if b.role == "status"]
    if status and (number := int(status[0][GUARD : GUARD + 4].view(np.int32)[0])):
        raise IndexOutOfRange(f"{lowered.checks[number - 1]}: an index is out of range")
    found: dict[int, Array] = {}
    for buffer, m in zip(lowered.buffers, memory, strict=True):
        if buffer.role == "output":
            type = lowered.outputs[buffer.index]
            whole = m[GUARD : GUARD + buffer.bytes].view(dtypes.of_type(type).numpy)
            found[buffer.index] = whole.reshape(type.get_shape()).copy()
    return [found[index] for index in range(len(lowered.outputs))]


def _home(lowered: DeviceRun, buffer: Buffer) -> Hashable:
    """Returns a key of the memory of a buffer; a result has that of the operand it reuses."""
    if buffer.role not in ("input", "output"):
        return id(buffer)
    taken = dict(lowered.reuses).get(buffer.index) if buffer.role == "output" else None
    return (buffer.role, buffer.index) if taken is None else ("input", taken)


def _memory(
    lowered: DeviceRun, buffer: Buffer, operands: Sequence[Array], weights: Mapping[str, Array]
) -> Array:
    """The bytes of a buffer, rounded up to 16, between guards."""
    room = -(-buffer.bytes // 16) * 16
    raw = np.full(room + 2 * GUARD + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64
    memory = raw[start : start + room + 2 * GUARD]
    memory[:GUARD] = memory[-GUARD:] = UNTOUCHED
    contents: dict[str, Callable[[], Array]] = {
        "input": lambda: operands[buffer.index],
        "constant": lambda: lowered.constants[buffer.key],
        "weight": lambda: weights[buffer.key],
        "status": lambda: np.zeros(1, np.int32),
    }
    if buffer.role in contents:
        content = np.ascontiguousarray(contents[buffer.role]())
        memory[GUARD : GUARD + buffer.bytes] = content.reshape(-1).view(np.uint8)
    return memory


def _check_kept(now: Array, before: Array, bytes: int, buffer: Buffer) -> None:
    """Guards are as they were, and so many bytes of what is only read."""
    assert (now[:GUARD] == UNTOUCHED).all()
    assert (now[-GUARD:] == UNTOUCHED).all()
    if buffer.role in ("input", "constant", "weight"):
        assert (now[: GUARD + bytes] == before[: GUARD + bytes]).all()


# Triton, in its interpreter.


def _triton() -> tuple[Launcher, Callable[[RunOp, str], DeviceRun]]:
    from fuel_lowering.triton.lower import lower_run

    return _interpret, lower_run


_INTERPRETED: dict[Any, Any] = {}


def _interpret(lowered: DeviceRun, memory: Sequence[Array]) -> None:
    from fuel_lowering.triton.interpret import InterpretedKernel, interpreting

    for kernel in lowered.kernels:
        if kernel not in _INTERPRETED:
            _INTERPRETED[kernel] = InterpretedKernel(kernel)
    with interpreting():
        for launch in lowered.launches:
            kernel = lowered.kernels[launch.kernel]
            addresses = [
                memory[buffer].ctypes.data + offset
                for buffer, offset in zip(launch.buffers, launch.byte_offsets, strict=True)
            ]
            for address, parameter in zip(addresses, kernel.parameters, strict=True):
                assert address % 16 == 0 or not parameter.aligned
            _INTERPRETED[kernel].launch(addresses, launch.scalars, launch.grid)


# Kompute, on the first Vulkan device.


def _kompute() -> tuple[Launcher, Callable[[RunOp, str], DeviceRun]]:
    from fuel_lowering.kompute.lower import lower_run

    return _dispatch, lower_run


@cache
def vulkan_driver() -> Any:
    """The driver that all tests of a process share."""
    from fuel_dialect.attributes import DeviceAttr
    from fuel_runtime.devices.vulkan.driver import open_vulkan

    return open_vulkan(DeviceAttr.of("vulkan:0"))


def _dispatch(lowered: DeviceRun, memory: Sequence[Array]) -> None:
    from fuel_runtime.devices.interface import BoundLaunch

    driver = vulkan_driver()
    made = {bytes.ctypes.data: driver.allocate(max(bytes.size, 16)) for bytes in memory}
    handles = [made[bytes.ctypes.data] for bytes in memory]
    for handle, bytes in zip(handles, memory, strict=True):
        driver.write(handle, bytes)
    loaded = [driver.load(kernel) for kernel in lowered.kernels]
    bound = [
        BoundLaunch(
            loaded[launch.kernel],
            tuple(handles[buffer] for buffer in launch.buffers),
            launch.byte_offsets,
            launch.scalars,
            launch.grid,
        )
        for launch in lowered.launches
    ]
    recording = driver.record(bound)
    driver.replay(recording)
    for handle, bytes in zip(handles, memory, strict=True):
        driver.read(handle, bytes)
    driver.discard(recording)
    for handle in made.values():
        driver.free(handle)


LAUNCHERS: dict[str, Callable[[], tuple[Launcher, Callable[[RunOp, str], DeviceRun]]]] = {
    "triton": _triton,
    "kompute": _kompute,
}
