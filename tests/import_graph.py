# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads from source files what they import from one another, and what they define."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

parse = cache(ast.parse)

walk = cache(lambda source: tuple(ast.walk(parse(source))))
"""Returns all nodes of a source text."""


def imports_of(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and top-level package of each import statement, wherever it stands."""
    for node in walk(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def modules_of(package: str, root: Path) -> dict[str, list[Path]]:
    """Returns the files of a package by the name of their module, each with its stub if any."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*.py*")):
        if path.suffix in (".py", ".pyi"):
            parts = (package, *path.relative_to(root).with_suffix("").parts)
            name = ".".join(part for part in parts if part != "__init__")
            found.setdefault(name, []).append(path)
    return found


def modules_imported(source: str, known: AbstractSet[str]) -> set[str]:
    """Returns the modules among `known` that import statements name, wherever they stand."""
    found: set[str] = set()
    for node in walk(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def arrows(modules: Mapping[str, Sequence[Path]]) -> dict[str, set[str]]:
    """Returns the other modules that each one imports."""
    found: dict[str, set[str]] = {}
    for name, paths in modules.items():
        imported = (modules_imported(path.read_text(), modules.keys()) for path in paths)
        found[name] = set[str]().union(*imported) - {name}
    return found


def circles(arrows: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Returns the modules that a chain of imports leads back to, once all others are peeled off."""
    left = dict(arrows)
    while leaves := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in leaves:
            del left[name]
    return sorted(left)


def names_defined(source: str) -> set[str]:
    """Returns the names that a module assigns or defines, under `if` and `try` as well."""
    found: set[str] = set()
    pending: list[ast.AST] = list(parse(source).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            pending += ast.iter_child_nodes(node)
    return found


def names_imported(source: str, modules: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    """Yields module and name of each name that a file imports from one of `modules`."""
    for node in walk(source):
        if isinstance(node, ast.ImportFrom) and node.module and node.module in modules:
            for alias in node.names:
                if f"{node.module}.{alias.name}" not in modules:
                    yield node.module, alias.name


def attributes_read(source: str, modules: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    """Yields module and name of each attribute that a file reads of one of `modules`."""
    known: dict[str, str] = {}
    for node in walk(source):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.asname or alias.name: alias.name for alias in node.names}
            known |= {name: f"{node.module}.{module}" for name, module in inner.items()}
    for node in walk(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id, "")
            if module in modules and not node.attr.startswith("__"):
                yield module, node.attr
