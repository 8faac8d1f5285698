# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every file of our own says under which licence it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = "SPDX-License-Identifier: MIT OR Apache-2.0"
SUFFIXES = {".py", ".mlir", ".md", ".toml", ".yml", ".cfg", ".sh"}
NAMES = {"Makefile", "run", ".gitignore"}
GENERATED = {"golden", "results"}
"""Folders of output that is kept to be compared, byte by byte."""


def own_files() -> list[Path]:
    """Tracked files and files about to be, without what git ignores."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def is_source(path: Path) -> bool:
    generated = GENERATED & set(path.relative_to(ROOT).parts[:-1])
    return not generated and (path.suffix in SUFFIXES or path.name in NAMES)


def test_every_source_file_has_the_line() -> None:
    sources = [path for path in own_files() if is_source(path)]
    assert len(sources) > 40
    lacking = [
        str(path.relative_to(ROOT))
        for path in sources
        if LINE not in "".join(path.read_text().splitlines(keepends=True)[:3])
    ]
    assert lacking == []


def test_both_licences_are_whole() -> None:
    mit = (ROOT / "LICENSE-MIT").read_text()
    apache = (ROOT / "LICENSE-APACHE").read_text()
    assert "The fuel authors" in mit
    assert "WITHOUT WARRANTY OF ANY KIND" in mit
    assert "The fuel authors" in apache
    assert "END OF TERMS AND CONDITIONS" in apache


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    marks = ["/" + "work/", "/" + "root/", "index" + "-url", "pypi" + ".org"]
    found = [
        (str(path.relative_to(ROOT)), mark)
        for path in own_files()
        if is_source(path)
        for mark in marks
        if mark in path.read_text()
    ]
    assert found == []
