# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Triton text run by Triton's own interpreter over host memory, one program after the other.

The same text compiles for a GPU in the same process: nothing is switched by the environment, and
what the interpreter replaces in Triton while it runs is put back. Where the interpreter computes
other values than a GPU, or takes Python time per element, `_REPAIRS` says what is put in its place.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from fuel_dialect.errors import LoweringError
from fuel_lowering.runs.launches import DeviceKernel
from fuel_lowering.triton.source import LOCK, constants, entry_of, module_of, pointee

Array = np.ndarray[Any, Any]
Handle = Any
"""Triton's `TensorHandle`: a NumPy array `data` and a Triton type `dtype`."""

_REWRITTEN = "_rewritten_by_fuel"


class InterpretedKernel:
    """A kernel that is launched with the addresses of its buffers."""

    def __init__(self, kernel: DeviceKernel):
        self.name = kernel.name
        with module_of(kernel) as names:
            entry = entry_of(kernel, names)
            for function in list(names.values()):
                if isinstance(function, JITFunction | interpreter.InterpretedFunction):
                    _rewrite(function)
        self._constants = constants(entry)
        self._function = _rewrite(entry)
        self._names = names
        self._types = [
            tl.str_to_ty(f"*{pointee(kernel, p.dtype)}", None) for p in kernel.parameters
        ]

    def launch(
        self, addresses: Sequence[int], scalars: Sequence[int], grid: tuple[int, int, int]
    ) -> None:
        """Run every program of a grid, inside a block of `interpreting`."""
        arguments = [
            _scalar(address, np.uint64, type)
            for address, type in zip(addresses, self._types, strict=True)
        ]
        arguments += [_scalar(value, np.int32, tl.int32) for value in scalars]
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        try:
            for index in np.ndindex(grid):
                builder.set_grid_idx(*index)
                self._function(*arguments, **self._constants)
        except Exception as error:
            raise LoweringError(
                f"kernel {self.name} fails in Triton's interpreter: {error!r}"
            ) from error


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    """Put the interpreter in Triton's place in this process, for one thread at a time."""
    with LOCK, np.errstate(all="ignore"):
        scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
        try:
            interpreter._patch_builtin(libdevice, interpreter.interpreter_builder, scope)
            for owner, name, replacement in _REPAIRS:
                scope.set_attr(owner, name, replacement)
            yield
        finally:
            scope.restore()


def _rewrite(function: Any) -> Callable[..., Any]:
    """
    Returns the function that Triton's interpreter makes of a text, which is read once.

    It is kept by the function, which it refers to: a table would keep both for ever.
    """
    known = vars(function.fn).get(_REWRITTEN)
    if known is None:
        known = interpreter.FunctionRewriter(function.fn).rewrite_ast()
        setattr(function.fn, _REWRITTEN, known)
    return known


def _scalar(value: int, dtype: Any, type: Any) -> Any:
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype), type), type)


def _call(function: Any, *arguments: Any, **keywords: Any) -> Any:
    return _rewrite(function)(*arguments, **keywords)


def _patched_once(function: Any) -> Any:
    return SimpleNamespace(restore=lambda: None)


def _widened(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _rounded(values: Array) -> Array:
    """Nearest even, as the instruction of a GPU does; every NaN becomes 0x7fff."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    tie = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + tie) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


def _numbers(handle: Handle) -> Array:
    return _widened(handle.data) if handle.dtype.scalar == tl.bfloat16 else handle.data


def _cast(builder: Any, source: Handle, type: Any) -> Handle:
    values, wanted = _numbers(source), type.scalar
    if wanted != tl.bfloat16:
        data = values.astype(interpreter._get_np_dtype(wanted))
    elif source.dtype.scalar == tl.bfloat16:
        data = source.data
    else:
        data = _rounded(values.astype(np.float32))
    return interpreter.TensorHandle(data, wanted)


def _cast_float(builder: Any, source: Handle, type: Any, rounding: Any = None) -> Handle:
    return _cast(builder, source, type)


def _dot(builder: Any, a: Handle, b: Handle, d: Handle, *precision: Any) -> Handle:
    dtype = d.data.dtype
    product = np.matmul(_numbers(a).astype(dtype), _numbers(b).astype(dtype))
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def _minimum(builder: Any, left: Handle, right: Handle) -> Handle:
    return builder.binary_op(left, right, np.fmin)


def _maximum(builder: Any, left: Handle, right: Handle) -> Handle:
    return builder.binary_op(left, right, np.fmax)


def _erf(values: Array) -> Array:
    return np.vectorize(math.erf, otypes=[values.dtype])(values)


def _erfc(values: Array) -> Array:
    return np.vectorize(math.erfc, otypes=[values.dtype])(values)


_LIBRARY: Mapping[str, Callable[..., Array]] = {
    "cos": np.cos,
    "erf": _erf,
    "erfc": _erfc,
    "exp": np.exp,
    "expm1": np.expm1,
    "fmod": np.fmod,
    "log": np.log,
    "log1p": np.log1p,
    "pow": np.power,
    "rint": np.rint,
    "sin": np.sin,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
"""The functions of libdevice that a kernel may call, by their names without prefix and suffix."""


def _library(
    builder: Any, name: str, path: str, symbol: str, operands: list[Handle], type: Any, pure: bool
) -> Handle:
    function = symbol.removeprefix("__nv_")
    if type.scalar == tl.float32:
        function = function.removesuffix("f")
    data = _LIBRARY[function](*(operand.data for operand in operands))
    return interpreter.TensorHandle(data.astype(interpreter._get_np_dtype(type)), type.scalar)


def _index(value: Any) -> int:
    return int(value.handle.data.item())


def _reduce(operation: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Combine halves of the axis until one element is left: Python time per level only."""
    parts = [each.handle.data for each in inputs]
    rank = parts[0].ndim
    axis = 0 if operation.axis is None else operation.axis % rank
    if operation.axis is None:
        parts = [part.reshape(-1) for part in parts]
    while parts[0].shape[axis] > 1:
        count = parts[0].shape[axis]
        low = _blocks(operation, [_slice(part, axis, 0, count // 2) for part in parts], inputs)
        high = _blocks(operation, [_slice(part, axis, count // 2, count) for part in parts], inputs)
        parts = _combine(operation, low, high)
    if operation.axis is None:
        shape = (1,) * rank if operation.keep_dims else ()
        parts = [part.reshape(shape) for part in parts]
    elif not operation.keep_dims:
        parts = [np.squeeze(part, axis) for part in parts]
    return _blocks(operation, parts, inputs)


def _scan(operation: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Carry one slice of the axis into the next: Python time per step only."""
    parts = [each.handle.data for each in inputs]
    axis = operation.axis % parts[0].ndim
    steps = [[_slice(part, axis, 0, 1) for part in parts]]
    for step in range(1, parts[0].shape[axis]):
        next_ = [_slice(part, axis, step, step + 1) for part in parts]
        before, now = _blocks(operation, steps[-1], inputs), _blocks(operation, next_, inputs)
        steps.append(_combine(operation, before, now))
    joined = [np.concatenate(column, axis) for column in zip(*steps, strict=True)]
    return _blocks(operation, joined, inputs)


def _combine(operation: Any, left: Sequence[Any], right: Sequence[Any]) -> list[Array]:
    result = _rewrite(operation.combine_fn)(*left, *right)
    results = result if isinstance(result, tuple) else (result,)
    return [
        each.handle.data.astype(old.handle.data.dtype, copy=False)
        for each, old in zip(results, left, strict=True)
    ]


def _blocks(operation: Any, parts: Sequence[Array], like: Sequence[Any]) -> list[Any]:
    return [operation.to_tensor(part, each.dtype) for part, each in zip(parts, like, strict=True)]


def _slice(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


_BUILDER = interpreter.InterpreterBuilder
_REPAIRS: tuple[tuple[Any, str, Any], ...] = (
    # Called functions patch Triton again and never put it back; all is patched already.
    (interpreter, "_patch_lang", _patched_once),
    # Half of the time goes into a check that only a debugging compile reports.
    (
        interpreter.interpreter_builder,
        "options",
        interpreter.InterpreterOptions(sanitize_overflow=False),
    ),
    # Functions that were compiled for a GPU, such as `tl.sum`, are called in the interpreter.
    (JITFunction, "__call__", _call),
    # bf16 is truncated when it is stored, and multiplied as if its bits were integers.
    (_BUILDER, "cast_impl", _cast),
    (_BUILDER, "create_fp_to_fp", _cast_float),
    (_BUILDER, "create_dot", _dot),
    # Triton 3.6 propagates NaN where a GPU drops it.
    (_BUILDER, "create_minnumf", _minimum),
    (_BUILDER, "create_maxnumf", _maximum),
    # Triton 3.6 cannot loop to a bound that is known at run time.
    (tl.tensor, "__index__", _index),
    # libdevice is a library for GPUs.
    (_BUILDER, "create_extern_elementwise", _library),
    # Own combine functions are called once per element.
    (interpreter.ReduceOps, "generic_reduce", _reduce),
    (interpreter.ScanOps, "generic_scan", _scan),
)
