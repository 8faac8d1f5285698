# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives a program its arguments and weights, from files or made up from a seed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fuel_dialect.errors import ArgumentError, WeightError
from fuel_dialect.numbers import int_value
from fuel_dialect.ops.indexing import IndexingOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.tensors import tensor_type
from fuel_runtime.array_files import load_arrays
from fuel_runtime.call.binding import bind
from fuel_runtime.call.signature import Port, Signature, Value
from fuel_runtime.cli.flags import UsageError
from fuel_runtime.compile.functions import find_function

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.call.signature import Array


def arguments_of(
    signature: Signature, module: ModuleOp | None, options: argparse.Namespace
) -> tuple[Value, ...]:
    """Returns the arguments of the call. Raises `ArgumentError` and `UsageError`."""
    if options.random is None:
        named = {} if options.arguments is None else load_arrays(options.arguments)
        if signature.inputs and options.arguments is None:
            raise ArgumentError(
                f"{signature.entry} takes arguments "
                f"({', '.join(map(str, signature.inputs))}); give a file of them, or --random SEED"
            )
        return bind(signature, (), (), named)
    if options.arguments is not None:
        raise UsageError("give a file of arguments or --random, not both")
    rng = np.random.default_rng([options.random, 0])
    limits = {} if module is None else _index_limits(module, signature)
    return tuple(_made_up(port, rng, limits.get(port.name, 2)) for port in signature.inputs)


def weights_of(
    module: ModuleOp, options: argparse.Namespace
) -> tuple[Mapping[str, Array], Sequence[str]]:
    """Returns the weights, and lines to print of them. Raises `WeightError`."""
    ports = {
        op.key.data: Port(op.key.data, tensor_type(op.result))
        for op in module.walk()
        if isinstance(op, WeightOp) and op.source is None
    }
    if options.weights is not None:
        arrays = load_arrays(options.weights)
        unknown = ", ".join(repr(name) for name in sorted(arrays) if name not in ports)
        if unknown:
            have = ", ".join(sorted(ports)) or "none"
            raise WeightError(
                f"{options.weights}: the program has no weight {unknown}; it has {have}"
            )
        return arrays, ()
    if options.random is None or not ports:
        return {}, ()
    rng = np.random.default_rng([options.random, 1])
    made_up = {name: _made_up(ports[name], rng, spread=0.1) for name in sorted(ports)}
    return made_up, [f"weights: made up from seed {options.random}, {len(made_up)} of them"]


def _index_limits(module: ModuleOp, signature: Signature) -> dict[str, int]:
    """Returns the smallest extent that each argument indexes, if ops read it as indices."""
    limits: dict[str, int] = {}
    arguments = find_function(module, signature.entry).body.blocks[0].args
    for port, argument in zip(signature.arguments, arguments, strict=True):
        for use in argument.uses:
            op = use.operation
            if isinstance(op, IndexingOp) and op.indices is argument:
                extent = tensor_type(op.input).get_shape()[int_value(op.dim)]
                limits[port.name] = min(extent, limits.get(port.name, extent))
    return limits


def _made_up(port: Port, rng: np.random.Generator, limit: int = 2, spread: float = 1) -> Array:
    """Draws normal floats of deviation `spread`, integers in [-8, 8), unsigned ones < `limit`."""
    kind = port.dtype.kind
    if kind == "mask":
        values = rng.integers(0, 2, port.shape)
    elif kind == "signed":
        values = rng.integers(-8, 8, port.shape)
    elif kind == "unsigned":
        values = rng.integers(0, max(limit, 1), port.shape)
    else:
        values = rng.normal(0, spread, port.shape)
    if port.dtype.name == "f8E8M0FNU":
        values = np.abs(values)
    return np.asarray(values).astype(port.numpy)
