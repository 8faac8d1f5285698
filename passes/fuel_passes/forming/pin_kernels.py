# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-pin-kernels`: kernels whose label `place` names are pinned to devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.errors import PlaceError
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import KernelOp
from fuel_passes.forming.pin_ops import PENDING, Named, names_in, pin, placeable
from fuel_passes.walk import functions


@dataclass(frozen=True)
class PinKernelsPass(ModulePass):
    """
    Pins the kernels whose labels `fuel-pin-ops` left in the module's `fuel.place`, and removes it.

    Kernels have to be formed before. Refuses a name that no kernel has, with a list of what there
    is: then it is no op, value or decision either. No options.
    """

    name = "fuel-pin-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pending = op.attributes.get(PENDING)
        if pending is None:
            return
        if not isinstance(pending, DictionaryAttr) or not all(
            isinstance(device, DeviceAttr) for device in pending.data.values()
        ):
            raise PlaceError(f"{PENDING} must map names to #fuel.device<...>, got {pending}")
        wanted = cast("Mapping[str, DeviceAttr]", pending.data)
        found = list(functions(op))
        kernels = [_by_label(function) for function in found]
        names = [names_in(function, wanted) for function in found]
        missing = dict.fromkeys(wanted)
        for full, labels in zip(names, kernels, strict=True):
            for label in full.keys() & labels.keys():
                missing.pop(full[label], None)
        if missing:
            raise PlaceError(_nothing_called(list(missing), found))
        for full, labels in zip(names, kernels, strict=True):
            for label, name in full.items():
                pin(labels.get(label, ()), wanted[name])
        del op.attributes[PENDING]


def _by_label(function: FuncOp) -> dict[str, list[FuelOp]]:
    """Maps the labels of a function's kernels to these and the ops in them."""
    kernels: dict[str, list[FuelOp]] = {}
    for op in function.walk():
        if isinstance(op, KernelOp):
            kernels.setdefault(op.label.data, []).extend((op, *placeable(op.body.block.ops)))
    return kernels


def _nothing_called(missing: Sequence[str], found: Sequence[FuncOp]) -> str:
    """Returns the sentence about names of nothing: what the functions that they mean have."""
    prefixes = {f"@{function.sym_name.data}/": function for function in found}
    meant = [
        function
        for prefix, function in prefixes.items()
        if any(name.startswith(prefix) for name in missing)
    ] or found
    names = [next((n.removeprefix(p) for p in prefixes if n.startswith(p)), n) for n in missing]
    have = {what: dict[str, None]() for what in ("ops", "values", "decisions", "kernels")}
    for function in meant:
        named = Named.of(function)
        parts = (named.ops, named.values, named.decisions, _by_label(function))
        for known, part in zip(have.values(), parts, strict=True):
            known.update(dict.fromkeys(part))
    listed = "; ".join(f"{what} {', '.join(known) or 'none'}" for what, known in have.items())
    functions_meant = ", ".join(function.sym_name.data for function in meant) or "the module"
    verb = "has" if len(meant) < 2 else "have"
    return f"place: {functions_meant} {verb} nothing called {', '.join(map(repr, names))}; " + (
        f"there are {listed}" if verb == "have" else f"it has {listed}"
    )
