# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Makes the objects of a call the arguments of a program.

The generated method looks at well-formed NumPy arrays itself; everything else comes here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from fuel_dialect import dtypes
from fuel_dialect.errors import ArgumentError, DTypeError
from fuel_runtime.call.signature import Array, Port, Signature, Value, describe
from fuel_runtime.devices.arrays import DeviceArray

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Taker


class Missing:
    """Represents the value of an argument that a call did not give by position."""

    def __repr__(self) -> str:
        return "..."


MISSING: Final = Missing()


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
    # numpy.ma takes 10 ms to import, and a plain array is no masked one.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
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
    """Marks the elements in the range of an integer dtype; a cast of the others is arbitrary."""
    if dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    if array.dtype.kind in "biu":
        return (array >= int(limits.min)) & (array <= int(limits.max))
    wide = array.astype(np.float64)
    return (wide >= float(limits.min)) & (wide < float(int(limits.max) + 1))
