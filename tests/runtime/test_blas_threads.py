# SPDX-License-Identifier: MIT OR Apache-2.0
"""`Session(threads=)` is the number of threads of BLAS too, while a run is in it and no longer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import examples
from fuel_runtime.devices.host import blas
from fuel_runtime.devices.host.blas import BlasThreads


class Library:
    """Stands in for a BLAS of 8 threads."""

    def __init__(self, threads: int = 8) -> None:
        self.num_threads = threads
        self.set: list[int] = []

    def set_num_threads(self, threads: int) -> None:
        self.num_threads = threads
        self.set.append(threads)


def with_libraries(*libraries: Library) -> BlasThreads:
    made = BlasThreads()
    made._knows_own = False  # pyright: ignore[reportPrivateUsage]
    made._libraries = list(libraries)  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue]
    return made


def test_a_run_has_its_threads_and_they_are_put_back() -> None:
    library = Library()
    seen = with_libraries(library).limited(lambda x: (library.num_threads, x), 3)
    assert seen("y") == (3, "y")
    assert library.num_threads == 8


def test_threads_are_put_back_after_an_error() -> None:
    library = Library()

    def fails() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_libraries(library).limited(fails, 1)()
    assert library.num_threads == 8


def test_a_library_that_has_fewer_threads_keeps_them() -> None:
    libraries = Library(2), Library(8)
    seen = with_libraries(*libraries).limited(lambda: [each.num_threads for each in libraries], 4)
    assert seen() == [2, 4]
    assert [each.num_threads for each in libraries] == [2, 8]


def test_what_a_person_sets_between_runs_is_kept() -> None:
    library = Library()
    seen = with_libraries(library).limited(lambda: library.num_threads, 4)
    assert seen() == 4
    library.set_num_threads(6)
    assert (seen(), library.num_threads) == (4, 6)
    library.set_num_threads(2)
    assert (seen(), library.num_threads) == (2, 2)


@examples(50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_of_runs_inside_one_another_the_fewest_threads_count(limits: Sequence[int]) -> None:
    library, seen = Library(), list[int]()
    threads = with_libraries(library)

    def nested(rest: Sequence[int]) -> None:
        if rest:
            threads.limited(nested, rest[0])(rest[1:])
        seen.append(library.num_threads)

    nested(limits)
    own = [min([8, *limits[:depth]]) for depth in range(len(limits), -1, -1)]
    assert seen == own


def test_runs_of_many_threads_leave_the_number_as_it_was() -> None:
    library = Library()
    threads = with_libraries(library)
    wrong: list[int] = []

    def run(limit: int) -> None:
        if library.num_threads > limit:
            wrong.append(library.num_threads)

    def work(limit: int) -> None:
        call = threads.limited(run, limit)
        for _ in range(300):
            call(limit)

    workers = [threading.Thread(target=work, args=(1 + n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert library.num_threads == 8


def test_a_run_is_left_alone_where_nothing_is_to_be_lowered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> None: ...

    def none() -> BlasThreads:
        raise AssertionError

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(blas, "blas_threads", none)
    assert blas.with_threads(run, 2) is run
    few = with_libraries(Library(1))
    few._own = [1]  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(blas, "blas_threads", lambda: few)
    assert blas.with_threads(run, 1) is run


@pytest.mark.parametrize("count", [1, 2])
def test_the_libraries_of_this_process(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own = BlasThreads()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)

    def counts() -> list[Any]:
        return [library.num_threads for library in own._libraries]  # pyright: ignore[reportPrivateUsage]

    before = counts()
    run: Callable[[], list[Any]] = blas.with_threads(counts, count)
    assert run() == [min(count, threads) for threads in before]
    assert counts() == before


def test_a_child_forked_in_a_run_is_not_held_up_and_has_its_own_threads() -> None:
    library = Library()
    threads = with_libraries(library)

    def fork() -> int:
        child = os.fork()
        if not child:
            code = threads.limited(lambda: library.num_threads, 5)()
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert threads.limited(fork, 1)() == 5
