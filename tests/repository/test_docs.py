# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tests that the pages are true: runnable blocks print what they show, named files exist.

A fenced block is runnable when the word `run` follows its language:

- `python run`: a program; its output is the next block, which is marked `text output`.
- `console run`: lines that begin with `$ ` are commands, the lines after each are its output.
- `mlir save=NAME`: not run, but saved under that name for the blocks after it on the page.

They run in a folder where `examples/` is that of the repository, and `plugin_package/` that of its
tests. Outputs agree if they differ in
trailing digits, threads and bytes alone. `pytest --update-golden` writes what is printed into the
page.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from effort import SLOW
from fuel_dialect.universe import FUEL_UNIVERSE, PASSES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "*/README.md")
    for page in ROOT.glob(pattern)
    if not page.parent.name.startswith(".")
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)(?P<path>[^)#\s]+)")
NAMED = re.compile(
    r"`(?P<path>(?:tests|filecheck|examples|benchmarks|docs)/[\w./-]+)(?:::(?P<test>\w+))?`"
)
OF_THE_MACHINE = re.compile(r"[\d,]+(?= (?:threads?|bytes)\b)")
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page, and where its body starts in the text."""

    info: tuple[str, ...]
    body: str
    start: int


@dataclass(frozen=True)
class Step:
    """A command, what the page shows as its output, and where that starts in the text."""

    command: tuple[str, ...]
    shown: str
    start: int


def blocks_of(text: str) -> list[Block]:
    return [
        Block(tuple(m["info"].split()), m["body"], m.start("body")) for m in FENCE.finditer(text)
    ]


def steps_of(blocks: list[Block]) -> Iterator[Step]:
    """The commands of the runnable blocks, in order."""
    for block, following in pairwise([*blocks, Block((), "", 0)]):
        if block.info == ("python", "run"):
            assert following.info == ("text", "output"), f"no output is shown for\n{block.body}"
            yield Step((sys.executable, "-c", block.body), following.body, following.start)
        elif block.info == ("console", "run"):
            for m in COMMAND.finditer(block.body):
                command = ("bash", "-o", "pipefail", "-c", m["command"])
                yield Step(command, m["shown"], block.start + m.start("shown"))


def run(step: Step, folder: Path) -> str:
    """Both outputs of a command, run with the tools of this environment first on the path."""
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": tools + os.pathsep + os.environ.get("PATH", "")}
    done = subprocess.run(
        step.command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "".join(f"{line}\n" for line in lines).rstrip("\n") + "\n" if any(lines) else ""


def matches(shown: str, printed: str) -> bool:
    def essence(text: str) -> str:
        return FLOAT.sub(lambda m: f"{float(m[0]):.3g}", OF_THE_MACHINE.sub("#", text))

    return essence(shown) == essence(printed)


def prepare(folder: Path, blocks: list[Block]) -> None:
    """Put the files there that the commands of a page read."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "plugin_package").symlink_to(ROOT / "tests" / "plugin_package")
    for block in blocks:
        for word in block.info:
            if word.startswith("save="):
                (folder / word.removeprefix("save=")).write_text(block.body)


def corrected(text: str, wrong: list[tuple[Step, str]]) -> str:
    """A page with what was printed in place of what it shows."""
    for step, printed in reversed(wrong):
        text = text[: step.start] + printed + text[step.start + len(step.shown) :]
    return text


LONG = {"plugins.md", "devices.md", "tracing.md", "memory.md"}
"""The pages whose commands take longest."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=SLOW if page.name in LONG else ()) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_runnable_blocks_print_what_they_show(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = page.read_text()
    blocks = blocks_of(text)
    prepare(tmp_path, blocks)
    results = [(step, run(step, tmp_path)) for step in steps_of(blocks)]
    wrong = [(step, printed) for step, printed in results if not matches(step.shown, printed)]
    if wrong and request.config.getoption("--update-golden"):
        page.write_text(corrected(text, wrong))
        return
    assert not wrong, "\n".join(f"{step.command[-1]}\nprinted:\n{out}" for step, out in wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_and_tests_exist(page: Path) -> None:
    text = page.read_text()
    linked = [page.parent / m["path"] for m in LINK.finditer(text)]
    named = [ROOT / m["path"] for m in NAMED.finditer(text)]
    assert [str(path) for path in (*linked, *named) if not path.exists()] == []
    tests = [(ROOT / m["path"], m["test"]) for m in NAMED.finditer(text) if m["test"]]
    assert [test for path, test in tests if f"def {test}(" not in path.read_text()] == []


@pytest.mark.parametrize("page", ["ops", "passes"])
def test_the_generated_pages_are_fresh(page: str) -> None:
    script = runpy.run_path(str(ROOT / "docs" / f"make_{page}.py"))
    assert (ROOT / "docs" / f"{page}.md").read_text() == script["render"](), "run `make golden`"


@pytest.mark.parametrize("stub", ["op_methods", "numpy_methods"])
def test_the_generated_stubs_are_fresh(stub: str) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_stubs.py"))
    text = (ROOT / "fuel_dialect" / "builder" / f"{stub}.pyi").read_text()
    assert text == script["render"](stub), "run `make golden`"


@pytest.mark.parametrize("name", PASSES)
def test_the_docstring_of_a_pass_names_every_option(name: str) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_passes.py"))
    found = FUEL_UNIVERSE.all_passes[name]()
    for option, values, _ in script["options"](found):
        assert re.search(rf"`{option}[=`]", found.__doc__ or ""), option
        assert values


def test_the_runner_sees_a_difference(tmp_path: Path) -> None:
    page = (
        "```console run\n$ echo a; echo b\na\nb\n$ echo 1.25003, 4 threads\n1.25, 2 threads\n```\n"
        "```python run\nprint(6 * 7)\n```\n```text output\n42\n```\n"
        "```python\nraise SystemExit\n```\n"
    )
    steps = list(steps_of(blocks_of(page)))
    assert [page[s.start :].startswith(s.shown) for s in steps] == [True, True, True]
    assert [matches(s.shown, run(s, tmp_path)) for s in steps] == [True, True, True]
    assert corrected(page, [(steps[2], "43\n")]) == page.replace("42\n", "43\n")
    assert not matches("41\n", run(steps[2], tmp_path))
    assert not matches("1.26\n", "1.25\n")
