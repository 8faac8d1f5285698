# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check on a GPU: its dry run without one, and what it makes of all that can go wrong."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_machine
import cuda_replay
import cuda_report
import cuda_sizes
import cuda_speed
import numpy as np
import pytest
from ahead import Ahead
from cuda_check import MOST_LOSSES, Check
from cuda_machine import Machine
from cuda_ops import Case, cases, halves
from cuda_programs import tiny_sizes
from harness import Contestant, Workload, WrongResult
from isolated import Failed, Isolated, Lost, one_line
from outcomes import Allowed, Outcome, compared

import faulty
from effort import SLOW
from fuel_dialect import knobs
from fuel_dialect.attributes import DeviceAttr
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.triton import compile as compiler
from fuel_runtime.devices import opening
from fuel_runtime.devices.cuda import driver as cuda
from fuel_runtime.devices.emulated.driver import EmulatedDriver

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "cuda_check.py"
MACHINE_PATHS = ("/" + "work", "/" + "root", "/" + "home", "/" + "tmp")


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(SCRIPT), *options]
    environment = {**os.environ, **environment}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


# The dry run.


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """Returns what a dry run of everything prints and writes, and its progress."""
    out = tmp_path_factory.mktemp("check") / "check.json"
    done = run("--emulate", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, out.read_text(), done.stderr


def dry_run(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test of the dry run: it is slow, and one worker makes it for all of them."""
    return pytest.mark.xdist_group("cuda_check")(SLOW(test))


@dry_run
def test_a_dry_run_goes_through_every_section(finished: tuple[str, str, str]) -> None:
    printed, text, progress = finished
    content = json.loads(text)
    assert content["passed"]
    assert content["emulated"]
    assert content["failures"] == []
    sections = content["sections"]
    names = ["ops", "examples", "sizes", "replay", "other_ops", "speed", "compiled"]
    assert sorted(sections) == sorted(names)
    assert sections["ops"]["checked"] > 200
    assert len(sections["sizes"]["outcomes"]) == len(tiny_sizes())
    assert sections["replay"]["checked"] == len(cuda_replay.CHECKS) - 3
    races = [*cuda_speed.RACES, *(f"{name}_compiled" for name in cuda_speed.COMPILED_RACES)]
    assert [w["name"] for w in content["workloads"]] == ["copy", "host", *races]
    for name in names:
        assert f"s  {name}\n" in progress
        assert f"\n{name} " in printed


@dry_run
def test_what_a_dry_run_skips_is_listed_with_the_reason(finished: tuple[str, str, str]) -> None:
    printed, text, _ = finished
    skipped = json.loads(text)["skipped"]
    assert skipped["replay: seen_by_cupy"] == "CuPy has no part in an emulation"
    targets = [name for name in skipped if name.startswith("target ")]
    assert len(targets) == len(cuda_speed.TARGETS)
    assert json.loads(text)["targets"] == []
    for name, reason in skipped.items():
        assert reason in printed
        assert name in printed


@dry_run
def test_the_file_names_no_place_or_machine(finished: tuple[str, str, str]) -> None:
    _, text, _ = finished
    assert [mark for mark in MACHINE_PATHS if mark in text] == []
    assert json.loads(text)["device"] == {
        "name": "emulated",
        "capability": "9.0",
        "compiled_for": 90,
    }


@SLOW
def test_what_there_is_no_time_for_is_skipped(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    done = run("--emulate", "--budget=5", "--only=replay", "--only=compiled", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = json.loads(out.read_text())["skipped"]
    for name in cuda_replay.CHECKS:
        assert skipped[f"replay {name}"] == "out of time"
    for name in cuda_speed.COMPILED_RACES:
        assert skipped[f"torch.compile {name}"] == "out of time"
    assert "skipped, out of time: replay changed_inputs; " in done.stdout


def test_a_machine_without_a_gpu_is_told_in_one_sentence() -> None:
    done = run(CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("cuda_check: cuda:0 is not available: ")


@pytest.mark.needs_cuda
def test_the_examples_and_replays_on_a_gpu(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    done = run("--budget=120", "--only=examples", "--only=replay", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(out.read_text())["passed"]


# With a GPU, as far as one can be made of NumPy.


class Card(EmulatedDriver):
    """The emulated driver with what the check asks of the driver of a card."""

    capability = 90

    def __init__(self, device: DeviceAttr):
        super().__init__(device, 1 << 26)
        graph = SimpleNamespace(launch=LAUNCHED.append)
        self.stream = SimpleNamespace(ptr=77, begin_capture=lambda: None, end_capture=lambda: graph)


LAUNCHED: list[Any] = []


def event() -> Any:
    return SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)


RUNTIME = SimpleNamespace(
    getDeviceProperties=lambda number: {"name": b"A card\0", "totalGlobalMem": 1 << 26},
    driverGetVersion=lambda: 12080,
    runtimeGetVersion=lambda: 13000,
    memsetAsync=lambda address, value, bytes, stream: None,
)
CUPY = SimpleNamespace(
    cuda=SimpleNamespace(
        runtime=RUNTIME,
        Event=event,
        get_elapsed_time=lambda begin, end: 8.0,
        alloc=lambda bytes: SimpleNamespace(ptr=256),
    )
)
"""As much of CuPy as the check calls itself."""


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine that takes itself for one with a GPU."""
    monkeypatch.setattr(opening, "_SHARED", {})
    monkeypatch.setattr(cuda, "open_cuda", Card)
    monkeypatch.setitem(sys.modules, "cupy", CUPY)
    machine = Machine(emulated=False)
    yield machine
    machine.device.close()


def test_the_facts_of_a_card(card: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_machine, "driver_version", lambda: "580.1")
    assert cuda_machine.facts(card) == {
        "name": "A card",
        "capability": "9.0",
        "memory_bytes": 1 << 26,
        "multiprocessors": None,
        "l2_bytes": None,
        "driver": "580.1",
        "driver_cuda": "12.8",
        "runtime_cuda": "13.0",
        "compiled_for": 90,
    }


def test_time_is_that_of_the_device(card: Machine) -> None:
    calls: list[int] = []
    assert card.seconds(lambda: calls.append(1), 4) == 2e-3
    assert len(calls) == 4
    assert card.host_seconds(lambda: calls.append(1), 4) < 1
    assert len(calls) == 8


def test_a_graph_beside_the_calls_of_a_run(card: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_speed, "REAL", cuda_speed.DRY)
    found = cuda_speed.host(card).measurement
    assert list(found.rounds) == ["fuel run", "fuel replay", "fuel call", "CuPy graph"]
    assert LAUNCHED[-1] is card.stream


def test_a_race_on_a_card(card: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_speed, "REAL", cuda_speed.DRY)
    monkeypatch.setattr(cuda_speed.Race, "on", lambda race, machine: race.tiny)
    found = cuda_speed.race(card, "softmax_large")
    assert found.unit == "B/s"
    assert list(found.measurement.rounds) == ["fuel", "copy of as many bytes"]
    rates = dict(found.rates())
    assert rates["fuel"] == 2 * 4 * 192 * 4 / 8e-3
    assert rates["fuel"] == rates["copy of as many bytes"]


@pytest.mark.parametrize("name", ["kept_results", "wrong_index"])
def test_replays_on_a_card(card: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_replay, "_times", lambda machine, count: 2)
    program = cuda_replay.Program

    def smaller(kind: str, build: Any, shape: Any, dtype: str, index_bound: int = 1) -> Any:
        shape = tuple(min(extent, 6) for extent in shape)
        return program(kind, build, shape, dtype, index_bound=min(index_bound, 6))

    monkeypatch.setattr(cuda_replay, "Program", smaller)
    assert cuda_replay.check(card, name).passed


# Processes that go wrong.


def test_steps_share_a_process_until_one_spoils_it() -> None:
    with Isolated(faulty.Subject, "one") as process:
        assert process.call(faulty.count, timeout=30) == ("one", 1)
        with pytest.raises(Failed, match=r"nothing in else\.txt") as caught:
            process.call(faulty.fail, timeout=30)
        assert caught.value.kind == "LookupError"
        assert process.call(faulty.count, timeout=30) == ("one", 2)
        with pytest.raises(Failed, match="illegal address"):
            process.call(faulty.spoil, timeout=30)
        assert process.losses == 1
        assert process.call(faulty.count, timeout=30) == ("one", 1)
        assert process.close(patience=30) == 0


@SLOW
def test_a_process_that_dies_or_hangs_is_replaced() -> None:
    with Isolated(faulty.Subject, "one") as process:
        with pytest.raises(Lost, match="the process ended with exit code 7"):
            process.call(faulty.crash, timeout=30)
        assert process.call(faulty.count, timeout=30) == ("one", 1)
        with pytest.raises(Lost, match="it took more than"):
            process.call(faulty.hang, timeout=0.1)
        assert process.call(faulty.count, timeout=30) == ("one", 1)
        assert process.losses == 2


def test_a_subject_that_cannot_be_made_is_a_failure() -> None:
    with Isolated(faulty.Subject, "") as process, pytest.raises(Failed) as caught:
        process.call(faulty.count, timeout=30)
    assert (caught.value.kind, str(caught.value)) == ("ValueError", "a subject has a name")


def test_an_error_is_one_line_without_folders() -> None:
    text = "ptxas failed:\n  /" + "tmp/fuel-1/kernel.ptx, line 3; 1/2 of a/b"
    assert one_line(text) == "ptxas failed: kernel.ptx, line 3; 1/2 of a/b"
    assert len(one_line("long " * 100)) == 300
    assert one_line(KeyError()) == "KeyError"


class Breaking:
    """In place of a process: it is lost with each group that has a bad case in it."""

    def __init__(self, is_bad: Callable[[Case], bool]):
        self.is_bad = is_bad
        self.losses = 0

    def call(self, step: Any, group: Sequence[Case], timeout: float) -> list[Outcome]:
        if any(self.is_bad(case) for case in group):
            self.losses += 1
            raise Lost("the process ended with exit code -11")
        return [Outcome(str(case)) for case in group for _ in case.samples()]


def checked(device: Any, group: Sequence[Case]) -> cuda_report.Findings:
    options = argparse.Namespace(emulate=True, budget=300.0, out=None)
    check = Check(options, device)
    check.check_ops("ops", group)
    return check.found


def test_the_sample_that_ends_the_process_has_the_blame() -> None:
    group = [Case("add", "f32"), Case("mul", "f32"), Case("exp", "f32")]
    samples = [case.samples() for case in group]

    def is_bad(case: Case) -> bool:
        return case.op == "mul" and case.only in (None, 1)

    found = checked(Breaking(is_bad), group)
    outcomes = found.outcomes["ops"]
    assert len(outcomes) == sum(map(len, samples))
    ((_, failure),) = found.failures
    assert failure == Outcome("mul f32", failure="the process ended with exit code -11")


def test_a_device_that_is_always_lost_is_given_up() -> None:
    device = Breaking(lambda case: True)
    found = checked(device, cases(others=False)[:12])
    assert device.losses <= MOST_LOSSES + 12
    assert not found.passed


def test_halves_end_with_one_sample() -> None:
    case = Case("add", "f32")
    assert halves([case, case, case]) == [(case,), (case, case)]
    assert [len(half) for half in halves([case])] == [1, 2]
    assert halves([case.parts()[0]]) == []
    assert case.parts()[1].samples()[0].arrays[0].shape == case.samples()[1].arrays[0].shape


def test_the_others_are_those_that_are_not_first() -> None:
    first, others = Case("exp", "f32"), Case("exp", "f32", others=True)
    assert len(first.samples()) == 3
    shapes = [s.arrays[0].shape for case in (first, others) for s in case.samples()]
    assert len(shapes) == len(set(shapes)) == 8


@SLOW
def test_kernels_compile_ahead_and_one_that_does_not_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(knobs.CACHE_DIR, str(tmp_path))
    ahead = Ahead(90, 1)
    program = tiny_sizes()[1]
    ahead.add("good", cuda_sizes.program_kernels, program)
    ahead.add("bad", cuda_sizes.example_kernels, "nothing.mlir")
    for key in ("good", "bad", "unknown"):
        ahead.wait(key, 60)
    ahead.stop()
    assert ahead.compiled == 1
    assert ahead.trouble.startswith("FileNotFoundError: ")

    def fail(kernel: DeviceKernel, capability: int) -> None:
        raise AssertionError(f"{kernel.name} is compiled again")

    monkeypatch.setattr(compiler, "_compile", fail)
    for kernel in cuda_sizes.program_kernels(program):
        assert compiler.compile_kernel(kernel, 90).cubin


# Results and figures.


def outcome(got: Any, want: Any, relative: float = 1e-3, scale: float | None = 1.0) -> Outcome:
    return compared("it", [], [np.array(got)], [np.array(want)], Allowed(relative, scale))


def test_a_difference_is_relative_to_the_value_and_a_scale() -> None:
    assert outcome([1.001, 0.0], [1.0, 0.0]).error == pytest.approx(5e-4)
    assert outcome([1.001, 0.0], [1.0, 0.0]).passed
    assert outcome([0.0, 4.0], [0.003, 4.0]).failure == (
        "result 0: it is off by 2.99e-03, where 1.0e-03 is allowed"
    )
    assert outcome([0.0, 4.0], [0.002, 4.0], scale=None).passed
    assert outcome([0.0], [0.0], 0.0, None).passed


def test_what_is_no_number_has_to_be_the_same() -> None:
    inf, nan = np.inf, np.nan
    assert outcome([inf, -inf, nan, 1], [inf, -inf, nan, 1]).passed
    for got, want in ((inf, -inf), (1.0, inf), (nan, 1.0), (1.0, nan), (inf, 1.0)):
        assert f"1 elements are {got} in place of {want}" in outcome([got], [want]).failure


def test_whole_numbers_types_and_shapes_have_to_be_the_same() -> None:
    assert outcome([1, 2], [1, 2]).passed
    assert "off by 1.00e+00, where 0.0e+00" in outcome([1, 2], [1, 3]).failure
    assert not outcome([2**62], [2**62 + 1]).passed
    assert outcome([True, False], [True, False]).passed
    assert not outcome([True], [False]).passed
    assert "f64[1] in place of i64[1]" in outcome([1.0], [1]).failure
    assert "f64[1] in place of f64[2]" in outcome([1.0], [1.0, 1.0]).failure
    assert "0 results in place of 1" in compared("it", [], [], [np.ones(1)], Allowed(0)).failure
    assert outcome(np.zeros((0, 3)), np.zeros((0, 3))).passed


def test_who_is_wrong_is_left_out_unless_it_is_fuel() -> None:
    machine: Any = SimpleNamespace(emulated=True)
    right, wrong = np.ones(2), np.zeros(2)
    fuel = Contestant("fuel", lambda: [right])
    other = Contestant("torch eager", lambda: [wrong])
    workload = Workload("it", "it", [fuel, other], [right])
    found = cuda_speed._measured(machine, workload)
    assert list(found.rounds) == ["fuel"]
    assert found.skipped == {"torch eager": "it: torch eager is off by 1.0e+00"}
    with pytest.raises(WrongResult, match="fuel is off"):
        cuda_speed._measured(machine, Workload("it", "it", [fuel, other], [wrong]))


def test_targets_are_judged_where_both_took_part() -> None:
    found = cuda_report.Findings(False, 360.0)
    rounds = {"fuel": [1.0], cuda_speed.COPY: [0.95]}
    measurement = cuda_speed.Measurement("softmax_large", "softmax", rounds)
    found.figures.append(cuda_speed.Figures(measurement, "B/s", dict.fromkeys(rounds, 4e12)))
    found.machine, found.device = {"python": "3", "packages": {}}, {"name": "card"}
    ((verdict, passed),) = [(v.target.measurement, v.passed) for v in found.verdicts]
    assert (verdict, passed) == ("softmax_large", True)
    printed = "\n".join(cuda_report.lines(found))
    assert "pass  softmax_large: at least 90 % of the bandwidth of a copy" in printed
    assert "fuel 4 TB/s, copy of as many bytes 4.21 TB/s" in printed
    assert "it was not measured: target pointwise_large" in printed
