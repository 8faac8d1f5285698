# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fuel-run`: an IR file and arrays go in, results come out."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fuel_dialect.context import load_program
from fuel_passes.commands import run_command
from fuel_runtime.array_files import check_storable, save_arrays
from fuel_runtime.call.signature import STATE, Signature, Value
from fuel_runtime.cli.flags import (
    check,
    compile_options,
    forced,
    is_saved,
    parser,
    session_options,
)
from fuel_runtime.cli.inputs import arguments_of, weights_of
from fuel_runtime.cli.printing import (
    NAME,
    note_unreached,
    result_lines,
    state_lines,
)
from fuel_runtime.cli.progress_line import shown
from fuel_runtime.compile.functions import find_function
from fuel_runtime.compile.session import Session
from fuel_runtime.whole_files import write_whole

if TYPE_CHECKING:
    from fuel_runtime.call.state import State
    from fuel_runtime.compile.executable import Executable

INTERRUPTED = 130
TERMINATED = 143


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns 0, 2 after an error, 130 when interrupted, 143 when ended."""
    try:
        return run_command(NAME, lambda: _run(parser().parse_intermixed_args(argv)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Terminated:
        return TERMINATED


def command() -> int:
    """Runs `main` in a process of its own: a request to end it leaves no half-written file."""
    signal.signal(signal.SIGTERM, _terminate)
    return main()


class _Terminated(BaseException):
    """The process was asked to end."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _run(options: argparse.Namespace) -> Iterator[str]:
    """Does what the options say, and returns the lines to print; nothing is printed before that."""
    check(options)
    compiling = compile_options(options)
    prepare = _loaded if is_saved(options.file) else _compiled
    with shown(options.progress) as progress:
        session = Session(options.devices, progress=progress, **session_options(options))
        executable, arrays, notes = prepare(session, options, compiling)
    signature = executable.signature
    note_unreached(executable.report(), forced(options.force))
    state = {STATE: executable.new_state()} if signature.members else {}
    if options.calibrate:
        timed = session.calibrate(executable, *arrays, state=state.get(STATE))
        notes = [*notes, f"calibrated: {timed} arms"]
    with nullcontext() if options.trace is None else executable.trace(options.trace):
        results = map(np.asarray, _last_of(options.repeat, executable, arrays, state))
    named = dict(zip((port.name for port in signature.outputs), results, strict=True))
    if options.save is not None:
        executable.save(options.save, weights=True)
    if options.out is not None:
        save_arrays(options.out, named)
    if options.record is not None:
        route = json.dumps(executable.route(), indent=2) + "\n"
        write_whole(Path(options.record), lambda file: file.write(route.encode()))
    told = _told(executable, arrays, state, options)
    return chain(notes, state_lines(signature, options.repeat), told, result_lines(named))


Prepared = tuple["Executable", tuple[Value, ...], Sequence[str]]
"""An executable, its arguments, and lines to print."""


def _compiled(
    session: Session, options: argparse.Namespace, compiling: Mapping[str, Any]
) -> Prepared:
    """Compiles a program of a file of IR."""
    module = load_program(Path(options.file))
    signature = Signature.of(find_function(module, options.entry))
    _check_out(options, signature)
    arrays = arguments_of(signature, module, options)
    weights, notes = weights_of(module, options)
    return session.compile(module, options.entry, weights=weights, **compiling), arrays, notes


def _loaded(session: Session, options: argparse.Namespace, _: Mapping[str, Any]) -> Prepared:
    """Loads a program that was saved."""
    executable = session.load(options.file, weights=options.weights)
    signature = executable.signature
    _check_out(options, signature)
    module = None if options.random is None else executable.module
    return executable, arguments_of(signature, module, options), ()


def _check_out(options: argparse.Namespace, signature: Signature) -> None:
    if options.out is not None:
        check_storable(options.out, {port.name: port.dtype for port in signature.outputs})


def _last_of(
    calls: int, executable: Executable, arrays: Sequence[Value], state: Mapping[str, State]
) -> tuple[Any, ...]:
    """Makes some calls, and returns the results of the last."""
    for _ in range(calls - 1):
        executable(*arrays, **state)
    return executable(*arrays, **state)


def _told(
    executable: Executable,
    arrays: Sequence[Value],
    state: Mapping[str, State],
    options: argparse.Namespace,
) -> list[str]:
    """Returns the lines of what is to be told of the program, each part with an empty one."""
    parts: list[object] = []
    if options.report:
        parts.append(executable.report())
    if options.dispatches:
        parts.append(executable.dispatches(options.dispatches))
    if options.profile:
        parts.append(executable.profile(*arrays, repeats=options.repeat, **state))
    return [line for part in parts for line in (*str(part).splitlines(), "")]


if __name__ == "__main__":
    sys.exit(command())
