# SPDX-License-Identifier: MIT OR Apache-2.0
"""The example that is driven off its device three times, and comes back."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import live_switching
import pytest


def test_it_moves_and_comes_back_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert live_switching.main() == 0
    assert "moved and came back once each" in capsys.readouterr().out


def test_the_trace_shows_it(tmp_path: Path) -> None:
    assert live_switching.main(str(tmp_path / "t.json")) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    arms = [e["args"]["arm"] for e in events if e.get("cat") == "pick"]
    assert [arm for arm, _ in groupby(arms)] == [0, 1, 0, 1, 0, 1, 0]
    (fault,) = (e for e in events if e.get("cat") == "fault")
    assert fault["args"]["error"].endswith("injected")
    calls = [e for e in events if e.get("cat") == "call"]
    assert len(calls) == 21
    assert all("error" not in e["args"] for e in calls)
    failed = [e for e in events if e.get("cat") == "run" and "error" in e["args"]]
    assert len(failed) == 1
    devices = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(devices) == 3  # the calls, the CPU, and the other device
