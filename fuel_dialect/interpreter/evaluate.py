# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Runs IR on the reference: one op, or a function of a module, before or after optimisation.

Ops that are plain functions of arrays are the reference's (`reference.table`); `REGIONS` holds the
ops with regions. Blocks are walked op by op; only regions nest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fuel_dialect import dtypes
from fuel_dialect.errors import ArgumentError, DecisionError, FuelError, IndexOutOfRange
from fuel_dialect.movement import checked_name
from fuel_dialect.ops.control import BranchOp, KernelOp, RunOp, YieldOp
from fuel_dialect.ops.scan import ScanOp, ScanYieldOp
from fuel_dialect.prepared import bind_prepared
from fuel_dialect.reference import control
from fuel_dialect.reference.precision import Array
from fuel_dialect.reference.table import apply
from fuel_dialect.tensors import AnyTensor, tensor_type

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Environment:
    """Holds what an evaluation reads besides operands; `path` prefixes nested decisions."""

    weights: Mapping[str, Array] = field(default_factory=lambda: NOTHING)
    arms: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    path: str = ""


def evaluate(
    module: ModuleOp,
    *args: object,
    entry: str = "main",
    weights: Mapping[str, Array] = NOTHING,
    arms: Mapping[str, int] = NOTHING,
) -> tuple[Array, ...]:
    """
    The results of a function of a module.

    `arms` maps decisions, by path, to the arm to take: `{"d0": 1, "d3/1/d0": 2}`; 0 where absent.
    Raises `ArgumentError`, `WeightError`, `DecisionError`, `ProgramError` or `IndexOutOfRange`.
    """
    function = _function(module, entry)
    block = function.body.block
    if len(args) != len(block.args):
        raise ArgumentError(f"{entry}: takes {len(block.args)} arguments, got {len(args)}")
    arrays = [_argument(i, a, b) for i, (a, b) in enumerate(zip(args, block.args, strict=True))]
    return tuple(_results(function, arrays, weights, arms))


def _results(
    function: FuncOp,
    arguments: Sequence[Array],
    weights: Mapping[str, Array],
    arms: Mapping[str, int] = NOTHING,
) -> list[Array]:
    """Returns the results of a function; what its weights are prepared by runs before it."""
    bound = bind_prepared(function, weights, lambda source, given: _results(source, (), given))
    return evaluate_block(function.body.block, arguments, Environment(bound, arms))


def _function(module: ModuleOp, entry: str) -> FuncOp:
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if entry not in functions:
        raise ArgumentError(f"no function {entry!r}; there are {', '.join(functions) or 'none'}")
    return functions[entry]


def _argument(index: int, value: object, declared: SSAValue) -> Array:
    array = np.asarray(value)
    if _signature(array) != _signature_of(tensor_type(declared)):
        raise ArgumentError(
            f"argument {index} is {array.dtype}{list(array.shape)}, expected {declared.type}"
        )
    return array


def _signature(array: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return array.shape, array.dtype


def _signature_of(type: AnyTensor) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return type.get_shape(), dtypes.of_type(type).numpy


def evaluate_block(
    block: Block, arguments: Sequence[Array], environment: Environment
) -> list[Array]:
    """The operands of the terminator of a block."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        if op is block.last_op:
            return operands
        values.update(zip(op.results, evaluate_op(op, operands, environment), strict=True))
    raise FuelError("a block without a terminator gives nothing")


def evaluate_op(
    op: Operation, operands: Sequence[Array], environment: Environment = Environment()
) -> list[Array]:
    """Returns the results of one op. Raises `IndexOutOfRange`, which names it."""
    kind = type(op)
    if kind in REGIONS:
        return REGIONS[kind](op, operands, environment)
    try:
        return apply(op, operands, environment.weights)
    except IndexOutOfRange as error:
        said = str(error).removeprefix(op.name.removeprefix("fuel."))
        raise IndexOutOfRange(f"{checked_name(op)}{said}") from None


def _branch(op: BranchOp, operands: Sequence[Array], environment: Environment) -> list[Array]:
    name = environment.path + op.id.data
    arm = environment.arms.get(name, 0)
    if not 0 <= arm < len(op.arm_regions):
        raise DecisionError(f"branch {name!r} has {len(op.arm_regions)} arms, not an arm {arm}")
    inner = replace(environment, path=f"{name}/{arm}/")
    arms = [_region(region.block, inner) for region in op.arm_regions]
    return list(control.branch(operands, arms=arms, arm=arm))


def _kernel(op: KernelOp, operands: Sequence[Array], environment: Environment) -> list[Array]:
    return list(control.kernel(operands, body=_region(op.body.block, environment)))


def _run(op: RunOp, operands: Sequence[Array], environment: Environment) -> list[Array]:
    return list(control.run(operands, body=_region(op.body.block, environment)))


def _region(block: Block, environment: Environment) -> control.Region:
    return lambda arguments: evaluate_block(block, arguments, environment)


def _scan(op: ScanOp, operands: Sequence[Array], environment: Environment) -> list[Array]:
    end, block = op.end, op.body.block
    carries, ys = len(end.carries), len(end.ys)

    def body(arguments: Sequence[Array]) -> control.StepResults:
        values = evaluate_block(block, arguments, environment)
        until = values[-1] if end.until is not None else None
        return control.StepResults(values[:carries], values[carries : carries + ys], until)

    first_const = len(op.inits) + len(op.xs)
    final, stacked, steps = control.scan(
        operands[: len(op.inits)],
        operands[len(op.inits) : first_const],
        operands[first_const:],
        body=body,
        length=op.steps,
        reverse=op.reverse is not None,
        ys=[_signature_of(tensor_type(y)) for y in op.y_results],
    )
    return [*final, *stacked, *([] if end.until is None else [np.asarray(steps, np.uint32)])]


def _terminator(op: Operation, operands: Sequence[Array], environment: Environment) -> list[Array]:
    return list(operands)


REGIONS: dict[type[Operation], Callable[[Any, Sequence[Array], Environment], list[Array]]] = {
    BranchOp: _branch,
    KernelOp: _kernel,
    RunOp: _run,
    ScanOp: _scan,
    YieldOp: _terminator,
    ScanYieldOp: _terminator,
}
