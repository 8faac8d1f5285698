# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds Vulkan devices by what `vulkaninfo` lists."""

from __future__ import annotations

from collections.abc import Iterator

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.machine import Device
from fuel_runtime.probing import Probing, Seen

COMMAND = ("vulkaninfo", "--summary")


def find(probing: Probing) -> Iterator[Seen]:
    """Yields the devices: each is a block with a line `deviceName = ...`, without its memory."""
    names = [name for key, name in _assignments(probing.tool(COMMAND)) if key == "deviceName"]
    for number, name in enumerate(names):
        target = TargetAttr.of(f"vulkan:{number}", "kompute")
        said = f"{target}: {name}, typical rates, memory of its own, size unknown"
        yield Seen(Device(target.device.label), target, assumed=said)


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            yield key.strip(), value.strip()
