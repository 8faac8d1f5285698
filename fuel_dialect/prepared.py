# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Prepared weights: tensors that a function without arguments computes once from weights.

`fuel.weight "c" of @main.weights` is the result of `@main.weights` that `fuel.name` calls `c`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from fuel_dialect.attributes import NAME
from fuel_dialect.errors import ProgramError
from fuel_dialect.progress import steps
from fuel_dialect.tensors import tensor_type

T = TypeVar("T")

PREPARES = "fuel.prepares"
"""The attribute of a function that planning made to give weights; stripping a plan takes it out."""

KEY, SOURCE = "key", "source"
"""The properties of a weight: its name, and the function that gives it if it is prepared."""


class PreparedFrom(SymbolUserOpInterface):
    """Checks that a prepared weight is a result of the function that it names."""

    def verify(self, op: Operation) -> None:
        if SOURCE in op.properties and _is_in_module(op):
            PreparedResults().of(op)


def _is_in_module(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not parent.has_trait(SymbolTable):
        parent = parent.parent_op()
    return parent is not None


class PreparedResults:
    """Finds the results that prepared weights are; looks at each function once."""

    def __init__(self) -> None:
        self._positions: dict[FuncOp, dict[Attribute, int]] = {}

    def of(self, op: Operation) -> tuple[FuncOp, int]:
        """
        Returns the function that gives a prepared weight, and which of its results it is.

        Raises `VerifyException` where there is no such function or result, or one of another type.
        """
        key, source = op.properties[KEY], op.properties[SOURCE]
        what = f"weight {key} of {source}"
        function = SymbolTable.lookup_symbol(op, source)  # pyright: ignore[reportArgumentType]
        if not isinstance(function, FuncOp) or not _prepares(function):
            raise VerifyException(
                f"{what}: the module has no function of that name and no arguments"
            )
        if function not in self._positions:
            self._positions[function] = _positions(function)
        index = self._positions[function].get(key)
        if index is None:
            raise VerifyException(f"{what}: no result of the function has that {NAME}")
        type, wanted = function.function_type.outputs.data[index], tensor_type(op.results[0])
        if type != wanted:
            raise VerifyException(f"{what}: the function gives {type}, not {wanted}")
        return function, index


def _prepares(function: FuncOp) -> bool:
    return not function.function_type.inputs and not function.is_declaration


def _positions(function: FuncOp) -> dict[Attribute, int]:
    """Maps the names of the results of a function to their positions."""
    attributes = () if function.res_attrs is None else function.res_attrs
    names = (each.data.get(NAME) for each in attributes)
    return {name: index for index, name in enumerate(names) if name is not None}


def bind_prepared(
    function: FuncOp,
    weights: Mapping[str, T],
    run: Callable[[FuncOp, Mapping[str, T]], Sequence[T]],
    ready: Mapping[str, T] | None = None,
) -> Mapping[str, T]:
    """
    Returns what the weights of a function are: those given, and those that `run` prepares.

    `run` gives the results of a function without arguments, whose weights it binds in its turn;
    each function runs once. Those that are `ready` are taken from there. Raises `ProgramError` for
    a key that stands for two weights, and for functions that prepare each other.
    """
    _check_no_circle(function)
    results: dict[FuncOp, Sequence[T]] = {}
    made: dict[str, T] = {}
    keys = prepared_keys(function).items()
    for key, (source, index) in steps("prepare weights", keys, len(keys), lambda each: each[0]):
        if ready is not None and key in ready:
            made[key] = ready[key]
            continue
        if source not in results:
            results[source] = run(source, weights)
        made[key] = results[source][index]
    # Weights may be in files that are read when asked for: nothing here asks for one.
    return ChainMap(made, cast("dict[str, T]", weights))


def constant_keys(function: FuncOp) -> frozenset[str]:
    """Returns the keys of the prepared weights of a function that no given weight decides."""
    known = prepared_keys(function).items()
    return frozenset(key for key, (source, _) in known if not _reads_weights(source))


def _reads_weights(function: FuncOp) -> bool:
    """Returns True if a function has a given weight, or a prepared one that one decides."""
    pending, seen = [function], {function}
    while pending:
        for op in pending.pop().walk():
            if KEY not in op.properties or not op.has_trait(PreparedFrom):
                continue
            if SOURCE not in op.properties:
                return True
            source, _ = PreparedResults().of(op)
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return False


def _check_no_circle(function: FuncOp) -> None:
    """Raises `ProgramError` for a function whose weights depend on its own results."""
    pending, seen = [function], set[FuncOp]()
    while pending:
        for key, (source, _) in prepared_keys(pending.pop()).items():
            if source is function:
                raise ProgramError(f"weight {key!r} of @{source.sym_name.data} depends on itself")
            if source not in seen:
                seen.add(source)
                pending.append(source)


def prepared_keys(function: FuncOp) -> dict[str, tuple[FuncOp, int]]:
    """
    Maps the keys of the prepared weights of a function to the functions and results they are.

    Raises `ProgramError` for a key that stands for two weights, or for none.
    """
    sources: dict[str, Attribute | None] = {}
    results = PreparedResults()
    found: dict[str, tuple[FuncOp, int]] = {}
    for op in function.walk():
        if KEY not in op.properties or not op.has_trait(PreparedFrom):
            continue
        key, source = op.properties[KEY], op.properties.get(SOURCE)
        assert isinstance(key, StringAttr)
        if sources.setdefault(key.data, source) != source:
            raise ProgramError(
                f"@{function.sym_name.data}: {key} is the name of two weights, "
                f"{_described(source)} and {_described(sources[key.data])}; give them two names"
            )
        if source is None or key.data in found:
            continue
        try:
            found[key.data] = results.of(op)
        except VerifyException as error:
            raise ProgramError(f"@{function.sym_name.data}: {error}") from None
    return found


def _described(source: Attribute | None) -> str:
    return "one that is given" if source is None else f"one of {source}"
