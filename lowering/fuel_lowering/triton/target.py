# SPDX-License-Identifier: MIT OR Apache-2.0
"""`xdsl-opt -t fuel-triton`: the Triton source of every run of every function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from fuel_lowering.runs.printing import print_runs
from fuel_lowering.triton.lower import lower_run


@dataclass(frozen=True)
class TritonTarget(Target):
    """
    Prints the Triton kernels of a module's runs, and how they are launched.

    IR without runs is optimised first, on a copy, with every arm kept.
    """

    name = "fuel-triton"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        print_runs(ctx, module, output, lower_run)
