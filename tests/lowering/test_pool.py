# SPDX-License-Identifier: MIT OR Apache-2.0
"""The thread pool: every tile once, errors, nesting, several callers, forks, warnings."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from fuel_lowering.numpy.pool import Pool


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("tiles", [0, 1, 2, 97])
def test_every_tile_is_computed_once_in_a_slot(threads: int, tiles: int):
    done: list[tuple[int, int]] = []
    Pool(threads).run(lambda tile, slot: done.append((tile, slot)), tiles)
    assert sorted(tile for tile, _ in done) == list(range(tiles))
    assert {slot for _, slot in done} <= set(range(threads))


def test_no_two_threads_have_one_slot():
    owners: dict[int, set[int]] = {}
    lock, barrier = threading.Lock(), threading.Barrier(3, timeout=30)

    def body(tile: int, slot: int) -> None:
        if tile < 3:
            barrier.wait()
        with lock:
            owners.setdefault(slot, set()).add(threading.get_ident())

    Pool(3).run(body, 30)
    assert sorted(owners) == [0, 1, 2]
    assert all(len(idents) == 1 for idents in owners.values())
    assert owners[0] == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_tile_reaches_the_caller(threads: int):
    pool = Pool(threads)

    def body(tile: int, slot: int) -> None:
        if tile == 7:
            raise KeyError(tile)

    with pytest.raises(KeyError, match="7"):
        pool.run(body, 50)
    done: list[int] = []
    pool.run(lambda tile, slot: done.append(tile), 5)
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_a_tile_may_use_the_pool():
    pool = Pool(2)
    done: list[int] = []
    pool.run(lambda i, _: pool.run(lambda j, __: done.append(10 * i + j), 4), 4)
    assert sorted(done) == [10 * i + j for i in range(4) for j in range(4)]


def test_many_callers_share_a_pool():
    pool, totals = Pool(3), [0] * 8

    def caller(index: int) -> None:
        done: list[int] = []
        for _ in range(20):
            pool.run(lambda tile, slot: done.append(tile), 11)
        totals[index] = len(done)

    threads = [threading.Thread(target=caller, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [220] * 8


def test_workers_raise_no_floating_point_warnings():
    barrier = threading.Barrier(2, timeout=30)
    zeros = np.zeros(4, np.float32)

    def body(tile: int, slot: int) -> None:
        barrier.wait()
        if slot:
            np.divide(zeros, zeros)

    Pool(2).run(body, 2)


def test_threads_start_late_and_end_with_the_pool():
    before = set(threading.enumerate())
    pool = Pool(4)
    assert set(threading.enumerate()) <= before
    pool.run(lambda tile, slot: None, 8)
    workers = set(threading.enumerate()) - before
    assert sorted(worker.name for worker in workers) == ["fuel-1", "fuel-2", "fuel-3"]
    del pool
    gc.collect()
    for worker in workers:
        worker.join(timeout=30)
        assert not worker.is_alive()


FORK = """
import os
from fuel_lowering.numpy.pool import Pool
pool = Pool(2)
done = []
pool.run(lambda tile, slot: done.append(tile), 9)
child = os.fork()
pool.run(lambda tile, slot: done.append(tile), 9)
assert len(done) == 18
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("both")
"""


@pytest.mark.parametrize("count", [0, -1])
def test_a_pool_without_threads_is_an_error(count: int):
    with pytest.raises(ValueError, match=f"one thread or more, got {count}"):
        Pool(count)


def test_a_forked_child_has_threads_of_its_own():
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both"), done.stderr


@pytest.mark.parametrize("available", [0, 2])
def test_a_pool_makes_do_with_the_threads_there_are(
    available: int, monkeypatch: pytest.MonkeyPatch
):
    start = threading.Thread.start
    left = [None] * available

    def start_some(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    pool = Pool(8)
    for _ in range(3):
        done: list[int] = []
        pool.run(lambda tile, slot, done=done: done.append(tile), 20)
        assert sorted(done) == list(range(20))
