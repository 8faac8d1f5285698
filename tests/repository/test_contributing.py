# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Tests the table "Places to touch" of CONTRIBUTING.md, and the language of docstrings.

A row names an example that is in the tree. No source file outside the row's places may name that
example in its code; so an op that is added as the example was needs no other place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for layer in ("fuel_dialect", "passes", "lowering", "runtime", "tests/plugin_package/acme_fuel")
    for path in (ROOT / layer).rglob("*.py")
)
ROW = re.compile(r"^\| (?P<what>an? [^|]+) \| (?P<count>\d+) \| `(?P<as>\w+)` \| (?P<where>.+) \|$")
PLACE = re.compile(r"`([\w./]+)`")
ROWS = [
    match
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    if (match := ROW.match(line))
]


@cache
def named_in(path: Path) -> frozenset[str]:
    """Returns the identifiers, attributes and strings of a file, but for its docstrings."""
    return frozenset(_named_in(path))


def _named_in(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield from re.findall(r"\w+", node.value)


def places_of(example: str) -> set[str]:
    """Returns the files whose code names an op or a target: `gather`, `_gather` or `GatherOp`."""
    class_name = "".join(part.capitalize() for part in example.split("_")) + "Op"
    forms = {example, f"_{example}", class_name}
    return {str(path.relative_to(ROOT)) for path in SOURCES if not forms.isdisjoint(named_in(path))}


def test_the_table_has_its_rows():
    assert [row["what"].split(maxsplit=1)[1] for row in ROWS] == [
        "elementwise op",
        "op that moves elements",
        "kernel kind of a package",
        "target",
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["as"])
def test_nothing_else_names_the_example(row: re.Match[str]):
    places = PLACE.findall(row["where"])
    assert len(places) == int(row["count"])
    for place in places:
        assert (ROOT / place).exists(), place
    found = places_of(row["as"])
    assert found
    assert {path for path in found if not path.startswith(tuple(places))} == set()


OPENINGS = ("What", "Whether", "Where", "How", "Which", "Why")
CLEAN = (
    "fuel_dialect",
    "passes",
    "lowering",
    "runtime",
    "tests",
    "benchmarks",
    "docs",
    "examples",
)
"""The folders whose docstrings all say who does what."""


@pytest.mark.parametrize("folder", CLEAN)
def test_no_docstring_opens_with_a_question(folder: str):
    opening = re.compile(rf'"""\s*({"|".join(OPENINGS)})\b')
    found = [
        f"{path.relative_to(ROOT)}: {match[0]!r}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in opening.finditer(path.read_text())
        if path != Path(__file__)
    ]
    assert found == []
