# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small Triton kernels, and how the tests run one in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuel_dialect import dtypes
from fuel_lowering.runs.launches import DeviceKernel, Parameter

HEAD = """
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

"""


def kernel(name: str, body: str, arrays: Sequence[np.ndarray], *scalars: str) -> DeviceKernel:
    """A kernel of `p0`.. and scalars; `body` is the text of its function, or of all functions."""
    parameters = tuple(
        Parameter(f"p{index}", dtypes.of(array.dtype).name, array.size, True)
        for index, array in enumerate(arrays)
    )
    if "def " not in body:
        names = ", ".join([*(parameter.name for parameter in parameters), *scalars])
        lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
        body = f"@triton.jit\ndef {name}({names}):\n{lines}\n"
    return DeviceKernel(name, HEAD + body, parameters, scalars)


def interpret(
    kernel: DeviceKernel,
    arrays: Sequence[np.ndarray],
    scalars: Sequence[int] = (),
    grid: tuple[int, int, int] = (1, 1, 1),
) -> None:
    """Run a kernel on arrays of the host."""
    from fuel_lowering.triton.interpret import InterpretedKernel, interpreting

    loaded = InterpretedKernel(kernel)
    with interpreting():
        loaded.launch([array.ctypes.data for array in arrays], scalars, grid)


ADD = """
i = tl.program_id(0) * 512 + tl.arange(0, 512)
inside = i < 1000
x = tl.load(p0 + i, inside, other=0.0)
y = tl.load(p1 + i, inside, other=0.0)
tl.store(p2 + i, x * y + x, inside)
"""
"""x * y + x of 1000 f32, by 2 programs."""
