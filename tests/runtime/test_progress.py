# SPDX-License-Identifier: MIT OR Apache-2.0
"""Progress of compiling: what a listener hears, and what a terminal shows."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuel_dialect as fuel
from fake_devices import REGISTRY
from fuel_dialect.errors import ArgumentError
from fuel_dialect.progress import Progress, listening, steps
from fuel_passes.pipeline import OptimizePass
from fuel_runtime import Session
from fuel_runtime.cli.main import main
from fuel_runtime.cli.progress_line import ERASE, ProgressLine, shown
from fuel_runtime.devices.opening import open_devices

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAM = """
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %w = fuel.weight "w" : tensor<8x8xbf16>
  %v = fuel.weight "v" : tensor<2x8xf32>
  %c = fuel.cast %w : tensor<8x8xbf16> -> tensor<8x8xf32>
  %y = fuel.matmul %x, %c : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %z = fuel.softmax_last_dim %y : tensor<2x8xf32>
  %s = fuel.add %z, %v : tensor<2x8xf32>
  func.return %s : tensor<2x8xf32>
}
"""


def weights() -> dict[str, Any]:
    import ml_dtypes

    return {"w": np.eye(8).astype(ml_dtypes.bfloat16), "v": np.ones((2, 8), np.float32)}


def check(heard: Sequence[Progress]) -> None:
    """Within a stage that no other one interrupts, counts grow by one and end at the total."""
    assert all(0 <= p.done <= p.total for p in heard)
    for _, group in groupby(heard, key=lambda p: (p.stage, p.total)):
        counts = [p.done for p in group]
        assert counts == list(range(counts[0], counts[-1] + 1))
    for p in heard:
        assert bool(p.what) == (p.done < p.total) or not p.what


def test_a_listener_hears_every_stage_in_order() -> None:
    heard: list[Progress] = []
    exe = Session(progress=heard.append).compile(PROGRAM, weights=weights())
    check(heard)
    stages = [stage for stage, _ in groupby(p.stage for p in heard)]
    assert stages == [
        "optimise",
        "lower",
        "prepare weights",
        "lower",
        "load weights",
        "prepare weights",
        "load weights",
    ]
    names = [each.name for each in OptimizePass().passes()]
    optimised = [p for p in heard if p.stage == "optimise"]
    assert [p.what for p in optimised] == [*names, ""]
    assert optimised[-1] == Progress("optimise", len(names), len(names))
    before = len(heard)
    exe(np.ones((2, 8), np.float32))
    assert len(heard) == before


def test_kernels_of_devices_are_counted() -> None:
    heard: list[Progress] = []
    devices = open_devices("cpu,cuda:0", 2, "cuda:0", REGISTRY)
    session = Session(devices, device="cuda:0", progress=heard.append, prepare_bytes=0)
    exe = session.compile(PROGRAM, weights=weights())
    check(heard)
    compiled = [p for p in heard if p.stage == "compile kernels"]
    assert [p.done for p in compiled] == list(range(exe.report().kernels + 1))
    assert compiled[0].total == exe.report().kernels >= 3


def test_loading_tells_too(tmp_path: Path) -> None:
    exe = Session().compile(PROGRAM, weights=weights())
    exe.save(tmp_path / "p.fuel")
    heard: list[Progress] = []
    Session(progress=heard.append).load(tmp_path / "p.fuel", weights=weights())
    check(heard)
    assert "load weights" in {p.stage for p in heard}
    assert "optimise" not in {p.stage for p in heard}


def test_each_thread_hears_its_own_session() -> None:
    heard: list[list[Progress]] = [[], [], []]

    def work(own: list[Progress]) -> None:
        Session(progress=own.append).compile(PROGRAM, weights=weights())

    threads = [threading.Thread(target=work, args=(own,)) for own in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard[0] == heard[1] == heard[2] != []


def test_a_listener_that_raises_ends_compiling_and_the_module_is_as_it_was() -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    graph = fuel.Graph()
    module = graph.build(graph.input((2,), "f32", name="x").sin())
    text = str(module)
    with pytest.raises(KeyboardInterrupt):
        Session(progress=stop).compile(module)
    assert str(module) == text
    Session().compile(module)
    with pytest.raises(ArgumentError, match="session: progress is a function, not 'yes'"):
        Session(progress="yes")  # pyright: ignore[reportArgumentType]


def test_steps_without_a_listener_are_the_items_themselves() -> None:
    items = [1, 2]
    assert steps("s", items, 2) is items
    heard: list[Progress] = []
    with listening(heard.append):
        assert list(steps("s", [], 0, str)) == []
        assert list(steps("s", iter("ab"), 2)) == ["a", "b"]
        assert list(steps("t", "ab", 2, str)) == ["a", "b"]
    assert list(map(str, heard)) == [
        "s, 0 of 2",
        "s, 1 of 2",
        "s, 2 of 2",
        "t, 0 of 2: a",
        "t, 1 of 2: b",
        "t, 2 of 2",
    ]


# The terminal.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_drawn_over_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream, now = Terminal(), [0.0]
    line = ProgressLine(stream, lambda: now[0])
    line(Progress("lower", 0, 900, "run0"))
    line(Progress("lower", 1, 900, "run1"))  # a moment later: not drawn
    now[0] = 1.0
    line(Progress("lower", 2, 900, "a name that is far too long"))
    line(Progress("load weights", 0, 1))
    line.erase()
    line.erase()
    assert stream.getvalue().split(ERASE) == [
        "",
        "fuel-run: lower, 0 of 900: ru"[:29],
        "fuel-run: lower, 2 of 900: a "[:29],
        "fuel-run: load weights, 0 of "[:29],
        "",
    ]


@pytest.mark.parametrize(
    ("is_wanted", "stream", "term", "is_shown"),
    [
        (True, Terminal(), "xterm", True),
        (False, Terminal(), "xterm", False),
        (True, Terminal(), "dumb", False),
        (True, io.StringIO(), "xterm", False),
        (True, None, "xterm", False),
    ],
)
def test_only_a_terminal_is_shown_progress(
    monkeypatch: pytest.MonkeyPatch, is_wanted: bool, stream: Any, term: str, is_shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with shown(is_wanted, {"TERM": term}) as listener:
        assert (listener is not None) == is_shown


def test_fuel_run_shows_it_and_prints_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    printed: list[str] = []
    for quiet in ([], ["--quiet"]):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main([str(EXAMPLES / "mlp.mlir"), "--random", "0", *quiet]) == 0
        printed.append(capsys.readouterr().out)
        drawn = terminal.getvalue()
        if quiet:
            assert drawn == ""
        else:
            assert f"{ERASE}fuel-run: optimise, 0 of " in drawn
            assert f"{ERASE}fuel-run: lower, 0 of 1: run0" in drawn
            assert drawn.endswith(ERASE)
    assert printed[0] == printed[1]


def test_an_error_stands_in_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main([str(EXAMPLES / "mlp.mlir"), "--entry", "none"]) == 2
    assert (
        main([str(EXAMPLES / "transformer_block.mlir"), "--random", "0", "--memory", "cpu=1KiB"])
        == 2
    )
    last = terminal.getvalue().split(ERASE)[-1]
    assert last.startswith("fuel-run: error: main: not enough memory")
