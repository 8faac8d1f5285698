# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Describes the targets, one module each, as pure data: `registry` finds the modules by themselves.

Imports nothing, so that `fuel_dialect.universe` can ask for the names.
"""

from __future__ import annotations

import os

SHARED = frozenset({"description", "limits", "machine", "op_sets", "presets", "registry"})
"""The modules of this package that describe no target."""


def own_names() -> tuple[str, ...]:
    """Returns the names of the targets of fuel: a module `NAME` of this package describes each."""
    files = (os.path.splitext(file) for file in os.listdir(__path__[0]))
    names = (name for name, ending in files if ending == ".py" and name != "__init__")
    return tuple(sorted(name for name in names if name not in SHARED))
