# SPDX-License-Identifier: MIT OR Apache-2.0
"""Colours devices: a hue by the target, as its description says, and a shade by the number."""

from __future__ import annotations

import re

from fuel_dialect.targets.registry import shades_of

OTHER = ("#7a5ba6", "#9c83c0", "#553c7b")
NOWHERE = "#9aa5b1"

DEVICE = re.compile(r"(?P<kind>[^:/]+)(?::(?P<number>\d+))?(?:/.*)?")


def colour_of(target: str) -> str:
    """Returns the colour of `cuda:0` or of `cuda:0/triton`; grey for what is no device."""
    found = DEVICE.fullmatch(target)
    if found is None:
        return NOWHERE
    shades = shades_of(target) or OTHER
    return shades[int(found["number"] or 0) % len(shades)]


def tint(colour: str, share: float = 0.09) -> str:
    """A colour as it is on white paper where little of it is used."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)
