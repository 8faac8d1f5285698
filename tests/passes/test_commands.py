# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests what all commands do alike: readers that go away, full disks, places of files, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuel_dialect.errors import ProgramError
from fuel_explain.command import main as explain
from fuel_passes.commands import check_place, run_command
from fuel_runtime.measurement_store import MeasurementStore
from fuel_runtime.measurements_cli import main as measurements

MLP = str(Path(__file__).parents[2] / "examples" / "mlp.mlir")
COMMANDS = (
    ("fuel_explain.command", MLP),
    ("fuel_runtime.probe", "--typical"),
    ("fuel_runtime.cli.main", MLP, "--random", "0"),
)
RUN = "import importlib, sys; sys.exit(importlib.import_module(sys.argv.pop(1)).main())"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_goes_away_is_no_error(command: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_is_full_is_one_line(command: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", RUN, *command], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert "error: [Errno 28] No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_lines_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("it", lambda: ["a", "b"]) == 0
    assert capsys.readouterr() == ("a\nb\n", "")

    def fails() -> list[str]:
        raise ProgramError("first\nsecond")

    assert run_command("it", fails) == 2
    assert capsys.readouterr() == ("", "it: error: first\n")

    def missing() -> list[str]:
        raise FileNotFoundError(2, "No such file or directory", "x.mlir")

    assert run_command("it", missing) == 2
    assert capsys.readouterr() == ("", "it: error: x.mlir: No such file or directory\n")


def test_no_output_takes_the_place_of_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = Path(MLP).read_text()
    Path("p.mlir").write_text(text)
    for given, sentence in (
        (("--svg", "./p.mlir"), "--svg ./p.mlir would write over the program"),
        (("--html", "p.mlir"), "--html p.mlir would write over the program"),
        (("--svg", "a", "--html", "a"), "--html a would write over --svg"),
    ):
        assert explain(["p.mlir", *given]) == 2
        assert capsys.readouterr() == ("", f"fuel-explain: error: {sentence}\n")
    MeasurementStore("t.db")
    assert measurements(["export", "t.db", "--out", "t.db"]) == 2
    assert "--out t.db would write over the store" in capsys.readouterr().err
    assert (Path("p.mlir").read_text(), len(MeasurementStore("t.db").rows())) == (text, 0)
    assert sorted(os.listdir()) == ["p.mlir", "t.db"]


def test_places_of_files(tmp_path: Path) -> None:
    check_place(tmp_path / "new")
    (tmp_path / "old").touch()
    check_place(tmp_path / "old")
    for path, error in (
        (tmp_path, IsADirectoryError),
        (tmp_path / "none" / "x", FileNotFoundError),
        (tmp_path / "old" / "x", NotADirectoryError),
        ("", FileNotFoundError),
    ):
        with pytest.raises(error) as caught:
            check_place(path)
        assert caught.value.filename == os.fspath(path)
