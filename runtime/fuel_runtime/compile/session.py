# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions: the devices to use and the options of compiling for them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.attributes import DeviceAttr
from fuel_dialect.context import Program, load_program, make_context
from fuel_dialect.errors import (
    ArgumentError,
    DecisionError,
    DTypeError,
    OutOfMemory,
    UnknownDevice,
    WeightError,
)
from fuel_dialect.progress import Listener, listening
from fuel_lowering.cores import usable_cores
from fuel_runtime.call.live import Steering
from fuel_runtime.call.signature import Signature
from fuel_runtime.compile.functions import find_function
from fuel_runtime.compile.optimizing import Planning, planned_for
from fuel_runtime.compile.placing import Place, Results, pins, place_results
from fuel_runtime.compile.renewal import Renewal, outdate
from fuel_runtime.devices.caps import Caps, limit
from fuel_runtime.devices.opening import Emulate, open_devices
from fuel_runtime.devices.present import Devices
from fuel_runtime.devices.watchdog import as_seconds
from fuel_runtime.measurement_store import (
    MeasuredTimes,
    MeasurementError,
    MeasurementStore,
    is_store,
)
from fuel_runtime.picker.policy import Policy
from fuel_runtime.telemetry.providers import providers_of
from fuel_runtime.telemetry.sampler import Provider, Telemetry

if TYPE_CHECKING:
    from fuel_dialect.targets.machine import Topology
    from fuel_passes.planning.measurements import MeasurementSource
    from fuel_runtime.compile.executable import Executable
    from fuel_runtime.picker.replay import RecordedRoute

Weights = Mapping[str, Any] | str | PathLike[str] | None

MOST_THREADS = 1024
"""More threads than any kernel has use for are a mistake, and cost memory each."""


class Session:
    """
    Compiles programs for some devices, with some options.

    `devices` is a comma-separated list such as `cpu,cuda:0`, "auto" for what this machine has, or
    what `open_devices` gave. `emulate` names those of them that need not be there: `"cuda:0"`, or
    `{"cuda:0": 1 << 30}` with the bytes of its memory. `force` maps decisions to arms:
    `{"d0": 1}`, nested `{"d3/1/d0": 0}`. `threads` is how many threads the CPU may use, all cores
    by default.

    `topology` is what programs are planned for: the name of a preset, a `.json` file or a
    `Topology`; without one, what follows from the devices. The rest are options of
    `fuel-optimize`. With `variants="keep"` the optimiser keeps every way to compute something as an
    arm that can be forced; with "bake" only those that are near in price. `granularity="chain"`
    cuts runs at every fan-in and fan-out. `precision="exact"` refuses programs that need dtype
    promotion. `device` pins every kernel that it can run to a device. Only kernels are used that
    are at most `max_ulps` units in the last place off, and with `deterministic` those that give the
    same bits each time. `measurements`, a `.json` file or a `MeasurementSource`, replaces modelled
    prices. Another device becomes an arm of a decision if it takes at most `reach` times as long as
    the planned one, or if the work would fill more than the share `refuge` of the memory of that.
    What follows from weights alone, such as a cast, is computed once when they are bound, where it
    takes at most `prepare_bytes`: a quarter of the smallest memory by default, 0 for never.
    `plugins=False` leaves out the passes, patterns and selectors of other packages. `memory` bounds
    what devices give, as `{"cuda:0": "2GiB"}`: programs are planned for that much, and
    `OutOfMemory` is raised before more is taken. Who waits for a device for more than
    `answer_within` seconds gives up with `DeviceTimeout`, and takes another arm if there is one;
    without it calls wait for ever. With `poison`, memory that is given back on a
    device is filled with NaN, so that nobody reads what is no longer there.

    Which arm of a decision runs is decided while a program runs, by what the devices say of
    themselves (`telemetry`: True, False, or functions by the name of a device). `forbid` names arms
    that never run. With `strict` only the arm that is forced, or the first, ever runs; without it
    an arm whose device fails is left for another. `replay` takes the arms that `Executable.route()`
    gave, or a JSON file of them, for the same program. A store of measured times (`measurements`
    that ends in `.db`) is read, and written by `calibrate` and by a sample of calls. `explore` is
    the largest share of calls that try an arm nobody has measured. With `check_arms` each call runs
    every arm on the same values first and raises `ArmsDiffer` for one that gives something else:
    by more than a relative difference, or for True by more than the usual one of the element type.

    `progress` is called with a `fuel_dialect.progress.Progress` as compiling and loading go on: the
    stage, how many of its passes, runs, weights or kernels are done, and which is at work. It is
    called in the thread that compiles, and may use no device of the session.

    Raises `UnknownDevice`, `DeviceUnavailable`, `ArgumentError`, or `FuelPassError` for a topology
    that is none.
    """

    def __init__(
        self,
        devices: str | Devices = "cpu",
        *,
        emulate: Emulate = None,
        force: Mapping[str, int] | None = None,
        forbid: Mapping[str, int | Collection[int]] | None = None,
        strict: bool = False,
        replay: Mapping[str, Any] | str | PathLike[str] | None = None,
        explore: float = 0.0,
        check_arms: bool | float = False,
        telemetry: Telemetry | Mapping[str, Provider] | bool = True,
        threads: int | None = None,
        topology: str | PathLike[str] | Topology | None = None,
        variants: Literal["bake", "keep"] = "bake",
        granularity: Literal["segment", "chain"] = "segment",
        precision: Literal["fast", "exact"] = "fast",
        device: str | None = None,
        deterministic: bool = False,
        max_ulps: int | None = None,
        measurements: str | PathLike[str] | MeasurementSource | None = None,
        reach: float = 4.0,
        refuge: float = 0.8,
        prepare_bytes: int | None = None,
        plugins: bool = True,
        memory: Caps = None,
        answer_within: float | None = None,
        poison: bool = False,
        progress: Listener | None = None,
    ):
        options: dict[str, Any] = {
            "variants": variants,
            "granularity": granularity,
            "precision": precision,
            "device": device,
            "deterministic": deterministic,
            "max_ulps": max_ulps,
            "reach": reach,
            "refuge": refuge,
            "prepare_bytes": prepare_bytes,
            "plugins": plugins,
        }
        store, times, options["measurements"] = _times_of(measurements, explore)
        if not isinstance(poison, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"session: poison is True or False, not {poison!r}")
        within = answer_within
        if within is not None:
            within = as_seconds(within, "session: answer_within")
        if progress is not None and not callable(progress):
            raise ArgumentError(f"session: progress is a function, not {progress!r}")
        self._progress = progress
        self._devices = _opened(devices, emulate, threads)
        limit(self._devices, memory)
        if within is not None:
            for each in self._devices.present:
                each.answer_within(within)
        if poison:
            for each in self._devices.present:
                each.poison()
        replayed = None if replay is None else _recorded(replay)
        if replayed is not None and force is not None:
            raise DecisionError("session: give replay or force, not both")
        forced = force if replayed is None else replayed.arms
        policy = Policy.of(forced, forbid, strict, explore, check_arms)
        self._telemetry = _telemetry_of(telemetry, self._devices)
        self._steering = Steering(policy, self._telemetry, times, plugins, replayed)
        # What is as by default needs no check, which would import the passes; loading does not.
        defaults = cast("Mapping[str, object]", Session.__init__.__kwdefaults__)
        given = {n: value for n, value in options.items() if value is not defaults[n]}
        target = planned_for(topology, self._devices)
        self._planning = Planning(target, self._devices, given, topology is not None)
        self._executables: weakref.WeakSet[Executable] = weakref.WeakSet()
        self._lock = Lock()
        """Guards the set of executables."""
        self._store = store
        if store is not None and times is not None:
            weakref.finalize(self, _keep_times, store, times)

    @property
    def devices(self) -> Devices:
        """The devices that were asked for, those present, and why the rest is absent."""
        return self._devices

    def compile(
        self,
        program: Program,
        entry: str = "main",
        *,
        weights: Weights = None,
        optimize: bool = True,
        place: Place | None = None,
        results: Results | None = None,
    ) -> Executable:
        """
        Compile a function of a module, of a `.mlir` file or of IR text; a module is left as it is.

        `weights` holds the arrays of the program's `fuel.weight`s, or names a `.safetensors` or
        `.npz` file of them; they are read where they lie, so do not write to them: what was
        prepared from them or is on a device would not follow. What it holds besides is ignored.
        They are kept as long as the executable, for `replan`.

        With `optimize=False` the program is taken as it is: what is in no kernel or run is put into
        one. A plan in it must be for the `topology` of the session, if that was given one, or else
        of the module, if it states one.

        `place` pins what is named to a device: ops by kind (`matmul`), the op of a value by the
        name it has in the IR (`h`), all arms of a decision (`d0`), or kernels by the label that
        `fuel-explain` and the optimised IR show; see `fuel-pin-ops`. `results` says where results
        are to be: a device for all, a mapping of their names to devices, or a sequence; those
        elsewhere than on the host come as `DeviceArray`s. Without it the program decides
        (`fuel.device`), else it is the host.

        Raises `ProgramError` for IR that does not parse or verify or lacks the function, `OSError`
        for a file that cannot be read, `WeightError` for weights that are missing or do not fit,
        `TopologyChanged` for a plan that is for another topology, `DecisionError` for a forced
        decision that is not there, `DeviceUnavailable` for one that cannot be followed,
        `ArgumentError` for a `place` or `results` that names nothing, `OutOfMemory`, and what the
        passes raise.
        """
        module, planning = load_program(program), self._planning
        function = find_function(module, entry)
        if results is not None:
            place_results(function, Signature.of(function), results, self._devices)
        given = _loaded_weights(weights)
        with listening(self._progress):
            self._plan(planning, module, entry, optimize, place)
            executable = self._built(planning, module, entry, given)
        self._remember(executable, planning, entry, given, optimize)
        return executable

    def _remember(
        self,
        executable: Executable,
        planned_for: Planning,
        entry: str,
        weights: Mapping[str, Any],
        optimize: bool,
    ) -> None:
        """Lets an executable be planned anew after `replan`."""

        def planned(old: Executable) -> tuple[Planning, Executable]:
            module, planning = old.planned.clone(), self._planning
            with listening(self._progress):
                self._plan(planning, module, entry, optimize, None)
                return planning, self._built(planning, module, entry, weights, old.owner)

        with self._lock:
            self._executables.add(executable)
        executable.renewable(Renewal(planned_for, lambda: self._planning, planned))

    def replan(self, topology: str | PathLike[str] | Topology | None = None) -> None:
        """
        Plans for another topology from now on; None for what follows from the devices.

        What the session compiled or loaded before is planned anew from its optimised IR, each once,
        when it is used next; then its first call, and the threads that call it meanwhile, wait for
        that. Calls on their way end by the plan that they began with; one whose device fails it
        meanwhile is made again by the new plan, unless it has written to its state by then. States
        go where the new plan wants them. With `optimize=False` a program keeps its plan, and its
        use raises `TopologyChanged` if the plan is for another topology.

        The options of the session stay: a program that is pinned to a device (`device`, `place`) or
        whose arms are named (`force`, `forbid`, `replay`) raises when it is used under a topology
        without that device or decision, until another `replan`. One that was loaded with weights
        of its file that had been prepared raises `WeightError`: load it with `weights`.

        Raises `FuelPassError` or `ArgumentError` for a topology that is none, and changes nothing
        then.
        """
        target = planned_for(topology, self._devices)
        planning = replace(self._planning, topology=target, is_told=topology is not None)
        with self._lock:
            self._planning = planning
            known = list(self._executables)
        for executable in known:
            outdate(executable)

    @property
    def topology(self) -> Topology:
        """The machine that programs are planned for."""
        return self._planning.machine

    def _built(
        self,
        planning: Planning,
        module: ModuleOp,
        entry: str,
        weights: Mapping[str, Any],
        owner: object | None = None,
    ) -> Executable:
        """Returns the executable of a module that is planned."""
        from fuel_runtime.compile.build import build

        try:
            return build(
                module,
                find_function(module, entry),
                self._devices,
                weights,
                self._steering,
                planning.topology_of(module),
                bounds=planning.bounds,
                owner=owner,
            )
        except MemoryError as error:
            raise OutOfMemory(f"{entry}: not enough memory to load it: {error}") from None

    def load(self, path: str | PathLike[str], *, weights: Weights = None) -> Executable:
        """
        Returns the executable that `Executable.save` wrote: nothing is planned again, and nothing
        lowered but what prepares weights that the file does not hold.

        `weights` are given as to `compile`, where the file does not hold them. A file is as trusted
        as a program: what it holds is executed. Raises `SaveFileError` for a file that is damaged,
        of another version of fuel, for other hardware, or that was not compiled within `max_ulps`
        or `deterministic` of the session; `TopologyChanged` if the session was told another
        topology; `OSError`, and `WeightError`, `DecisionError` and `OutOfMemory` as `compile` does.
        """
        from fuel_runtime.compile.loading import load

        planning = self._planning
        with listening(self._progress):
            executable, merged = load(
                Path(path),
                self._devices,
                _loaded_weights(weights),
                self._steering,
                planning.bounds,
                planning.told,
            )
        entry = executable.signature.entry
        self._remember(executable, planning, entry, merged, optimize=True)
        return executable

    def calibrate(
        self, executable: Executable, *args: Any, state: Any = None, repeats: int = 5, **named: Any
    ) -> int:
        """
        Time every arm that can run, on these arguments and copies of a state; how many there are.

        The times go into the store of the session, where planning and picking find them. An arm
        that fails has none. Raises `ArgumentError` without `measurements="FILE.db"`, and
        `MeasurementError` where the store cannot be written.
        """
        times = self._steering.times
        if self._store is None or times is None:
            raise ArgumentError('calibrate: give the session a store, measurements="FILE.db"')
        if executable not in self._executables:
            raise ArgumentError(
                f"calibrate: {executable!r} is not of this session: compile or load it here"
            )
        timed = executable.time_arms(args, named, state, repeats)
        self._store.add(times.take_fresh())
        return timed

    @property
    def telemetry(self) -> Telemetry:
        """The signals of the devices; see `fuel_runtime.telemetry`."""
        return self._telemetry

    def run(
        self,
        program: Program,
        *args: Any,
        entry: str = "main",
        weights: Weights = None,
    ) -> tuple[Any, ...]:
        """Compile a program and call it once; see `compile` and `Executable`."""
        return self.compile(program, entry, weights=weights)(*args)

    def put(self, array: Any, device: str) -> Any:
        """
        An array on a device of the session, to be an argument of many calls.

        One of another library in CUDA memory comes to a CUDA device without passing the host.
        Raises `DeviceUnavailable`, `OutOfMemory`, or `ArgumentError` for what is no array that fuel
        can hold.
        """
        import numpy as np

        from fuel_dialect import dtypes
        from fuel_runtime.devices.arrays import DeviceArray

        if not isinstance(device, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"put: device is a name such as 'cuda:0', not {device!r}")
        home = self._devices.at(DeviceAttr.of(device))
        if isinstance(array, DeviceArray):
            return home.receive(array)
        taker = home.taker
        reads = taker is not None and taker.holds(array)
        given = taker.adopt(array) if taker is not None and reads else np.asarray(array)
        try:
            dtypes.of(given.dtype)
        except DTypeError as error:
            raise ArgumentError(f"put: {error}") from None
        return home.receive(given)

    def _plan(
        self,
        planning: Planning,
        module: ModuleOp,
        entry: str,
        optimize: bool,
        place: Place | None,
    ) -> None:
        """Brings a module into runs and branches."""
        if optimize:
            wanted = () if place is None else pins(place, entry, self._devices)
            planning.optimize(module, wanted)
        elif place is not None:
            raise ArgumentError(
                "place: with optimize=False a program runs where it says; pin ops in it (placement)"
            )
        else:
            from fuel_passes.finishing.form_runs import FormRunsPass
            from fuel_passes.finishing.reuse_buffers import ReuseBuffersPass

            planning.take(module)
            context = make_context()
            FormRunsPass().apply(context, module)
            # A program may claim to own what it does not: `reuses` is decided here, not believed.
            ReuseBuffersPass().apply(context, module)


def _times_of(
    measurements: object, explore: float
) -> tuple[MeasurementStore | None, MeasuredTimes | None, str | MeasurementSource | None]:
    """
    Returns the store of measured times, the times that calls add to, and what planning reads.

    Raises `ArgumentError` for what holds no times, and `MeasurementError` for a store that is none.
    """
    from fuel_passes.planning.measurements import MeasurementSource

    if is_store(measurements):
        store = MeasurementStore(cast(Any, measurements))
        return store, MeasuredTimes(store.load()), store.measurements()
    times = MeasuredTimes() if explore else None
    if measurements is None or isinstance(measurements, MeasurementSource):
        return None, times, measurements
    if isinstance(measurements, str | PathLike):
        return None, times, os.fspath(cast("str | PathLike[str]", measurements))
    raise ArgumentError(
        f"session: measurements is a .json or .db file or a MeasurementSource, not {measurements!r}"
    )


def _recorded(replay: object) -> RecordedRoute:
    from fuel_runtime.picker.replay import RecordedRoute

    return RecordedRoute.of(replay)


def _opened(devices: object, emulate: Emulate, threads: object) -> Devices:
    """The devices of a session."""
    if isinstance(devices, Devices):
        if emulate is not None or threads is not None:
            raise ArgumentError("session: emulate and threads are given to open_devices")
        return devices
    if not isinstance(devices, str):
        raise UnknownDevice(
            f"session: devices is a comma-separated string such as 'cpu', not {devices!r}"
        )
    return open_devices(devices, _thread_count(threads), emulate)


def _thread_count(threads: object) -> int:
    """Returns how many threads to use. Raises `ArgumentError` for no sensible number."""
    if threads is None:
        return min(usable_cores(), MOST_THREADS)
    if not isinstance(threads, int) or isinstance(threads, bool):
        raise ArgumentError(f"session: threads must be a whole number, got {threads!r}")
    if threads < 1:
        raise ArgumentError(f"session: threads must be 1 or more, got {threads}")
    if threads > MOST_THREADS:
        raise ArgumentError(f"session: threads must be {MOST_THREADS} or fewer, got {threads}")
    return threads


def _keep_times(store: MeasurementStore, times: MeasuredTimes) -> None:
    """Write what a session has measured; a store that cannot be written then loses it."""
    with suppress(MeasurementError):
        store.add(times.take_fresh())


def _telemetry_of(given: object, devices: Devices) -> Telemetry:
    """Returns the telemetry of a session: its devices', a person's, or none."""
    if isinstance(given, Telemetry):
        return given
    if given is True:
        return Telemetry(providers_of(devices))
    if given is False or given is None:
        return Telemetry()
    if isinstance(given, Mapping):
        providers = cast("Mapping[str, Provider]", given)
        unknown = [n for n in providers if all(n != d.name.label for d in devices.present)]
        if unknown:
            raise ArgumentError(
                f"session: telemetry of {', '.join(map(repr, unknown))}; the devices are {devices}"
            )
        return Telemetry({**providers_of(devices), **providers})
    raise ArgumentError(
        "session: telemetry is True, False, a Telemetry, or functions by the name of a device, not "
        f"{given!r}"
    )


def _loaded_weights(weights: Weights) -> Mapping[str, Any]:
    """Returns arrays by name, which stay what they are where a caller changes a dictionary."""
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        return dict(weights) if type(weights) is dict else weights
    if not isinstance(weights, str | os.PathLike):
        raise WeightError(
            f"weights: expected arrays by name or the path of a file, not {weights!r}"
        )
    from fuel_runtime.array_files import load_arrays

    return load_arrays(weights)
