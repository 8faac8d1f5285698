# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `fuel-topology`: what it sees, what it assumes, and that a plan can use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect import dtypes
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.description import DtypeRates
from fuel_dialect.targets.machine import Device, Rates, Topology
from fuel_dialect.targets.presets import PRESETS
from fuel_passes.planning import topology_json, topology_schema
from fuel_passes.planning.topology import path, resolve, target_description
from fuel_runtime.devices.host.rates import OTHERS, Sizes, host_rates
from fuel_runtime.probe import ask, main, probe

LISTED = {
    "nvidia-smi": "NVIDIA H200, 143771\nNVIDIA GeForce GT 710, [N/A]\n",
    "vulkaninfo": "Devices:\nGPU0:\n\tdeviceName = llvmpipe (LLVM 15)\n\tapiVersion = 1.3\n",
}


def listing(**tools: str) -> Callable[[Sequence[str]], str]:
    return lambda command: tools.get(command[0].replace("-", "_"), "")


def measured(target: TargetAttr, threads: int) -> Rates:
    return Rates(target, 1.0, 2.0, 3.0, 4, (("f64", DtypeRates(0.5)),), threads)


EVERYTHING = listing(nvidia_smi=LISTED["nvidia-smi"], vulkaninfo=LISTED["vulkaninfo"])


def test_a_machine_without_tools_is_its_host():
    topology, assumed = probe("bare", listing())
    (host,) = topology.devices
    assert (host.name, topology.name) == ("cpu", "bare")
    assert host.memory_bytes is not None
    assert host.memory_bytes > 2**20
    (target,) = topology.targets
    assert target_description(topology, target).threads >= 1
    assert assumed == ["cpu/numpy: the typical rates of a core"]


def test_what_the_tools_list_is_in_the_topology_and_the_rest_is_said():
    topology, assumed = probe("full", EVERYTHING)
    names = [device.name for device in topology.devices]
    assert names == ["cpu", "cuda:0", "cuda:1", "vulkan:0"]
    assert [d.memory_bytes for d in topology.devices[1:]] == [143_771 * 2**20, None, None]
    h200, unknown = topology.targets[1:3]
    known = target_description(PRESETS["cpu+h200"], h200)
    assert target_description(topology, h200) == known
    assert target_description(topology, unknown).bytes_per_ns < known.bytes_per_ns
    assert path(topology, "cuda:0", "cuda:1") == ("cuda:0", "cpu", "cuda:1")
    assert assumed[1] == "cuda:0/triton: NVIDIA H200, rates: those known of the card"
    assert "GT 710, rates: typical ones; the card is not known" in assumed[2]
    assert assumed[3].startswith("vulkan:0/kompute: llvmpipe (LLVM 15), typical rates")
    assert assumed[4].startswith("links: 10000 ns and 25 bytes per ns")


def test_what_is_written_can_be_planned_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "machine.json"
    assert main(["--name", "mine", "--out", str(file), "--typical"], EVERYTHING) == 0
    assert resolve(ModuleOp([]), str(file)) == probe("mine", EVERYTHING)[0]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("assumed ") == 5
    assert main(["--name", "mine", "--typical"], EVERYTHING) == 0
    assert capsys.readouterr().out == file.read_text()


def test_a_preset_can_be_written_to_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "machine.json"
    assert main(["--preset", "2xh100", "--out", str(file)]) == 0
    assert resolve(ModuleOp([]), str(file)) == PRESETS["2xh100"]
    assert main(["--preset", "moon"]) == 2
    assert "fuel-topology: error: topology 'moon' is not known" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "no" / "f.json")], listing(), measured) == 2
    assert "fuel-topology: error: " in capsys.readouterr().err


def test_tools_that_are_missing_or_fail_say_nothing():
    assert ask(["no-such-tool-of-any-machine"]) == ""
    assert ask(["false"]) == ""
    assert ask(["echo", "card"]) == "card\n"


def test_the_host_is_measured_unless_typical_rates_are_asked_for(
    capsys: pytest.CaptureFixture[str],
):
    topology, assumed = probe("bare", listing(), measured)
    described = target_description(topology, topology.targets[0])
    assert (described.bytes_per_ns, described.launch_ns) == (1, 4)
    assert described.slowdown(dtypes.BY_NAME["f64"].type) == (2, 1, 1)
    assert assumed == []
    assert main([], listing(), measured) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["rates"]["cpu/numpy"]["bytes_per_ns"] == 1
    assert said.err == ""


def test_rates_of_the_host_are_those_of_its_kernels():
    small = Sizes(moved=1 << 16, elements=256, side=8, calls=1, while_ns=1)
    rates = host_rates(TargetAttr.of("cpu", "numpy"), 3, small)
    assert rates.threads == 3
    assert min(rates.bytes_per_ns, rates.operations_per_ns, rates.flops_per_ns) > 0
    assert rates.launch_ns >= 1
    named = dict(rates.by_dtype or ())
    assert set(named) <= set(OTHERS)
    assert {"f64", "f16", "i64"} <= set(OTHERS)
    topology = Topology("here", (Device("cpu"),), (rates.target,), (), (rates,))
    assert topology_schema.from_json(topology_json.to_json(topology), "here") == topology


def test_only_what_differs_is_noted_of_an_element_type(monkeypatch: pytest.MonkeyPatch):
    found = {
        "f32": DtypeRates(10, 10, 10),
        "f64": DtypeRates(9, 5, 10),
        "f16": DtypeRates(10, 10, 8),
    }
    monkeypatch.setattr(
        "fuel_runtime.devices.host.rates._all_rates",
        lambda name, sizes: found.get(name, found["f32"]),
    )
    monkeypatch.setattr("fuel_runtime.devices.host.rates._launch_ns", lambda sizes: 7)
    rates = host_rates(TargetAttr.of("cpu", "numpy"), 1)
    assert rates.by_dtype == (
        ("f64", DtypeRates(operations_per_ns=5)),
        ("f16", DtypeRates(flops_per_ns=8)),
    )
    assert (rates.bytes_per_ns, rates.launch_ns) == (10, 7)
