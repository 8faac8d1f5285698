# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The options of `fuel-optimize` where they are not written in a pipeline: flags, and of a session.

Names, types and defaults are those of the fields of `OptimizePass`; the table here says the rest.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from fuel_passes.pipeline import OptimizePass

MOST_DIGITS = 100
"""Of a number on a command line."""

HELP: Mapping[str, tuple[str, str]] = {
    "variants": ("", "keep: every way to compute something stays an arm; bake: the near ones"),
    "granularity": ("", "chain: runs are cut at every fan-in and fan-out; segment: they are not"),
    "topology": ("NAME", "the machine to plan for: a preset, or a file that ends in .json"),
    "precision": ("", "exact: refuse a program that would need dtype promotion; fast: promote"),
    "device": ("NAME", "pin every kernel that it can run to this device"),
    "place": (
        "NAME=DEVICE",
        "run an op (matmul), what gives a value, the arms of a decision (d0), or a kernel there; "
        "may be repeated",
    ),
    "deterministic": ("", "only kernels that give the same bits each time"),
    "max_ulps": ("N", "only kernels at most N units in the last place off"),
    "measurements": ("FILE", "a .json file of times that replace prices of the model"),
    "reach": ("R", "other devices become arms that take at most R times as long"),
    "refuge": ("F", "and those that are roomier where work fills more than F of a device"),
    "prepare_bytes": (
        "N",
        "what weights alone decide is computed once if it takes N bytes at most; 0: in each call",
    ),
    "plugins": ("", "leave out passes, patterns and selectors of other packages"),
}
"""For each option what stands for its value in a usage line, and what it does, said of the flag."""


Kind = type | tuple[str, ...]
"""A type, or the words to choose from."""


@cache
def kinds() -> Mapping[str, Kind]:
    """Maps each option to the type or the words that it takes."""
    hints = get_type_hints(OptimizePass)
    return {f.name: _kind(hints[f.name]) for f in dataclasses.fields(OptimizePass)}


def _kind(hint: Any) -> Kind:
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is tuple:
        return tuple
    if get_origin(hint) in (Union, UnionType):
        members = [member for member in get_args(hint) if member is not NoneType]
        return float if float in members else members[0]
    return hint


def add_flags(command: argparse.ArgumentParser) -> None:
    """Give a command a flag for each option; `--no-NAME` for one that is on by default."""
    parser = command.add_argument_group("options of fuel-optimize")
    for field in dataclasses.fields(OptimizePass):
        metavar, text = HELP[field.name]
        kind, flag = kinds()[field.name], f"--{field.name.replace('_', '-')}"
        if isinstance(kind, tuple):
            about = f"{text} (default: {field.default})"
            parser.add_argument(flag, choices=kind, default=field.default, help=about)
        elif kind is tuple:
            parser.add_argument(flag, action="append", default=[], metavar=metavar, help=text)
        elif kind is bool and field.default is True:
            parser.add_argument(
                f"--no-{flag[2:]}", dest=field.name, action="store_false", help=text
            )
        elif kind is bool:
            parser.add_argument(flag, action="store_true", help=text)
        else:
            read = {int: whole_number, float: float}.get(kind, str)
            parser.add_argument(flag, type=read, default=field.default, metavar=metavar, help=text)


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that flags set, as `OptimizePass` takes them."""
    values = {name: getattr(options, name) for name in kinds()}
    return values | {name: tuple(values[name]) for name, kind in kinds().items() if kind is tuple}


def changed(options: argparse.Namespace) -> list[str]:
    """The flags that say something else than the default."""
    defaults = OptimizePass()
    names = [n for n, value in given(options).items() if value != getattr(defaults, n)]
    flags = [f"no_{name}" if getattr(defaults, name) is True else name for name in names]
    return [f"--{name.replace('_', '-')}" for name in flags]


def why_not(name: str, value: object) -> str | None:
    """Returns why an option cannot have a value, in words; None if a pass may take it."""
    kind = kinds()[name]
    if isinstance(kind, tuple) and value not in kind:
        return f"{name} is {' or '.join(kind)}, not {value!r}"
    if kind is bool and not isinstance(value, bool):
        return f"{name} is True or False, not {value!r}"
    if kind is int and value is not None and not _is_count(value):
        return f"{name} must be a whole number >= 0, got {value!r}"
    if kind is float and not _is_number(value):
        return f"{name} must be a number, got {value!r}"
    if name == "reach" and not cast(float, value) >= 1:
        return f"reach must be a number >= 1, got {value!r}"
    if name == "refuge" and not 0 < cast(float, value) <= 1:
        return f"refuge must be a number above 0 and at most 1, got {value!r}"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def whole_number(text: str) -> int:
    """A number from 0 upwards on a command line. Raises `ArgumentTypeError`."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 upwards, not {text!r}")
    if len(text) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"expected a number of {MOST_DIGITS} digits or fewer")
    return int(text)
