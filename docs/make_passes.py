# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes `docs/passes.md`, all passes with their options, from the passes themselves.

`python docs/make_passes.py` writes it; a test fails when it is not fresh.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass

from fuel_dialect.universe import FUEL_UNIVERSE, PASSES
from fuel_passes.pipeline import OptimizePass

PAGE = Path(__file__).resolve().parent / "passes.md"

HEAD = """\
<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->
<!-- Written by docs/make_passes.py; change the docstrings of the passes instead. -->
# Passes

Each is a pass of `xdsl-opt`, usable alone, and changes nothing when it is applied to its own
output. Options are given in braces, with a space between:

```console
$ xdsl-opt -p 'fuel-optimize{topology="2xh100" device="cuda:1" variants=keep}' FILE.mlir
```

The single quotes are for the shell. Text with anything in it but letters, digits, `-` and `_`,
such as the `:` of a device, a `+`, or the `.` of a file, is in double quotes; without them xDSL
says `Unknown token`. `topology` is a preset, whose `+` may be written `-` (`topology=cpu-h100`),
or the path of a JSON file ([planning.md](planning.md)). Packages may add more
([plugins.md](plugins.md)).
"""

WORDS: dict[Any, str] = {
    bool: "`true`, `false`",
    int: "a whole number",
    float: "a number",
    str: "text",
}


def values(hint: Any) -> str:
    """Lists what an option of a type may be."""
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is tuple:
        return "texts, with commas between"
    if get_origin(hint) in (Union, UnionType):
        members = [member for member in get_args(hint) if member is not NoneType]
        return values(float) if set(members) == {int, float} else values(members[0])
    return WORDS[hint]


def shown(default: Any) -> str:
    """A default as it is typed."""
    if default is None or default == ():
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def options(kind: type[ModulePass]) -> Iterator[tuple[str, str, str]]:
    """Name, allowed values and default of each option."""
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield field.name.replace("_", "-"), values(hints[field.name]), shown(field.default)


def listed(text: str) -> str:
    """A docstring whose options, where each begins a line, are the items of a list."""
    before, heading, rest = text.partition("Options:\n")
    items = re.sub(r"^(?=`[\w-]+=)", "- ", rest, flags=re.MULTILINE)
    return f"{before}{heading}\n{items}" if heading else text


def lines(kind: type[ModulePass]) -> Iterator[str]:
    """The section of one pass."""
    yield f"## {kind.name}\n"
    yield f"{listed(inspect.cleandoc(kind.__doc__ or ''))}\n"
    found = list(options(kind))
    if found:
        yield "| option | values | default |\n|---|---|---|"
        yield from (f"| `{name}` | {allowed} | {default} |" for name, allowed, default in found)
        yield ""


def sequence() -> str:
    """The passes of the pipeline, in order."""
    names = (inner.name for inner in map(_inner, OptimizePass().passes()))
    return " → ".join(f"[{name}](#{name})" for name in names)


def _inner(found: ModulePass) -> ModulePass:
    inner = getattr(found, "inner", None)
    return inner if isinstance(inner, ModulePass) else found


def render() -> str:
    """The whole page."""
    kinds = [FUEL_UNIVERSE.all_passes[name]() for name in PASSES]
    sections = [line for kind in kinds for line in lines(kind)]
    head = [HEAD, f"`fuel-optimize` is this sequence: {sequence()}.\n"]
    return "\n".join([*head, *sections])


if __name__ == "__main__":
    PAGE.write_text(render())
