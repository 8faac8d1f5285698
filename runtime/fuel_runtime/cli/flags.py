# SPDX-License-Identifier: MIT OR Apache-2.0
"""Defines the command line of `fuel-run`, and reads from it what a session is given."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from fuel_dialect.errors import DecisionError, FuelError
from fuel_passes.commands import check_outputs
from fuel_passes.forming.pin_ops import parsed
from fuel_passes.options import MOST_DIGITS, add_flags, changed, given, whole_number

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
  fuel-run mlp.mlir --random 0 --save mlp.fuel        keep the compiled program; then
  fuel-run mlp.fuel x.npz                             run it, without compiling
  fuel-run kv_cache.mlir --random 0 --repeat 3        three steps, on a cache that is kept
  fuel-run block.mlir --random 0 --variants keep --report --force d0=1
                                                      run the second way to compute decision d0
  fuel-run mlp.mlir --random 0 --devices cpu,vulkan:0,cuda:0 --emulate cuda:0 --report
                                                      spread it over devices, one of them emulated

Exit code 0, or 2 after one line on the standard error that says what is wrong. The file of --out is
complete before anything is printed: it stays if the standard output cannot be written.
"""


class UsageError(FuelError):
    """A command line that cannot be read."""


class _ShowVersion(argparse.Action):
    """Prints the version, which is looked up only then: the metadata take 5 ms to read."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"fuel {version('fuel-compiler')}")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _share(text: str) -> float:
    """Returns a share from 0 to 1. Raises `ArgumentTypeError`."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(
            f"expected a share from 0 to 1, such as 0.01, not {text!r}"
        )
    return share


def _seconds(text: str) -> float:
    """Returns a number of seconds above 0. Raises `ArgumentTypeError`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds above 0, such as 0.5, not {text!r}"
        )
    return seconds


def _from_one(text: str) -> int:
    """Returns a number from 1 upwards. Raises `ArgumentTypeError`."""
    if not (text.isascii() and text.isdigit() and text.strip("0")):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 upwards, not {text!r}")
    return whole_number(text)


def _difference(text: str) -> float:
    """Returns a relative difference. Raises `ArgumentTypeError`."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(
            f"expected a relative difference from 0 and below 1, such as 1e-3, not {text!r}"
        )
    return number


CALL: Mapping[str, Mapping[str, Any]] = {
    "--random": {"type": whole_number, "metavar": "SEED", "help": "make up arguments from a seed"},
    "--repeat": {
        "type": _from_one,
        "default": 1,
        "metavar": "N",
        "help": "call it N times with the same arguments, and print what the last call gives",
    },
    "--entry": {"default": "main", "metavar": "NAME", "help": "the function (main)"},
    "--weights": {
        "metavar": "FILE",
        "help": "a .safetensors or .npz file of the weights, or an index of several",
    },
    "--threads": {"type": int, "metavar": "N", "help": "threads to use (all cores)"},
    "--no-optimize": {
        "dest": "optimize",
        "action": "store_false",
        "help": "run the program as it is, such as one that xdsl-opt -p fuel-optimize wrote",
    },
    "--out": {"metavar": "FILE", "help": "write results to a .safetensors or .npz file"},
    "--save": {
        "metavar": "FILE.fuel",
        "help": "write the compiled program with its weights; fuel-run FILE.fuel runs it",
    },
    "--report": {
        "action": "store_true",
        "help": "print devices, which run is where, bytes moved, arms and why",
    },
    "--dispatches": {
        "choices": ("coarse", "detailed"),
        "help": "print which code serves each kernel, on which hardware; detailed: and what else "
        "could",
    },
    "--quiet": {
        "dest": "progress",
        "action": "store_false",
        "help": "do not show how far compiling has come; only a terminal is shown that",
    },
    "--profile": {
        "action": "store_true",
        "help": "print where the time goes, by kernel: that of --repeat calls more, after one to "
        "warm up",
    },
    "--trace": {
        "metavar": "FILE.json",
        "help": "write what the calls do, as a trace that ui.perfetto.dev opens",
    },
}
"""The flags that say what is called, with what, and what comes of it."""

DEVICES: Mapping[str, Mapping[str, Any]] = {
    "--devices": {
        "default": "cpu",
        "metavar": "LIST",
        "help": "such as cpu,cuda:0,vulkan:0 (default: cpu), or auto for what this machine has",
    },
    "--emulate": {
        "metavar": "LIST",
        "help": "those of the devices to emulate, such as cuda:0, or cuda:0=1073741824 with the "
        "bytes of its memory",
    },
    "--memory": {
        "metavar": "LIST",
        "help": "the most memory that devices may give, such as cpu=512MiB,cuda:0=2GiB",
    },
    "--answer-within": {
        "type": _seconds,
        "metavar": "SECONDS",
        "help": "leave a device that takes longer to do what it was asked for, such as 0.5 "
        "(default: wait for ever)",
    },
    "--poison": {
        "action": "store_true",
        "help": "fill memory that is given back with NaN, to find who reads it (slow)",
    },
    "--results": {
        "action": "append",
        "default": [],
        "metavar": "[NAME=]DEVICE",
        "help": "leave a result, or all of them, on a device (default: as the program says, or the "
        "host); may be repeated",
    },
}
"""The flags that say what there is to run on."""

DECISIONS: Mapping[str, Mapping[str, Any]] = {
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
    "--explore": {
        "type": _share,
        "default": 0.0,
        "metavar": "P",
        "help": "of the calls of --repeat at most the share P tries an arm that nobody has timed",
    },
    "--check-arms": {
        "nargs": "?",
        "type": _difference,
        "const": True,
        "default": False,
        "metavar": "TOLERANCE",
        "help": "run every arm on the same values and stop if one differs; with a number, by more "
        "than this relative difference (write --check-arms=1e-3)",
    },
    "--no-telemetry": {
        "dest": "telemetry",
        "action": "store_false",
        "help": "ask no device for its free memory and load: decisions rest on prices and times",
    },
}
"""The flags that say which arm of a decision runs."""

GROUPS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "the call": CALL,
    "devices": DEVICES,
    "decisions": DECISIONS,
}


def parser() -> argparse.ArgumentParser:
    """Returns the command line of `fuel-run`."""
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
    new.add_argument(
        "file", metavar="FILE", help="the program: textual IR (.mlir), or what --save wrote (.fuel)"
    )
    new.add_argument("arguments", nargs="?", metavar="ARGS", help="a .safetensors or .npz file")
    for title, flags in GROUPS.items():
        group = new.add_argument_group(title)
        for name, settings in flags.items():
            group.add_argument(name, **settings)
    add_flags(new)
    return new


def check(options: argparse.Namespace) -> None:
    """
    Checks the options together.

    Raises `UsageError` for those that say nothing, and what `check_outputs` does of files.
    """
    if not options.optimize and (vain := [f for f in changed(options) if f != "--topology"]):
        raise UsageError(
            f"--no-optimize takes the program as it is; it cannot be given with {', '.join(vain)}"
        )
    if not options.file:
        raise UsageError("the name of the program is empty")
    if is_saved(options.file):
        _check_saved(options)
    inputs = {"the program": options.file, "the arguments": options.arguments}
    inputs |= {f"--{name}": getattr(options, name) for name in INPUTS}
    check_outputs({f"--{name}": getattr(options, name) for name in OUTPUTS}, inputs)


OUTPUTS = ("save", "out", "record", "trace")
"""The options that name files to write."""
INPUTS = ("weights", "replay", "topology", "measurements")
"""The options that may name files to read."""


def is_saved(file: str) -> bool:
    """Returns True for the name of a program that was saved."""
    return file.endswith(".fuel")


def _check_saved(options: argparse.Namespace) -> None:
    """Raises `UsageError` for options of compiling, which a saved program has behind it."""
    bounds = ("--topology", "--max-ulps", "--deterministic", "--measurements", "--no-plugins")
    vain = [flag for flag in changed(options) if flag not in bounds]
    vain += ["--entry"] * (options.entry != "main") + ["--results"] * bool(options.results)
    if vain or not options.optimize:
        named = ", ".join([*vain, *["--no-optimize"] * (not options.optimize)])
        raise UsageError(f"{options.file} is compiled; it cannot be given with {named}")


def session_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the keyword arguments of `Session`. Raises `DecisionError` and `UsageError`."""
    asked = given(options)
    del asked["place"]
    return {
        "emulate": emulated(options.emulate),
        "memory": capped(options.memory),
        "answer_within": options.answer_within,
        "poison": options.poison,
        "force": forced(options.force) or None,
        "forbid": forbidden(options.forbid),
        "strict": options.strict,
        "replay": options.replay,
        "explore": options.explore,
        "check_arms": options.check_arms,
        "telemetry": options.telemetry,
        "threads": options.threads,
        **asked,
    }


def compile_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the keyword arguments of `Session.compile`, but for the weights."""
    return {
        "optimize": options.optimize,
        "place": dict(parsed(given(options)["place"])) or None,
        "results": results_places(options.results),
    }


def emulated(text: str | None) -> str | dict[str, int | None] | None:
    """Reads `cuda:0` and `cuda:0=BYTES` with commas between. Raises `UsageError`."""
    if text is None or "=" not in text:
        return text
    found: dict[str, int | None] = {}
    for part in map(str.strip, text.split(",")):
        device, equals, size = part.partition("=")
        if equals and not _is_number(size):
            raise UsageError(
                f"--emulate {part!r}: write a device and its bytes, such as cuda:0=4096"
            )
        found[device] = int(size) if equals else None
    return found


def capped(text: str | None) -> dict[str, str] | None:
    """Reads `cuda:0=SIZE` with commas between. Raises `UsageError`."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in map(str.strip, text.split(",")):
        device, equals, size = part.partition("=")
        if not equals:
            raise UsageError(f"--memory {part!r}: write a device and its size, such as cpu=512MiB")
        found[device] = size
    return found


def results_places(texts: Sequence[str]) -> str | dict[str, str] | None:
    """Reads `DEVICE`, for all results, or `NAME=DEVICE`. Raises `UsageError`."""
    everywhere = [text for text in texts if "=" not in text]
    if not everywhere:
        parts = (text.rpartition("=") for text in texts)
        return {name: device for name, _, device in parts} or None
    if len(texts) > 1:
        raise UsageError(
            f"--results {everywhere[0]} is for all results; it cannot be given with another"
        )
    return everywhere[0]


def forced(texts: Sequence[str], flag: str = "--force") -> dict[str, int]:
    """Reads `ID=ARM`. Raises `DecisionError`."""
    found: dict[str, int] = {}
    for text, decision, arm in _arms(texts, flag):
        if decision in found:
            raise DecisionError(f"{flag} {text!r}: {decision} is forced already; give it once")
        found[decision] = arm
    return found


def forbidden(texts: Sequence[str]) -> dict[str, list[int]]:
    """Reads `ID=ARM`, several times for a decision if need be. Raises `DecisionError`."""
    found: dict[str, list[int]] = {}
    for _, decision, arm in _arms(texts, "--forbid"):
        found.setdefault(decision, []).append(arm)
    return found


def _arms(texts: Sequence[str], flag: str) -> Iterator[tuple[str, str, int]]:
    for text in texts:
        decision, _, arm = text.rpartition("=")
        if not decision or not _is_number(arm):
            raise DecisionError(f"{flag} {text!r}: write a decision and an arm, such as d0=1")
        yield text, decision, int(arm)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
