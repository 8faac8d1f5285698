# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Keeps the BLAS of NumPy to the threads of a session while a run is in it.

The number of threads of a BLAS is one for the whole process. It is lowered when the first run comes
in and put back when the last is out; of several sessions the one with the fewest threads decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any


class BlasThreads:
    """Represents the number of threads of the BLAS libraries that are loaded."""

    def __init__(self) -> None:
        import numpy as np  # its BLAS is found among the libraries that are loaded
        from threadpoolctl import ThreadpoolController

        assert np.__name__
        controller = ThreadpoolController().select(user_api="blas")
        self._libraries = controller.lib_controllers
        self._own = [library.num_threads or 1 for library in self._libraries]
        self._knows_own = False
        self._limits: dict[object, int] = {}
        self._lock = Lock()
        os.register_at_fork(after_in_child=self._forget)

    @property
    def most(self) -> int:
        """The most threads that a library takes by itself."""
        return max(self._own, default=1)

    def limited(self, run: Callable[..., Any], threads: int) -> Callable[..., Any]:
        """Returns a function that leaves BLAS no more than so many threads while it runs."""

        @wraps(run)
        def call(*arguments: Any) -> Any:
            token = object()
            try:
                with self._lock:
                    if not (self._limits or self._knows_own):
                        self._own = [library.num_threads or 1 for library in self._libraries]
                    self._knows_own = False
                    self._limits[token] = threads
                    self._apply()
                return run(*arguments)
            finally:
                with self._lock:
                    if self._limits.pop(token, None) is not None:
                        self._apply()

        return call

    def _apply(self) -> None:
        most = min(self._limits.values(), default=None)
        for library, own in zip(self._libraries, self._own, strict=True):
            library.set_num_threads(own if most is None else min(own, most))

    def _forget(self) -> None:
        """
        In a forked child no other thread is left that could be in a run, or hold the lock.

        What BLAS had by itself is still known; what it has now may be what a run left it.
        """
        self._lock = Lock()
        self._knows_own = bool(self._limits)
        self._limits.clear()


@cache
def blas_threads() -> BlasThreads:
    """Returns the BLAS of this process."""
    return BlasThreads()


def with_threads(run: Callable[..., Any], threads: int) -> Callable[..., Any]:
    """Returns a run that leaves BLAS so many threads; the run itself where BLAS has no more."""
    if threads >= (os.cpu_count() or 1) or threads >= blas_threads().most:
        return run
    return blas_threads().limited(run, threads)
