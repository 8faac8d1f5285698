# SPDX-License-Identifier: MIT OR Apache-2.0
"""
`fuel-explain`: what a plan chose for each kernel, out of what, and what every route costs.

`build` makes an `Explanation` (`reports`), which `text`, JSON, `drawing` and `page` only render.
"""

from __future__ import annotations

from fuel_explain.build import explain
from fuel_explain.command import main
from fuel_explain.reports import Explanation
from fuel_explain.text import to_text

__all__ = ["Explanation", "explain", "main", "to_text"]
