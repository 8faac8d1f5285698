# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles: where the time of calls goes, and the least that it could be."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuel_dialect as fuel
from effort import examples
from fake_devices import REGISTRY
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.errors import ArgumentError, FuelError, IndexOutOfRange, StateError, TraceError
from fuel_dialect.ops.control import KernelOp
from fuel_dialect.targets.machine import Device, Rates, Topology
from fuel_runtime import Executable, Session
from fuel_runtime.call.profile import Profile, profile_of
from fuel_runtime.call.trace_events import CALLS, Lane, Span
from fuel_runtime.cli.main import main
from fuel_runtime.compile.tracing import recorder_of
from fuel_runtime.devices.opening import open_devices
from live_programs import CPU, CUDA, ONE, Lab, X
from machines import machines, placed_programs

RNG = np.random.default_rng(0)
ARGS = RNG.normal(size=(64, 32)).astype("f4"), RNG.normal(size=(32, 16)).astype("f4")


def mlp(**options: Any) -> Executable:
    graph = fuel.Graph()
    x = graph.input((64, 32), "f32", name="x")
    w = graph.input((32, 16), "f32", name="w")
    return Session(**options).compile(graph.build((x @ w).relu().softmax()))


def check_sums(profile: Profile) -> None:
    rows = (*profile.kernels, *profile.transfers)
    assert sum(row.share for row in rows) + profile.rest_share == pytest.approx(1)
    assert sum(row.total_ns for row in rows) + profile.rest_ns == profile.total_ns
    assert all(0 < row.median_ns * row.calls for row in rows)
    times = [row.total_ns for row in profile.kernels]
    assert times == sorted(times, reverse=True)


def test_kernels_with_calls_times_and_bytes() -> None:
    profile = mlp().profile(*ARGS, repeats=7)
    check_sums(profile)
    assert (profile.entry, profile.topology, profile.calls) == ("main", "cpu", 7)
    found = {k.kernel: (k.run, k.target, k.calls, k.bytes) for k in profile.kernels}
    product = 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert found == {
        "matmul_relu": ("run0", "cpu/numpy", 7, product),
        "softmax_last_dim": ("run0", "cpu/numpy", 7, 4 * 2 * 64 * 16),
    }
    assert not profile.transfers


def test_the_floor_is_bytes_or_arithmetic_at_the_rates_of_the_topology() -> None:
    def floors(**rates: Any) -> dict[str, int]:
        target = TargetAttr.of("cpu", "numpy")
        own = Rates(target, threads=1, launch_ns=900, by_dtype=(), **rates)
        machine = Topology("m", (Device("cpu"),), (target,), (), (own,))
        profile = mlp(topology=machine).profile(*ARGS, repeats=1)
        assert profile.topology == "m"
        return {k.kernel: k.floor_ns for k in profile.kernels}

    slow_memory = floors(bytes_per_ns=0.5, operations_per_ns=1e6, flops_per_ns=1e6)
    assert slow_memory == {"matmul_relu": 2 * 14336, "softmax_last_dim": 2 * 8192}
    slow_products = floors(bytes_per_ns=1e6, operations_per_ns=1e6, flops_per_ns=0.25)
    assert slow_products["matmul_relu"] == 4 * (2 * 64 * 32 * 16)
    assert slow_products["softmax_last_dim"] == 1


def test_a_scan_counts_the_arithmetic_of_every_step() -> None:
    text = """
    func.func @main(%c: tensor<4x4xf32>, %x: tensor<16x4x4xf32>) -> tensor<4x4xf32> {
      %l = fuel.scan init(%h = %c : tensor<4x4xf32>) xs(%s = %x : tensor<16x4x4xf32>) length 16
          -> (tensor<4x4xf32>) {
        %n = fuel.matmul %h, %s : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
        fuel.scan_yield carry(%n : tensor<4x4xf32>)
      }
      func.return %l : tensor<4x4xf32>
    }
    """
    args = np.eye(4, dtype="f4"), RNG.normal(size=(16, 4, 4)).astype("f4")
    (row,) = Session().compile(text).profile(*args, repeats=2).kernels
    assert row.bytes == 4 * (16 + 256 + 16)
    assert row.floor_ns == max(-(-row.bytes // 20), -(-16 * 2 * 64 // 100))


BLOCK = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %i: tensor<4xui32>)
    -> (tensor<4x16xf32>, tensor<8x16xf32>) {
  %0 = fuel.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %1 = fuel.softmax_last_dim %0 : tensor<8x16xf32>
  %2 = fuel.index_select %1, %i {dim = 0 : i64}
    : tensor<8x16xf32>, tensor<4xui32> -> tensor<4x16xf32>
  %3 = fuel.tanh %2 : tensor<4x16xf32>
  func.return %3, %1 : tensor<4x16xf32>, tensor<8x16xf32>
}
"""
INDICES = np.array([0, 7, 3, 3], np.uint32)


def check_kernels_of(session: Session, device: str) -> None:
    exe = session.compile(BLOCK)
    args = RNG.normal(size=(8, 16)).astype("f4"), RNG.normal(size=(16, 16)).astype("f4"), INDICES
    want = exe(*args)
    profile = exe.profile(*args, repeats=3)
    check_sums(profile)
    labels = [k.label.data for k in exe.module.walk() if isinstance(k, KernelOp)]
    assert sorted(k.kernel for k in profile.kernels) == sorted(labels)
    bytes = {k.kernel: k.bytes for k in profile.kernels}
    assert (bytes["matmul"], bytes["softmax_last_dim"]) == (4 * (128 + 256 + 128), 4 * 256)
    assert all(k.calls == 3 and k.target.startswith(device) for k in profile.kernels)
    for got, wanted in zip(exe(*args), want, strict=True):
        assert np.asarray(got).tobytes() == np.asarray(wanted).tobytes()
    wrong = np.array([0, 8, 0, 0], np.uint32)
    with pytest.raises(IndexOutOfRange):
        exe.profile(*args[:2], wrong)


def test_kernels_of_devices_have_times_of_their_own() -> None:
    devices = open_devices("cpu,cuda:0", 2, "cuda:0", REGISTRY)
    check_kernels_of(Session(devices, device="cuda:0"), "cuda:0")


@pytest.mark.needs_vulkan
def test_kernels_of_vulkan_have_times_of_their_own() -> None:
    check_kernels_of(Session("cpu,vulkan:0", device="vulkan:0"), "vulkan:0")


@pytest.mark.needs_vulkan
def test_a_scan_of_many_launches_is_one_kernel_on_vulkan() -> None:
    text = """
    func.func @main(%c: tensor<4x4xf32>, %x: tensor<5x4x4xf32>) -> tensor<4x4xf32> {
      %l = fuel.scan init(%h = %c : tensor<4x4xf32>) xs(%s = %x : tensor<5x4x4xf32>) length 5
          -> (tensor<4x4xf32>) {
        %n = fuel.matmul %h, %s : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
        %t = fuel.softmax_last_dim %n : tensor<4x4xf32>
        fuel.scan_yield carry(%t : tensor<4x4xf32>)
      }
      func.return %l : tensor<4x4xf32>
    }
    """
    exe = Session("cpu,vulkan:0", device="vulkan:0").compile(text)
    assert exe.report().route[0].launches > 5
    args = np.eye(4, dtype="f4"), RNG.normal(size=(5, 4, 4)).astype("f4")
    (row,) = exe.profile(*args, repeats=2).kernels
    assert (row.kernel, row.target, row.calls) == ("scan", "vulkan:0/kompute", 2)


@examples(40)
@given(st.data())
def test_kernels_launched_one_by_one_give_the_same_bits(data: st.DataObject) -> None:
    machine = data.draw(machines())
    program = data.draw(placed_programs(machine))
    names = ",".join(device.name for device in machine.devices)
    emulate = ",".join(name for name in names.split(",") if name != "cpu")
    devices = open_devices(names, 2, emulate or None, REGISTRY)
    exe = Session(devices, topology=machine, telemetry=False, poison=True).compile(
        program.module, weights=program.weights
    )
    want = [np.asarray(result).tobytes() for result in exe(*program.arguments)]
    recorder = recorder_of(exe._code, exe.module, one_by_one=True)
    with exe._observing(recorder):
        got = [np.asarray(result).tobytes() for result in exe(*program.arguments)]
    assert got == want
    kernels = [e for e in recorder.events if isinstance(e, Span) and e.kind == "kernel"]
    assert len(kernels) == exe.report().kernels_on_route
    assert [np.asarray(result).tobytes() for result in exe(*program.arguments)] == want


def test_devices_and_transfers() -> None:
    lab = Lab()
    program = ONE.replace(CPU, CUDA).replace("#fuel.device<cpu>", "#fuel.device<cuda:0>")
    profile = lab.compile(program, force={"d0": 0}, strict=True).profile(X, repeats=3)
    check_sums(profile)
    rows = {k.kernel: (k.target, k.calls, k.bytes) for k in profile.kernels}
    assert rows == {
        "neg": ("cpu/numpy", 3, 2048),
        "sqr_sin": ("cuda:0/triton", 3, 2048),
        "cos": ("cpu/numpy", 3, 2048),
    }
    moved = {(t.origin, t.to, t.calls, t.bytes) for t in profile.transfers}
    assert moved == {("cpu", "cuda:0", 3, 1024), ("cuda:0", "cpu", 3, 1024)}


def test_the_state_stays_as_it_is() -> None:
    graph = fuel.Graph()
    total = graph.state((4,), "f32", name="total")
    x = graph.input((4,), "f32", name="x")
    total.update(total + x)
    exe = Session().compile(graph.build(total * 1.0))
    ones = np.ones(4, np.float32)
    state = exe.new_state()
    exe(ones, state=state)
    assert exe.profile(x=ones, state=state, repeats=3).calls == 3
    assert exe.profile(ones, repeats=3).calls == 3
    np.testing.assert_array_equal(state["total"], ones)
    with pytest.raises(StateError):
        exe.profile(ones, state="no state")


def test_what_cannot_be_profiled(tmp_path: Path) -> None:
    exe = mlp()
    for repeats in (0, -1, True, 1.5):
        with pytest.raises(ArgumentError, match="profile: repeats"):
            exe.profile(*ARGS, repeats=repeats)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError):
        exe.profile(ARGS[0])
    with exe.trace(tmp_path / "t.json"), pytest.raises(TraceError):
        exe.profile(*ARGS)
    assert exe.profile(*ARGS, repeats=1).calls == 1


def test_calls_of_other_threads_are_not_counted() -> None:
    exe, stop = mlp(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            exe(*ARGS)

    other = threading.Thread(target=work)
    other.start()
    try:
        profile = exe.profile(*ARGS, repeats=5)
    finally:
        stop.set()
        other.join()
    assert profile.calls == 5
    assert {kernel.calls for kernel in profile.kernels} == {5}


def span(kind: Any, name: str, start: int, end: int, **details: Any) -> Span:
    device = CALLS if kind == "call" else "cpu"
    return Span(kind, name, device, Lane(1, "main"), start, end, details)


def test_the_table_of_times_that_are_known() -> None:
    about = {"run": "run0", "target": "cpu/numpy", "number": 0, "bytes": 4096, "floor_ns": 500_000}
    other = {**about, "number": 1, "bytes": 8192, "floor_ns": 3_000_000}
    events = [
        span("kernel", "a", 10, 1_000_010, **about),
        span("kernel", "a", 1_000_010, 4_000_010, **other),
        span("run", "run0", 0, 4_000_020, kernels=["a", "a"], bytes=1, floor_ns=1),
        span("call", "main", 0, 5_000_000),
    ]
    profile = profile_of(events, "main", "cpu")
    assert str(profile).splitlines() == [
        "main: 1 call of 5.000 ms; floors by the rates of cpu",
        "kernel    run   on         calls      time  share  bytes  of floor",
        "a         run0  cpu/numpy      1  3.000 ms  60.0%  8,192      100%",
        "a         run0  cpu/numpy      1  1.000 ms  20.0%  4,096       50%",
        "the rest                       1  1.000 ms  20.0%",
    ]
    read = json.loads(profile.to_json())
    assert [row["bytes"] for row in read["kernels"]] == [8192, 4096]
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.calls = 2  # type: ignore[misc]


def test_fuel_run_prints_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "mlp.mlir"
    assert main([str(example), "--random", "0", "--repeat", "2", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("main: 2 calls of "))
    assert lines[start + 1].split() == "kernel run on calls time share bytes of floor".split()
    assert {line.split()[0] for line in lines[start + 2 : start + 6]} == {
        "matmul_add_gelu",
        "matmul_add",
        "softmax_last_dim",
    }
    assert lines[start + 6].startswith("the rest")
    assert issubclass(TraceError, FuelError)
