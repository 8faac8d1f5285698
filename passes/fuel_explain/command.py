# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `fuel-explain`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fuel_dialect.context import load_program
from fuel_explain.build import explain
from fuel_explain.drawing import to_svg
from fuel_explain.page import to_html
from fuel_explain.reports import Explanation
from fuel_explain.text import to_text
from fuel_passes.commands import check_outputs, run_command
from fuel_passes.options import add_flags, given
from fuel_passes.pipeline import OptimizePass

DESCRIPTION = """\
Optimise an IR file for a topology and say what was chosen: for each kernel the targets that could
run it and how they would make it, with prices and with why the others cannot; for each decision its
arms; and what the whole costs, as planned and on one device alone. Prices are in nanoseconds, from
the model or from measurements.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `fuel-explain`."""
    options = _parser().parse_args(arguments)
    return run_command("fuel-explain", lambda: _lines(options))


def _lines(options: argparse.Namespace) -> Iterator[str]:
    inputs = {"the program": options.file, "--topology": options.topology}
    inputs["--measurements"] = options.measurements
    check_outputs({"--svg": options.svg, "--html": options.html}, inputs)
    module = load_program(Path(options.file))
    explanation = explain(module, OptimizePass(**given(options)))
    _write(options.svg, explanation, to_svg)
    _write(options.html, explanation, to_html)
    if options.json:
        yield explanation.to_json()
    elif not options.svg and not options.html:
        yield to_text(explanation)


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
