# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What all tests share: markers for missing hardware, the hypothesis profile, golden files.

A test that needs a device carries its marker; where the device is missing it is skipped, and the
summary says how many were, by marker, and why. No other skip is used.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
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


def _no_cuda() -> str | None:
    if find_spec("cupy") is None:
        return "the package cupy is not installed (extra 'cuda')"
    return None if Path("/dev/nvidiactl").exists() else "there is no NVIDIA GPU"


def _no_vulkan() -> str | None:
    from fuel_dialect.attributes import DeviceAttr
    from fuel_dialect.errors import DeviceUnavailable
    from fuel_runtime.devices.vulkan.driver import open_vulkan

    try:
        open_vulkan(DeviceAttr.of("vulkan:0")).close()
    except DeviceUnavailable as error:
        return str(error)
    return None


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "needs_cuda": cache(_no_cuda),
    "needs_vulkan": cache(_no_vulkan),
}
"""Each marker, and why this machine lacks what it names; None if it is there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files that differ"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, lacking in NEEDS.items():
            if item.get_closest_marker(marker) is not None and (why := lacking()):
                item.add_marker(pytest.mark.skip(reason=f"{marker}: {why}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(name for report in skipped for name in NEEDS if name in report.keywords)
    found = ", ".join(f"{name} {counts[name]}" for name in NEEDS)
    terminalreporter.write_line(f"skipped for missing hardware: {found}")
    for name in counts:
        terminalreporter.write_line(f"{name}: {NEEDS[name]()}")


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
