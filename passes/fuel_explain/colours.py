# SPDX-License-Identifier: MIT OR Apache-2.0
"""A colour for each device: a hue by its kind, a shade by its number."""

from __future__ import annotations

import re

SHADES = {
    "cpu": ("#3b6ea8", "#6a93c2", "#27496f"),
    "cuda": ("#3f8a50", "#7bb489", "#235c32", "#a3bf4a"),
    "vulkan": ("#c4572e", "#dd8a67", "#8d3b1c"),
}
OTHER = ("#7a5ba6", "#9c83c0", "#553c7b")
NOWHERE = "#9aa5b1"

DEVICE = re.compile(r"(?P<kind>[^:/]+)(?::(?P<number>\d+))?(?:/.*)?")


def colour_of(target: str) -> str:
    """The colour of a device, or of a target such as `cuda:0/triton`; grey for no device."""
    found = DEVICE.fullmatch(target)
    if found is None:
        return NOWHERE
    shades = SHADES.get(found["kind"], OTHER)
    return shades[int(found["number"] or 0) % len(shades)]


def tint(colour: str, share: float = 0.09) -> str:
    """A colour as it is on white paper where little of it is used."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * share):02x}" for part in parts)
