# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions: the devices to use and the options of compiling for them."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from fuel_dialect.context import make_context
from fuel_dialect.errors import (
    ArgumentError,
    DecisionError,
    GraphError,
    OutOfMemory,
    ProgramError,
    UnknownDevice,
    WeightError,
)
from fuel_dialect.tracing import describe
from fuel_runtime.devices import Devices, open_devices
from fuel_runtime.planning import Planning, planned_for

if TYPE_CHECKING:
    from fuel_dialect.targets.machine import Topology
    from fuel_passes.plan.measurements import MeasurementSource
    from fuel_runtime.arguments import Array
    from fuel_runtime.executable import Executable

Program = ModuleOp | str | PathLike[str]
Weights = Mapping[str, Any] | str | PathLike[str] | None

MOST_THREADS = 1024
"""More threads than any kernel has use for are a mistake, and cost memory each."""


class Session:
    """
    What programs are compiled for and how.

    `devices` is a comma-separated list such as `cpu`, or "auto" for what this machine has. `force`
    maps decisions to arms: `{"d0": 1}`, nested `{"d3/1/d0": 0}`. `threads` is how many threads the
    CPU may use, all cores by default. With `variants="keep"` the optimiser keeps every way to
    compute something as an arm that can be forced; with "bake" only those that are near in price.

    `topology` is what programs are planned for: the name of a preset, a `.json` file or a
    `Topology`; without one, what follows from the devices. Only kernels are used that are at most
    `max_ulps` units in the last place off, and with `deterministic` those that give the same bits
    each time. `measurements`, a `.json` file or a `MeasurementSource`, replaces modelled prices.

    Raises `UnknownDevice`, `DeviceUnavailable`, or `FuelPassError` for a topology that is none.
    """

    def __init__(
        self,
        devices: str = "cpu",
        *,
        force: Mapping[str, int] | None = None,
        threads: int | None = None,
        variants: Literal["bake", "keep"] = "bake",
        topology: str | PathLike[str] | Topology | None = None,
        deterministic: bool = False,
        max_ulps: int | None = None,
        measurements: str | PathLike[str] | MeasurementSource | None = None,
    ):
        if variants not in ("bake", "keep"):
            raise ArgumentError(f"session: variants is bake or keep, not {variants!r}")
        if not isinstance(cast(object, devices), str):
            raise UnknownDevice(
                f"session: devices is a comma-separated string such as 'cpu', not {devices!r}"
            )
        self._threads = _thread_count(threads)
        self._devices = open_devices(devices, self._threads)
        self._force = _checked({} if force is None else force)
        self._variants: Literal["bake", "keep"] = variants
        self._planning = Planning(
            planned_for(topology, self._devices), deterministic, max_ulps, measurements
        )

    @property
    def devices(self) -> Devices:
        """What was asked for, what is present, and why the rest is absent."""
        return self._devices

    def compile(
        self,
        program: Program,
        entry: str = "main",
        *,
        weights: Weights = None,
        optimize: bool = True,
    ) -> Executable:
        """
        Compile a function of a module, of a `.mlir` file or of IR text; a module is left as it is.

        `weights` holds the arrays of the program's `fuel.weight`s, or names a `.safetensors` or
        `.npz` file of them; they are read where they lie, so do not write to them. What it holds
        besides is ignored. With `optimize=False` the program is taken as it is: what is in no
        kernel or run is put into one.

        Raises `ProgramError` for IR that does not parse or verify or lacks the function, `OSError`
        for a file that cannot be read, `WeightError` for weights that are missing or do not fit,
        `DecisionError` for a forced decision that is not there, `DeviceUnavailable` for one
        that cannot be followed, `OutOfMemory`, and what the passes raise.
        """
        from fuel_runtime.executable import build

        module = load_program(program)
        find_function(module, entry)
        self._plan(module, optimize)
        try:
            return build(
                module,
                find_function(module, entry),
                self._devices,
                self._threads,
                _loaded_weights(weights),
                self._force,
            )
        except MemoryError as error:
            raise OutOfMemory(f"{entry}: not enough memory to load it: {error}") from None

    def run(
        self,
        program: Program,
        *args: Any,
        entry: str = "main",
        weights: Weights = None,
    ) -> tuple[Array, ...]:
        """Compile a program and call it once; see `compile` and `Executable`."""
        return self.compile(program, entry, weights=weights)(*args)

    def _plan(self, module: ModuleOp, optimize: bool) -> None:
        """Bring a module into runs and branches."""
        if optimize:
            plan = self._planning.prepare(module, self._variants)
        else:
            from fuel_passes.form_runs import FormRunsPass

            plan = FormRunsPass()
        plan.apply(make_context(), module)


def load_program(program: Program) -> ModuleOp:
    """
    A verified module of one's own, from a module, the path of a `.mlir` file, or IR text.

    Raises `ProgramError`, one line with the place of the mistake, or `OSError`.
    """
    if isinstance(program, ModuleOp):
        with _readable("the module"):
            module = program.clone()
            _verify(module, "the module")
        return module
    if not isinstance(program, str | os.PathLike):
        raise ProgramError(
            f"a program is a module, a path or IR text, not a {type(program).__name__}; of a "
            "graph, pass graph.build(...)"
        )
    if isinstance(program, str) and ("\n" in program or not program.endswith(".mlir")):
        with _maybe_a_path(program):
            return _parse(program, "<text>")
    return _parse(_text(Path(program)), os.fspath(program))


@contextmanager
def _maybe_a_path(text: str) -> Generator[None]:
    """Say that a string was read as IR, where its one line looks more like a path."""
    try:
        yield
    except ProgramError as error:
        if "\n" in text or "{" in text:
            raise
        hint = "the string was read as IR text; one that is a path must end in .mlir"
        raise ProgramError(f"{error} ({hint})") from None


@contextmanager
def _readable(name: str) -> Generator[None]:
    """What xDSL raises for IR that no program needs, as a `ProgramError`."""
    try:
        yield
    except RecursionError:
        raise ProgramError(f"{name}: it is nested too deeply to be read") from None
    except (NotImplementedError, OverflowError) as error:
        detail = _one_line(str(error)) or "it is of a kind that xDSL does not know"
        raise ProgramError(f"{name}: it cannot be read: {detail}") from None


def find_function(module: ModuleOp, entry: str) -> FuncOp:
    """The function of a name. Raises `ProgramError` that lists what there is."""
    functions = {f.sym_name.data: f for f in module.body.ops if isinstance(f, FuncOp)}
    function = functions.get(entry)
    if function is None:
        have = ", ".join(functions) or "none"
        raise ProgramError(f"there is no function {entry!r}; the module has {have}")
    if not function.body.blocks:
        raise ProgramError(f"the function {entry!r} is declared only; it has no body to run")
    return function


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: not UTF-8 text: {error.reason}") from None


def _parse(text: str, name: str) -> ModuleOp:
    if not text.strip():
        raise ProgramError(f"{name}: there is no IR in it")
    _check_strings(text, name)
    with _readable(name):
        try:
            module = Parser(make_context(), text, name).parse_module()
        except ParseError as error:
            place = str(error).partition("\n")[0]
            raise ProgramError(f"{place}: {_one_line(error.msg)}") from None
        except (VerifyException, GraphError) as error:
            raise ProgramError(f"{name}: {_one_line(str(error))}") from None
        _verify(module, name)
    return module


_STRING = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+(?P<end>"?)')
"""A comment, or a string literal as xDSL reads it; `end` is empty if nothing closes it."""


def _check_strings(text: str, name: str) -> None:
    """Find a string that nothing closes: xDSL 0.75 takes time exponential in its length there."""
    for found in _STRING.finditer(text):
        if found["end"] == "":
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            raise ProgramError(f"{name}:{line}:{column}: nothing closes this string")


def _verify(module: ModuleOp, name: str) -> None:
    try:
        module.verify()
    except VerifyException as error:
        message = _one_line(str(error))
        raise ProgramError(f"{name}: {_culprit(module)}: {message}") from None
    _check_order(module, name)


def _check_order(module: ModuleOp, name: str) -> None:
    """
    Find a value that is read before the op that makes it, and ops that nothing can run.

    xDSL does not look at the order of ops. Regions are isolated, so order in a block is all.
    """
    seen: set[Operation] = set()
    for op in module.walk():
        if isinstance(op, CallOp):
            raise ProgramError(f"{name}: func.call is not supported; inline {op.callee}")
        for operand in op.operands:
            maker = operand.owner
            if isinstance(maker, Operation) and maker.parent is op.parent and maker not in seen:
                raise ProgramError(
                    f"{name}: {op.name} reads {describe(operand)} before it is made; in a block, "
                    "the op that makes a value comes before those that read it"
                )
        seen.add(op)


def _culprit(module: ModuleOp) -> str:
    """The name of the innermost op that does not verify by itself."""
    culprit = module.name
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException:
            culprit = op.name
    return culprit


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _thread_count(threads: object) -> int:
    """How many threads to use. Raises `ArgumentError` for what is no sensible number of them."""
    if threads is None:
        return _cores()
    if not isinstance(threads, int) or isinstance(threads, bool):
        raise ArgumentError(f"session: threads must be a whole number, got {threads!r}")
    if threads < 1:
        raise ArgumentError(f"session: threads must be 1 or more, got {threads}")
    if threads > MOST_THREADS:
        raise ArgumentError(f"session: threads must be {MOST_THREADS} or fewer, got {threads}")
    return threads


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MOST_THREADS)
    return min(os.cpu_count() or 1, MOST_THREADS)


def _checked(force: object) -> dict[str, int]:
    if not isinstance(force, Mapping):
        raise DecisionError(
            f"session: force maps decisions to arms, such as {{'d0': 1}}; it is not {force!r}"
        )
    for decision, arm in force.items():
        if not isinstance(arm, int) or isinstance(arm, bool) or arm < 0:
            raise DecisionError(
                f"decision {decision}: an arm is a number from 0 upwards, not {arm!r}"
            )
    return dict(cast("Mapping[str, int]", force))


def _loaded_weights(weights: Weights) -> Mapping[str, Any]:
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        return weights
    if not isinstance(weights, str | os.PathLike):
        raise WeightError(
            f"weights: expected arrays by name or the path of a file, not {weights!r}"
        )
    from fuel_runtime.weights import load_arrays

    return load_arrays(weights)
