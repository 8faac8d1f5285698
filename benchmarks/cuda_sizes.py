# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole programs on the device, from the IR to results, beside what the reference gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import checkout
import numpy as np
from cuda_machine import Machine, session
from cuda_programs import Program
from harness import Array
from make_weights import weights_of
from outcomes import Allowed, Outcome, compared
from run_all import routes
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.triton.lower import lower_run
from fuel_runtime import Executable, Session
from fuel_runtime.call.signature import Signature

EXAMPLES = tuple(sorted(path.name for path in checkout.EXAMPLES.glob("*.mlir")))
QUICK_EXAMPLES = ("kv_cache.mlir", "nested_branch.mlir")
"""For a dry run: the interpreter takes seconds for the others."""

HOST_ARM, DEVICE_ARM = '#fuel.target<cpu, "numpy">', '#fuel.target<cuda:0, "triton">'
EXAMPLES_ALLOWED = Allowed(1e-4, 0.2)
"""As the tests of the examples allow: all results are f32."""

Weights = Mapping[str, Array]


def kernels(compiled: Executable) -> Iterator[DeviceKernel]:
    """The kernels of a program that was compiled for some device."""
    for op in compiled.module.walk():
        if isinstance(op, RunOp):
            yield from lower_run(op, "main").kernels


def program_kernels(program: Program) -> Iterator[DeviceKernel]:
    return kernels(session(emulated=True).compile(program.module()))


def example_kernels(name: str) -> Iterator[DeviceKernel]:
    module, weights = read(name)
    return kernels(session(emulated=True).compile(module, weights=weights))


def read(name: str) -> tuple[ModuleOp, Weights]:
    """An example with its weights; arms that it has for the host are for the device."""
    path = checkout.EXAMPLES / name
    text = path.read_text().replace(HOST_ARM, DEVICE_ARM)
    module = parse_module(text, path.name)
    return module, weights_of(module)


def check_example(machine: Machine, name: str) -> list[Outcome]:
    """A step: all results of an example, and what it leaves of its state, by way of every arm."""
    module, weights = read(name)
    devices = machine.session.devices
    kept = Session(devices, variants="keep").compile(module, weights=weights)
    outcomes: list[Outcome] = []
    for route in routes(kept.report()):
        forced = Session(devices, variants="keep", force=route) if route else machine.session
        exe = forced.compile(module, weights=weights)
        rng = np.random.default_rng(3)
        operands = [rng.standard_normal(p.shape).astype(p.numpy) for p in exe.signature.inputs]
        label = ", ".join([Path(name).stem, *(f"{d}={arm}" for d, arm in route.items())])
        outcomes.append(
            compared_with_reference(label, module, exe, operands, EXAMPLES_ALLOWED, weights)
        )
    return outcomes


def check_program(machine: Machine, program: Program) -> Outcome:
    """A step: a program twice, the second time as a replay."""
    module = program.module()
    exe = machine.session.compile(module)
    operands = program.operands(exe.signature.inputs)
    return compared_with_reference(program.name, module, exe, operands, program.allowed)


def compared_with_reference(
    name: str,
    module: ModuleOp,
    exe: Executable,
    operands: Sequence[Array],
    allowed: Allowed,
    weights: Weights = {},
) -> Outcome:
    """Two calls, of which the second counts."""
    called(exe, operands)
    got = called(exe, operands)
    want = wanted(module, exe.signature, operands, weights)
    return compared(name, operands, got, want, allowed)


def called(exe: Executable, operands: Sequence[Array]) -> list[Array]:
    """All results of a call, and what it leaves of a new state."""
    if not exe.signature.members:
        return list(exe(*operands))
    state = exe.new_state()
    return [*exe(*operands, state=state), *state.numpy().values()]


def wanted(
    module: ModuleOp, signature: Signature, operands: Sequence[Array], weights: Weights
) -> list[Array]:
    """Evaluates by the reference: the results, then the state that follows one of zeros."""
    given: dict[int, Array] = dict(zip(signature.positions, operands, strict=True))
    given |= {m.argument: np.zeros(m.port.shape, m.port.numpy) for m in signature.members}
    with np.errstate(all="ignore"):
        everything = (given[index] for index in range(len(given)))
        results = evaluate(module, *everything, weights=weights)
    last = [member.result for member in signature.members]
    first = [index for index in range(len(results)) if index not in last]
    return [results[index] for index in (*first, *last)]
