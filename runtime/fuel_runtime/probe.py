# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`fuel-topology`: what this machine has, as the JSON file that `topology=` reads.

It looks at cores and memory of the host, and at what `nvidia-smi` and `vulkaninfo` list, where they
are installed, and measures what the host does in a nanosecond, by element type. Everything else is
taken from the cards that fuel knows or from what is typical, and said on the standard error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuel_dialect.attributes import HOST, TargetAttr
from fuel_dialect.errors import FuelError
from fuel_dialect.targets.description import description_of
from fuel_dialect.targets.machine import (
    PCIE_BYTES_PER_NS,
    PCIE_LATENCY_NS,
    Device,
    Rates,
    Topology,
    both_ways,
)
from fuel_dialect.targets.presets import CARDS
from fuel_passes.planning.topology import preset, validated
from fuel_passes.planning.topology_json import dump
from fuel_runtime.host_rates import host_rates

FAILURE = 2

Tool = Callable[[Sequence[str]], str]
"""Runs a command; what it prints, nothing if it is not installed or fails."""

Measure = Callable[[TargetAttr, int], Rates]
"""The rates of the host, for so many threads."""

NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
VULKAN = ("vulkaninfo", "--summary")


@dataclass
class Found:
    """What was seen so far, and what had to be assumed."""

    devices: list[Device] = field(default_factory=list[Device])
    targets: list[TargetAttr] = field(default_factory=list[TargetAttr])
    rates: list[Rates] = field(default_factory=list[Rates])
    assumed: list[str] = field(default_factory=list[str])


def probe(name: str, tool: Tool, measure: Measure | None = None) -> tuple[Topology, Sequence[str]]:
    """This machine, and a sentence for each thing that was assumed of it."""
    found = Found()
    _host(found, measure)
    _nvidia(found, tool(NVIDIA))
    _vulkan(found, tool(VULKAN))
    links = [
        link
        for device in found.devices
        if device.name != HOST
        for link in both_ways(HOST, device.name, PCIE_LATENCY_NS, PCIE_BYTES_PER_NS)
    ]
    if links:
        found.assumed.append(
            f"links: {PCIE_LATENCY_NS} ns and {PCIE_BYTES_PER_NS:g} bytes per ns between the host "
            "and each other device, none between other devices"
        )
    topology = Topology(
        name, tuple(found.devices), tuple(found.targets), tuple(links), tuple(found.rates)
    )
    return validated(topology), found.assumed


def _host(found: Found, measure: Measure | None) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    target = TargetAttr.of(HOST, "numpy")
    found.devices.append(Device(HOST, memory))
    found.targets.append(target)
    if measure is not None:
        found.rates.append(measure(target, _cores()))
        return
    found.rates.append(replace(_typical(target), threads=_cores()))
    found.assumed.append(f"{target}: the typical rates of a core")


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _typical(target: TargetAttr) -> Rates:
    known = description_of(target.backend.data)
    assert known is not None
    return Rates(
        target,
        known.bytes_per_ns,
        known.operations_per_ns,
        known.flops_per_ns,
        known.launch_ns,
        known.by_dtype,
    )


def _nvidia(found: Found, listed: str) -> None:
    """One line for each card: `NVIDIA H200, 143771`."""
    for number, line in enumerate(filter(None, listed.splitlines())):
        card, _, mebibytes = line.rpartition(",")
        target = TargetAttr.of(f"cuda:{number}", "triton")
        memory = int(mebibytes) * 2**20 if mebibytes.strip().isdigit() else None
        found.devices.append(Device(target.device.label, memory))
        found.targets.append(target)
        rates = next((of for part, of in CARDS.items() if part in card), None)
        found.rates.append(rates(target) if rates else _typical(target))
        how = "those known of the card" if rates else "typical ones; the card is not known"
        found.assumed.append(f"{target}: {card.strip()}, rates: {how}")


def _vulkan(found: Found, listed: str) -> None:
    """A block for each device, with a line `deviceName = ...`; memory is not in it."""
    names = [value for key, value in _assignments(listed) if key == "deviceName"]
    for number, name in enumerate(names):
        target = TargetAttr.of(f"vulkan:{number}", "kompute")
        found.devices.append(Device(target.device.label))
        found.targets.append(target)
        found.assumed.append(f"{target}: {name}, typical rates, memory of its own, size unknown")


def _assignments(text: str) -> list[tuple[str, str]]:
    parts = (line.partition("=") for line in text.splitlines())
    return [(key.strip(), value.strip()) for key, equals, value in parts if equals]


def ask(command: Sequence[str]) -> str:
    """What a tool of this machine prints; nothing where it is missing, fails or hangs."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def parser() -> argparse.ArgumentParser:
    """The command line of `fuel-topology`."""
    new = argparse.ArgumentParser(
        prog="fuel-topology",
        description="Look at this machine and write its topology as JSON, for topology=FILE.json.",
        allow_abbrev=False,
    )
    new.add_argument("--name", default="this-machine", help="its name in reports")
    new.add_argument("--preset", metavar="NAME", help="write this preset instead, to start from")
    new.add_argument(
        "--typical", action="store_true", help="measure nothing; the host has typical rates"
    )
    new.add_argument("--out", metavar="FILE.json", help="write to a file, not the standard output")
    return new


def main(argv: Sequence[str] | None = None, tool: Tool = ask, measure: Measure = host_rates) -> int:
    """Run the command; the exit code: 0, or 2 after an error."""
    options = parser().parse_args(argv)
    try:
        if options.preset is not None:
            topology, assumed = preset(options.preset), ()
        else:
            topology, assumed = probe(options.name, tool, None if options.typical else measure)
        text = dump(topology)
        if options.out is None:
            print(text, end="")
        else:
            Path(options.out).write_text(text, encoding="utf-8")
    except (FuelError, OSError) as error:
        print(f"fuel-topology: error: {error}", file=sys.stderr)
        return FAILURE
    for sentence in assumed:
        print(f"assumed {sentence}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
