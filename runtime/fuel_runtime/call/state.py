# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents the state of a program: the buffers that it keeps from call to call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from fuel_dialect.errors import ArgumentError, StateError
from fuel_runtime.call.binding import adopted, as_value
from fuel_runtime.call.host_memory import wanting
from fuel_runtime.call.signature import Array, Port, Signature, Value, describe

if TYPE_CHECKING:
    from fuel_runtime.devices.interface import Device, Taker

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StateType:
    """The members of the states of one executable, and the device that each is on by its plan."""

    entry: str
    ports: tuple[Port, ...]
    devices: tuple[Device, ...]
    takers: tuple[Taker, ...] = ()
    """See `binding.adopted`."""
    owner: object = field(default_factory=object)
    """The executable; the types of the states of its plans have it in common."""

    @staticmethod
    def of(
        signature: Signature,
        devices: Sequence[Device],
        takers: tuple[Taker, ...] = (),
        owner: object | None = None,
    ) -> StateType:
        """Returns the type of the states of a signature whose members are on some devices."""
        ports = tuple(member.port for member in signature.members)
        owner = object() if owner is None else owner
        return StateType(signature.entry, ports, tuple(devices), takers, owner)

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return [port.name for port in self.ports]

    def make(self, given: Mapping[str, object]) -> State:
        """
        Returns a new state: zeros, but for the members that are given.

        Raises `ArgumentError`, and `OutOfMemory` that names the member.
        """
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
        label = f"{self.entry}: state {port.name}"
        with wanting(label, port.bytes):
            if port.name not in given:
                return device.receive(np.zeros(port.shape, port.numpy))
            value = as_value(adopted(given[port.name], port, label, self.takers), port, label)
            own = np.array(value, order="C") if isinstance(value, np.ndarray) else value
            moved = device.receive(own)
            return moved.copy() if moved is value else moved

    def begin(self, state: object) -> Use:
        """Returns the use that a call is going to make of a state. Raises `StateError`."""
        if state is None:
            raise StateError(
                f"{self.entry} has state ({', '.join(map(str, self.ports))}): make one with "
                "exe.new_state() and pass it as state="
            )
        if not isinstance(state, State):
            raise StateError(f"{self.entry}: state= is what exe.new_state() gives, not {state!r}")
        if state.type.owner is not self.owner:
            raise StateError(
                f"{self.entry}: {state!r} belongs to another executable; each makes its own with "
                "exe.new_state()"
            )
        return Use(state, self)

    def moved(self, values: Sequence[Value]) -> list[Value]:
        """Returns the members of a state on the devices of this type. Raises `OutOfMemory`."""
        moved: list[Value] = []
        for port, device, value in zip(self.ports, self.devices, values, strict=True):
            with wanting(f"{self.entry}: state {port.name}", port.bytes):
                moved.append(device.receive(value))
        return moved


class Progress:
    """Counts the runs of a call that may have written over members; the walk counts."""

    __slots__ = ("writing",)

    def __init__(self) -> None:
        self.writing = 0


class Use:
    """
    One use of a state, by a call or by a reader: nobody else may use the state meanwhile.

    The state refers to it weakly. So a use that was interrupted, at whatever moment, ends with the
    frame that made it, if neither `keep` nor `fail` did that before.
    """

    __slots__ = ("__weakref__", "_after", "_before", "_state", "_type", "progress")

    def __init__(self, state: State, type: StateType | None = None):
        self.progress = Progress()
        self._state = state
        self._type = type
        self._before: tuple[Value, ...] | None = None
        self._after: tuple[Value, ...] | None = None

    def take(self, who: str = "a call") -> tuple[Value, ...]:
        """Begins, and returns the members. Raises `StateError`."""
        return self._state.claim(self, who, self._type)

    def keep(self, values: Sequence[Value]) -> None:
        """Ends with other members, those that a call has left."""
        state, after = self._state, tuple(values)
        with state.lock:
            self._before, self._after = state.values, after
            state.values = after
            state.release(self)

    def end(self) -> None:
        """Ends with the members as they are; nothing if it never began."""
        with self._state.lock:
            self._state.release(self)

    def fail(self, error: BaseException) -> None:
        """Ends with the members as they were, or with a state that is invalid."""
        state = self._state
        with state.lock:
            is_kept = self._after is not None and state.values is self._after and state.is_unused
            if not state.is_used_by(self) and not is_kept:
                return
            writing = self.progress.writing
            if writing > 1 or (writing and not getattr(error, "before_writes", False)):
                state.invalid = f"{type(error).__name__}: {error}"
            elif is_kept or self._after is not None:
                state.values = self._before
            state.release(self)


class State:
    """
    Holds the members of a program's state: `exe(x, state=state)` reads and updates them.

    `state["cache"]` is a NumPy copy of a member, and iterating gives the names. It serves one call
    at a time; an executable serves as many states at once as there are. Members lie on the device
    that writes them, and are updated there. A call that fails or is interrupted before it has
    written to a member leaves all as it was; one that fails later makes the state invalid, as
    `is_valid` says.
    """

    __slots__ = ("__weakref__", "_progress", "_user", "invalid", "lock", "type", "values")

    def __init__(self, type: StateType, values: Sequence[Value]):
        self.type = type
        self.lock = RLock()
        """Guards what follows, for a moment each: nobody holds it while a call runs."""
        self.values: tuple[Value, ...] | None = tuple(values)
        self.invalid = ""
        self._user: weakref.ref[Use] | None = None
        self._progress = Progress()

    # For uses; under the lock.

    def claim(self, use: Use, who: str, type: StateType | None) -> tuple[Value, ...]:
        """
        Returns the members, for one use alone until it ends; on the devices of a type, if given.

        Raises `StateError`, and `OutOfMemory`, which leaves the state as it was.
        """
        with self.lock:
            self._check_unused(f"{who} needs the state while another call is using it")
            if self.values is None or self.invalid:
                self._refuse()
            if type is not None and type is not self.type:
                self.values, self.type = tuple(type.moved(self.values)), type
            self._progress = use.progress
            self._user = weakref.ref(use)
            return self.values

    def is_used_by(self, use: Use) -> bool:
        """Returns True while a use has the state."""
        return self._user is not None and self._user() is use

    @property
    def is_unused(self) -> bool:
        """True while no use has the state."""
        return self._user is None

    def release(self, use: Use) -> None:
        """Lets the next use begin, if this one has the state."""
        if self.is_used_by(use):
            self._user = None

    def _check_unused(self, what: str) -> None:
        """Raises `StateError` while a use has the state; ends one that went without ending."""
        if self._user is None:
            return
        if self._user() is not None:
            raise StateError(
                f"{self.type.entry}: {what}; a state serves one call at a time: use a state for "
                "each thread"
            )
        if self._progress.writing:
            self.invalid = "it was interrupted"
        self._user = None

    def _refuse(self) -> NoReturn:
        entry = self.type.entry
        if self.values is None:
            raise StateError(f"{entry}: the state was freed; make another with exe.new_state()")
        raise StateError(
            f"{entry}: the state is half updated, because a call failed ({self.invalid}); make "
            "another with exe.new_state(), or keep a state.copy() to go back to"
        )

    # For users.

    def _read(self, what: str, read: Callable[[tuple[Value, ...]], T]) -> T:
        use = Use(self)
        try:
            with wanting(f"{self.type.entry}: {what}"):
                return read(use.take("this"))
        finally:
            use.end()

    @property
    def is_valid(self) -> bool:
        """True if a call can use it: it was not freed, and no call has left it half updated."""
        is_abandoned = self._user is not None and self._user() is None
        if is_abandoned and self._progress.writing:
            return False
        return self.values is not None and not self.invalid

    def __getitem__(self, name: str) -> Array:
        """Returns a copy of a member, as a NumPy array. Raises `KeyError` or `StateError`."""
        names = self.type.names
        if name not in names:
            raise KeyError(f"the state has no {name!r}; it has {', '.join(names)}")
        return self._read(f"a copy of {name}", lambda values: np.array(values[names.index(name)]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.type.names)

    def __len__(self) -> int:
        return len(self.type.ports)

    def keys(self) -> list[str]:
        """Returns the names of the members."""
        return self.type.names

    def numpy(self) -> dict[str, Array]:
        """Returns copies of all members, as NumPy arrays."""
        names = self.type.names
        return self._read(
            "a copy of the state",
            lambda values: {n: np.array(v) for n, v in zip(names, values, strict=True)},
        )

    def copy(self) -> State:
        """Returns another state of the same executable with the same elements."""
        return self._read(
            "a copy of the state", lambda values: State(self.type, [v.copy() for v in values])
        )

    def free(self) -> None:
        """Gives the memory back now; the state cannot be used after it. Raises `StateError`."""
        with self.lock:
            if self.values is not None:
                self._check_unused("the state cannot be freed while a call is using it")
                self.values = None

    def __repr__(self) -> str:
        how = "" if self.is_valid else (" freed" if self.values is None else " invalid")
        members = ", ".join(
            f"{port.name}: {describe(port.dtype.name, port.shape)} on {device.name.label}"
            for port, device in zip(self.type.ports, self.type.devices, strict=True)
        )
        return f"<State{how} {members}>"
