# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The table of kernel kinds: what makes a kernel one of a kind, its form, writers, price and key.

A row is pure data: strings `module:attribute` name the code, which stands in the layers below. Each
layer looks up its own column and asks no op what the kind says: forming `ops` and `fuses_results`,
pricing `price`, measuring `extents`, lowering `form` and `writer`. Another package adds a row by an
entry point in `fuel.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from xdsl.ir import Operation

from fuel_dialect import plugins
from fuel_dialect.errors import PluginError
from fuel_dialect.traits import is_marked


@dataclass(frozen=True)
class KernelKind:
    """
    Describes one kind of `fuel.kernel`: a row of the table.

    `{target}` in `writer` stands for the name of a target; the folders of targets have the same
    file names. Each target says what a writer of it takes and gives (`emit.py`). On NumPy, which
    writes no forms, the writer of a kind is the rule of its op.
    """

    name: str
    ops: str
    """The class, interface or trait of the op that makes a kernel one of this kind; empty for the
    kind of all other ops."""
    price: str
    """`price(kernel, target) -> int`: nanoseconds of one launch, operands as they lie."""
    extents: str = "fuel_passes.planning.measurements:sizes"
    """`extents(kernel) -> Sequence[int]`: numbers whose classes stand in the key of a time."""
    form: str = ""
    """`form(kernel, name) -> Form`; empty for a kind that is calls and not generated loops."""
    writer: str = ""
    """The function of a target that writes the kernels of the form."""
    fuses_results: bool = False
    """True if elementwise ops on the result of the op may be in its kernel."""
    reads_any_layout: bool = False
    """True if its kernels read operands as they lie, on every target: that is what they do."""
    targets: tuple[str, ...] = ()
    """The targets with a writer of the kind, besides those whose description names the kind."""

    def price_ns(self, kernel: Any, target: Any) -> int:
        """Returns the price of a kernel of this kind."""
        return self._code["price"](kernel, target)

    def extents_of(self, kernel: Any) -> tuple[int, ...]:
        """Returns the numbers of a kernel that its measured time depends on."""
        return tuple(self._code["extents"](kernel))

    @cached_property
    def _code(self) -> dict[str, Callable[..., Any]]:
        return {name: plugins.function_named(getattr(self, name)) for name in ("price", "extents")}

    def holds(self, op: type[Operation]) -> bool:
        """Returns True if an op makes a kernel one of this kind."""
        if not self.ops:
            return True
        marker: Any = plugins.named(self.ops)
        return is_marked(op, marker)


FUSED = "fuel_passes.planning.prices:fused_ns"
CALLS = "fuel_passes.planning.prices:calls_ns"
PRODUCT = "fuel_passes.planning.measurements:product_extents"

POINTWISE = KernelKind(
    "pointwise",
    ops="fuel_dialect.traits:Elementwise",
    price=FUSED,
    form="fuel_lowering.kernels.map:map_form",
    writer="fuel_lowering.{target}.map:emit_map",
)
REDUCTION = KernelKind(
    "reduction",
    ops="fuel_dialect.traits:AlongAxesOp",
    price=FUSED,
    form="fuel_lowering.kernels.rows:row_form",
    writer="fuel_lowering.{target}.rows:emit_rows",
)
MATMUL = KernelKind(
    "matmul",
    ops="fuel_dialect.ops.linear_algebra:MatmulOp",
    price=FUSED,
    extents=PRODUCT,
    form="fuel_lowering.kernels.matmul:matmul_form",
    writer="fuel_lowering.{target}.matmul:emit_matmul",
    fuses_results=True,
)
MOVEMENT = KernelKind(
    "movement",
    ops="fuel_dialect.movement:MovementOp",
    price=CALLS,
    form="fuel_lowering.kernels.map:map_form",
    writer="fuel_lowering.{target}.map:emit_map",
    reads_any_layout=True,
)
SCAN = KernelKind(
    "scan",
    ops="fuel_dialect.ops.scan:ScanOp",
    price=CALLS,
    form="fuel_lowering.kernels.scan:scan_form",
    writer="fuel_lowering.{target}.scan:emit_scan",
)
LIBRARY = KernelKind("library", ops="", price=CALLS, extents=PRODUCT)

TABLE = (POINTWISE, REDUCTION, MATMUL, MOVEMENT, SCAN, LIBRARY)
"""The kinds of fuel; an op is of the first that holds it."""

OWN = {kind.name: kind for kind in TABLE}

GENERATED = tuple(kind.name for kind in TABLE if kind.form)
"""The names of the kinds that generated code computes."""


@cache
def names() -> tuple[str, ...]:
    """Returns the names of all kinds, those of other packages last."""
    return (*OWN, *(plugin.name for plugin in plugins.found(plugins.KINDS)))


@cache
def kind_named(name: str) -> KernelKind:
    """
    Returns a row of the table.

    Raises `PluginError` for an entry point that names no row of its name, and for no kind at all.
    """
    kind = OWN.get(name) or plugins.described(plugins.KINDS, name, KernelKind)
    if kind is None:
        raise PluginError(f"no kind of kernel is called {name!r}; there are {', '.join(names())}")
    return kind


@cache
def kind_of(op: type[Operation]) -> KernelKind:
    """
    Returns the kind of the kernel that an op makes.

    An op of another package may be of a kind of another package, those of fuel never are.
    """
    added = [kind_named(name) for name in names() if name not in OWN]
    rows = (*added, *TABLE) if plugins.is_outside(op) else TABLE
    return next(kind for kind in rows if kind.holds(op))
