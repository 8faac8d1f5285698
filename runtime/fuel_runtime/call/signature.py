# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents what a function takes and gives: its inputs, outputs and the members of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from xdsl.irdl import VerificationContext
from xdsl.utils.exceptions import VerifyException

from fuel_dialect import dtypes
from fuel_dialect.attributes import NAME, text_of
from fuel_dialect.errors import DTypeError, GraphError, ProgramError
from fuel_dialect.ops.base import ANY_TENSOR
from fuel_dialect.state import donations
from fuel_dialect.tensors import AnyTensor
from fuel_runtime.devices.arrays import DeviceArray

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute

    from fuel_dialect.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]
Value = Array | DeviceArray


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
        """The bytes of the elements."""
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
    Holds the inputs and outputs of a function, in order, and the state that it works on.

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
        donated = {member.argument for member in self.members}
        count = len(self.inputs) + len(self.members)
        return tuple(index for index in range(count) if index not in donated)

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
        name = _label(f"{entry}: {what} {index}", extra.get(NAME)) or f"{prefix}{index}"
        if name in ports:
            raise ProgramError(f"{entry}: two {what}s are called {name!r}")
        ports[name] = _port(f"{entry}: {what} {index} ({name})", name, type)
    return tuple(ports.values())


def _label(where: str, attribute: Attribute | None) -> str | None:
    """Returns the name in a `fuel.name`. Raises `ProgramError` for what is no name."""
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
