# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparing what modules compute, by the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import BranchOp
from fuel_dialect.prepared import PREPARES
from fuel_passes.walk import functions
from programs import Array, Program


class TakeForks(dict[str, int]):
    """Decisions for the reference: arm `arm` at every branch that a pass made, else arm 0."""

    def __init__(self, arm: int):
        super().__init__()
        self.arm = arm

    def get(self, name: str, default: object = None) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.arm if name.rpartition("/")[2].startswith("d") else 0


def run(
    program: Program, arms: Mapping[str, int] | None = None, module: ModuleOp | None = None
) -> tuple[Array, ...]:
    """The results of a random program, or of what a pass made of its module."""
    return evaluate(
        module or program.module, *program.arguments, weights=program.weights, arms=arms or {}
    )


def assert_equal(got: Sequence[Array], want: Sequence[Array]) -> None:
    """Bit for bit, but for NaN payloads."""
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        np.testing.assert_array_equal(g, w)


def assert_close(got: Sequence[Array], want: Sequence[Array], rtol: float = 1e-5) -> None:
    """Within a relative tolerance; integers and masks exactly."""
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
        else:
            wide = (g.astype(np.float64), w.astype(np.float64))
            np.testing.assert_allclose(*wide, rtol=rtol, atol=rtol)


def decisions(module: ModuleOp) -> dict[str, int]:
    """The number of arms of every decision, by path; not those of what prepares weights."""
    found: dict[str, int] = {}
    called = (function for function in functions(module) if PREPARES not in function.attributes)
    pending = [("", function.body.block) for function in called]
    while pending:
        prefix, block = pending.pop()
        for op in block.ops:
            if not isinstance(op, BranchOp):
                continue
            path = prefix + op.id.data
            found[path] = len(op.arm_regions)
            pending += [(f"{path}/{i}/", r.block) for i, r in enumerate(op.arm_regions)]
    return found


def main(arguments: str, results: str, body: str, stamp: str = "") -> ModuleOp:
    """A module with one function `main`, from text; arguments such as `%x: tensor<2xf32>`."""
    attributes = f"attributes {{{stamp}}} " if stamp else ""
    return parse_module(
        f"builtin.module {attributes}{{\n"
        f"func.func @main({arguments}) -> {results} {{\n{body}\n}}\n}}"
    )


def names(module: ModuleOp) -> list[str]:
    """The names of all ops of fuel, in the order of the text."""
    return [op.name.removeprefix("fuel.") for op in module.walk() if op.name.startswith("fuel.")]
