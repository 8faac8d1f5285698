# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles: where the time of calls goes, and the least that it could be."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuel_dialect as fuel
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.errors import ArgumentError, FuelError, StateError, TraceError
from fuel_dialect.targets.machine import Device, Rates, Topology
from fuel_runtime import Executable, Session
from fuel_runtime.call.profile import Profile, profile_of
from fuel_runtime.call.trace_events import CALLS, Lane, Span
from fuel_runtime.cli.main import main
from live_programs import CPU, CUDA, ONE, Lab, X

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


def test_devices_have_a_row_for_a_run_and_transfers() -> None:
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
