# SPDX-License-Identifier: MIT OR Apache-2.0
"""For tests of the NumPy target: runs made of ops, lowered, loaded and called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.context import parse_module
from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.control import RunOp
from fuel_dialect.reference.precision import Array
from fuel_lowering.numpy.pool import Pool, quiet_context
from fuel_lowering.numpy.run import NumpyRun


def runs_of(module: ModuleOp) -> list[RunOp]:
    return [op for op in module.walk() if isinstance(op, RunOp)]


def run_of(text: str) -> RunOp:
    (run,) = runs_of(parse_module(text))
    return run


class Loaded:
    """A lowered run with its functions, called as the runtime calls them."""

    def __init__(
        self,
        lowered: NumpyRun,
        pool: Pool | None = None,
        weights: Mapping[str, Array] | None = None,
    ):
        self.lowered = lowered
        self.function, self.make = lowered.functions(weights or {}, pool or Pool(1))
        self.scratch = self.workspace()

    def workspace(self) -> Any:
        return None if self.make is None else self.make()

    def __call__(self, *arguments: Array, scratch: Any = None) -> tuple[Array, ...]:
        scratch = self.scratch if scratch is None else scratch
        extra = [scratch] if self.lowered.scratch else []
        return quiet_context().run(self.function, *arguments, *extra)


def check_results(
    loaded: Loaded,
    module: ModuleOp,
    arguments: Sequence[Array],
    tolerance: tuple[float, float] = (1e-6, 1e-6),
    weights: Mapping[str, Array] | None = None,
) -> tuple[Array, ...]:
    """Call twice, on the same arguments; compare with the reference, and look for shared memory."""
    before = [argument.copy() for argument in arguments]
    loaded(*arguments)
    poison(loaded.scratch)
    got = loaded(*arguments)
    with np.errstate(all="ignore"):
        want = evaluate(module, *arguments, weights=weights or {})
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, *tolerance)
        assert g.flags.c_contiguous
        assert g.flags.writeable
    for argument, old in zip(arguments, before, strict=True):
        assert argument.tobytes() == old.tobytes()
    assert_apart([*got, *arguments])
    return got


def assert_close(got: Array, want: Array, rtol: float, atol: float) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol
        )


def assert_apart(arrays: Sequence[Array]) -> None:
    """No two of the arrays share memory."""
    for index, a in enumerate(arrays):
        for b in arrays[index + 1 :]:
            assert not np.shares_memory(a, b)


def poison(scratch: Any) -> None:
    """Fill a workspace with bits that are NaN as floats, and -1 as integers."""
    if isinstance(scratch, np.ndarray):
        if scratch.flags.c_contiguous:
            scratch.reshape(-1).view(np.uint8).fill(0xFF)
        return
    if isinstance(scratch, list | tuple):
        for part in scratch:
            poison(part)


def strided(array: Array) -> Array:
    """The same elements, every other one of a larger array and backwards."""
    if not array.ndim:
        return array
    room = np.zeros([2 * extent + 1 for extent in array.shape], array.dtype)
    inside = room[tuple(slice(2 * e - 1, None, -2) if e else slice(0, 0) for e in array.shape)]
    inside[...] = array
    return inside
