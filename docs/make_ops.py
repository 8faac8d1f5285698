# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Writes `docs/ops.md`, the table of all ops, from the dialect itself.

`python docs/make_ops.py` writes it; a test fails when it is not fresh.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from xdsl.irdl import OptionalDef, VariadicDef

from fuel_dialect import traits
from fuel_dialect.dialect import CATEGORIES, OPS
from fuel_dialect.movement import MovementOp
from fuel_dialect.ops.base import FuelOp

PAGE = Path(__file__).resolve().parent / "ops.md"

HEAD = """\
<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->
<!-- Written by docs/make_ops.py; change the docstrings of the ops instead. -->
# Ops

Every op is pure: it has results and no other effect. `x...` is any number of operands, `x?` an
optional one. Types are builtin tensors of static shape. The rules for shapes and element types are
the `infer` method of each op class, what an op computes is the function of its name in
`fuel_dialect/reference/`, and [semantics.md](semantics.md) holds the rules that all ops share.

| class of op | meaning |
|---|---|
| elementwise | element i of the result depends on element i of each operand; fuses |
| rows | each row (last axis) of the result depends on the same row of the operands |
| reduction | one result element for each group of operand elements |
| movement | elements of the operands in other places |
| view | another layout of its operand's buffer; folds into the kernel that reads it |
| leaf | no operands; cloned into the arms and runs that read it |
| decomposable | other ops define it (`fuel-decompose`) |
| transfer | moves a value between devices; ends a run |
| may reuse x | the result may take over the buffer of x at its last use |
| container | holds ops of a plan; `fuel-strip-plan` dissolves it |
"""

CLASSES = {
    traits.Elementwise: "elementwise",
    traits.RowWise: "rows",
    traits.Reduction: "reduction",
    traits.Leaf: "leaf",
    traits.Transfer: "transfer",
    traits.Container: "container",
}


def operands(op: type[FuelOp]) -> Iterator[str]:
    """Names of the operands, in order."""
    for name, definition in op.get_irdl_definition().operands:
        many = isinstance(definition, VariadicDef)
        optional = isinstance(definition, OptionalDef)
        yield f"{name}?" if optional else f"{name}..." if many else name


def properties(op: type[FuelOp]) -> Iterator[str]:
    """Names of the properties, without the placement that every op may have."""
    hidden = {"placement", "operandSegmentSizes", "resultSegmentSizes"}
    for name, definition in op.get_irdl_definition().properties.items():
        if name not in hidden:
            yield f"{name}?" if isinstance(definition, OptionalDef) else name


def classes(op: type[FuelOp]) -> Iterator[str]:
    """Says what the traits and interfaces of an op mean."""
    yield from (word for trait, word in CLASSES.items() if op.has_trait(trait))
    if issubclass(op, MovementOp):
        yield "movement"
    if issubclass(op, traits.ViewOp):
        yield "view"
    if issubclass(op, traits.DecomposableOp):
        yield "decomposable"
    names = [name for name, _ in op.get_irdl_definition().operands]
    for trait in op.get_traits_of_type(traits.MayReuse):
        yield f"may reuse {names[trait.operand]}"


def summary(op: type[FuelOp]) -> str:
    """The first paragraph of the docstring, as one line of a table."""
    paragraph = inspect.cleandoc(op.__doc__ or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def row(op: type[FuelOp]) -> str:
    cells = (
        f"`{op.name}`",
        ", ".join(operands(op)),
        ", ".join(f"`{name}`" for name in properties(op)),
        ", ".join(classes(op)),
        summary(op),
    )
    return f"| {' | '.join(cells)} |"


def render() -> str:
    """The whole page."""
    lines = [HEAD]
    for module in CATEGORIES:
        found = [op for op in OPS if op.__module__ == module.__name__]
        title = module.__name__.rpartition(".")[2].replace("_", " ")
        lines += [
            f"## {'constants' if title == 'base' else title}\n",
            "| op | operands | properties | class | what it gives |",
            "|---|---|---|---|---|",
            *map(row, found),
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render())
