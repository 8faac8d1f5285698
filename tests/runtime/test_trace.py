# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces: what calls do, as events that Perfetto opens, and nothing that changes a result."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuel_dialect as fuel
from effort import examples
from fake_devices import REGISTRY
from fuel_dialect.errors import DeviceFailure, IndexOutOfRange, OutOfMemory, TraceError
from fuel_dialect.ops.control import KernelOp
from fuel_runtime import Executable, Session
from fuel_runtime.cli.main import main
from fuel_runtime.devices.opening import open_devices
from live_programs import CPU, CUDA, ONE, STATE, TWO, Fails, Lab, X, one, two
from machines import machines, placed_programs
from programs import Program, programs

Event = dict[str, Any]


@dataclass(frozen=True)
class Read:
    """A trace as Perfetto reads it; times are nanoseconds."""

    content: Mapping[str, Any]

    @staticmethod
    def of(path: Path) -> Read:
        found = Read(json.loads(path.read_text()))
        found.check()
        return found

    @property
    def events(self) -> Sequence[Event]:
        return [e for e in self.content["traceEvents"] if e["ph"] != "M"]

    @property
    def lanes(self) -> Mapping[int, str]:
        """The names of the processes by number."""
        named = (e for e in self.content["traceEvents"] if e["name"] == "process_name")
        return {e["pid"]: e["args"]["name"] for e in named}

    def of_kind(self, kind: str) -> list[Event]:
        return [e for e in self.events if e.get("cat") == kind]

    def names(self, kind: str) -> list[str]:
        return [e["name"] for e in self.of_kind(kind)]

    def device(self, event: Event) -> str:
        return self.lanes[event["pid"]]

    def check(self) -> None:
        """Times grow; in a lane spans nest; counters count; every lane has a name."""
        times = [e["ts"] for e in self.events]
        assert times == sorted(times)
        assert all(time >= 0 for time in times)
        named = {
            (e["pid"], e["tid"]) for e in self.content["traceEvents"] if e["name"] == "thread_name"
        }
        open_until: dict[tuple[int, int], list[int]] = {}
        for event in self.events:
            assert event["pid"] in self.lanes
            if event["ph"] == "C":
                assert all(value >= 0 for value in event["args"].values())
                continue
            lane = event["pid"], event["tid"]
            assert lane in named
            if event["ph"] == "X":
                start = round(event["ts"] * 1000)
                end = start + round(event["dur"] * 1000)
                assert end >= start
                stack = open_until.setdefault(lane, [])
                while stack and stack[-1] <= start:
                    stack.pop()
                assert not stack or end <= stack[-1], event
                stack.append(end)


def traced(exe: Executable, path: Path, *args: Any, **named: Any) -> tuple[tuple[Any, ...], Read]:
    with exe.trace(path):
        results = exe(*args, **named)
    return results, Read.of(path)


def same_bits(got: Sequence[Any], want: Sequence[Any]) -> None:
    for result, wanted in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        assert result.tobytes() == wanted.tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.json"


def mlp() -> Executable:
    graph = fuel.Graph()
    x = graph.input((64, 32), "f32", name="x")
    w = graph.input((32, 16), "f32", name="w")
    return Session().compile(graph.build((x @ w).relu().softmax()))


RNG = np.random.default_rng(0)
ARGS = RNG.normal(size=(64, 32)).astype("f4"), RNG.normal(size=(32, 16)).astype("f4")


def test_a_call_has_its_run_and_kernels_with_the_bytes_of_the_ir(path: Path) -> None:
    exe = mlp()
    want = exe(*ARGS)
    got, trace = traced(exe, path, *ARGS)
    same_bits(got, want)
    (call,), (run,) = trace.of_kind("call"), trace.of_kind("run")
    assert (trace.device(call), call["name"]) == ("calls", "main")
    assert (trace.device(run), run["args"]["target"]) == ("cpu", "cpu/numpy")
    kernels = [op for op in exe.module.walk() if isinstance(op, KernelOp)]
    assert trace.names("kernel") == [op.label.data for op in kernels]
    assert run["args"]["kernels"] == trace.names("kernel")
    moved = [e["args"]["bytes"] for e in trace.of_kind("kernel")]
    assert moved == [4 * (64 * 32 + 32 * 16 + 64 * 16), 4 * (2 * 64 * 16)]
    assert run["args"]["bytes"] == sum(moved)
    counts = [e for e in trace.events if e["ph"] == "C"]
    assert len(counts) == 2  # as the trace begins, and after the run
    assert all(e["args"]["resident"] > 1 << 20 for e in counts)
    assert set(trace.content["otherData"]) == {"fuel", "devices"}


def test_what_is_not_traced_is_not_touched(path: Path) -> None:
    exe = mlp()
    method = type(exe).__call__
    with exe.trace(path):
        assert type(exe).__call__ is not method
        exe(*ARGS)
    assert type(exe).__call__ is method
    before = path.read_bytes()
    exe(*ARGS)
    assert path.read_bytes() == before


def test_several_calls_and_what_the_events_are_in_python(path: Path) -> None:
    exe = mlp()
    with exe.trace(str(path)) as trace:
        for _ in range(3):
            exe(ARGS[0], w=ARGS[1])
        assert sum(getattr(event, "kind", "") == "call" for event in trace.events) == 3
    assert len(Read.of(path).of_kind("kernel")) == 6


def test_a_trace_can_be_begun_again(path: Path) -> None:
    exe = mlp()
    trace = exe.trace(path)
    assert trace.events == ()
    for calls in (1, 2):
        with trace:
            for _ in range(calls):
                exe(*ARGS)
        assert len(Read.of(path).of_kind("call")) == calls
        with pytest.raises(TraceError), trace, trace:
            pass
    assert len(exe.profile(*ARGS, repeats=1).kernels) == 2


def test_threads_have_lanes_of_their_own(path: Path) -> None:
    exe = mlp()
    want = exe(*ARGS)
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(5):
            same_bits(exe(*ARGS), want)

    with exe.trace(path):
        threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = Read.of(path)
    for kind, each in (("call", 5), ("run", 5), ("kernel", 10)):
        lanes = [e["tid"] for e in trace.of_kind(kind)]
        assert sorted(lanes) == sorted([1, 2, 3, 4] * each)
    names = {e["args"]["name"] for e in trace.content["traceEvents"] if e["name"] == "thread_name"}
    assert names == {f"worker {n}" for n in range(4)}


def test_a_call_that_raises_is_in_the_trace_with_its_error(path: Path) -> None:
    graph = fuel.Graph()
    x = graph.input((4, 2), "f32", name="x")
    rows = graph.input((3,), "ui32", name="rows")
    exe = Session().compile(graph.build((x + 1.0).index_select(0, rows)))
    rows = np.array([0, 9, 1], np.uint32)
    with pytest.raises(IndexOutOfRange), exe.trace(path):
        exe(np.zeros((4, 2), np.float32), rows)
    trace = Read.of(path)
    for kind in ("call", "run"):
        (event,) = trace.of_kind(kind)
        assert event["args"]["error"].startswith("IndexOutOfRange: ")
    assert "error" in trace.of_kind("kernel")[-1]["args"]
    (result,) = exe(np.zeros((4, 2), np.float32), np.array([0, 1, 2], np.uint32))
    np.testing.assert_array_equal(result, np.ones((3, 2)))


def test_fuel_run_writes_the_trace_of_a_call_that_fails(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.mlir"
    program.write_text(
        "func.func @main(%x: tensor<2xf32>, %i: tensor<3xui32>) -> tensor<3xf32> {\n"
        "  %0 = fuel.index_select %x, %i {dim = 0 : i64}\n"
        "    : tensor<2xf32>, tensor<3xui32> -> tensor<3xf32>\n"
        "  func.return %0 : tensor<3xf32>\n}\n"
    )
    np.savez(tmp_path / "a.npz", arg0=np.ones(2, "f4"), arg1=np.array([0, 1, 7], np.uint32))
    given = [str(program), str(tmp_path / "a.npz"), "--trace", str(path)]
    assert main([*given, "--out", str(tmp_path / "y.npz")]) == 2
    assert "index 7 is out of range" in capsys.readouterr().err
    assert "IndexOutOfRange" in Read.of(path).of_kind("call")[0]["args"]["error"]
    assert not (tmp_path / "y.npz").exists()
    np.savez(tmp_path / "a.npz", arg0=np.ones(2, "f4"), arg1=np.array([0, 1, 1], np.uint32))
    assert main(given) == 0
    assert "error" not in Read.of(path).of_kind("call")[0]["args"]


def test_arguments_that_do_not_fit_are_a_call_without_runs(path: Path) -> None:
    exe = mlp()
    with pytest.raises(fuel.FuelError), exe.trace(path):
        exe(ARGS[0])
    trace = Read.of(path)
    assert "ArgumentError" in trace.of_kind("call")[0]["args"]["error"]
    assert not trace.of_kind("run")


def test_one_trace_at_a_time_and_a_file_that_cannot_be(path: Path, tmp_path: Path) -> None:
    exe = mlp()
    method = type(exe).__call__
    with exe.trace(path):
        with pytest.raises(TraceError, match="main is being traced"), exe.trace(path):
            pass
        exe(*ARGS)
    assert len(Read.of(path).of_kind("call")) == 1
    with pytest.raises(FileNotFoundError), exe.trace(tmp_path / "no" / "t.json"):
        pytest.fail("the block must not run")
    with pytest.raises(IsADirectoryError), exe.trace(tmp_path):
        exe(*ARGS)
    assert type(exe).__call__ is method
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


# Devices.


def test_transfers_and_lanes_of_devices(path: Path) -> None:
    lab = Lab()
    program = ONE.replace(CPU, CUDA).replace("#fuel.device<cpu>", "#fuel.device<cuda:0>")
    exe = lab.compile(program, force={"d0": 0}, strict=True)
    want = exe(X)
    got, trace = traced(exe, path, X)
    same_bits(got, want)
    transfers = exe.report().transfers
    assert [e["args"]["bytes"] for e in trace.of_kind("transfer")] == [t.bytes for t in transfers]
    assert [t.bytes for t in transfers] == [1024, 1024]
    assert {trace.device(e) for e in trace.of_kind("transfer")} == {"cuda:0"}
    assert [trace.device(e) for e in trace.of_kind("run")] == ["cpu", "cuda:0", "cpu"]
    assert [e["args"]["kernels"] for e in trace.of_kind("run")] == [["neg"], ["sqr_sin"], ["cos"]]
    assert trace.names("kernel") == ["neg", "cos"]
    (pick,) = trace.of_kind("pick")
    assert (pick["args"]["decision"], pick["args"]["arm"]) == ("d0", 0)
    counts = [e["args"] for e in trace.events if trace.device(e) == "cuda:0" and e["ph"] == "C"]
    assert counts
    assert all(set(each) == {"in use", "kept"} for each in counts)
    assert max(each["in use"] for each in counts) >= 1024


def test_an_argument_that_is_there_already_is_not_moved(path: Path) -> None:
    devices = open_devices("cpu,cuda:0", 2, "cuda:0", REGISTRY)
    session = Session(devices, telemetry=False)
    graph = fuel.Graph()
    x = graph.input((256,), "f32", name="x")
    exe = session.compile(graph.build(x.sin()), place={"sin": "cuda:0"})
    _, trace = traced(exe, path, session.put(X, "cuda:0"))
    assert [e["args"]["from"] for e in trace.of_kind("transfer")] == ["cuda:0"]
    _, trace = traced(exe, path, X)
    assert [e["args"]["to"] for e in trace.of_kind("transfer")] == ["cuda:0", "cpu"]


def test_weights_that_a_run_brings_to_its_device_are_told(path: Path) -> None:
    devices = open_devices("cpu,cuda:0", 2, "cuda:0", REGISTRY)
    text = """
    func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %w = fuel.weight "w" : tensor<16x16xf32>
      %y = fuel.matmul %x, %w : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
      func.return %y : tensor<16x16xf32>
    }
    """
    weights = {"w": np.ones((16, 16), np.float32)}
    exe = Session(devices, device="cuda:0").compile(text, weights=weights)
    with exe.trace(path):
        for _ in range(2):
            exe(np.ones((16, 16), np.float32))
    runs = [e["args"].get("uploaded", 0) for e in Read.of(path).of_kind("run")]
    assert runs == [1024, 0]


def test_picks_say_why_and_whether_they_were_made_before(path: Path) -> None:
    lab = Lab()
    exe = lab.compile(ONE)
    lab.poll()
    with exe.trace(path):
        exe(X)
        exe(X)
        lab.dials["cuda:0"].set(free_bytes=16)
        lab.poll()
        exe(X)
        exe(X)
    picks = [e["args"] for e in Read.of(path).of_kind("pick")]
    assert [(p["arm"], p["settled"]) for p in picks] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    assert "cuda:0 has 16 bytes free" in picks[2]["not"]["arm 0"]
    assert picks[2]["reason"] == exe.report().branches[0].why
    assert picks[0]["target"] == "cuda:0/triton"


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("error", [DeviceFailure("it is broken"), OutOfMemory("it is full")])
def test_a_fault_is_seen_and_the_call_goes_on(path: Path, settled: bool, error: Exception) -> None:
    lab = Lab("cpu,cuda:0,vulkan:0")
    exe = lab.compile(TWO)
    lab.poll()
    if settled:
        exe(X)
    Fails(lab.driver("cuda:0"), "replay", 1, error)
    got, trace = traced(exe, path, X)
    for each, want in zip(got, two(X), strict=True):
        np.testing.assert_allclose(each, want, rtol=1e-5, atol=1e-6)
    (fault,) = trace.of_kind("fault")
    (reported,) = exe.report().faults
    assert fault["args"] == {
        "decision": reported.decision,
        "arm": reported.arm,
        "device": "cuda:0",
        "error": reported.error,
    }
    failed = [e for e in trace.of_kind("run") if "error" in e["args"]]
    assert [trace.device(e) for e in failed] == ["cuda:0"]
    assert "error" not in trace.of_kind("call")[0]["args"]
    after = [p for p in trace.of_kind("pick") if p["ts"] > fault["ts"]]
    assert after[0]["args"]["decision"] == reported.decision
    assert after[0]["args"]["arm"] != reported.arm
    lab.now += 11
    lab.poll()
    exe(X)
    np.testing.assert_allclose(exe(X)[1], two(X)[1], rtol=1e-5, atol=1e-6)


def test_where_no_arm_is_left_the_call_has_the_error(path: Path) -> None:
    lab = Lab()
    exe = lab.compile(ONE, strict=True)
    Fails(lab.driver("cuda:0"), "replay", 1, DeviceFailure("it is broken"))
    with pytest.raises(DeviceFailure), exe.trace(path):
        exe(X)
    assert Read.of(path).of_kind("call")[0]["args"]["error"] == "DeviceFailure: it is broken"


def test_state_is_kept_as_ever(path: Path) -> None:
    lab = Lab()
    exe = lab.compile(STATE)
    lab.poll()
    state, other = exe.new_state(), exe.new_state()
    want = [exe(X, state=other) for _ in range(3)]
    with exe.trace(path):
        got = [exe(X, state=state) for _ in range(3)]
    for each, wanted in zip(got, want, strict=True):
        same_bits(each, wanted)
    same_bits([state["s"]], [other["s"]])
    np.testing.assert_array_equal(state["s"], 3 * X)
    assert len(Read.of(path).of_kind("pick")) == 3


def test_calls_that_are_timed_or_checked_are_traced_too(path: Path, tmp_path: Path) -> None:
    lab = Lab()
    store = str(tmp_path / "times.db")
    exe = lab.compile(ONE, measurements=store, explore=1.0, check_arms=True)
    lab.poll()
    with exe.trace(path):
        for _ in range(6):
            np.testing.assert_allclose(exe(X)[0], one(X), rtol=1e-5, atol=1e-6)
    trace = Read.of(path)
    assert len(trace.of_kind("call")) == len(trace.of_kind("pick")) == 6
    assert {p["args"]["arm"] for p in trace.of_kind("pick")} == {0, 1}


# Kinds of programs.


def test_a_scan_is_one_kernel_with_the_bytes_of_its_arrays(path: Path) -> None:
    text = """
    func.func @main(%c: tensor<8xf32>, %x: tensor<16x8xf32>) -> (tensor<8xf32>, tensor<16x8xf32>) {
      %l, %ys = fuel.scan init(%h = %c : tensor<8xf32>) xs(%s = %x : tensor<16x8xf32>) length 16
          -> (tensor<8xf32>, tensor<16x8xf32>) {
        %n = fuel.add %h, %s : tensor<8xf32>
        %t = fuel.tanh %n : tensor<8xf32>
        fuel.scan_yield carry(%t : tensor<8xf32>) ys(%n : tensor<8xf32>)
      }
      func.return %l, %ys : tensor<8xf32>, tensor<16x8xf32>
    }
    """
    exe = Session().compile(text)
    args = RNG.normal(size=8).astype("f4"), RNG.normal(size=(16, 8)).astype("f4")
    want = exe(*args)
    got, trace = traced(exe, path, *args)
    same_bits(got, want)
    (kernel,) = trace.of_kind("kernel")
    assert kernel["args"]["kind"] == "scan"
    assert kernel["args"]["bytes"] == 2 * 4 * (8 + 16 * 8)


def test_a_write_into_a_state_moves_what_is_written(path: Path) -> None:
    graph = fuel.Graph()
    cache = graph.state((128, 64), "f32", name="cache")
    row = graph.input((1, 64), "f32", name="row")
    graph.update(cache, cache.write_slice(row, [(3, 4), (0, 64)]))
    exe = Session().compile(graph.build(row + 1.0))
    _, trace = traced(exe, path, np.ones((1, 64), np.float32), state=exe.new_state())
    written = {e["name"]: e["args"]["bytes"] for e in trace.of_kind("kernel")}
    assert written == {"write_slice": 2 * 4 * 64, "add_scalar": 2 * 4 * 64}


def test_prepared_weights_and_a_program_that_was_loaded(path: Path, tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
      %w = fuel.weight "w" : tensor<8x8xbf16>
      %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
      %y = fuel.matmul %x, %c : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
      %z = fuel.tanh %y : tensor<2x8xf32>
      func.return %z : tensor<2x8xf32>
    }
    """
    weights = {"w": RNG.normal(size=(8, 8)).astype(ml_dtypes.bfloat16)}
    given = RNG.normal(size=(2, 8)).astype("f4")
    exe = Session().compile(text, weights=weights)
    want = exe(given)
    exe.save(tmp_path / "m.fuel", weights=True)
    loaded = Session().load(tmp_path / "m.fuel")
    traces: list[Read] = []
    for each in (exe, loaded):
        got, trace = traced(each, path, given)
        same_bits(got, want)
        traces.append(trace)
    for kind in ("run", "kernel"):
        assert traces[0].names(kind) == traces[1].names(kind) != []
        bytes = [[e["args"]["bytes"] for e in t.of_kind(kind)] for t in traces]
        assert bytes[0] == bytes[1]
    assert traces[0].of_kind("kernel")[0]["args"]["bytes"] == 4 * (16 + 64 + 16)


@examples(60)
@given(programs(), st.sampled_from([1, 2]))
def test_a_traced_call_has_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, program: Program, threads: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.json"
    exe = Session(threads=threads).compile(program.module, weights=program.weights)
    want = exe(*program.arguments)
    got, trace = traced(exe, path, *program.arguments)
    same_bits(got, want)
    report = exe.report()
    assert trace.names("run") == [run.run for run in report.route]
    assert len(trace.of_kind("kernel")) == report.kernels_on_route


@examples(40)
@given(st.data())
def test_a_traced_call_over_devices_has_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.json"
    machine = data.draw(machines())
    program = data.draw(placed_programs(machine))
    names = ",".join(device.name for device in machine.devices)
    emulate = ",".join(name for name in names.split(",") if name != "cpu")
    devices = open_devices(names, 2, emulate or None, REGISTRY)
    exe = Session(devices, topology=machine, telemetry=False).compile(
        program.module, weights=program.weights
    )
    want = exe(*program.arguments)
    before = exe.report().moved_bytes
    got, trace = traced(exe, path, *program.arguments)
    same_bits(got, want)
    report = exe.report()
    assert trace.names("run") == [run.run for run in report.route]
    moved = sum(e["args"]["bytes"] for e in trace.of_kind("transfer"))
    assert moved == report.moved_bytes - before
    on_route = [b for b in report.branches if b.on_route]
    assert len(trace.of_kind("pick")) == len(on_route)
