# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives the target `loops` its rules: a Python expression for one element of each op."""

from __future__ import annotations

from acme_fuel.ops import SquaredReluOp


def _squared_relu(x: str) -> str:
    return f"(x if (x := {x}) != x else max(x, 0.0) ** 2)"


RULES = {SquaredReluOp: _squared_relu}
