# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that evaluate the tiles of a kernel."""

from __future__ import annotations

import contextvars
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import SimpleQueue

import numpy as np

Body = Callable[[int, int], object]
"""Computes tile i; the second argument is the slot, 0 for the caller, that no other thread has."""


def quiet_context() -> contextvars.Context:
    """A context in which NumPy's floating-point warnings are off: inf and NaN are values here."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


class _Job:
    """One call of `Pool.run`: the tiles that are left, and who is at work."""

    def __init__(self, body: Body, tiles: int):
        self.body = body
        self.tiles = tiles
        self.next = count()
        self.lock = threading.Lock()
        self.active = 0
        self.closed = False
        self.idle = threading.Event()
        self.error: BaseException | None = None

    def work(self, slot: int) -> None:
        """Take tiles until there are none, or one of them failed."""
        body, tiles, take = self.body, self.tiles, self.next
        try:
            while self.error is None and (tile := next(take)) < tiles:
                body(tile, slot)
        except BaseException as error:
            self.error = self.error or error

    def help(self, slot: int) -> None:
        """A worker's share; nothing if the caller has finished without it."""
        with self.lock:
            if self.closed:
                return
            self.active += 1
        self.work(slot)
        with self.lock:
            self.active -= 1
            if self.closed and not self.active:
                self.idle.set()

    def close(self) -> None:
        """Wait for the workers that take part; no other may start."""
        with self.lock:
            self.closed = True
            if not self.active:
                return
        self.idle.wait()


def _serve(jobs: SimpleQueue[_Job | None], slot: int) -> None:
    while (job := jobs.get()) is not None:
        job.help(slot)
        del job


class Pool:
    """
    The caller and `threads - 1` daemon threads, which start with the first kernel that needs them.

    May be used from several threads at once, and goes on working in a forked child.
    """

    def __init__(self, threads: int):
        if threads < 1:
            raise ValueError(f"a pool needs one thread or more, got {threads}")
        self.threads = threads
        self._forget_threads()
        _pools.add(self)

    def _forget_threads(self) -> None:
        self._start = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] | None = None
        self._helpers = 0

    def run(self, body: Body, tiles: int) -> None:
        """
        `body(tile, slot)` for every tile, in any order; the slot is below `threads`.

        Raises what a body raises, after all threads have let go of the job.
        """
        if min(self.threads, tiles) < 2:
            for tile in range(tiles):
                body(tile, 0)
            return
        jobs = self._jobs or self._started()
        job = _Job(body, tiles)
        for _ in range(min(self._helpers, tiles - 1)):
            jobs.put(job)
        try:
            job.work(0)
        finally:
            job.close()
        if job.error is not None:
            raise job.error

    def _started(self) -> SimpleQueue[_Job | None]:
        """The queue of the helpers; there are fewer where the system gives no more threads."""
        with self._start:
            if self._jobs is not None:
                return self._jobs
            jobs: SimpleQueue[_Job | None] = SimpleQueue()
            started = 0
            try:
                with suppress(RuntimeError):
                    for slot in range(1, self.threads):
                        _start_helper(jobs, slot)
                        started = slot
            except BaseException:
                _stop(jobs, self.threads)
                raise
            self._helpers = started
            weakref.finalize(self, _stop, jobs, started)
            self._jobs = jobs
            return jobs


def _start_helper(jobs: SimpleQueue[_Job | None], slot: int) -> None:
    """A thread that serves a queue. Raises `RuntimeError` if the system has no more of them."""
    target, name = quiet_context().run, f"fuel-{slot}"
    threading.Thread(target=target, args=(_serve, jobs, slot), name=name, daemon=True).start()


def _stop(jobs: SimpleQueue[_Job | None], threads: int) -> None:
    for _ in range(threads):
        jobs.put(None)


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_shared: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared_pool(threads: int) -> Pool:
    """Returns the pool of so many threads that all programs of this process share."""
    with _sharing:
        pool = _shared.get(threads)
        if pool is None:
            pool = _shared[threads] = Pool(threads)
        return pool


def _after_fork() -> None:
    """A child has none of the threads: pools start new ones, and nobody holds a lock."""
    global _sharing
    _sharing = threading.Lock()
    for pool in _pools:
        pool._forget_threads()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
