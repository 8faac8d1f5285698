# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `fuel-explain`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fuel_dialect.context import load_program
from fuel_dialect.errors import FuelError
from fuel_explain.build import explain
from fuel_explain.drawing import to_svg
from fuel_explain.page import to_html
from fuel_explain.reports import Explanation
from fuel_explain.text import to_text
from fuel_passes.options import add_flags, given
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
        module = load_program(Path(options.file))
        pipeline = OptimizePass(**given(options))
        explanation = explain(module, pipeline)
        _write(options.svg, explanation, to_svg)
        _write(options.html, explanation, to_html)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except FuelError as error:
        return _fail(str(error).strip().partition("\n")[0])
    if options.json:
        print(explanation.to_json())
    elif not options.svg and not options.html:
        print(to_text(explanation))
    return 0


def _write(
    path: str | None, explanation: Explanation, render: Callable[[Explanation], str]
) -> None:
    if path is not None:
        Path(path).write_text(render(explanation), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fuel-explain", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="an IR file")
    add_flags(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object instead of text")
    parser.add_argument("--svg", metavar="OUT", help="draw the plan, instead of text")
    parser.add_argument("--html", metavar="OUT", help="a page with the drawing and its details")
    return parser


def _fail(message: str) -> int:
    print(f"fuel-explain: error: {message}", file=sys.stderr)
    return FAILURE
