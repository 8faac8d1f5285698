# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Ops with regions (`fuel_dialect.ops.control`).

A region is a Python function here: from the arrays of its block arguments to those it yields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fuel_dialect.reference.precision import Array

Region: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class StepResults:
    """Represents a step of a scan: the next carries, this step's ys, and a mask that stops."""

    carries: Sequence[Array]
    ys: Sequence[Array]
    until: Array | None = None


def branch(inputs: Sequence[Array], *, arms: Sequence[Region], arm: int) -> Sequence[Array]:
    return arms[arm](inputs)


def kernel(inputs: Sequence[Array], *, body: Region) -> Sequence[Array]:
    return body(inputs)


def run(inputs: Sequence[Array], *, body: Region) -> Sequence[Array]:
    return body(inputs)


def scan(
    inits: Sequence[Array],
    xs: Sequence[Array],
    consts: Sequence[Array],
    *,
    body: Callable[[Sequence[Array]], StepResults],
    length: int,
    reverse: bool,
    ys: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
) -> tuple[Sequence[Array], Sequence[Array], int]:
    """
    The final carries, the stacked ys and the number of steps done.

    `ys` are the shapes and dtypes of the stacked ys, whose rows are zero until a step writes them.
    A reversed scan reads and writes the last row first.
    """
    carries, stacked = inits, [np.zeros(shape, dtype) for shape, dtype in ys]
    for done in range(length):
        row = length - 1 - done if reverse else done
        step = body([*carries, *(np.asarray(x[row]) for x in xs), *consts])
        carries = step.carries
        for y, value in zip(stacked, step.ys, strict=True):
            y[row] = value
        if step.until is not None and step.until.item():
            return carries, stacked, done + 1
    return carries, stacked, length
