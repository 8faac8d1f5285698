# SPDX-License-Identifier: MIT OR Apache-2.0
"""`xdsl-opt -t fuel-kompute`: the shaders of every run of every function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from fuel_lowering.kompute.lower import lower_run
from fuel_lowering.runs.printing import print_runs


@dataclass(frozen=True)
class KomputeTarget(Target):
    """
    Prints the compute shaders of a module's runs, and how they are dispatched.

    IR without runs is optimised first, on a copy, with every arm kept.
    """

    name = "fuel-kompute"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        print_runs(ctx, module, output, lower_run, "//")
