# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each layer imports only what stands above it, also inside functions and type-checking blocks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

import pytest

from import_graph import (
    arrows,
    attributes_read,
    circles,
    imports_of,
    modules_of,
    names_defined,
    names_imported,
    parse,
)

ROOT = Path(__file__).resolve().parents[2]

LAYERS = {
    "fuel_dialect": ROOT / "fuel_dialect",
    "fuel_passes": ROOT / "passes" / "fuel_passes",
    "fuel_explain": ROOT / "passes" / "fuel_explain",
    "fuel_lowering": ROOT / "lowering" / "fuel_lowering",
    "fuel_runtime": ROOT / "runtime" / "fuel_runtime",
}
"""Top to bottom. `universe.py` needs no exemption: it names what stands below it by string."""


def upward_imports(layer: str, source: str) -> list[tuple[int, str]]:
    """Returns the imports that a file of `layer` may not have."""
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
        tree = parse(path.read_text())
        relative = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
        assert relative == [], path
        assert own.isdisjoint(package for _, package in imports_of(path.read_text())), path


def scripts() -> dict[str, list[Path]]:
    """Returns the files that import one another without a package, and the plug-in of the tests."""
    found = modules_of("acme_fuel", ROOT / "tests" / "plugin_package" / "acme_fuel")
    for path in (*ROOT.glob("tests/*.py"), *ROOT.glob("docs/*.py"), *ROOT.glob("examples/*.py")):
        found.setdefault(path.stem, []).append(path)
    for path in (*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tests/*/test_*.py")):
        found.setdefault(path.stem, []).append(path)
    return found


MODULES = {layer: modules_of(layer, root) for layer, root in LAYERS.items()}
GROUPS = {**MODULES, "scripts": scripts()}
"""Files that may import one another, by the name of their module."""


@pytest.mark.parametrize("group", GROUPS)
def test_no_circle_of_files(group: str) -> None:
    assert len(GROUPS[group]) > 1
    assert circles(arrows(GROUPS[group])) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_file_imports_a_name_from_its_own_package(layer: str) -> None:
    """The name table of a package is for its users: inside, a name has one home."""
    for name, imported in arrows(MODULES[layer]).items():
        assert name == layer or layer not in imported, name


def home_of_names() -> dict[str, set[str]]:
    """Returns the names that each module of the layers defines, but for `__init__`."""
    return {
        name: set[str]().union(*(names_defined(path.read_text()) for path in paths))
        for modules in MODULES.values()
        for name, paths in modules.items()
        if paths[0].stem != "__init__"
    }


DEFINED = home_of_names()


def borrowed(taken: Iterable[tuple[str, str]], defined: Mapping[str, AbstractSet[str]]) -> set[str]:
    """Returns the names that are taken from a module that does not define them."""
    return {f"{module}.{name}" for module, name in taken if name not in defined[module]}


@pytest.mark.parametrize("group", GROUPS)
def test_a_name_is_taken_from_the_module_that_defines_it(group: str) -> None:
    """Only the `__init__` of a package gives names of other modules."""
    for paths in GROUPS[group].values():
        for path in paths:
            source = path.read_text()
            assert borrowed(names_imported(source, DEFINED.keys()), DEFINED) == set(), path
            if group in LAYERS:
                assert borrowed(attributes_read(source, DEFINED.keys()), DEFINED) == set(), path


def test_a_borrowed_name_is_seen() -> None:
    defined = {"a.b": {"x"}, "a.c": {"y"}}
    names = partial(names_imported, modules=defined.keys())
    attributes = partial(attributes_read, modules=defined.keys())
    assert borrowed(names("from a.b import x\nfrom a import c"), defined) == set()
    assert borrowed(names("from a.b import y"), defined) == {"a.b.y"}
    assert borrowed(attributes("from a import c\nc.y"), defined) == set()
    assert borrowed(attributes("from a import b as other\nother.y(1)"), defined) == {"a.b.y"}


def test_the_names_of_a_module_are_those_that_it_binds() -> None:
    source = "from m import q\nif q:\n    x, y = 1, 2\nz: int = 0\ndef f(): w = 1\nclass C: a = 1"
    assert names_defined(source) == {"x", "y", "z", "f", "C"}


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
