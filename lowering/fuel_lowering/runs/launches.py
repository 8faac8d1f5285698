# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs as launches: the kernels of a run, its buffers, and the launches that bind them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fuel_dialect import dtypes
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.runs.leaves import WeightUse

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Parameter:
    """One buffer of a device kernel: flat, contiguous, bound by position."""

    name: str
    dtype: str
    """A name of `fuel_dialect.dtypes`."""
    elements: int
    writes: bool
    aligned: bool = True
    """True if every launch passes it at a multiple of 16 bytes."""

    def first_element(self, byte_offset: int) -> int:
        """Returns the number of the element that lies so many bytes into the buffer."""
        return byte_offset // dtypes.BY_NAME[self.dtype].itemsize


@dataclass(frozen=True)
class DeviceKernel:
    """
    One kernel as complete source text: a Triton module or a GLSL shader.

    `scalars` are 32-bit integers that follow the buffers. `options` belong to the target, such as
    Triton's `num_warps`.
    """

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    scalars: tuple[str, ...] = ()
    options: tuple[tuple[str, int], ...] = ()

    def renamed(self, name: str) -> DeviceKernel:
        """Returns the same kernel under another name."""
        source = re.sub(rf"\b{re.escape(self.name)}\b", name, self.source)
        return replace(self, name=name, source=source)


BufferRole = Literal["input", "output", "temporary", "constant", "weight", "status"]


@dataclass(frozen=True)
class Buffer:
    """
    Memory that the launches of a run are bound to.

    `index` says which input or output of the run it is; `key` names a constant of the run, or a
    weight as the weights file does. A status is one i32 that is zero when a run begins; a kernel
    that meets an index out of range writes the number, from 1, of the op in `DeviceRun.checks`.
    """

    role: BufferRole
    dtype: str
    elements: int
    index: int = 0
    key: str = ""

    @property
    def bytes(self) -> int:
        """The bytes of the elements."""
        return self.elements * dtypes.BY_NAME[self.dtype].itemsize


@dataclass(frozen=True)
class Launch:
    """
    A kernel of a run, bound to buffers of the run.

    `byte_offsets` say how many bytes into its buffer each parameter begins. A kernel that counts
    elements of a whole buffer instead has them among its `scalars`. `grid` counts workgroups.
    """

    kernel: int
    buffers: tuple[int, ...]
    byte_offsets: tuple[int, ...]
    scalars: tuple[int, ...]
    grid: tuple[int, int, int]
    origin: int = -1
    """The number of the kernel of the run that it is part of; -1 for a copy of a result."""


@dataclass(frozen=True)
class DeviceRun:
    """One run as launches on a device; what is launched later may read what was written before."""

    entry: str
    target: str
    kernels: tuple[DeviceKernel, ...]
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    inputs: tuple[AnyTensor, ...]
    outputs: tuple[AnyTensor, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    weights: Mapping[str, WeightUse]
    checks: tuple[str, ...] = ()
    """The ops whose indices are checked, as an error names them."""
    reuses: tuple[tuple[int, int], ...] = ()
    """Results that take over the memory of an input: a buffer of each is one memory then."""
    result_bytes: tuple[int, ...] = ()
    """The least bytes of the memory of each result, where a plan has others use it afterwards."""

    @property
    def launch_count(self) -> int:
        """Counts the launches of a call."""
        return len(self.launches)

    def workspace_bytes(self, threads: int) -> int:
        """Returns 0: its temporaries are the device's, not the host's."""
        return 0

    @property
    def source(self) -> str:
        """Holds the text of all kernels."""
        return "\n\n".join(kernel.source.strip("\n") for kernel in self.kernels) + "\n"
