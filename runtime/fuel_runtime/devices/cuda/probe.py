# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds CUDA cards by what `nvidia-smi` lists."""

from __future__ import annotations

from collections.abc import Iterator

from fuel_dialect.attributes import TargetAttr
from fuel_dialect.targets.machine import Device
from fuel_dialect.targets.presets import CARDS
from fuel_runtime.probing import Probing, Seen, typical_rates

COMMAND = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


def find(probing: Probing) -> Iterator[Seen]:
    """Yields the cards, one of each line: `NVIDIA H200, 143771`."""
    for number, line in enumerate(filter(None, probing.tool(COMMAND).splitlines())):
        card, _, mebibytes = line.rpartition(",")
        target = TargetAttr.of(f"cuda:{number}", "triton")
        memory = int(mebibytes) * 2**20 if mebibytes.strip().isdigit() else None
        rates = next((of for part, of in CARDS.items() if part in card), None)
        how = "those known of the card" if rates else "typical ones; the card is not known"
        yield Seen(
            Device(target.device.label, memory),
            target,
            rates(target) if rates else typical_rates(target),
            f"{target}: {card.strip()}, rates: {how}",
        )
