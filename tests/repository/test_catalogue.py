# SPDX-License-Identifier: MIT OR Apache-2.0
"""`docs/catalogue.md`: every entry has its test, or says what it waits for."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "catalogue.md").read_text()
SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!## ).*\n)*)", re.MULTILINE)
FILE = re.compile(r"`(tests/[\w/]+\.py)`")
ROW = re.compile(
    r"^\| (?P<entry>[XH]-\d+|\d+) \| (?P<test>[^|]*) \| ?(?P<note>[^|]*)\|$", re.MULTILINE
)
COUNTS = {
    "Planner tests": 50,
    "Run tests": 16,
    "Optimiser tests": 26,
    "Route picker tests": 9,
    "Defects of the planner and of runs": 25,
    "Hazards of the optimiser and the picker": 22,
}
SECTIONS = {m["title"]: m["body"] for m in SECTION.finditer(PAGE)}


def test_no_entry_is_left_out():
    for title, count in COUNTS.items():
        entries = [row["entry"].removeprefix("X-").removeprefix("H-") for row in rows(title)]
        assert entries == [str(n) for n in range(1, count + 1)], title
    assert list(SECTIONS) == list(COUNTS)


def test_each_entry_has_a_test_or_waits():
    for title, body in SECTIONS.items():
        there = "".join((ROOT / name).read_text() for name in FILE.findall(body))
        for row in rows(title):
            test = row["test"].strip("`")
            if not row["test"].startswith("`"):
                assert "waits for" in row["note"], f"{title}, {row['entry']}"
            else:
                assert f"def {test}(" in there, f"{title}, {row['entry']}: {test}"


def rows(title: str) -> list[re.Match[str]]:
    return list(ROW.finditer(SECTIONS[title]))
