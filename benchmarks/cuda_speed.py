# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Measures fuel on the device, beside torch and beside a copy of as many bytes.

Time is the device's. That of the host is apart: what a replayed run keeps the host for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import cuda_peers
import cuda_programs
import harness
import numpy as np
import peers
from cuda_machine import CUDA, Machine
from cuda_peers import CAPTURED, GRAPH, KERNEL, Maker, Torch
from cuda_programs import ALLOWED, Program, Shape
from cuda_sizes import wanted
from harness import Array, Contestant, Measurement, Settings, Workload, WrongResult
from output import Target
from peers import COMPILED, EAGER, Absent, gather
from workloads import FUEL

from fuel_dialect.ops.control import RunOp
from fuel_lowering.runs.launches import DeviceRun
from fuel_runtime import Session
from fuel_runtime.devices.interface import BoundLaunch
from fuel_runtime.devices.loaded_run import array_bytes

COPY = "copy of as many bytes"
DEVICE_COPY = "device copy"
REPLAY, RUN, CALL = "fuel replay", "fuel run", "fuel call"

HEAD_ROWS = 64
"""Rows, the last ones, that are compared where all of them would take the reference too long."""

REAL = Settings(rounds=11, batch_seconds=0.02, pause_seconds=0.002, longest_seconds=4.0)
DRY = Settings(rounds=1, batch_seconds=0.0, pause_seconds=0.0, longest_seconds=0.1)


@dataclass(frozen=True)
class Race:
    """A program that is timed. `torch` is the same in torch."""

    name: str
    program: Program
    tiny: Program
    torch: Maker
    rows: tuple[bool, ...] | None = None
    """The operands with a row for each row of the result; None: the result is compared whole."""
    is_memory_bound: bool = False
    flops: Callable[[Shape], float] | None = None
    """Operations of the program in a shape, where these bound it."""

    def on(self, machine: Machine) -> Program:
        return self.tiny if machine.emulated else self.program


def _rows_race(name: str, build: Any, shape: tuple[int, ...], torch: Maker, *rows: bool) -> Race:
    tiny = (3 * HEAD_ROWS, *(4 for _ in shape[1:]))
    kind = name.removesuffix("_large")
    program, small = (Program(kind, build, each, "f32") for each in (shape, tiny))
    return Race(name, program, small, torch, rows, True)


def _matmul_race(size: int, dtype: str) -> Race:
    program = Program("matmul", cuda_programs.matmul, (size,) * 3, dtype)
    tiny = Program("matmul", cuda_programs.matmul, (2 * HEAD_ROWS, 8, 8), dtype)
    name = f"matmul_{dtype}_{size}"
    return Race(name, program, tiny, cuda_peers.matmul, (True, False), flops=_product_flops)


def _product_flops(shape: Shape) -> float:
    m, k, n = shape
    return 2.0 * m * k * n


def _block_flops(shape: Shape) -> float:
    """Ten products with square matrices, of which six make three of twice the width; attention."""
    positions, width = shape
    return 2.0 * positions * width * (10 * width + 2 * positions)


def _race(
    name: str,
    build: Any,
    torch: Maker,
    dtype: str,
    shape: Shape,
    tiny: Shape,
    flops: Callable[[Shape], float] | None = None,
) -> Race:
    program, small = (Program(name, build, each, dtype) for each in (shape, tiny))
    return Race(f"{name}_{dtype}", program, small, torch, flops=flops)


BLOCK = (2048, 2048)

RACES: Mapping[str, Race] = {
    race.name: race
    for race in (
        _rows_race(
            "pointwise_large", cuda_programs.gated, (1 << 26,), cuda_peers.gated, True, True
        ),
        _rows_race("softmax_large", cuda_programs.softmax, (32768, 4096), cuda_peers.softmax, True),
        _rows_race(
            "rms_norm_large",
            cuda_programs.rms_norm,
            (32768, 4096),
            cuda_peers.rms_norm,
            True,
            False,
        ),
        _matmul_race(4096, "bf16"),
        _matmul_race(8192, "bf16"),
        _matmul_race(4096, "f32"),
        _race("decode", cuda_programs.decode, cuda_peers.decode, "f32", (16, 2048, 64), (2, 8, 4)),
        _race(
            "block",
            cuda_programs.block,
            cuda_peers.block,
            "bf16",
            BLOCK,
            (4, 16),
            _block_flops,
        ),
        _race("scan", cuda_programs.recurrence, cuda_peers.recurrence, "f32", (1024, 512), (6, 4)),
        _race("softmax", cuda_programs.softmax, cuda_peers.softmax, "f32", (4096, 1024), (5, 9)),
        _race("pointwise", cuda_programs.gated, cuda_peers.gated, "f32", (1 << 22,), (40,)),
        _matmul_race(8192, "f32"),
        _race("block", cuda_programs.block, cuda_peers.block, "f32", (64, 256), (4, 16)),
    )
}
"""By name, the most telling first."""

COMPILED_RACES = ("pointwise_large", "rms_norm_large", "block_bf16")
"""Those that torch.compile takes part in, one at a time: it compiles for seconds each."""

BANDWIDTH = "at least 90 % of the bandwidth of a copy"
TARGETS = (
    *(
        Target(r.name, COPY, FUEL, 0.9, BANDWIDTH, True)
        for r in RACES.values()
        if r.is_memory_bound
    ),
    *(
        Target(f"matmul_bf16_{n}", EAGER, FUEL, 0.85, "at least 85 % of the rate of torch", True)
        for n in (4096, 8192)
    ),
    Target("host", RUN, None, 5e-6, "a replayed run keeps the host for less than 5 us"),
)


@dataclass(frozen=True)
class Figures:
    """A measurement, with what its contestants do a second: bytes moved, or operations."""

    measurement: Measurement
    unit: str = ""
    work: Mapping[str, float] = field(default_factory=dict)

    def rates(self) -> Iterator[tuple[str, float]]:
        """By contestant, the median."""
        for name, amount in self.work.items():
            if name in self.measurement.rounds:
                yield name, amount / self.measurement.time(name).median


def settings(machine: Machine) -> Settings:
    return DRY if machine.emulated else REAL


def copies(machine: Machine) -> Figures:
    """A step: the bandwidth of the device, by its own copy and by a kernel of torch's."""
    bytes = 1 << 12 if machine.emulated else 1 << 30
    field = gather({KERNEL: partial(cuda_peers.kernel_copy, machine, bytes // 4)})
    contestants = [_copy(machine, DEVICE_COPY, bytes), *field.present]
    title = f"copy of {bytes:,} bytes on the device"
    measurement = _measured(machine, Workload("copy", title, contestants, [], field.skipped))
    return Figures(measurement, "B/s", dict.fromkeys((DEVICE_COPY, KERNEL), 2.0 * bytes))


def _copy(machine: Machine, name: str, bytes: int) -> Contestant:
    """A copy within the device: reads so many bytes, and writes as many."""
    driver = machine.driver
    source, target = (driver.allocate(bytes) for _ in range(2))
    call = lambda: driver.copy(source, target, bytes)  # noqa: E731
    return Contestant(name, call, clock=machine.seconds, is_yardstick=True)


def _measured(machine: Machine, workload: Workload) -> Measurement:
    """Raises `WrongResult` if fuel's is; who else computes something else is left out."""
    try:
        return harness.measure(workload, settings(machine))
    except WrongResult:
        right, skipped = _those_right(workload)
    left = replace(workload, contestants=right, skipped={**workload.skipped, **skipped})
    return harness.measure(left, settings(machine))


def _those_right(workload: Workload) -> tuple[list[Contestant], dict[str, str]]:
    right: list[Contestant] = []
    skipped: dict[str, str] = {}
    for contestant in workload.contestants:
        try:
            harness.check(replace(workload, contestants=[contestant]))
            right.append(contestant)
        except WrongResult as error:
            if contestant.name == FUEL:
                raise
            skipped[contestant.name] = str(error)
    return right, skipped


def race(machine: Machine, name: str, with_compiler: bool = False) -> Figures:
    """A step: one of `RACES`; fuel beside torch, or beside torch.compile alone."""
    race = RACES[name]
    program = race.on(machine)
    fuel, ports, operands = _fuel(machine, race)
    take = _last_rows if race.rows else _whole
    others = _others(machine, race, operands, take, with_compiler)
    moved = sum(array_bytes(port.shape, port.numpy) for port in ports)
    field = gather(others)
    contestants = [fuel, *field.present]
    if race.is_memory_bound:
        contestants.append(_copy(machine, COPY, moved // 32 * 16))
    label = f"{name}_compiled" if with_compiler else name
    workload = Workload(
        label,
        f"{label}: {program.name}",
        contestants,
        _expected(race, program, operands),
        field.skipped,
        ALLOWED[program.dtype],
    )
    names = [contestant.name for contestant in contestants]
    measurement = _measured(machine, workload)
    if race.flops is not None:
        return Figures(measurement, "FLOP/s", dict.fromkeys(names, race.flops(program.shape)))
    work = dict.fromkeys(names, float(moved)) if race.is_memory_bound else {}
    return Figures(measurement, "B/s", work)


def _others(
    machine: Machine, race: Race, operands: Sequence[Array], take: Any, with_compiler: bool
) -> dict[str, Callable[[], Contestant]]:
    """The makers of the other contestants; where there is no torch, each says so."""
    shape = race.on(machine).shape
    try:
        torch = Torch(machine, race.torch, shape, operands, take)
    except Absent as reason:
        no_torch = peers.absent(str(reason))
        if with_compiler:
            return {COMPILED: no_torch}
        makers: dict[str, Callable[[], Contestant]] = {EAGER: no_torch, CAPTURED: no_torch}
        if race.torch is cuda_peers.matmul and operands[0].dtype == np.float32:
            makers[cuda_peers.CUPY] = partial(cuda_peers.cupy_product, machine, operands, take)
        return makers
    if with_compiler:
        return {COMPILED: torch.compiled}
    return {EAGER: torch.eager, CAPTURED: torch.captured}


def _fuel(machine: Machine, race: Race) -> tuple[Contestant, list[Any], list[Array]]:
    """Fuel with its operands on the device; all its inputs and outputs; the operands."""
    program = race.on(machine)
    exe = machine.session.compile(program.module(), results=CUDA)
    signature = exe.signature
    operands = program.operands(signature.inputs)
    values = [machine.put(operand) for operand in operands]
    given = {"state": exe.new_state()} if signature.members else {}
    take = _last_rows if race.rows else _whole

    def found(results: Sequence[Any]) -> list[Array]:
        return [take(np.asarray(result)).astype(np.float32) for result in results]

    call = lambda: exe(*values, **given)  # noqa: E731
    contestant = Contestant(FUEL, call, found, machine.seconds)
    return contestant, [*signature.inputs, *signature.outputs], operands


def _last_rows(result: Any) -> Any:
    return result[-HEAD_ROWS:]


def _whole(result: Any) -> Any:
    return result


def _expected(race: Race, program: Program, operands: Sequence[Array]) -> list[Array]:
    """Evaluates by the reference the rows that are compared."""
    if race.rows is not None:
        operands = [
            operand[-HEAD_ROWS:] if is_row else operand
            for operand, is_row in zip(operands, race.rows, strict=True)
        ]
        shape = (HEAD_ROWS, *program.shape[1:])
        program = Program(program.kind, program.build, shape, program.dtype)
    return [result.astype(np.float32) for result in _reference(program, operands)]


def _reference(program: Program, operands: Sequence[Array]) -> list[Array]:
    module = program.module()
    signature = Session(devices="cpu").compile(module).signature
    results = wanted(module, signature, operands, {})
    return results[: len(signature.outputs)]


# The host.


def host(machine: Machine) -> Figures:
    """A step: what a small run keeps the host for, from a bare graph to the call of a user."""
    program = Program("pointwise", cuda_programs.gated, (1024,), "f32")
    exe = machine.session.compile(program.module(), results=CUDA)
    operands = program.operands(exe.signature.inputs)
    values = [machine.put(operand) for operand in operands]
    (op,) = (op for op in exe.module.walk() if isinstance(op, RunOp))
    lowered = machine.device.lower(op, "host")
    assert isinstance(lowered, DeviceRun)
    run: Any = machine.device.load([lowered], {})[lowered.entry]
    clock = machine.host_seconds
    field = gather({GRAPH: partial(cuda_peers.bare_graph, machine, clock)})
    contestants = [
        Contestant(RUN, lambda: run(*values), machine.get, clock),
        _replay(machine, lowered, operands),
        Contestant(CALL, lambda: exe(*values), machine.get, clock),
        *field.present,
    ]
    expected = _reference(program, operands)
    title = "time of the host: one small kernel, replayed"
    return Figures(
        _measured(machine, Workload("host", title, contestants, expected, field.skipped))
    )


def _replay(machine: Machine, run: DeviceRun, operands: Sequence[Array]) -> Contestant:
    """A run of one launch, as a recording of the driver."""
    driver = machine.driver
    handles = [driver.allocate(buffer.bytes) for buffer in run.buffers]
    for handle, buffer in zip(handles, run.buffers, strict=True):
        if buffer.role == "input":
            driver.write(handle, operands[buffer.index].view(np.uint8))
    (launch,), (kernel,) = run.launches, run.kernels
    bound = BoundLaunch(
        driver.load(kernel),
        tuple(handles[buffer] for buffer in launch.buffers),
        tuple(0 for _ in launch.buffers),
        launch.scalars,
        launch.grid,
    )
    recording = driver.record([bound])
    (result,) = (n for n, buffer in enumerate(run.buffers) if buffer.role == "output")

    def values(_: Any) -> list[Array]:
        found = np.empty_like(operands[0])
        driver.read(handles[result], found.view(np.uint8))
        return [found]

    call = lambda: driver.replay(recording)  # noqa: E731
    return Contestant(REPLAY, call, values, machine.host_seconds)
