# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-run`: an IR file and arrays go in, results come out."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.utils.exceptions import DiagnosticException

from fuel_dialect import dtypes
from fuel_dialect.context import load_program
from fuel_dialect.errors import ArgumentError, DecisionError, FuelError, WeightError
from fuel_dialect.ops.base import int_value, tensor_type
from fuel_dialect.ops.indexing import IndexingOp
from fuel_dialect.ops.memory import WeightOp
from fuel_passes.forming.pin_ops import parsed
from fuel_passes.options import MOST_DIGITS, add_flags, changed, given, whole_number
from fuel_runtime.array_files import check_storable, load_arrays, save_arrays
from fuel_runtime.call.arguments import STATE, Port, Signature, Value, bind, describe
from fuel_runtime.compile.session import Session, find_function

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from fuel_runtime.call.arguments import Array
    from fuel_runtime.call.report import Report
    from fuel_runtime.call.state import State
    from fuel_runtime.compile.executable import Executable

WHOLE = 64
"""Most elements of a result that is printed whole."""

FAILURE = 2
INTERRUPTED = 130
TERMINATED = 143

DESCRIPTION = """\
Compile a function of an IR file for this machine, run it, and print its results.

Arrays meet arguments by their fuel.name attribute, arguments without one are called arg0, arg1, ...
by position. Weights (fuel.weight "name") come from --weights. State (arguments with fuel.donated)
starts at zero, is kept from call to call of --repeat, and is gone when the command ends.
"""

EXAMPLES = """\
examples:
  fuel-run mlp.mlir --random 0                        made-up arguments, and weights if it has any
  fuel-run mlp.mlir x.npz --weights mlp.safetensors   arguments and weights from files
  fuel-run mlp.mlir x.npz --out y.safetensors         keep the results
  fuel-run kv_cache.mlir --random 0 --repeat 3        three steps, on a cache that is kept
  fuel-run block.mlir --random 0 --variants keep --report --force d0=1
                                                      run the second way to compute decision d0
  fuel-run mlp.mlir --random 0 --devices cpu,vulkan:0,cuda:0 --emulate cuda:0 --report
                                                      spread it over devices, one of them emulated

Exit code 0, or 2 after one line on the standard error that says what is wrong. The file of --out is
complete before anything is printed: it stays if the standard output cannot be written.
"""


class _UsageError(FuelError):
    """The command line cannot be read."""


class _ShowVersion(argparse.Action):
    """Prints the version, which is looked up only then: the metadata take 5 ms to read."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"fuel {version('fuel-compiler')}")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (see {self.prog} --help)")


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--random": {"type": whole_number, "metavar": "SEED", "help": "make up arguments from a seed"},
    "--repeat": {
        "type": whole_number,
        "default": 1,
        "metavar": "N",
        "help": "call it N times with the same arguments, and print what the last call gives",
    },
    "--entry": {"default": "main", "metavar": "NAME", "help": "the function (main)"},
    "--weights": {"metavar": "FILE", "help": "a .safetensors or .npz file of the weights"},
    "--devices": {
        "default": "cpu",
        "metavar": "LIST",
        "help": "such as cpu,cuda:0,vulkan:0 (default: cpu), or auto for what this machine has",
    },
    "--emulate": {"metavar": "LIST", "help": "those of the devices to emulate, such as cuda:0"},
    "--force": {
        "action": "append",
        "default": [],
        "metavar": "ID=ARM",
        "help": "run this arm of a decision, such as d0=1 or d3/1/d0=0; may be repeated",
    },
    "--forbid": {
        "action": "append",
        "default": [],
        "metavar": "ID=ARM",
        "help": "never run this arm of a decision; may be repeated",
    },
    "--strict": {
        "action": "store_true",
        "help": "run only the arms that are forced, or the first: what cannot be had is an error",
    },
    "--record": {"metavar": "FILE.json", "help": "write the arms that were taken"},
    "--replay": {"metavar": "FILE.json", "help": "take the arms that --record wrote"},
    "--calibrate": {
        "action": "store_true",
        "help": "time every arm first, into the store that --measurements FILE.db names",
    },
    "--threads": {"type": int, "metavar": "N", "help": "threads to use (all cores)"},
    "--no-optimize": {
        "dest": "optimize",
        "action": "store_false",
        "help": "run the program as it is, such as one that xdsl-opt -p fuel-optimize wrote",
    },
    "--out": {"metavar": "FILE", "help": "write results to a .safetensors or .npz file"},
    "--report": {
        "action": "store_true",
        "help": "print devices, which run is where, bytes moved, arms and why",
    },
}


def parser() -> argparse.ArgumentParser:
    """The command line of `fuel-run`."""
    new = _Parser(
        prog="fuel-run",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    new.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show program's version number and exit"
    )
    new.add_argument("file", metavar="FILE.mlir", help="the program, textual IR")
    new.add_argument("arguments", nargs="?", metavar="ARGS", help="a .safetensors or .npz file")
    for name, settings in OPTIONS.items():
        new.add_argument(name, **settings)
    add_flags(new)
    return new


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code: 0, 2 after an error, 130 when interrupted, 143 when ended."""
    try:
        _print(_run(parser().parse_intermixed_args(argv)))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Terminated:
        return TERMINATED
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (FuelError, DiagnosticException, MemoryError) as error:
        return _fail(str(error) or "out of memory")
    return 0


def command() -> int:
    """`main` for a process of its own: a request to end it leaves no half-written file."""
    signal.signal(signal.SIGTERM, _terminate)
    return main()


class _Terminated(BaseException):
    """The process was asked to end."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _print(lines: Iterable[str]) -> None:
    """Print lines; a process that was started without a standard output has nowhere to."""
    for line in lines:
        print(line)
    if sys.stdout is not None:
        sys.stdout.flush()


def _tell(kind: str, message: str) -> None:
    """One line on the standard error, where there is one."""
    if sys.stderr is not None:
        print(f"fuel-run: {kind}: {' '.join(message.split())}", file=sys.stderr)


def _fail(message: str) -> int:
    _tell("error", message)
    return FAILURE


def _run(options: argparse.Namespace) -> Iterator[str]:
    """Do what the options say; the lines to print. Nothing is printed or written before success."""
    _check(options)
    asked = given(options)
    place = dict(parsed(asked.pop("place")))
    session = Session(
        options.devices,
        emulate=options.emulate,
        force=_forced(options.force) or None,
        replay=options.replay,
        forbid=_forbidden(options.forbid),
        strict=options.strict,
        threads=options.threads,
        **asked,
    )
    module = load_program(Path(options.file))
    signature = Signature.of(find_function(module, options.entry))
    if options.out is not None:
        check_storable(options.out, {port.name: port.dtype for port in signature.outputs})
    arrays = _arguments(signature, module, options)
    weights, note = _weights(module, options)
    executable = session.compile(
        module,
        options.entry,
        weights=weights,
        optimize=options.optimize,
        place=place or None,
    )
    _note_unreached(executable.report(), options.force)
    state = {STATE: executable.new_state()} if signature.members else {}
    if options.calibrate:
        timed = session.calibrate(executable, *arrays, state=state.get(STATE))
        note = [*note, f"calibrated: {timed} arms"]
    results = map(np.asarray, _last_of(options.repeat, executable, arrays, state))
    named = dict(zip((port.name for port in signature.outputs), results, strict=True))
    if options.out is not None:
        save_arrays(options.out, named)
    if options.record is not None:
        route = json.dumps(executable.route(), indent=2) + "\n"
        Path(options.record).write_text(route, encoding="utf-8")
    report = [*str(executable.report()).splitlines(), ""] if options.report else []
    return chain(note, _state_lines(signature, options.repeat), report, _result_lines(named))


def _check(options: argparse.Namespace) -> None:
    """Raise `_UsageError` for options that say nothing together."""
    if not options.optimize and (vain := [f for f in changed(options) if f != "--topology"]):
        raise _UsageError(
            f"--no-optimize takes the program as it is; it cannot be given with {', '.join(vain)}"
        )
    if not options.file:
        raise _UsageError("the name of the program is empty")
    if options.repeat < 1:
        raise _UsageError("--repeat is how many calls there are: 1 or more")


def _last_of(
    calls: int, executable: Executable, arrays: Sequence[Value], state: Mapping[str, State]
) -> tuple[Any, ...]:
    """The results of the last of some calls."""
    for _ in range(calls - 1):
        executable(*arrays, **state)
    return executable(*arrays, **state)


def _state_lines(signature: Signature, calls: int) -> Iterator[str]:
    if signature.members:
        members = ", ".join(str(member.port) for member in signature.members)
        yield f"state: starts at zero, and is gone after {calls} call{'s'[: calls > 1]}: {members}"


def _note_unreached(report: Report, texts: Sequence[str]) -> None:
    """Tell of decisions that were forced in vain."""
    forced = _forced(texts)
    for branch in report.branches:
        if branch.decision in forced and not branch.on_route:
            _tell(
                "note",
                f"--force {branch.decision}={forced[branch.decision]} has no effect: it is inside "
                "an arm that is not chosen; force the decision around it too",
            )


def _forbidden(texts: Sequence[str]) -> dict[str, list[int]]:
    forbid: dict[str, list[int]] = {}
    for text in texts:
        for decision, arm in _forced([text]).items():
            forbid.setdefault(decision, []).append(arm)
    return forbid


def _forced(texts: Sequence[str]) -> dict[str, int]:
    force: dict[str, int] = {}
    for text in texts:
        decision, _, arm = text.rpartition("=")
        if not decision or not (arm.isascii() and arm.isdigit()) or len(arm) > MOST_DIGITS:
            raise DecisionError(f"--force {text!r}: write a decision and an arm, such as d0=1")
        if decision in force:
            raise DecisionError(f"--force {text!r}: {decision} is forced already; give it once")
        force[decision] = int(arm)
    return force


def _arguments(
    signature: Signature, module: ModuleOp, options: argparse.Namespace
) -> tuple[Value, ...]:
    """The arguments of the call, from a file or made up."""
    if options.random is None:
        named = {} if options.arguments is None else load_arrays(options.arguments)
        if signature.inputs and options.arguments is None:
            raise ArgumentError(
                f"{signature.entry} takes arguments "
                f"({', '.join(map(str, signature.inputs))}); give a file of them, or --random SEED"
            )
        return bind(signature, (), (), named)
    if options.arguments is not None:
        raise _UsageError("give a file of arguments or --random, not both")
    rng = np.random.default_rng([options.random, 0])
    limits = _index_limits(module, signature)
    return tuple(_made_up(port, rng, limits.get(port.name, 2)) for port in signature.inputs)


def _weights(
    module: ModuleOp, options: argparse.Namespace
) -> tuple[Mapping[str, Array], Sequence[str]]:
    """The weights, and what to tell of them."""
    ports = {
        op.key.data: Port(op.key.data, tensor_type(op.result))
        for op in module.walk()
        if isinstance(op, WeightOp)
    }
    if options.weights is not None:
        arrays = load_arrays(options.weights)
        unknown = ", ".join(repr(name) for name in sorted(arrays) if name not in ports)
        if unknown:
            have = ", ".join(sorted(ports)) or "none"
            raise WeightError(
                f"{options.weights}: the program has no weight {unknown}; it has {have}"
            )
        return arrays, ()
    if options.random is None or not ports:
        return {}, ()
    rng = np.random.default_rng([options.random, 1])
    made_up = {name: _made_up(ports[name], rng, spread=0.1) for name in sorted(ports)}
    return made_up, [f"weights: made up from seed {options.random}, {len(made_up)} of them"]


def _index_limits(module: ModuleOp, signature: Signature) -> dict[str, int]:
    """For arguments that ops of the function read as indices, the smallest extent they index."""
    limits: dict[str, int] = {}
    arguments = find_function(module, signature.entry).body.blocks[0].args
    for port, argument in zip(signature.arguments, arguments, strict=True):
        for use in argument.uses:
            op = use.operation
            if isinstance(op, IndexingOp) and op.indices is argument:
                extent = tensor_type(op.input).get_shape()[int_value(op.dim)]
                limits[port.name] = min(extent, limits.get(port.name, extent))
    return limits


def _made_up(port: Port, rng: np.random.Generator, limit: int = 2, spread: float = 1) -> Array:
    """Normal floats of deviation `spread`, integers in [-8, 8), unsigned ones below `limit`."""
    kind = port.dtype.kind
    if kind == "mask":
        values = rng.integers(0, 2, port.shape)
    elif kind == "signed":
        values = rng.integers(-8, 8, port.shape)
    elif kind == "unsigned":
        values = rng.integers(0, max(limit, 1), port.shape)
    else:
        values = rng.normal(0, spread, port.shape)
    if port.dtype.name == "f8E8M0FNU":
        values = np.abs(values)
    return np.asarray(values).astype(port.numpy)


def _result_lines(results: Mapping[str, Array]) -> Iterator[str]:
    for name, array in results.items():
        dtype = dtypes.of(array.dtype)
        yield f"{name}: {describe(dtype.name, array.shape)}"
        wide = array.astype(np.float64) if dtype.kind in ("float", "storage") else array
        if array.size <= WHOLE:
            yield np.array2string(wide, separator=", ", precision=6)
        else:
            yield _summary(wide)


def _summary(array: Array) -> str:
    """Range and mean of the finite elements, and how many are not finite."""
    finite = array[np.isfinite(array)]
    counts = f"{np.count_nonzero(np.isnan(array))} NaN, {np.count_nonzero(np.isinf(array))} inf"
    if not finite.size:
        return f"no finite element, {counts}"
    with np.errstate(all="ignore"):
        low, high, mean = finite.min(), finite.max(), finite.mean(dtype=np.float64)
    first = ", ".join(f"{value:.6g}" for value in array.reshape(-1)[:6])
    return f"min {low:.6g}, max {high:.6g}, mean {mean:.6g}, {counts}, first {first}"


if __name__ == "__main__":
    sys.exit(command())
