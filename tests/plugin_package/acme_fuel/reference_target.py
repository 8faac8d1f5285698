# SPDX-License-Identifier: MIT OR Apache-2.0
"""
A second target of the CPU: the reference interpreter evaluates its runs op by op.

`DESCRIPTION` is all that fuel is told. What it names follows: `lower_run` makes a run that loads
itself, `find` lets `fuel-topology` know of it, and `ReferenceTarget` prints it in `xdsl-opt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import IO, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.target import Target

from fuel_dialect import dtypes, kinds
from fuel_dialect.attributes import TargetAttr
from fuel_dialect.interpreter.evaluate import Environment, evaluate_op
from fuel_dialect.ops.control import RunOp
from fuel_dialect.ops.memory import WeightOp
from fuel_dialect.targets.description import KernelSource, TargetDescription
from fuel_dialect.targets.machine import Device
from fuel_dialect.tensors import tensor_type
from fuel_lowering.runs.leaves import WeightUse
from fuel_lowering.runs.printing import runs_of, with_runs
from fuel_runtime.probing import Probing, Seen

Array = np.ndarray[Any, Any]

DESCRIPTION = TargetDescription(
    name="reference",
    runs_on=("cpu",),
    dtypes=tuple(d.name for d in dtypes.TABLE if d.numpy_name is not None),
    sources=(KernelSource("interpreter", tuple(kinds.OWN)),),
    bytes_per_ns=5.0,
    operations_per_ns=0.5,
    flops_per_ns=10.0,
    launch_ns=20_000,
    tile=1 << 20,
    threads=1,
    lowering="acme_fuel.reference_target:lower_run",
    probe="acme_fuel.reference_target:find",
    printer="acme_fuel.reference_target:ReferenceTarget",
    shades=("#b0578d",),
    joins=False,
)


@dataclass(frozen=True, eq=False)
class ReferenceRun:
    """A `fuel.run` as it is; what `fuel_lowering.runs.functions.HostRun` asks for."""

    entry: str
    run: RunOp
    launch_count: int = 0

    @property
    def source(self) -> str:
        """The text of the run, as IR."""
        text = StringIO()
        Printer(text).print_op(self.run)
        return f"// {self.entry}\n{text.getvalue()}"

    @property
    def weights(self) -> Mapping[str, WeightUse]:
        """The weights that its ops read."""
        reads = (op for op in self.run.walk() if isinstance(op, WeightOp))
        return {op.key.data: WeightUse(op.key.data, tensor_type(op.result)) for op in reads}

    def workspace_bytes(self, threads: int) -> int:
        """Nothing is kept between calls."""
        return 0

    def load(self, weights: Mapping[str, Array], threads: int) -> Callable[..., tuple[Array, ...]]:
        """A function that evaluates the ops; the interpreter takes care of NumPy's warnings."""
        environment = Environment(weights)

        def call(*inputs: Array) -> tuple[Array, ...]:
            with np.errstate(all="ignore"):
                results = evaluate_op(self.run, list(inputs), environment)
            return tuple(np.array(result) for result in results)

        return call


def lower_run(run: RunOp, entry: str) -> ReferenceRun:
    """A copy of a run."""
    return ReferenceRun(entry, run.clone())


def find(probing: Probing) -> Iterator[Seen]:
    """The target on the host, whose memory and cores fuel's own probe knows."""
    yield Seen(Device("cpu"), TargetAttr.of("cpu", "reference"))


@dataclass(frozen=True)
class ReferenceTarget(Target):
    """Prints the runs of a module as they are evaluated: as IR."""

    name = "acme-reference"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for entry, run in runs_of(with_runs(ctx, module)):
            output.write(f"{lower_run(run, entry).source}\n")
