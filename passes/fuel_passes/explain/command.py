# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `fuel-explain`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from fuel_dialect.context import parse_module
from fuel_dialect.errors import FuelError, ProgramError
from fuel_passes.explain.build import explain
from fuel_passes.explain.drawing import to_svg
from fuel_passes.explain.page import to_html
from fuel_passes.explain.reports import Explanation
from fuel_passes.pipeline import OptimizePass

FAILURE = 2

DESCRIPTION = """\
Optimise an IR file for a topology and say what was chosen: for each kernel the targets that could
run it and how they would make it, with prices and with why the others cannot; for each decision its
arms; and what the whole costs, as planned and on one device alone. Prices are in nanoseconds, from
the model or from measurements.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `fuel-explain`."""
    options = _parser().parse_args(arguments)
    try:
        module = _module(options.file)
        pipeline = OptimizePass(
            topology=options.topology,
            device=options.device,
            variants=options.variants,
            plugins=not options.no_plugins,
            deterministic=options.deterministic,
            max_ulps=options.max_ulps,
            measurements=options.measurements,
        )
        explanation = explain(module, pipeline)
        _write(options.svg, explanation, to_svg)
        _write(options.html, explanation, to_html)
    except (FuelError, OSError, UnicodeDecodeError) as error:
        print(f"fuel-explain: {_first_line(error)}", file=sys.stderr)
        return FAILURE
    if options.json:
        print(explanation.to_json())
    elif not options.svg and not options.html:
        print(explanation)
    return 0


def _module(file: str) -> ModuleOp:
    text = Path(file).read_text(encoding="utf-8")
    try:
        return parse_module(text, file)
    except ParseError as error:
        place = _first_line(error)
        raise ProgramError(f"{place}: {' '.join(error.msg.split())}") from None
    except VerifyException as error:
        raise ProgramError(f"{file}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ProgramError(f"{file} is nested too deeply to be read") from None


def _write(
    path: str | None, explanation: Explanation, render: Callable[[Explanation], str]
) -> None:
    if path is not None:
        Path(path).write_text(render(explanation), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fuel-explain", description=DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="an IR file")
    parser.add_argument("--topology", metavar="NAME", help="a preset, or a file that ends in .json")
    parser.add_argument("--device", metavar="NAME", help="pin every kernel that it can run to it")
    parser.add_argument("--variants", choices=("bake", "keep"), default="bake")
    parser.add_argument(
        "--no-plugins", action="store_true", help="leave out passes of other packages"
    )
    parser.add_argument("--deterministic", action="store_true", help="bit-stable kernels only")
    parser.add_argument("--max-ulps", type=int, metavar="N", help="the least precision allowed")
    parser.add_argument("--measurements", metavar="FILE", help="a .json file of measured times")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of text")
    parser.add_argument("--svg", metavar="OUT", help="draw the plan, instead of text")
    parser.add_argument("--html", metavar="OUT", help="a page with the drawing and its details")
    return parser


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
