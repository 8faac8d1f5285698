# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Turns names of the IR, which may be of any length and any characters, into parts of generated code.

Every target makes its names with `stem` and its comments with `printable`.
"""

from __future__ import annotations

import re

LONGEST_STEM = 60
"""Characters of the IR's name that a generated name keeps; a number tells equal ones apart."""


def stem(name: str | None, default: str) -> str:
    """
    Makes an ASCII identifier of a name: `default` where there is none.

    Python reads different spellings of one unicode identifier as one name, and GLSL knows ASCII
    alone, so other characters become underscores.
    """
    text = re.sub(r"\W", "_", name or default, flags=re.ASCII)[:LONGEST_STEM]
    return f"{default}{text}" if text[0].isdigit() else text


def printable(text: str) -> str:
    """Escapes whatever may end a line, or a file, before the end of a comment."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in plain)
