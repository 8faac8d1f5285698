# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Reads what a function takes and gives, and makes the objects of a call its arguments.

The generated method looks at well-formed NumPy arguments itself; everything else comes here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from xdsl.irdl import VerificationContext
from xdsl.utils.exceptions import VerifyException

from fuel_dialect import dtypes
from fuel_dialect.attributes import text_of
from fuel_dialect.errors import ArgumentError, DTypeError, GraphError, ProgramError
from fuel_dialect.ops.base import ANY_TENSOR, AnyTensor
from fuel_dialect.state import donations
from fuel_runtime.devices.arrays import DeviceArray

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute

    from fuel_dialect.dtypes import DType
    from fuel_runtime.devices.interface import Taker

Array = np.ndarray[Any, np.dtype[Any]]
Value = Array | DeviceArray


class Missing:
    """The value of an argument that a call did not give by position."""

    def __repr__(self) -> str:
        return "..."


MISSING: Final = Missing()

STATE: Final = "state"
"""The keyword that gives a call its state."""


@dataclass(frozen=True)
class Port:
    """One argument, result or weight: its name and type."""

    name: str
    type: AnyTensor

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtypes.of_type(self.type)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the elements."""
        return self.dtype.numpy

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self.type.get_shape())

    @property
    def bytes(self) -> int:
        """What the elements take."""
        return prod(self.shape) * self.numpy.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {describe(self.dtype.name, self.shape)}"


@dataclass(frozen=True)
class Member:
    """A member of the state: its name and type, and the argument and the result that it is."""

    port: Port
    argument: int
    result: int


@dataclass(frozen=True)
class Signature:
    """
    What a call of a function takes and gives, in order, and the state that it works on.

    Donated arguments and the results that alias them are the state, and neither inputs nor outputs.
    """

    entry: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    members: tuple[Member, ...] = ()

    @staticmethod
    def of(function: FuncOp) -> Signature:
        """
        Read `fuel.name` of arguments and results; the others are `arg0`.. and `result0`..

        Raises `ProgramError` for a value that is no tensor that NumPy can hold, for a name that is
        used twice, and for state that is not rightly declared.
        """
        entry = function.sym_name.data
        type = function.function_type
        try:
            state = donations(function)
        except GraphError as error:
            raise ProgramError(str(error)) from None
        inputs = _ports(entry, "argument", "arg", type.inputs.data, function.arg_attrs)
        outputs = _ports(entry, "result", "result", type.outputs.data, function.res_attrs)
        signature = Signature(
            entry,
            tuple(port for i, port in enumerate(inputs) if i not in state),
            tuple(port for i, port in enumerate(outputs) if i not in state.values()),
            tuple(Member(inputs[a], a, r) for a, r in state.items()),
        )
        if state and any(port.name == STATE for port in signature.inputs):
            raise ProgramError(
                f"{entry}: an argument is called {STATE!r}, which is how a call of a program that "
                "has state is given it; call the argument something else"
            )
        return signature

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The numbers of the arguments of the function that are inputs."""
        taken = {member.argument for member in self.members}
        count = len(self.inputs) + len(self.members)
        return tuple(index for index in range(count) if index not in taken)

    @cached_property
    def arguments(self) -> tuple[Port, ...]:
        """All arguments of the function."""
        found = dict(zip(self.positions, self.inputs, strict=True))
        found |= {member.argument: member.port for member in self.members}
        return tuple(found[index] for index in range(len(found)))

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, p)) for p in (self.inputs, self.outputs))
        members = ", ".join(str(member.port) for member in self.members)
        return f"{self.entry}({inputs}) -> ({outputs}){members and f' with state ({members})'}"


def describe(dtype: str, shape: Sequence[int]) -> str:
    """The dtype and shape of an array, as all messages give it: `f32[8, 16]`."""
    return f"{dtype}{list(shape)}"


def _ports(
    entry: str,
    what: str,
    prefix: str,
    types: Sequence[Attribute],
    attributes: ArrayAttr[DictionaryAttr] | None,
) -> tuple[Port, ...]:
    given = [{} for _ in types] if attributes is None else [a.data for a in attributes.data]
    ports: dict[str, Port] = {}
    for index, (type, extra) in enumerate(zip(types, given, strict=True)):
        name = _label(f"{entry}: {what} {index}", extra.get("fuel.name")) or f"{prefix}{index}"
        if name in ports:
            raise ProgramError(f"{entry}: two {what}s are called {name!r}")
        ports[name] = _port(f"{entry}: {what} {index} ({name})", name, type)
    return tuple(ports.values())


def _label(where: str, attribute: Attribute | None) -> str | None:
    """What a `fuel.name` says. Raises `ProgramError` for what is no name."""
    if attribute is None:
        return None
    name = text_of(attribute)
    if not name or not name.isprintable():
        raise ProgramError(
            f"{where}: fuel.name must be a string of printable characters, not {attribute}"
        )
    return name


def _port(where: str, name: str, type: Attribute) -> Port:
    try:
        ANY_TENSOR.verify(type, VerificationContext())
        port = Port(name, cast(AnyTensor, type))
        _ = port.numpy
    except (VerifyException, DTypeError) as error:
        raise ProgramError(f"{where}: {error}") from None
    return port


def bind(
    signature: Signature,
    positional: Sequence[object],
    rest: Sequence[object],
    named: Mapping[str, object],
    mobile: Collection[int] = (),
    takers: Sequence[Taker] = (),
) -> tuple[Value, ...]:
    """
    The arrays of a call, in order: `positional` holds `MISSING` for what was not given so.

    `rest` are positional arguments beyond the last, `named` those given by keyword. Arrays of a
    device stay there where the argument of the function is in `mobile`, and come to the host
    elsewhere; those of another library that are in CUDA memory go to one of the `takers`. Raises
    `ArgumentError` that names the argument, what was expected and what was given.
    """
    given = [value for value in positional if value is not MISSING]
    entry, ports = signature.entry, signature.inputs
    if rest:
        count = len(ports) + len(rest)
        raise ArgumentError(f"{entry} takes {_takes(signature)}; got {count} arguments")
    values = dict(zip((port.name for port in ports), given, strict=False))
    for name, value in named.items():
        if name in values:
            raise ArgumentError(f"{entry}: argument {name!r} is given twice")
        values[name] = value
    check_names(signature, values)
    found: list[Value] = []
    for index, (place, port) in enumerate(zip(signature.positions, ports, strict=True)):
        label = f"{entry}: argument {index} ({port.name})"
        value = adopted(values[port.name], port, label, takers)
        read = as_value if place in mobile else as_array
        found.append(read(value, port, label))
    return tuple(found)


def check_names(signature: Signature, values: Mapping[str, object]) -> None:
    """Raise `ArgumentError` unless there is a value for each argument and none besides."""
    entry, names = signature.entry, [port.name for port in signature.inputs]
    unknown = sorted(values.keys() - set(names))
    if unknown:
        listed = ", ".join(map(repr, unknown))
        raise ArgumentError(f"{entry} has no argument {listed}; it takes {_takes(signature)}")
    missing = [name for name in names if name not in values]
    if missing:
        listed = ", ".join(map(repr, missing))
        raise ArgumentError(f"{entry} takes {_takes(signature)}; missing: {listed}")


def _takes(signature: Signature) -> str:
    ports = signature.inputs
    if not ports:
        return "no arguments"
    return f"{len(ports)} argument{'s' * (len(ports) > 1)} ({', '.join(map(str, ports))})"


def as_value(value: object, port: Port, label: str) -> Value:
    """An array of a device as it is, if it has the port's dtype and shape; else `as_array`."""
    if not isinstance(value, DeviceArray):
        return as_array(value, port, label)
    if value.shape == port.shape and value.dtype == port.numpy:
        return value
    raise _mismatch(value, port, label)


def adopted(value: object, port: Port, label: str, takers: Sequence[Taker]) -> object:
    """
    Copies an array of another library to the device that it is on, or to another that reads it.

    Returns any other value as it is. Raises `ArgumentError` for an array that cannot be read.
    """
    if not takers or isinstance(
        value, np.ndarray | DeviceArray | bool | int | float | list | tuple
    ):
        return value
    able = [taker for taker in takers if taker.holds(value)]
    if not able:
        return value
    nearest = next((taker for taker in able if taker.is_home_of(value)), able[0])
    try:
        return nearest.adopt(value, port.numpy)
    except ArgumentError as error:
        raise ArgumentError(f"{label}: {error}") from None


def as_array(value: object, port: Port, label: str) -> Array:
    """
    A value as an array of the port's dtype and shape, without a copy where it is one already.

    Arrays, and objects with `__array__` or `__dlpack__`, must have the dtype. Python numbers and
    sequences of them take it if it can hold their values; only floats are rounded. Raises
    `ArgumentError`, whose message starts with `label`.
    """
    by_value = isinstance(value, bool | int | float | list | tuple) and not isinstance(
        value, np.generic
    )
    array = _read(value, port, label)
    if array.shape != port.shape:
        number = by_value and not isinstance(value, list | tuple)
        raise _mismatch(array, port, label, f"a number, {value!r}" if number else None)
    if array.dtype == port.numpy:
        return array
    if by_value and array.dtype.kind != "c":
        return _converted(array, port, label)
    if array.dtype.newbyteorder("=") == port.numpy:
        return array.astype(port.numpy)
    raise _mismatch(array, port, label)


def _read(value: object, port: Port, label: str) -> Array:
    """Any object as an array of numbers, of whatever dtype and shape."""
    reason = ""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            f"{label}: a masked array; fuel has no masked elements: pass its filled() array"
        )
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array = np.from_dlpack(cast(Any, value))
        else:
            array = np.asarray(value)
        if array.dtype.kind not in "OSUMm":
            return array
        if isinstance(value, int):
            reason = ": it takes more than 64 bits"
    except (TypeError, ValueError, AttributeError, BufferError, RuntimeError) as error:
        reason = f": {str(error).partition(chr(10))[0]}"
    expected = describe(port.dtype.name, port.shape)
    raise ArgumentError(
        f"{label}: expected {expected}, got {type(value).__name__}, "
        f"which cannot be read as an array of numbers{reason}"
    )


def _mismatch(array: Value, port: Port, label: str, given: str | None = None) -> ArgumentError:
    try:
        dtype = dtypes.of(array.dtype).name
    except DTypeError:
        dtype = array.dtype.name
    expected, got = describe(port.dtype.name, port.shape), given or describe(dtype, array.shape)
    return ArgumentError(f"{label}: expected {expected}, got {got}")


def _converted(array: Array, port: Port, label: str) -> Array:
    """Python numbers in the port's dtype, if it holds their values."""
    with np.errstate(all="ignore"):
        converted = array.astype(port.numpy)
        back = converted.astype(array.dtype)
    kept = (back == array) & _fits(array, port.numpy) & _fits(converted, array.dtype)
    if array.dtype.kind == "f" and port.dtype.kind in ("float", "storage"):
        kept |= np.isfinite(back) | ~np.isfinite(array)
    if not np.all(kept):
        raise ArgumentError(f"{label}: {array[~kept].flat[0]} is not a value of {port.dtype}")
    return converted


def _fits(array: Array, dtype: np.dtype[Any]) -> Array | bool:
    """Which elements lie in the range of an integer dtype; a cast of the others is arbitrary."""
    if dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    if array.dtype.kind in "biu":
        return (array >= int(limits.min)) & (array <= int(limits.max))
    wide = array.astype(np.float64)
    return (wide >= float(limits.min)) & (wide < float(int(limits.max) + 1))
