# SPDX-License-Identifier: MIT OR Apache-2.0
"""State objects: the buffers that a program keeps from call to call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from fuel_dialect.errors import ArgumentError, StateError
from fuel_runtime.call.arguments import Array, Port, Signature, Value, adopted, as_value, describe

if TYPE_CHECKING:
    from fuel_runtime.devices import Device
    from fuel_runtime.devices.buffers import BufferDevice


@dataclass(frozen=True, eq=False)
class Layout:
    """The members of the states of one executable, and the device that each is on."""

    entry: str
    ports: tuple[Port, ...]
    devices: tuple[Device, ...]
    takers: tuple[BufferDevice, ...] = ()
    """See `arguments.adopted`."""

    @staticmethod
    def of(
        signature: Signature, devices: Sequence[Device], takers: tuple[BufferDevice, ...] = ()
    ) -> Layout:
        """The layout of a signature whose members are on some devices."""
        ports = tuple(member.port for member in signature.members)
        return Layout(signature.entry, ports, tuple(devices), takers)

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return [port.name for port in self.ports]

    def make(self, given: Mapping[str, object]) -> State:
        """A new state: zeros, but for the members that are given. Raises `ArgumentError`."""
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ArgumentError(
                f"{self.entry}: the state has no {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(map(str, self.ports)) or 'no members'}"
            )
        values = [self._value(i, given) for i in range(len(self.ports))]
        return State(self, values)

    def _value(self, index: int, given: Mapping[str, object]) -> Value:
        """One member, in memory of its own."""
        port, device = self.ports[index], self.devices[index]
        if port.name not in given:
            return device.receive(np.zeros(port.shape, port.numpy))
        label = f"{self.entry}: state {port.name}"
        value = as_value(adopted(given[port.name], port, label, self.takers), port, label)
        own = np.array(value, order="C") if isinstance(value, np.ndarray) else value
        moved = device.receive(own)
        return moved.copy() if moved is value else moved

    def held(self, state: object) -> tuple[Value, ...]:
        """The values of the state of a call, which has it to itself now. Raises `StateError`."""
        if state is None:
            raise StateError(
                f"{self.entry} has state ({', '.join(map(str, self.ports))}): make one with "
                "exe.new_state() and pass it as state="
            )
        if not isinstance(state, State):
            raise StateError(f"{self.entry}: state= is what exe.new_state() gives, not {state!r}")
        if state.layout is not self:
            raise StateError(
                f"{self.entry}: {state!r} belongs to another executable; each makes its own with "
                "exe.new_state()"
            )
        return state.hold("a call")


class State:
    """
    What a program keeps from call to call: `exe(x, state=state)` reads it and updates it.

    `state["cache"]` is a NumPy copy of a member, and iterating gives the names. It serves one call
    at a time; an executable serves as many states at once as there are. Members lie on the device
    that writes them, and are updated there. A call that fails before it has written to a member
    leaves all as it was; one that fails later makes the state invalid, as `is_valid` says.
    """

    __slots__ = ("__weakref__", "_invalid", "_lock", "_values", "layout", "writing")

    def __init__(self, layout: Layout, values: Sequence[Value]):
        self.layout = layout
        self.writing = 0
        """How many runs of the call at work may have written over members; the walk counts."""
        self._values: tuple[Value, ...] | None = tuple(values)
        self._invalid = ""
        self._lock = Lock()

    # For calls.

    def hold(self, who: str) -> tuple[Value, ...]:
        """The members, for one user alone until `keep` or `release`. Raises `StateError`."""
        if not self._lock.acquire(blocking=False):
            raise StateError(
                f"{self.layout.entry}: {who} needs the state while another call is using it; a "
                "state serves one call at a time: use a state for each thread"
            )
        if self._values is None or self._invalid:
            self._lock.release()
            self._refuse()
        return self._values

    def _refuse(self) -> NoReturn:
        entry = self.layout.entry
        if self._values is None:
            raise StateError(f"{entry}: the state was freed; make another with exe.new_state()")
        raise StateError(
            f"{entry}: the state is half updated, because a call failed ({self._invalid}); make "
            "another with exe.new_state(), or keep a state.copy() to go back to"
        )

    def keep(self, values: Sequence[Value]) -> None:
        """Take the members that a call has left, and be free for the next."""
        self._values = tuple(values)
        self.writing = 0
        self._lock.release()

    def fail(self, error: BaseException) -> None:
        """A call has failed: the members are as they were, or the state is invalid."""
        if self.writing > 1 or (self.writing and not getattr(error, "before_writes", False)):
            self._invalid = f"{type(error).__name__}: {error}"
        self.writing = 0
        self._lock.release()

    # For users.

    @contextmanager
    def _reading(self) -> Iterator[tuple[Value, ...]]:
        values = self.hold("this")
        try:
            yield values
        finally:
            self._lock.release()

    @property
    def is_valid(self) -> bool:
        """Whether a call can use it: it was not freed, and no call has left it half updated."""
        return self._values is not None and not self._invalid

    def __getitem__(self, name: str) -> Array:
        """A copy of a member, as a NumPy array. Raises `KeyError` or `StateError`."""
        if name not in self.layout.names:
            raise KeyError(f"the state has no {name!r}; it has {', '.join(self.layout.names)}")
        with self._reading() as values:
            return np.array(values[self.layout.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.names)

    def __len__(self) -> int:
        return len(self.layout.ports)

    def keys(self) -> list[str]:
        """The names of the members."""
        return self.layout.names

    def numpy(self) -> dict[str, Array]:
        """Copies of all members, as NumPy arrays."""
        with self._reading() as values:
            return {n: np.array(v) for n, v in zip(self.layout.names, values, strict=True)}

    def copy(self) -> State:
        """Another state of the same executable with the same elements."""
        with self._reading() as values:
            return State(self.layout, [value.copy() for value in values])

    def free(self) -> None:
        """Give the memory back now; the state cannot be used after it. Raises `StateError`."""
        if self._values is None:
            return
        if not self._lock.acquire(blocking=False):
            raise StateError(f"{self.layout.entry}: the state is in use by a call; it ends first")
        self._values = None
        self._lock.release()

    def __repr__(self) -> str:
        how = "" if self.is_valid else (" freed" if self._values is None else " invalid")
        members = ", ".join(
            f"{port.name}: {describe(port.dtype.name, port.shape)} on {device.target.device.label}"
            for port, device in zip(self.layout.ports, self.layout.devices, strict=True)
        )
        return f"<State{how} {members}>"
