# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls take of devices what was planned, no more than a person allows, and nothing freed."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuel_dialect as fuel
from agreement import assert_close, run
from effort import examples
from fake_devices import FakeDriver, fake
from fuel_dialect.context import make_context
from fuel_dialect.errors import ArgumentError, OutOfMemory
from fuel_dialect.targets.machine import Topology
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session
from fuel_runtime.devices.buffer_device import BufferDevice
from fuel_runtime.devices.caps import parse_bytes
from fuel_runtime.devices.present import Devices
from machines import machines, placed_programs
from programs import Program

T = "tensor<256xf32>"
X = np.linspace(-2, 2, 256, dtype=np.float32)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Topology, Program]:
    machine = draw(machines())
    return machine, draw(placed_programs(machine))


def drivers(devices: Devices) -> dict[str, FakeDriver]:
    others = (d for d in devices.present if isinstance(d, BufferDevice))
    return {device.name.label: cast(FakeDriver, device.driver) for device in others}


@examples(60)
@given(cases(), st.sampled_from(["segment", "chain"]))
def test_devices_give_no_more_than_was_planned(
    case: tuple[Topology, Program], granularity: Any
) -> None:
    machine, drawn = case
    module = drawn.module.clone()
    OptimizePass(granularity=granularity).apply(make_context(), module)
    devices = fake(",".join(target.device.label for target in machine.targets))
    session = Session(devices, poison=True, telemetry=False)
    exe = session.compile(module, weights=drawn.weights, optimize=False)
    planned = {each.device: each.peak for each in exe.memory().devices}
    for _ in range(3):
        results = exe(*drawn.arguments)
        assert_close([np.asarray(result) for result in results], run(drawn))
        del results
        for label, driver in drivers(devices).items():
            assert driver.used <= planned.get(label, 0), str(exe.memory())


def on(device: str, op: str) -> str:
    return op.replace(" :", f" {{placement = #fuel.device<{device}>}} :", 1)


def chain(length: int) -> str:
    """Returns a program that goes to the card and back again and again, with a weight each time."""
    lines: list[str] = []
    last = "x"
    for number in range(length):
        lines += [
            f'%w{number} = fuel.weight "w{number}" : {T}',
            on("cuda:0", f"%e{number} = fuel.mul %{last}, %w{number} : {T}"),
            on("cpu", f"%s{number} = fuel.sin %e{number} : {T}"),
        ]
        last = f"s{number}"
    return program(*lines, f"func.return %{last} : {T}")


def program(*lines: str) -> str:
    body = "\n  ".join(lines)
    return f"func.func @main(%x: {T}) -> {T} {{\n  {body}\n}}\n"


def test_memory_that_is_given_back_is_filled() -> None:
    devices = fake("cpu,cuda:0")
    Session(devices, poison=True)
    (device,) = (d for d in devices.present if isinstance(d, BufferDevice))
    array = device.put(X)
    handle, driver = array.lease.memory.handle, cast(FakeDriver, device.driver)
    np.testing.assert_array_equal(driver.memory[handle][: X.nbytes].view("f4"), X)
    del array
    device.free_bytes()
    assert np.isnan(driver.memory[handle].view("f4")).all()


@pytest.mark.parametrize("given", ["x", 1, None])
def test_poison_is_said_or_not(given: Any) -> None:
    devices = fake("cpu,cuda:0")
    with pytest.raises(ArgumentError, match="poison is True or False, not"):
        Session(devices, memory={"cuda:0": 64}, poison=given)
    assert [device.cap for device in devices.present] == [None, None]


def test_a_device_that_is_closed_writes_no_memory() -> None:
    devices = fake("cpu,cuda:0")
    Session(devices, poison=True)
    (device,) = (d for d in devices.present if isinstance(d, BufferDevice))
    arrays = [device.put(X) for _ in range(3)]
    driver, written = cast(FakeDriver, device.driver), list[Any]()
    del arrays
    driver.write = lambda handle, data: written.append(handle)  # type: ignore[method-assign]
    device.close()
    assert not written
    assert driver.used == 0


EXIT = """
import numpy as np
from fuel_runtime import Session
session = Session(devices="cpu,vulkan:0", device="vulkan:0", poison=True)
exe = session.compile({program!r}, results="vulkan:0")
found = [exe(np.ones((64, 64), np.float32))[0] for _ in range(50)]
del found
"""


@pytest.mark.needs_vulkan
def test_a_process_ends_with_poison_on_a_real_device() -> None:
    square = "tensor<64x64xf32>"
    text = (
        f"func.func @main(%x: {square}) -> {square} {{\n  %y = fuel.exp %x : {square}\n"
        f"  func.return %y : {square}\n}}\n"
    )
    command = [sys.executable, "-c", EXIT.format(program=text)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "bytes"),
    [
        ("2GiB", 2 << 30),
        ("512 MiB", 512 << 20),
        ("1.5kb", 1500),
        ("4096", 4096),
        ("7 B", 7),
        (9, 9),
    ],
)
def test_sizes_are_read(text: object, bytes: int) -> None:
    assert parse_bytes(text, "it") == bytes


@pytest.mark.parametrize("size", ["", "GiB", "-1", "2 gigs", "0", 0, -5, 1.5, None, True, "1e9"])
def test_what_is_no_size_is_an_error(size: Any) -> None:
    with pytest.raises(ArgumentError, match=r"the memory of cuda:0 is a size such as 2GiB"):
        Session(fake("cpu,cuda:0"), memory={"cuda:0": size})


@pytest.mark.parametrize("name", ["cuda:1", "cuda:", "", 3])
def test_a_bound_for_a_device_that_is_not_there_is_an_error(name: Any) -> None:
    with pytest.raises(ArgumentError, match="the devices are cpu, cuda:0"):
        Session(fake("cpu,cuda:0"), memory={name: "2GiB"})
    with pytest.raises(ArgumentError, match="memory gives the size of devices"):
        Session(fake("cpu,cuda:0"), memory=cast(Any, "2GiB"))


def test_plans_are_for_the_memory_that_a_session_may_take() -> None:
    session = Session(fake("cpu,cuda:0", cuda=1 << 20), memory={"cuda:0": "64KiB", "cpu": "1MB"})
    exe = session.compile(chain(1), weights={"w0": X})
    assert exe.memory().of("cuda:0").capacity == 64 << 10
    assert exe.memory().of("cpu").capacity == 1_000_000
    larger = Session(fake("cpu,cuda:0", cuda=1 << 16), memory={"cuda:0": "1GiB"})
    assert larger.compile(chain(1), weights={"w0": X}).memory().of("cuda:0").capacity == 1 << 16


def test_a_program_that_takes_too_much_of_the_host_is_refused() -> None:
    text = program(f"%y = fuel.exp %x : {T}", f"func.return %y : {T}")
    assert len(Session(memory={"cpu": 1024}).run(text, X)) == 1
    with pytest.raises(
        OutOfMemory,
        match=r"main: not enough memory to load it: a call takes more than the 1,023 bytes",
    ):
        Session(memory={"cpu": 1023}).compile(text)


def test_no_more_is_taken_than_the_bound_and_the_error_names_the_run() -> None:
    devices = fake("cpu,cuda:0")
    session = Session(devices, memory={"cuda:0": 2048})
    exe = session.compile(chain(1), weights={"w0": X})
    with pytest.raises(
        OutOfMemory, match=r"run0: cuda:0: 1,024 bytes are wanted, 0 are free of the 2,048"
    ) as raised:
        exe(X)
    assert "the run takes 1,024 bytes of weights and constants, 0 of workspace" in str(raised.value)
    del raised
    assert drivers(devices)["cuda:0"].used <= 2048
    (y,) = Session(devices).compile(
        f"func.func @main(%x: {T}) -> {T} {{\nfunc.return %x : {T}\n}}"
    )(X)
    np.testing.assert_array_equal(y, X)


def test_a_value_that_does_not_fit_is_named_with_the_run_that_reads_it() -> None:
    session = Session(fake("cpu,cuda:0"), memory={"cuda:0": 512})
    exe = session.compile(chain(1), weights={"w0": X})
    with pytest.raises(
        OutOfMemory, match=r"^arg0 is brought to cuda:0 for run0: cuda:0: 1,024 bytes"
    ):
        exe(X)
    wants = "cuda:0: 1,024 bytes are wanted, 512 are free of the 512 that it may give"
    text = program(on("cpu", f"%y = fuel.exp %x : {T}"), f"func.return %y : {T}")
    with pytest.raises(OutOfMemory, match=r"^result 0 of run0 is brought to cuda:0 for a result: "):
        session.compile(text, results="cuda:0")(X)
    two = program(
        on("cpu", f"%y = fuel.exp %x : {T}"),
        on("cuda:0", f"%z = fuel.neg %y : {T}"),
        f"func.return %z : {T}",
    )
    with pytest.raises(OutOfMemory) as raised:
        session.compile(two)(X)
    assert str(raised.value).startswith(f"result 0 of run0 is brought to cuda:0 for run1: {wants}")


OUTSIDE = 600_000
"""The bytes that two threads may take for pieces of what NumPy copies, beside the plan."""

ON_THE_HOST: dict[str, tuple[str, Any]] = {
    "argmax of the first axis": ("f32", lambda x: x.argmax(0)),
    "argmin of what is computed": ("f32", lambda x: x.exp().argmin(0)),
    "argmax in f64": ("f64", lambda x: x.argmax(0)),
    "erf": ("f64", lambda x: x.erf()),
    "gelu": ("f64", lambda x: x.gelu()),
    "gelu of f32": ("f32", lambda x: x.gelu()),
    "softmax": ("f32", lambda x: x.softmax()),
    "sum of the first axis": ("f32", lambda x: x.exp().sum(axis=0)),
}


@pytest.mark.parametrize("case", ON_THE_HOST.values(), ids=ON_THE_HOST)
def test_a_call_takes_of_the_host_what_was_planned(case: tuple[str, Any]) -> None:
    dtype, make = case
    graph = fuel.Graph()
    executable = Session(threads=2).compile(graph.build(make(graph.input((3000, 400), dtype))))
    x = np.ones((3000, 400), {"f32": np.float32, "f64": np.float64}[dtype])
    planned = executable.memory().of("cpu").transient
    tracemalloc.start()
    executable(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= planned + OUTSIDE
