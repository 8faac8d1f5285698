# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmarks run and say what they should; no test looks at how long anything took."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from effort import SLOW

pytestmark = [SLOW, pytest.mark.xdist_group("benchmarks")]  # one worker, so that they run once

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MACHINE_PATHS = ("/" + "work", "/" + "root", "/" + "home", "/" + "tmp")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], str]:
    """Returns what a run printed, its JSON, and the text of the JSON."""
    folder = tmp_path_factory.mktemp("results")
    names = [f"--only={name}" for name in ("call", "scan_carry")]
    done = run("--quick", "--rounds=3", "--out", str(folder), *names)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.json")
    assert not list(folder.glob("*.partial"))
    return done.stdout, json.loads(path.read_text()), path.read_text()


def test_the_file_holds_every_workload_and_round(
    finished: tuple[str, dict[str, Any], str],
) -> None:
    _, content, _ = finished
    assert [w["name"] for w in content["workloads"]] == ["call", "scan_carry"]
    for workload in content["workloads"]:
        assert list(workload["seconds"])[:3] == ["fuel", "NumPy", "NumPy out="]
        assert workload["ratios"]["fuel"] == {"median": 1.0, "min": 1.0, "max": 1.0}
        assert workload["largest_error"] <= 1e-4
        for name, times in workload["rounds"].items():
            assert len(times) == 3
            spread = workload["seconds"][name]
            assert (spread["min"], spread["max"]) == (min(times), max(times))
            assert spread["median"] == sorted(times)[1]


def test_a_peer_is_measured_or_named_as_skipped(
    finished: tuple[str, dict[str, Any], str],
) -> None:
    printed, content, _ = finished
    for workload in content["workloads"]:
        for peer in ("JAX jit", "torch eager", "torch.compile"):
            assert (peer in workload["seconds"]) != (peer in workload["skipped"])
        for reason in workload["skipped"].values():
            assert f"skipped: {reason}" in printed


def test_targets_are_judged_by_the_median(finished: tuple[str, dict[str, Any], str]) -> None:
    printed, content, _ = finished
    assert [(t["measurement"], t["limit"]) for t in content["targets"]] == [
        ("call", 1.5),
        ("scan_carry", 1.1),
    ]
    for target in content["targets"]:
        assert target["passed"] == (target["ratio"]["median"] <= target["limit"])
        word = "pass" if target["passed"] else "FAIL"
        assert f"{word}  {target['measurement']}: {target['text']}" in printed


def test_the_plan_of_a_decoder_is_measured_pass_by_pass(tmp_path: Path) -> None:
    done = run("--quick", "--rounds=1", "--out", str(tmp_path), "--only=planning")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*.json")
    content = json.loads(path.read_text())
    (workload,) = content["workloads"]
    whole, *passes = workload["seconds"]
    assert whole == "fuel-optimize"
    assert passes[0] == " 1 fuel-pin-ops"
    assert passes[-1] == f"{len(passes):2} fuel-reuse-buffers"
    assert {"fuel-plan", "fuel-fork-placements"} <= {name.split()[-1] for name in passes}
    assert "a decoder of 24 layers, 970 ops" in workload["title"]
    (target,) = content["targets"]
    assert (target["limit"], target["to"]) == (0.6, None)
    assert target["ratio"] == workload["seconds"][whole]
    assert "24 layers for three devices: at most 0.6 s; measured " in done.stdout


def test_the_file_names_no_place_or_machine(finished: tuple[str, dict[str, Any], str]) -> None:
    _, content, text = finished
    assert content["machine"]["cores"] >= 1
    assert content["machine"]["packages"]["numpy"]
    assert [mark for mark in MACHINE_PATHS if mark in text] == []


def test_an_unknown_workload_is_refused() -> None:
    done = run("--only", "nothing")
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr


@pytest.mark.needs_vulkan
def test_shaders_and_replays_are_measured_on_vulkan(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARKS / "kompute.py"), "--quick", "--rounds=1"]
    done = subprocess.run([*command, f"--out={out}"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    names = ["shader_chain", "shader_matmul", "replay_1", "replay_20"]
    assert [w["name"] for w in found["workloads"]] == names
    assert [t["measurement"] for t in found["targets"]] == names
    assert done.stdout.count("\n  8 shaders ") == 1
    assert done.stdout.count("\n  one output per invocation ") == 1
    for contestant in ("kp sequence", "fuel driver", "fuel call"):
        assert done.stdout.count(f"\n  {contestant} ") == 2
    assert done.stdout.count("a replay takes at most 1.1 times the sequence of kp; measured") == 2


def test_planned_memory_is_compared_with_what_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    command = [sys.executable, str(BENCHMARKS / "memory.py"), "--graphs=5", f"--out={file}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass  no more than NumPy, measured" in done.stdout
    found = json.loads(file.read_text())
    planned, measured = (found["example"][f"fuel, {how}"] for how in ("planned", "measured"))
    own = found["example"]["without NumPy's buffers"]
    assert planned <= own <= planned + 20_000
    assert own <= measured <= own + 3 * 8_192 * 4, "a buffer for each operand of a call"
    assert found["graphs"]["graphs"] == 5
    assert 1 <= found["graphs"]["median"] <= found["graphs"]["worst"]


def test_devices_at_once_are_measured_beside_a_bound(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARKS / "overlap.py"), "--programs=3", "--rounds=1"]
    done = subprocess.run([*command, f"--out={out}"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    assert list(figures["emulated"]) == ["stream", "events"]
    for found in figures["emulated"].values():
        assert found["random"]["programs"] == 3
        assert found["random"]["slower than before"] == 0
        for each in found["named"].values():
            assert 1 <= each["after"] <= each["before"]
    assert ("skipped" in figures["vulkan"]) or set(figures["vulkan"]) == {
        "vulkan:0",
        "cpu",
        "vulkan:0 + cpu",
    }
    assert [mark for mark in MACHINE_PATHS if mark in out.read_text()] == []
