# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that are called again and again: a run that was recorded once is replayed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from cuda_machine import CUDA, Machine
from cuda_programs import Program, block, decode, gated, rows, softmax
from cuda_sizes import wanted
from harness import Array
from outcomes import Outcome, compared, described
from peers import Absent
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.errors import IndexOutOfRange
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_runtime import Executable
from fuel_runtime.devices.arrays import DeviceArray

STEPS = 200
"""Of decoding."""

SLACK_BYTES = 8 << 20
"""The bytes that CUDA itself may keep of the code and graphs of an executable that is gone."""


class Wrong(Exception):
    """Says in words what a check found."""


def _program(machine: Machine) -> Program:
    """A few kernels, one of them a product: a layer of a decoder."""
    return Program("block", block, (4, 16) if machine.emulated else (256, 512), "f32")


def _times(machine: Machine, count: int) -> int:
    """Says how often to do something: the interpreter is slow."""
    return max(count // 100, 2) if machine.emulated else count


class Call:
    """A program that is compiled for the device, and what the reference makes of operands."""

    def __init__(self, machine: Machine, program: Program, results: str = "cpu"):
        self.program = program
        self.module: ModuleOp = program.module()
        self.exe: Executable = machine.session.compile(self.module, results=results)

    def operands(self, seed: int) -> list[Array]:
        return self.program.operands(self.exe.signature.inputs, seed)

    def wanted(self, operands: Sequence[Array]) -> list[Array]:
        return wanted(self.module, self.exe.signature, operands, {})

    def check(self, got: Sequence[Any], operands: Sequence[Array], how: str) -> float:
        """The greatest error of results. Raises `Wrong`."""
        arrays = [np.asarray(result) for result in got]
        found = compared(how, operands, arrays, self.wanted(operands), self.program.allowed)
        if not found.passed:
            raise Wrong(f"{how}: {found.failure}")
        return found.error or 0.0


def changed_inputs(machine: Machine) -> float:
    """One executable, other operands in each call."""
    call, worst = Call(machine, _program(machine)), 0.0
    for seed in range(_times(machine, 50)):
        operands = call.operands(seed)
        worst = max(worst, call.check(call.exe(*operands), operands, f"call {seed}"))
    return worst


def memory_that_moves(machine: Machine) -> float:
    """Operands on the device are freed between calls, and other arrays take their place."""
    call, random, worst = Call(machine, _program(machine)), Random(0), 0.0
    others: list[DeviceArray] = []
    for seed in range(_times(machine, 50)):
        operands = call.operands(seed)
        kept = [machine.put(operand) for operand in operands]
        worst = max(worst, call.check(call.exe(*kept), operands, f"call {seed}"))
        shape = operands[random.randrange(len(operands))].shape
        others.append(machine.put(np.full(shape, np.nan, np.float32)))
        if random.random() < 0.5:
            others.pop(random.randrange(len(others)))
    return worst


def two_threads(machine: Machine) -> float:
    """Two threads call one executable, each with operands of its own."""
    call = Call(machine, _program(machine))
    count = _times(machine, 50)
    found: list[float] = []
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        operands = call.operands(seed)
        want = call.wanted(operands)
        try:
            for _ in range(count):
                got = call.exe(*operands)
                outcome = compared("thread", operands, got, want, call.program.allowed)
                found.append(outcome.error or 0.0)
                if not outcome.passed:
                    raise Wrong(f"thread {seed}: {outcome.failure}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return max(found)


def kept_results(machine: Machine) -> float:
    """Results stay on the device, are read by later calls, and do not change meanwhile."""
    shape = (4, 8) if machine.emulated else (512, 1024)
    call = Call(machine, Program("softmax", softmax, shape, "f32"), results=CUDA)
    operands = call.operands(0)
    first, kept, worst = operands, [], 0.0
    value: Any = operands[0]
    for _ in range(_times(machine, 100)):
        (value,) = call.exe(value)
        if not isinstance(value, DeviceArray) or value.device != CUDA:
            raise Wrong(f"a result is {value!r}")
        kept.append(value)
    for number, result in enumerate(kept):
        worst = max(worst, call.check([result], first, f"result {number}"))
        first = [np.asarray(result)]
    return worst


def decode_in_place(machine: Machine) -> float:
    """200 steps with a cache that is updated in place: right at each step, and memory is even."""
    steps = 12 if machine.emulated else STEPS
    shape = (2, 16, 4) if machine.emulated else (16, 512, 64)
    call = Call(machine, Program("decode", decode, shape, "f32"))
    state, worst, free = call.exe.new_state(), 0.0, 0
    operands = call.operands(0)
    reference = _Decoder(call, operands)
    for step in range(steps):
        token = np.random.default_rng(step).standard_normal(operands[0].shape, np.float32)
        want = reference.step(token)
        got = call.exe(token, *operands[1:], state=state)
        outcome = compared("step", [token], got, want, call.program.allowed)
        worst = max(worst, outcome.error or 0.0)
        if not outcome.passed:
            raise Wrong(f"step {step}: {outcome.failure}")
        if step == steps // 4:
            free = machine.free_bytes()
    _check_even(machine, free, f"{steps} steps than after {steps // 4}")
    if (count := int(state["count"])) != steps:
        raise Wrong(f"the state counts {count} steps in place of {steps}")
    return worst


class _Decoder:
    """The steps by the reference."""

    def __init__(self, call: Call, operands: Sequence[Array]):
        signature = call.exe.signature
        self._module = call.module
        self._positions = signature.positions
        self._members = signature.members
        self._fixed = list(operands[1:])
        self._state: dict[int, Array] = {
            m.argument: np.zeros(m.port.shape, m.port.numpy) for m in signature.members
        }

    def step(self, token: Array) -> list[Array]:
        given: Mapping[int, Array] = self._state | dict(
            zip(self._positions, [token, *self._fixed], strict=True)
        )
        with np.errstate(all="ignore"):
            results = evaluate(self._module, *(given[index] for index in range(len(given))))
        self._state = {m.argument: results[m.result] for m in self._members}
        updated = {m.result for m in self._members}
        return [result for index, result in enumerate(results) if index not in updated]


def _check_even(machine: Machine, before: int, when: str, slack: int = 0) -> None:
    gc.collect()
    after = machine.free_bytes()
    if after < before - slack:
        raise Wrong(f"{before - after:,} bytes fewer are free after {when}")


def memory_comes_back(machine: Machine) -> float:
    """Many calls and a kept result; when all is gone, as many bytes are free as before."""
    program = _program(machine)
    Call(machine, program).exe(*Call(machine, program).operands(0))
    gc.collect()
    before = machine.free_bytes()
    call = Call(machine, program, results=CUDA)
    operands = call.operands(1)
    worst = call.check(call.exe(*operands), operands, "the first call")
    during = machine.free_bytes()
    for _ in range(_times(machine, 500)):
        call.exe(*operands)
    _check_even(machine, during, "many calls")
    del call
    slack = 0 if machine.emulated else SLACK_BYTES
    _check_even(machine, before, "the executable is gone", slack)
    return worst


def wrong_index(machine: Machine) -> float:
    """An index out of range is told, and the call after it is right."""
    shape = (6, 5, 4) if machine.emulated else (5000, 64, 1000)
    call = Call(machine, Program("rows", rows, shape, "f32", index_bound=shape[1]))
    operands = call.operands(0)
    worst = call.check(call.exe(*operands), operands, "before")
    beyond = operands[1].copy()
    beyond[-1] = operands[0].shape[0]
    try:
        call.exe(operands[0], beyond, operands[2])
    except IndexOutOfRange:
        return max(worst, call.check(call.exe(*operands), operands, "after"))
    raise Wrong("an index out of range was not told")


def _pointwise(machine: Machine) -> Call:
    return Call(machine, Program("pointwise", gated, (512, 1024), "f32"), results=CUDA)


def seen_by_cupy(machine: Machine) -> float:
    """CuPy sees a result where it lies."""
    cupy, call = machine.cupy, _pointwise(machine)
    operands = call.operands(0)
    (result,) = call.exe(*operands)
    return call.check([cupy.asarray(result).get()], operands, "by CuPy")


def taken_from_cupy(machine: Machine) -> float:
    """An array of CuPy's is an argument, and does not pass the host."""
    cupy = machine.cupy
    if not machine.device.taker:
        raise Absent("the driver takes no arrays of other libraries in")
    call = _pointwise(machine)
    operands = call.operands(0)
    given = [cupy.asarray(operand) for operand in operands]
    cupy.cuda.runtime.deviceSynchronize()
    return call.check(call.exe(*given), operands, "from CuPy")


def shared_with_torch(machine: Machine) -> float:
    """Tensors of torch's on the GPU are arguments, and torch reads a result where it lies."""
    if not machine.device.taker:
        raise Absent("the driver takes no arrays of other libraries in")
    torch, call = machine.torch, _pointwise(machine)
    operands = call.operands(0)
    (result,) = call.exe(*(torch.from_numpy(operand).to("cuda") for operand in operands))
    return call.check([torch.from_dlpack(result).cpu().numpy()], operands, "by torch")


CHECKS: Mapping[str, Callable[[Machine], float]] = {
    check.__name__: check
    for check in (
        changed_inputs,
        memory_that_moves,
        two_threads,
        kept_results,
        decode_in_place,
        memory_comes_back,
        wrong_index,
        seen_by_cupy,
        taken_from_cupy,
        shared_with_torch,
    )
}
"""By name; each gives the greatest error, and raises what it found wrong."""


def check(machine: Machine, name: str) -> Outcome:
    """A step: one of `CHECKS`."""
    error = CHECKS[name](machine)
    return Outcome(name, described([]), error, _program(machine).allowed.relative)
