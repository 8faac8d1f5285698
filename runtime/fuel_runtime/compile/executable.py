# SPDX-License-Identifier: MIT OR Apache-2.0
"""Represents a compiled function: what a caller has of it."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from fuel_dialect.context import load_program
from fuel_dialect.errors import ArgumentError, TraceError
from fuel_passes.memory.record import MemoryPlan
from fuel_runtime.call.binding import MISSING, bind
from fuel_runtime.call.live import Live
from fuel_runtime.call.report import (
    Report,
)
from fuel_runtime.call.signature import STATE, Signature
from fuel_runtime.call.state import State, StateType, Use
from fuel_runtime.compile.code import Code
from fuel_runtime.compile.renewal import Renewal, outdate
from fuel_runtime.compile.reporting import current_report

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from os import PathLike

    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.call.dispatch import Dispatches
    from fuel_runtime.call.profile import Profile
    from fuel_runtime.call.tracing import Recorder
    from fuel_runtime.compile.tracing import Trace


def walk_file(signature: Signature) -> str:
    """Returns the name of the file of the method that a call runs, in tracebacks."""
    return f"<fuel walk of {signature.entry}>"


class Executable(abc.ABC):
    """
    A compiled function: call it with arrays, get a tuple of new arrays.

    Arguments are given by position or by `fuel.name`. NumPy arrays of the declared shape and dtype
    are read where they lie, whatever their strides; so are objects with `__array__` or
    `__dlpack__`, and arrays of a device by what runs there. Python numbers and sequences of them
    are converted, if the dtype holds their values. A result is a NumPy array, or an array of the
    device that `fuel.device` says it is to be on. Results never share memory with arguments,
    weights or one another.

    A program that has state takes it as `state=`, which `new_state` makes, and updates it; it is
    not among the results. Calls from several threads at once are fine, each with a state of its
    own. A call raises `ArgumentError` for arguments that do not fit, `StateError` for a state that
    cannot be used, `IndexOutOfRange` when an index operand points outside, and `DeviceFailure` when
    a device fails.
    """

    __slots__ = (
        "__weakref__",
        "_code",
        "_ended",
        "_live",
        "_module",
        "_renewal",
        "_state_type",
        "_walk",
    )

    def __init__(
        self,
        module: ModuleOp | str,
        code: Code,
        walk: str,
        state_type: StateType,
        live: Live | None,
    ):
        self._module = module
        self._code = code
        self._walk = walk
        self._state_type = state_type
        self._live = live
        self._ended: weakref.finalize[Any, Any] | None = None
        self._renewal: Renewal | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("an executable cannot be pickled; save() and Session.load() keep it")

    # For sessions.

    def own(self, call: Callable[..., Any]) -> None:
        """
        Lets the globals of the method that calls run go with the executable.

        Generated functions and their globals hold one another: memory of devices, weights and
        workspaces would wait for a collection.
        """
        self._ended = weakref.finalize(self, call.__globals__.clear)
        self._ended.atexit = False

    def renewable(self, renewal: Renewal) -> None:
        """Lets the executable be planned anew when its session takes another topology."""
        self._renewal = renewal
        outdate(self)

    @property
    def is_outdated(self) -> bool:
        """True while the session plans for another topology than this is planned for."""
        return self._renewal is not None and self._renewal.is_due

    def renew(self) -> None:
        """Plans the program anew where that is due. Raises what `Session.compile` raises."""
        if self._renewal is not None:
            self._renewal.renew(self)

    def become(self, other: Executable) -> None:
        """Takes the plan and the code of another executable of the same program."""
        call = type(other).__call__
        for part in ("_code", "_live", "_module", "_state_type", "_walk"):
            setattr(self, part, getattr(other, part))
        for each in (self, other):
            if each._ended is not None:
                each._ended.detach()
        self.own(call)
        type(self).__call__ = call

    @property
    def planned(self) -> ModuleOp:
        """The optimised IR of the plan that there is, also where another is due."""
        if isinstance(self._module, str):
            self._module = load_program(self._module)
        return self._module

    def _newest(self) -> tuple[Code, ModuleOp]:
        """Returns the code and the IR of the newest plan."""
        self.renew()
        return self._code, self.planned

    @property
    def owner(self) -> object:
        """The owner of the states of all plans of the program; see `StateType`."""
        return self._state_type.owner

    # For everybody.

    @abc.abstractmethod
    def __call__(self, *args: Any, **named: Any) -> tuple[Any, ...]:
        """Run the function on arrays. Each executable has its own, generated for its arguments."""

    def new_state(self, given: Mapping[str, Any] | None = None, /, **named: Any) -> State:
        """
        A state to pass to calls as `state=`: zeros, but for the members that are given by name.

        Arrays are copied. Raises `ArgumentError` for what is no member of the state or does not
        fit, and where the program has no state.
        """
        if not self._code.signature.members:
            raise ArgumentError(
                f"{self._code.signature.entry} has no state; state is a donated argument: make it "
                "with graph.state"
            )
        return self._state_type.make({**(given or {}), **named})

    @property
    def module(self) -> ModuleOp:
        """The optimised IR; changing it does not change the executable."""
        self.renew()
        return self.planned

    @property
    def signature(self) -> Signature:
        """Names, dtypes and shapes of the arguments and results."""
        return self._code.signature

    @property
    def source(self) -> str:
        """The generated code: the runs of every arm, and the walk of the chosen route."""
        self.renew()
        runs = (run.source.strip("\n") for run in self._code.parts.lowered.values())
        return "\n\n".join([*runs, self._walk])

    def save(self, path: str | PathLike[str], *, weights: bool = False) -> None:
        """
        Writes the program to a file, as a whole or not at all, for `Session.load`.

        It holds the optimised IR, the generated code, and the kernels that were compiled; with
        `weights` also the weights, which `load` is given otherwise. Raises `SaveFileError` for a
        name that does not end in `.fuel`, and `OSError`.
        """
        from fuel_runtime.compile.saving import save

        self.renew()
        walk = {walk_file(self.signature): self._walk} if self._live is None else {}
        save(Path(path), str(self._module), self._code, self._state_type, weights, walk)

    def report(self) -> Report:
        """
        Devices, runs, transfers and sizes; of each branch the arm that runs, why, and why not the
        others.
        """
        self.renew()
        return current_report(self._code.report, self._code.parts, self._code.transfers, self._live)

    def memory(self) -> MemoryPlan:
        """Returns the memory that calls take on each device, known before any call."""
        self.renew()
        return MemoryPlan(self._code.report.memory)

    def trace(self, path: str | PathLike[str]) -> Trace:
        """
        Traces the calls of a block: `with exe.trace("t.json"): exe(x)`, then open it in Perfetto.

        Of each call it has runs, kernels where their target can tell them apart, transfers with
        their bytes, picks with their reasons, faults and the memory of devices; each device has a
        lane for each thread. Every thread's calls of this executable are traced, until it is
        planned anew (`Session.replan`). Devices are waited for after each run, so a traced call
        takes longer; its results have the same bits. The file is written at the end of the block,
        also after an error, as a whole or not at all. Raises `TraceError` for an executable that is
        being traced, and `OSError`.
        """
        from fuel_runtime.compile.tracing import Trace

        return Trace(Path(path), lambda: (self._observing, *self._newest()))

    def profile(self, *args: Any, repeats: int = 10, **named: Any) -> Profile:
        """
        Returns where the time of calls goes: kernel by kernel, with bytes and the least time.

        It makes a call to warm up and `repeats` that are timed, on these arguments and a copy of
        the state, which stays as it is. Devices are waited for after each run, as in a trace.
        Printed it is a table. Raises what a call raises, and `TraceError`.
        """
        from fuel_runtime.compile.profiling import profile

        if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"profile: repeats is how many calls are timed, not {repeats!r}")
        self.renew()
        if self._code.signature.members:
            given = named.pop(STATE, None)
            named[STATE] = given.copy() if isinstance(given, State) else given or self.new_state()

        code = self._code

        def call() -> None:
            self(*args, **named)
            if self._code is not code:
                raise TraceError(
                    f"{code.signature.entry} was planned anew while it was profiled; do so again"
                )

        return profile(call, repeats, self._observing, code, self.planned)

    def dispatches(self, detail: Literal["coarse", "detailed"] = "coarse") -> Dispatches:
        """
        Returns which code serves the kernels of a call now, on which hardware.

        Records of kernels that nothing but a source for every kernel serves are misses. With
        "detailed" each record has all ways to make its kernels, with prices and measured times, or
        the reason against them. Nothing is recorded unless this is called.
        """
        from fuel_runtime.compile.dispatching import dispatches

        if detail not in ("coarse", "detailed"):
            raise ArgumentError(f'dispatches: detail is "coarse" or "detailed", not {detail!r}')
        self.renew()
        live, route = self._live, self._code.parts.route
        if live is not None and live.settled is not None:
            route = live.settled.route
        times = None if live is None else live.steering.times
        return dispatches(self._code, self.module, route, times, detail == "detailed")

    def _observing(self, recorder: Recorder) -> AbstractContextManager[None]:
        from fuel_runtime.compile.tracing import observing

        return observing(type(self), self._code, self._live, recorder)

    def route(self) -> dict[str, Any]:
        """
        Return the arms that a call would take now, as `Session(replay=)` reads them.

        They belong to this program: `decisions` names all that it has, with their arms.
        """
        self.renew()
        decisions = {branch.decision: len(branch.arms) for branch in self._code.report.branches}
        if self._live is not None:
            arms = self._live.route()
        else:
            arms = {b.decision: b.arm for b in self._code.report.branches if b.on_route}
        return {"entry": self._code.signature.entry, "decisions": decisions, "arms": arms}

    def time_arms(
        self, args: Sequence[Any], named: Mapping[str, Any], state: State | None, repeats: int
    ) -> int:
        """Time each arm that can run, on copies of a state; see `Session.calibrate`."""
        self.renew()
        if self._live is None:
            return 0
        signature = self._code.signature
        if len(args) > len(signature.positions):
            raise ArgumentError(f"{signature.entry}: calibrate: too many arguments")
        missing = [MISSING] * (len(signature.positions) - len(args))
        takers = self._state_type.takers
        given = bind(signature, [*args, *missing], (), named, self._live.mobile, takers)
        return self._live.time_arms(lambda: self._use_of(given, state), repeats)

    def _use_of(
        self, given: Sequence[Any], state: State | None
    ) -> tuple[Use | None, tuple[Any, ...]]:
        """Returns a use of a copy of a state, and all arguments of the function with it."""
        signature = self._code.signature
        if not signature.members:
            return None, tuple(given)
        use = self._state_type.begin(None if state is None else state.copy())
        everything = dict(zip(signature.positions, given, strict=True))
        members = (member.argument for member in signature.members)
        everything |= dict(zip(members, use.take(), strict=True))
        return use, tuple(everything[index] for index in range(len(signature.arguments)))

    def __repr__(self) -> str:
        return f"<Executable {self._code.signature}>"
