# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Every error fuel raises on purpose.

All of them derive from `FuelError`. Errors of passes derive from xDSL's
`PassFailedException` too, so that `xdsl-opt` reports them as a diagnostic with the IR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.utils.exceptions import PassFailedException

if TYPE_CHECKING:
    from collections.abc import Sequence


class FuelError(Exception):
    """
    Base of all errors of fuel.

    Each can be copied and pickled, with its message, attributes and notes: a pool of processes
    sends the errors of its workers home.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[FuelError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FuelError:
    """Make an error again without its constructor, whose arguments `args` need not be."""
    error = Exception.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class GraphError(FuelError):
    """A program is being built wrongly; the graph is as it was before the call."""


class ShapeError(GraphError, ValueError):
    """Shapes of operands do not fit the op or one another."""


class DTypeError(GraphError, TypeError):
    """Element types of operands do not fit the op or one another."""


class UnsupportedDTypeForOp(DTypeError):
    """The op has no meaning for this element type."""

    def __init__(self, op: str, dtype: str, supported: Sequence[str]):
        self.op, self.dtype, self.supported = op, dtype, tuple(supported)
        super().__init__(
            f"{op}: unsupported dtype {dtype}; it is defined for {', '.join(supported)}"
        )


class InvalidBranch(GraphError):
    """The arms given to a branch do not make a branch."""


class InvalidScan(GraphError):
    """The body, carries or step count given to a scan do not make a scan."""


class FuelPassError(FuelError, PassFailedException):
    """A pass cannot do what its options or the module ask of it; the module is unchanged."""


class NoBackendForOp(FuelPassError):
    """No target that may be used has a kernel for an op with these element types."""


class TopologyChanged(FuelPassError):
    """A module carries a plan that was made for another machine than the one it is used on."""


class PluginError(FuelPassError):
    """An addition of another package cannot be used; the message names the package."""


class SettingError(FuelError, ValueError):
    """An environment variable holds what fuel cannot follow; see `knobs`."""


class LoweringError(FuelError):
    """A run cannot be turned into code for its target."""


class ProgramError(FuelError, ValueError):
    """IR that does not parse or verify, or that lacks the function asked for."""


class ArrayFileError(FuelError, ValueError):
    """A file of arrays that is damaged, or that cannot hold what it is to hold."""


class SaveFileError(FuelError, ValueError):
    """A saved program cannot be used: damaged, of another version, or for another machine."""


class ArgumentError(FuelError, ValueError):
    """The arrays of a call do not match the arguments of the function."""


class PlaceError(FuelPassError, ArgumentError):
    """A `place` names nothing in the program, or a device that is not there."""


class WeightError(FuelError):
    """A weight is missing, or has another shape or dtype than the program says."""


class StateError(FuelError, ValueError):
    """The state of a call is missing, another program's, in use, freed, or half updated."""


class OutOfMemory(FuelError, MemoryError):
    """A program needs more memory than there is."""


class UnknownDevice(FuelError, ValueError):
    """A device name that fuel cannot read."""


class DeviceUnavailable(FuelError):
    """A device that was asked for is not on this machine, or its package is missing."""


class DeviceFailure(FuelError):
    """A device, or the library that drives it, failed; what lies on the device may be lost."""


class DeviceTimeout(DeviceFailure):
    """A device has not done in time what it was asked for; it can be used again once it has."""

    device: str = ""
    """The name of the device."""


class DecisionError(FuelError, ValueError):
    """A forced decision names a branch or an arm that the program does not have."""


class TraceError(FuelError, RuntimeError):
    """An executable cannot be traced, since somebody traces it already."""


class ArmsDiffer(FuelError, ArithmeticError):
    """Two arms of a decision give different results for the same values."""


class IndexOutOfRange(FuelError, IndexError):
    """An index operand holds a value outside the extent it indexes."""

    before_writes: bool = False
    """True if the run that raises it had written over nothing yet."""
