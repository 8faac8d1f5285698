# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Finds the descriptions of targets: the modules of this package, and the entry points of others.

No other file lists targets or kinds of devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import cast

from fuel_dialect import plugins
from fuel_dialect.attributes import HOST
from fuel_dialect.targets import own_names
from fuel_dialect.targets.description import TargetDescription

Registry = Mapping[str, TargetDescription]
"""Descriptions by the name of their target."""


def backends() -> tuple[str, ...]:
    """Returns the names of all targets that are described, those of other packages last."""
    return (*own_names(), *(plugin.name for plugin in plugins.found(plugins.TARGETS)))


@cache
def description_of(backend: str) -> TargetDescription | None:
    """
    Returns the description of a target by name, or None if there is none.

    Raises `PluginError` for an entry point that names no description of its name.
    """
    if backend not in own_names():
        return plugins.described(plugins.TARGETS, backend, TargetDescription)
    return cast(TargetDescription, import_module(f"{__package__}.{backend}").DESCRIPTION)


def registered() -> Registry:
    """Returns all descriptions by name."""
    return {name: d for name in backends() if (d := description_of(name)) is not None}


def serving(kind: str, registry: Registry | None = None) -> tuple[TargetDescription, ...]:
    """Returns the targets that run on a kind of device, its default first, then by name."""
    known = registered() if registry is None else registry
    found = [description for description in known.values() if kind in description.runs_on]
    return tuple(sorted(found, key=lambda d: (not d.is_default, d.name)))


def kinds(registry: Registry | None = None) -> tuple[str, ...]:
    """Returns the kinds of devices that some target runs on, the host first, then by name."""
    known = registered() if registry is None else registry
    found = {kind for description in known.values() for kind in description.runs_on}
    return tuple(sorted(found, key=lambda kind: (kind != HOST, kind)))


def default_backend(kind: str) -> str | None:
    """
    Returns the name of the target of a kind of device where a program names none, or None.

    It is one of fuel's own, so that a program means the same whatever packages are installed.
    """
    own = (description_of(name) for name in own_names())
    return next((d.name for d in own if d and d.is_default and kind in d.runs_on), None)


def shades_of(target: str) -> tuple[str, ...]:
    """Returns the colours for `cuda:0` or `cuda:0/triton`, by number; () for what is unknown."""
    device, _, backend = target.partition("/")
    description = description_of(backend or default_backend(device.partition(":")[0]) or "")
    return () if description is None else description.shades
