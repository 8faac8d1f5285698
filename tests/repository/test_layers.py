# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each layer imports only what stands above it, also inside functions and type-checking blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LAYERS = {
    "fuel_dialect": ROOT / "fuel_dialect",
    "fuel_passes": ROOT / "passes" / "fuel_passes",
    "fuel_explain": ROOT / "passes" / "fuel_explain",
    "fuel_lowering": ROOT / "lowering" / "fuel_lowering",
    "fuel_runtime": ROOT / "runtime" / "fuel_runtime",
}
"""Top to bottom. `universe.py` needs no exemption: it names what stands below it by string."""


def imports_of(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level package of each import statement, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def upward_imports(layer: str, source: str) -> list[tuple[int, str]]:
    """The imports that a file of `layer` may not have."""
    order = list(LAYERS)
    below = set(order[order.index(layer) + 1 :])
    return [(line, package) for line, package in imports_of(source) if package in below]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_from_above(layer: str) -> None:
    files = sorted(LAYERS[layer].rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {package}"
        for path in files
        for line, package in upward_imports(layer, path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_relative_imports_and_no_test_code(layer: str) -> None:
    own = {"tests", "benchmarks", "examples"}
    for path in LAYERS[layer].rglob("*.py"):
        tree = ast.parse(path.read_text())
        relative = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
        assert relative == [], path
        assert own.isdisjoint(package for _, package in imports_of(path.read_text())), path


ACYCLIC = tuple(LAYERS)
"""The layers whose files import one another in no circle."""


def files_of(layer: str) -> dict[str, Path]:
    """The files of a layer by the name of their module."""
    root = LAYERS[layer]
    names = {
        path: (layer, *path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")
    }
    return {".".join(n for n in parts if n != "__init__"): path for path, parts in names.items()}


def modules_imported(source: str, known: AbstractSet[str]) -> set[str]:
    """The modules among `known` that a file names in import statements, wherever they stand."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def circles(arrows: Mapping[str, AbstractSet[str]]) -> list[str]:
    """The modules that a chain of imports leads back to, after all others are peeled off."""
    left = dict(arrows)
    while leaves := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in leaves:
            del left[name]
    return sorted(left)


@pytest.mark.parametrize("layer", ACYCLIC)
def test_no_circle_of_files(layer: str) -> None:
    files = files_of(layer)
    arrows = {
        name: modules_imported(path.read_text(), files.keys()) - {name}
        for name, path in files.items()
    }
    assert len(files) > 1
    assert circles(arrows) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_file_imports_a_name_from_its_own_package(layer: str) -> None:
    """The name table of a package is for its users: inside, a name has one home."""
    known = files_of(layer)
    for name, path in known.items():
        if name != layer:
            assert layer not in modules_imported(path.read_text(), known.keys()), path


def test_a_circle_is_seen_and_what_leads_to_it_is_named_with_it() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_the_check_sees_lazy_and_type_checking_imports() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    import fuel_runtime.compile.session\n"
        "def f():\n"
        "    from fuel_lowering.numpy import lower\n"
        "    from fuel_dialect import dtypes\n"
    )
    assert upward_imports("fuel_passes", source) == [(3, "fuel_runtime"), (5, "fuel_lowering")]
    assert upward_imports("fuel_runtime", source) == []
