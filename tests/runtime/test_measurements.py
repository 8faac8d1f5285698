# SPDX-License-Identifier: MIT OR Apache-2.0
"""The store of measured times: robust means, several processes, and files that are none."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_passes.planning.measurements import MeasurementKey
from fuel_passes.planning.measurements_schema import parse
from fuel_runtime import measurements_cli
from fuel_runtime.measurement_store import (
    NO_ESTIMATE,
    Estimate,
    MeasuredTimes,
    MeasurementError,
    MeasurementStore,
    is_store,
)

KEY = MeasurementKey(("relu",), ("f32", "f32"), (9, 9), "cpu/numpy", "library-1", "a chip")


@given(st.lists(st.floats(900, 1100), min_size=5, max_size=60), st.floats(1e4, 1e9))
def test_one_time_far_off_moves_the_mean_little(times: list[float], outlier: float) -> None:
    estimate = NO_ESTIMATE
    for sample in (*times, outlier):
        estimate = estimate.after(sample)
    assert 800 <= estimate.ns <= 1300


def test_the_mean_follows_what_changes_for_good() -> None:
    estimate = Estimate(100, 1000.0, 20.0)
    for _ in range(100):
        estimate = estimate.after(5000.0)
    assert estimate.ns == pytest.approx(5000, rel=0.05)


def test_times_come_back(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="No such file or directory"):
        MeasurementStore(tmp_path / "none" / "times.db")
    assert not list(tmp_path.iterdir())
    store = MeasurementStore(tmp_path / "times.db")
    store.add({KEY: [100, 110, 90]})
    again = MeasurementStore(store.path)
    assert again.load()[KEY].count == 3
    assert again.measurements().measured_ns(KEY) == 100
    assert again.measurements().measured_ns(replace(KEY, revision="library-2")) is None
    assert again.measurements().measured_ns(replace(KEY, hardware="another")) is None


def test_what_was_written_longest_ago_goes_first(tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "times.db", most=3)
    for number in range(5):
        store.add({replace(KEY, shape_class=(number,)): [1.0]})
        with sqlite3.connect(store.path) as connection:
            connection.execute("update times set used = used - 10")
    assert {key.shape_class for key in store.load()} == {(2,), (3,), (4,)}


@pytest.mark.parametrize(
    "content", [b"not a store at all, and long enough to tell" * 40, b"\0" * 4096]
)
def test_a_file_that_is_no_store_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "times.db"
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match=r"times\.db"):
        MeasurementStore(path)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
    with pytest.raises(MeasurementError, match="no store of measured times"):
        MeasurementStore(path)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "times.db")
    with sqlite3.connect(store.path) as connection:
        connection.execute("pragma user_version = 9")
    with pytest.raises(MeasurementError, match="version 9, this fuel reads 1"):
        MeasurementStore(store.path)


def test_a_locked_store_is_an_error_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuel_runtime.measurement_store.BUSY_S", 0.05)
    store = MeasurementStore(tmp_path / "times.db")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("begin exclusive")
    start = time.monotonic()
    with pytest.raises(MeasurementError, match="locked"):
        store.add({KEY: [1.0]})
    assert time.monotonic() - start < 5
    other.execute("rollback")
    other.close()
    store.add({KEY: [1.0]})


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError):
        MeasurementStore(tmp_path)
    with pytest.raises(MeasurementError, match="no such file"):
        MeasurementStore(tmp_path / "none.db", read_only=True)


WRITER = """
import sys
from fuel_passes.planning.measurements import MeasurementKey
from fuel_runtime.measurement_store import MeasurementStore
store = MeasurementStore(sys.argv[1])
for n in range(int(sys.argv[2])):
    store.add({MeasurementKey(("relu",), (), (int(sys.argv[3]),), "cpu/numpy"): [1.0]})
"""


def test_several_processes_write_to_one_store(tmp_path: Path) -> None:
    path = str(tmp_path / "times.db")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, "20", str(name)])
        for name in (1, 1, 2)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    counts = {key.shape_class: e.count for key, e in MeasurementStore(path).load().items()}
    assert counts == {(1,): 40, (2,): 20}


def test_a_store_that_several_threads_make_at_once(tmp_path: Path) -> None:
    for number in range(30):
        path, wrong = tmp_path / f"{number}.db", list[BaseException]()
        start = threading.Barrier(6)

        def make(path: Path = path, wrong: list[BaseException] = wrong, start: Any = start) -> None:
            start.wait()
            try:
                MeasurementStore(path).add({KEY: [100]})
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=make) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert MeasurementStore(path).load()[KEY].count == 6


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_writer_that_is_killed_leaves_a_store(tmp_path: Path) -> None:
    path = str(tmp_path / "times.db")
    before = 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path, "100000", "1"])
        while writer.poll() is None and _count(path) < before + 5:
            time.sleep(0.02)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(30)
        now = _count(path)
        assert now >= before + 5
        before = now


def _count(path: str) -> int:
    if not os.path.exists(path):
        return 0
    return sum(estimate.count for estimate in MeasurementStore(path).load().values())


def test_times_in_memory_count_their_changes() -> None:
    times = MeasuredTimes()
    assert times.measured_ns(KEY) is None
    times.record(KEY, 100)
    changes = times.changes
    times.record(KEY, 101)
    assert times.changes == changes
    times.record(KEY, 200)
    times.record(KEY, 200)
    assert times.changes > changes
    assert times.take_fresh() == {KEY: [100, 101, 200, 200]}
    assert times.take_fresh() == {}


@pytest.mark.parametrize(
    "key",
    [
        "exp",
        "{}",
        '["exp"]',
        '[["exp"], ["f32"], [4], "cpu/numpy", "", 3]',
        '["e", [], [], "", "", ""]',
    ],
)
def test_a_key_that_is_none_is_refused(key: str, tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "times.db")
    store.add({KEY: [100.0]})
    with sqlite3.connect(store.path) as connection:
        connection.execute("update times set key = ?", (key,))
    connection.close()
    with pytest.raises(MeasurementError, match=r"times\.db: the key .*(expected|not JSON)"):
        store.load()


def test_suffixes_say_what_is_a_store() -> None:
    assert is_store("a.db")
    assert is_store(Path("a.sqlite"))
    assert not is_store("a.json")
    assert not is_store(None)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = MeasurementStore(tmp_path / "times.db")
    store.add({KEY: [100.0], replace(KEY, target="cuda:0/triton"): [50.0]})
    name = str(store.path)
    assert measurements_cli.main(["list", name]) == 0
    assert "cpu/numpy library-1 on a chip: relu (f32, f32; 9, 9): 100 ns" in capsys.readouterr().out
    out = tmp_path / "times.json"
    assert measurements_cli.main(["export", name, "--out", str(out)]) == 0
    assert parse(out.read_text(), "out").measured_ns(KEY) == 100
    assert measurements_cli.main(["prune", name, "--target", "cpu/numpy"]) == 0
    assert measurements_cli.main(["prune", name, "--days", "1"]) == 0
    assert [key.target for key in store.load()] == ["cuda:0/triton"]
    assert measurements_cli.main(["prune", name, "--all"]) == 0
    assert store.load() == {}
    assert measurements_cli.main(["list", str(tmp_path / "none.db")]) == 2
    assert "no such file" in capsys.readouterr().err
