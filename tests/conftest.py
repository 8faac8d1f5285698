# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Defines what all tests share: markers, hypothesis profiles, golden files, and the summary.

A test that needs a device carries its marker; where the device is missing it is skipped, and the
summary says how many were, by marker, and why. No other skip is used. The summary also says what
`-m` left out, and which command runs that (see `effort`).
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile(
    "fuel", derandomize=True, deadline=None, print_blob=True, database=None, max_examples=50
)
FUEL = settings.get_profile("fuel")
settings.register_profile("quick", parent=FUEL, max_examples=15)
settings.register_profile("long", parent=FUEL, max_examples=150)
settings.register_profile("thorough", parent=FUEL, derandomize=False, max_examples=1000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fuel")
settings.load_profile(PROFILE)


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
"""Each marker, and a function that says why this machine lacks what it names, or gives None."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files that differ"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, lacking in NEEDS.items():
            if item.get_closest_marker(marker) is not None and (why := lacking()):
                item.add_marker(pytest.mark.skip(reason=f"{marker}: {why}"))


def pytest_collection_finish() -> None:
    """Collect garbage rarely: modules of IR are many small objects, and memory is not short."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""Counts the tests that `-m` left out: those that are slow, and others."""


def pytest_deselected(items: list[pytest.Item]) -> None:
    slow = sum(item.get_closest_marker("slow") is not None for item in items)
    items[0].config.stash[LEFT_OUT] = {"slow": slow, "others": len(items) - slow}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of xdist: tell the process that prints the summary."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker told; each worker collects all tests, so all tell the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def _left_out(config: pytest.Config) -> Iterator[str]:
    """The lines on what `-m` left out. What `-k` leaves out needs no line."""
    counts = config.stash.get(LEFT_OUT, {}) if config.option.markexpr else {}
    if counts.get("slow"):
        yield f"left out: {counts['slow']} tests marked slow; `make test-all` runs them"
    if counts.get("others"):
        yield f"left out: {counts['others']} tests that are not slow; `make test` runs them"
    if PROFILE == "quick":
        yield "drawn: few examples of each property; `make test-all` draws ten times as many"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(name for report in skipped for name in NEEDS if name in report.keywords)
    found = ", ".join(f"{name} {counts[name]}" for name in NEEDS)
    terminalreporter.write_line(f"skipped for missing hardware: {found}")
    for name in counts:
        terminalreporter.write_line(f"{name}: {NEEDS[name]()}")
    for line in _left_out(terminalreporter.config):
        terminalreporter.write_line(line)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """
    Returns a function that compares a text with a file: `golden(path, text)`.

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
