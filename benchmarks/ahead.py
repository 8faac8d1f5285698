# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels are compiled on all cores before they are needed, and found in the cache on disk then."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, TimeoutError
from typing import Any

from isolated import one_line

from fuel_dialect.errors import LoweringError
from fuel_lowering.runs.launches import DeviceKernel


class Ahead:
    """Tasks for other processes, in the order in which they are added."""

    def __init__(self, capability: int, workers: int):
        context = multiprocessing.get_context("spawn")
        self._capability = capability
        self._pool = ProcessPoolExecutor(workers, mp_context=context)
        self._tasks: dict[Hashable, Future[int]] = {}
        self.trouble = ""
        """Says in one line why tasks failed; what they left is compiled when it is needed."""

    def add(
        self, key: Hashable, kernels: Callable[..., Iterable[DeviceKernel]], *arguments: Any
    ) -> None:
        """Compile what a function of a module gives, which is called in another process."""
        try:
            task = self._pool.submit(compile_all, self._capability, kernels, *arguments)
        except BrokenExecutor as error:
            self._note(error)
        else:
            self._tasks[key] = task

    def wait(self, key: Hashable, seconds: float) -> None:
        """Wait for a task, but no longer than this."""
        task = self._tasks.get(key)
        if task is None or task.cancelled():
            return
        try:
            task.result(max(seconds, 0.0))
        except TimeoutError:
            return
        except Exception as error:  # a process that died, or a program that cannot be planned
            self._note(error)

    def _note(self, error: Exception) -> None:
        self.trouble = f"{type(error).__name__}: {one_line(error)}"

    @property
    def compiled(self) -> int:
        """The kernels of the tasks that are done."""
        done = [t for t in self._tasks.values() if t.done() and not t.cancelled()]
        return sum(task.result() for task in done if task.exception() is None)

    def stop(self) -> None:
        """Begin nothing more, and wait for what has begun: the cores are free then."""
        self._pool.shutdown(cancel_futures=True)


def compile_all(
    capability: int, kernels: Callable[..., Iterable[DeviceKernel]], *arguments: Any
) -> int:
    """Compile kernels; how many. One that does not compile is met again where it is needed."""
    from fuel_lowering.triton.compile import compile_kernel

    count = 0
    for kernel in kernels(*arguments):
        try:
            compile_kernel(kernel, capability)
        except LoweringError:
            continue
        count += 1
    return count
