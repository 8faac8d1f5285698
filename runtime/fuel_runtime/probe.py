# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`fuel-topology`: what this machine has, as the JSON file that `topology=` reads.

The description of each target names its probe. Those of fuel look at cores and memory of the host,
and at what `nvidia-smi` and `vulkaninfo` list, where they are installed, and measure what the host
does in a nanosecond, by element type. Everything else is taken from the cards that fuel knows or
from what is typical, and said on the standard error.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuel_dialect.attributes import HOST
from fuel_dialect.plugins import named
from fuel_dialect.targets.machine import (
    PCIE_BYTES_PER_NS,
    PCIE_LATENCY_NS,
    Topology,
    both_ways,
)
from fuel_dialect.targets.registry import Registry, kinds, serving
from fuel_passes.commands import check_place, run_command
from fuel_passes.planning.topology import preset, validated
from fuel_passes.planning.topology_json import dump
from fuel_runtime.devices.host.rates import host_rates
from fuel_runtime.probing import Measure, Probing, Seen, Tool


def probe(
    name: str, tool: Tool, measure: Measure | None = None, registry: Registry | None = None
) -> tuple[Topology, Sequence[str]]:
    """
    Returns this machine, and a sentence for each thing that was assumed of it.

    The description of each target names what finds the devices that it runs on.
    """
    seen = list(_seen(Probing(tool, measure), registry))
    devices = {each.device.name: each.device for each in reversed(seen)}
    names = list(dict.fromkeys(each.device.name for each in seen))
    links = [
        link
        for device in names
        if device != HOST
        for link in both_ways(HOST, device, PCIE_LATENCY_NS, PCIE_BYTES_PER_NS)
    ]
    assumed = [each.assumed for each in seen if each.assumed]
    if links:
        assumed.append(
            f"links: {PCIE_LATENCY_NS} ns and {PCIE_BYTES_PER_NS:g} bytes per ns between the host "
            "and each other device, none between other devices"
        )
    topology = Topology(
        name,
        tuple(devices[device] for device in names),
        tuple(each.target for each in seen),
        tuple(links),
        tuple(each.rates for each in seen if each.rates is not None),
    )
    return validated(topology), assumed


def _seen(probing: Probing, registry: Registry | None) -> Iterator[Seen]:
    """Yields what the targets that join find, kind by kind, the host first."""
    for kind in kinds(registry):
        for description in serving(kind, registry):
            if description.joins and description.probe:
                yield from named(description.probe)(probing)


def ask(command: Sequence[str]) -> str:
    """Returns what a tool of this machine prints; nothing where it is missing, fails or hangs."""
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
    return run_command("fuel-topology", lambda: _lines(options, tool, measure))


def _lines(options: argparse.Namespace, tool: Tool, measure: Measure) -> Iterator[str]:
    if options.out is not None:
        check_place(options.out)
    if options.preset is not None:
        topology, assumed = preset(options.preset), ()
    else:
        topology, assumed = probe(options.name, tool, None if options.typical else measure)
    text = dump(topology)
    if options.out is None:
        yield text.removesuffix("\n")
    else:
        Path(options.out).write_text(text, encoding="utf-8")
    for sentence in assumed:
        print(f"assumed {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
