# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elements of an SVG file: text is escaped, coordinates have one digit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement

UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML cannot hold."""

LETTER = 6.6
"""About as wide as a letter is."""


def printable(text: str) -> str:
    """A text without what XML cannot hold."""
    return UNPRINTABLE.sub("\ufffd", text)


def shortened(text: str, width: float) -> str:
    """A text that is no wider than so many pixels."""
    letters = max(int(width / LETTER), 2)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def number(value: float) -> str:
    """A coordinate: as few digits as say it to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def group(parent: Element, kind: str, data: Mapping[str, str] | None = None) -> Element:
    return SubElement(parent, "g", {"class": kind, **(data or {})})


def text(
    parent: Element,
    x: float,
    y: float,
    content: str,
    kind: str = "",
    more: Mapping[str, str] | None = None,
) -> None:
    """A line of text whose baseline is at y."""
    given = {"x": number(x), "y": number(y), **({"class": kind} if kind else {}), **(more or {})}
    SubElement(parent, "text", given).text = printable(content)


def rectangle(
    parent: Element, x: float, y: float, width: float, height: float, **style: str
) -> None:
    """A rectangle; `stroke_width` becomes `stroke-width`."""
    given = {name.replace("_", "-"): value for name, value in style.items()}
    sides = {"x": x, "y": y, "width": width, "height": height}
    SubElement(parent, "rect", {**{n: number(v) for n, v in sides.items()}, **given})


def roof(parent: Element, x: float, y: float, width: float, height: float, fill: str) -> None:
    """A rectangle whose upper corners are round."""
    right, low = number(x + width), number(y + height)
    curves = f"V{number(y + 7)}Q{number(x)} {number(y)} {number(x + 7)} {number(y)}"
    curves += f"H{number(x + width - 7)}Q{right} {number(y)} {right} {number(y + 7)}"
    SubElement(parent, "path", {"d": f"M{number(x)} {low}{curves}V{low}Z", "fill": fill})


def hover(parent: Element, title: str, lines: Sequence[str]) -> None:
    """Returns the text that a browser shows under a resting pointer."""
    SubElement(parent, "title").text = printable("\n".join([title, *lines]))


def path(x1: float, y1: float, x2: float, y2: float, track: float | None) -> str:
    """A line that leaves downward and comes in from above, past what stands between on a track."""
    if track is None:
        middle = (y1 + y2) / 2
        points = (x1, y1, x1, middle, x2, middle, x2, y2)
        return "M{} {}C{} {} {} {} {} {}".format(*map(number, points))
    down, up = y1 + 26, y2 - 26
    return (
        f"M{number(x1)} {number(y1)}C{number(x1)} {number(down)} {number(track)} {number(y1 + 8)} "
        f"{number(track)} {number(down + 8)}L{number(track)} {number(up - 8)}"
        f"C{number(track)} {number(y2 - 8)} {number(x2)} {number(up)} {number(x2)} {number(y2)}"
    )
