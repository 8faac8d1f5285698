# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What all tests share: markers for missing hardware, the hypothesis profile, golden files.

A test that needs a device carries its marker; where the device is missing it is skipped, and the
summary says how many were, by marker. No other skip is used.
"""

from __future__ import annotations

import ctypes.util
import os
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "fuel", derandomize=True, deadline=None, print_blob=True, database=None, max_examples=50
)
settings.register_profile(
    "thorough", parent=settings.get_profile("fuel"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fuel"))


def _has_cuda() -> bool:
    return Path("/dev/nvidiactl").exists() and find_spec("cupy") is not None


def _has_vulkan() -> bool:
    return ctypes.util.find_library("vulkan") is not None and find_spec("kp") is not None


NEEDS: Mapping[str, Callable[[], bool]] = {"needs_cuda": _has_cuda, "needs_vulkan": _has_vulkan}
"""Each marker, and whether this machine has what it names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files that differ"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [marker for marker, present in NEEDS.items() if not present()]
    for item in items:
        for marker in missing:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{marker}: not on this machine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(name for report in skipped for name in NEEDS if name in report.keywords)
    found = ", ".join(f"{name} {counts[name]}" for name in NEEDS)
    terminalreporter.write_line(f"skipped for missing hardware: {found}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """
    Compare a text with a file: `golden(path, text)`.

    With `--update-golden` the file is written instead.
    """
    update = bool(request.config.getoption("--update-golden"))

    def check(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        expected = path.read_text() if path.exists() else ""
        assert text == expected, f"{path.name} differs; see what changed with --update-golden"

    return check
