# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Kompute as fuel uses it: the one file that knows the names of the package `kp`.

Written for kp 0.9.0. Its faults that matter here:

- Arrays of types other than 32-bit words are refused, so all memory is `uint32`.
- A dispatch is recorded with a barrier from transfers to compute only, none from compute to
  compute; `barrier` makes up for it.
- Push constants given to `Manager.algorithm` are read as floats; what a dispatch is given counts,
  and there integers stay integers.
- No call releases the GIL. `eval_async` of a recorded sequence waits for it; of one step it does
  not, and forgets what was recorded.
- Allocations that fail are not noticed, so whoever allocates has to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import kp  # pyright: ignore[reportMissingImports]
import numpy as np

from fuel_runtime.devices.watchdog import keep_forever

Array = np.ndarray[Any, np.dtype[Any]]

WORD = 4


class Kompute:
    """One logical device."""

    def __init__(self, index: int):
        self._manager: Any = kp.Manager(index)
        self._fence = self.memory(WORD * 4, staged=True)

    def memory(self, bytes: int, *, staged: bool) -> Any:
        """Memory that the host sees, or of the device alone with a copy that the host sees."""
        kind = kp.TensorTypes.device if staged else kp.TensorTypes.host
        return self._manager.tensor_t(np.empty(bytes // WORD, np.uint32), kind)

    def view(self, memory: Any) -> Array:
        """The bytes that the host sees."""
        return memory.data().view(np.uint8)

    def algorithm(
        self, memory: Sequence[Any], spirv: bytes, grid: Sequence[int], scalars: int
    ) -> Any:
        """A shader bound to memory, with room for so many push constants."""
        room = np.zeros(scalars, np.float32)
        return self._manager.algorithm(list(memory), spirv, list(grid), room[:0], room)

    def dispatch(self, algorithm: Any, scalars: Sequence[int]) -> Any:
        """A launch, with 32-bit integers as push constants."""
        if not scalars:
            return kp.OpAlgoDispatch(algorithm)
        return kp.OpAlgoDispatch(algorithm, np.array(scalars, np.int32))

    def barrier(self) -> Any:
        """
        Returns the operation that makes the launches after it wait for those before it.

        The copy of a few bytes waits for compute, and the next dispatch for the copy. Kernels
        declare what they write `coherent`, so that the wait is all it takes.
        """
        return kp.OpTensorSyncLocal([self._fence])

    def upload(self, memory: Any) -> Any:
        """Returns the operation that copies staged memory from the host's side to the device's."""
        return kp.OpTensorSyncDevice([memory])

    def download(self, memory: Any) -> Any:
        """Returns the operation that copies staged memory from the device's side to the host's."""
        return kp.OpTensorSyncLocal([memory])

    def copy(self, source: Any, destination: Any) -> Any:
        """Returns the operation that copies memory to other memory of the same size."""
        return kp.OpTensorCopy([source, destination])

    def sequence(self, steps: Iterable[Any]) -> Any:
        """Steps recorded for `evaluate`."""
        recorded = self._manager.sequence()
        for step in steps:
            recorded.record(step)
        return recorded

    def evaluate(self, sequence: Any) -> None:
        """Do what was recorded, and wait for it."""
        sequence.eval()

    def submit(self, sequence: Any, step: Any) -> None:
        """Has the device do one step, for which nobody waits; `take_in` has to follow."""
        sequence.eval_async(step)

    def take_in(self, sequence: Any) -> None:
        """Ends the step that was submitted, which is done; nothing if there was none."""
        if sequence.is_running():
            sequence.eval_await()

    def destroy(self, thing: Any) -> None:
        """Give up memory, an algorithm or a sequence."""
        thing.destroy()

    def leave(self, things: Iterable[Any]) -> None:
        """
        Keep the logical device and such things from ever being destroyed, in a forked child.

        The threads of a driver are the parent's, so a device would wait for them without end; and
        what is destroyed here may be the parent's too.
        """
        keep_forever(self._manager, self._fence, *things)

    def close(self) -> None:
        """Give up what is left in the order that Vulkan asks for: sequences, shaders, memory."""
        self._manager.destroy()
