# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents a run as a Python function of NumPy calls, and loads its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import OutOfMemory
from fuel_dialect.reference import memory
from fuel_dialect.tensors import AnyTensor
from fuel_lowering.bytecode import code_of
from fuel_lowering.numpy import support
from fuel_lowering.numpy.pool import Pool, quiet_context, shared_pool
from fuel_lowering.runs.leaves import WeightUse

Array = np.ndarray[Any, Any]
Functions = tuple[Callable[..., tuple[Array, ...]], Callable[[], Any] | None]
NOTHING_MORE: Mapping[str, Any] = MappingProxyType({})

BEGAN = "kernel_began"
"""The function that the text of a watched run calls."""

CALL = """
def {entry}({inputs}):
    try:
        try:
            held = free.pop()
        except IndexError:
            held = new_context().run
        results = held(function{arguments})
        free.append(held)
        return results
    except MemoryError as error:
        raise refusal(error) from error
"""

CALL_WITH_WORKSPACE = """
def {entry}({inputs}):
    try:
        try:
            held = free.pop()
        except IndexError:
            held = new_context().run, new_workspace()
        results = held[0](function{arguments}, held[1])
        free.append(held)
        return results
    except MemoryError as error:
        raise refusal(error) from error
"""
"""
The surroundings of a call: a context in which NumPy raises no floating-point warnings, which costs
a tenth of `np.errstate`, and a workspace. A call that raises does not give them back.
"""


@dataclass(frozen=True)
class NumpyRun:
    """
    One run as a function of NumPy calls.

    `source` defines `entry(*inputs)`, or `entry(*inputs, scratch)` and `entry_scratch()` where
    `scratch` is set: the latter allocates one workspace, which serves one call at a time. The
    function returns a tuple of fresh arrays that share no memory with anything. `constants` and
    `weights` are names the source reads. A workspace takes `scratch_bytes`, and `slot_bytes` for
    each thread of the pool.
    """

    entry: str
    source: str
    inputs: tuple[AnyTensor, ...]
    outputs: tuple[AnyTensor, ...]
    constants: Mapping[str, Array]
    weights: Mapping[str, WeightUse]
    scratch: bool
    kernels: int
    scratch_bytes: int = 0
    slot_bytes: int = 0
    marks: tuple[int, ...] = ()
    """The lines of the source at which kernels begin, from 0, and the one after the last kernel."""

    @property
    def launch_count(self) -> int:
        """Returns 0: nothing is launched."""
        return 0

    def workspace_bytes(self, threads: int) -> int:
        """Returns what one workspace takes."""
        return self.scratch_bytes + threads * self.slot_bytes

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts that are compiled when a run is loaded, by the names of their files."""
        return {self._file: self.source, self._call_file: self._call}

    @property
    def _file(self) -> str:
        return f"<fuel {self.entry}>"

    @property
    def _call_file(self) -> str:
        return f"<fuel call of {self.entry}>"

    @property
    def _call(self) -> str:
        """The function that a walk calls, around that of the source."""
        inputs = ", ".join(f"x{index}" for index in range(len(self.inputs)))
        return (CALL_WITH_WORKSPACE if self.scratch else CALL).format(
            entry=self.entry, inputs=inputs, arguments=inputs and f", {inputs}"
        )

    def load(self, weights: Mapping[str, Array], threads: int) -> Callable[..., tuple[Array, ...]]:
        """
        Returns the function of the inputs.

        It may be called from several threads at once: each call has a context and a workspace of
        its own. It raises `OutOfMemory` that says what a call takes.
        """
        return self._loaded(self.functions(weights, shared_pool(threads)), threads)

    def watched(
        self, weights: Mapping[str, Array], threads: int, began: Callable[[int], None]
    ) -> Callable[..., tuple[Array, ...]]:
        """Returns the function of the inputs; it calls `began` as `WatchedRun` says."""
        lines = self.source.split("\n")
        kernels = len(self.marks) - 1
        for number, line in reversed(list(enumerate(self.marks))):
            lines.insert(line, f"    {BEGAN}({number if number < kernels else -1})")
        whole = replace(self, source="\n".join(lines))
        functions = whole.functions(weights, shared_pool(threads), {BEGAN: began})
        return self._loaded(functions, threads)

    def _loaded(self, functions: Functions, threads: int) -> Callable[..., tuple[Array, ...]]:
        """Returns the functions of a source as one, each call in surroundings of its own."""
        function, new_workspace = functions
        names: dict[str, Any] = {
            "function": function,
            "new_workspace": new_workspace,
            "new_context": quiet_context,
            "free": [],
            "refusal": lambda error: self._refusal(error, threads),
        }
        exec(code_of(self._call, self._call_file), names)
        # Out of its own globals, the function and all that it holds go with its last reference.
        return names.pop(self.entry)

    def functions(
        self, weights: Mapping[str, Array], pool: Pool, more: Mapping[str, Any] = NOTHING_MORE
    ) -> Functions:
        """Returns the functions that the source defines: `entry` and, or None, `entry_scratch`."""
        names = {**self._namespace(weights, pool), **more}
        exec(code_of(self.source, self._file), names)
        return names.pop(self.entry), names.pop(f"{self.entry}_scratch", None)

    def _namespace(self, weights: Mapping[str, Array], pool: Pool) -> dict[str, Any]:
        """Returns the globals of the source."""
        names: dict[str, Any] = {"np": np, "support": support, "pool": pool, **self.constants}
        if "ml_dtypes." in self.source:
            import ml_dtypes

            names["ml_dtypes"] = ml_dtypes
        for name, use in self.weights.items():
            array = memory.weight(
                key=use.key,
                weights=weights,
                shape=tuple(use.type.get_shape()),
                dtype=dtypes.of_type(use.type).numpy,
            )
            names[name] = np.asarray(array, order="C")
        return names

    def _refusal(self, error: MemoryError, threads: int) -> OutOfMemory:
        """Returns the error of a call that the host has too little memory for."""
        results = sum(_bytes(type) for type in self.outputs)
        return OutOfMemory(
            f"cpu: {self.entry} takes {self.workspace_bytes(threads):,} bytes of workspace and "
            f"{results:,} of results, and the host has too little memory left"
            f"{f' ({error})' if str(error) else ''}"
        )


def _bytes(type: AnyTensor) -> int:
    return prod(type.get_shape()) * dtypes.of_type(type).numpy.itemsize
