# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every op in every element type, on the operands that the tests of all targets use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import checkout  # noqa: F401
import numpy as np
from cuda_machine import TARGET, Machine
from isolated import one_line
from outcomes import Allowed, Outcome, compared, described
from xdsl.dialects.builtin import ModuleOp

from fuel_dialect.interpreter.evaluate import evaluate
from fuel_dialect.ops.base import FuelOp
from fuel_dialect.ops.control import RunOp
from fuel_dialect.targets.triton import DESCRIPTION
from fuel_lowering.runs.launches import DeviceKernel, DeviceRun
from fuel_lowering.triton.lower import lower_run
from op_modules import is_known, module_of_samples, tolerance
from op_samples import CASES, Sample, few, samples_of

SMALL = 2000
"""Elements of the operands of a sample that is among the first."""

BY_MNEMONIC = {op.mnemonic(): op for op, _ in CASES}


@dataclass(frozen=True)
class Case:
    """
    Samples of an op in one element type: a few small ones, or all the others.

    `only` is the number of the one sample that is meant.
    """

    op: str
    dtype: str
    others: bool = False
    only: int | None = None

    def samples(self) -> list[Sample]:
        samples = self._all()
        return samples if self.only is None else [samples[self.only]]

    def parts(self) -> list[Case]:
        """A case for each sample."""
        return [replace(self, only=number) for number in range(len(self.samples()))]

    def _all(self) -> list[Sample]:
        make = samples_of(self.op_class)[0]
        known = [s for s in make(self.op_class, self.dtype) if is_known(s, DESCRIPTION.dtypes)]
        first = few([sample for sample in known if sample.elements <= SMALL])
        if not self.others:
            return first
        return [sample for sample in known if not any(sample is one for one in first)]

    @property
    def op_class(self) -> type[FuelOp]:
        return BY_MNEMONIC[self.op]

    def __str__(self) -> str:
        return f"{self.op} {self.dtype}"


def cases(others: bool) -> list[Case]:
    """All that the target has element types for; some may have no others."""
    found = [Case(op.mnemonic(), dtype, others) for op, dtype in CASES]
    return [case for case in found if case.dtype in DESCRIPTION.dtypes]


def one_of_each_op() -> list[Case]:
    """The first case of each op, for a dry run."""
    return list({case.op: case for case in cases(False)[::-1]}.values())[::-1]


def _module(case: Case, samples: Sequence[Sample]) -> ModuleOp:
    return module_of_samples([(case.op_class, sample) for sample in samples], TARGET)


def _lowered(module: ModuleOp) -> DeviceRun:
    (run,) = (op for op in module.walk() if isinstance(op, RunOp))
    return lower_run(run, "samples")


def kernels(case: Case) -> Iterator[DeviceKernel]:
    """The kernels of a case, but for samples that cannot be lowered: the check meets those."""
    for sample in case.samples():
        try:
            yield from _lowered(_module(case, [sample])).kernels
        except Exception:
            continue


def kernels_of_all(group: Sequence[Case]) -> Iterator[DeviceKernel]:
    return (kernel for case in group for kernel in kernels(case))


def halves(group: Sequence[Case]) -> list[tuple[Case, ...]]:
    """Two parts of some cases, or of the samples of one; none of a single sample."""
    cases = list(group)
    if len(cases) == 1 and cases[0].only is None:
        cases = cases[0].parts()
    middle = len(cases) // 2
    return [tuple(cases[:middle]), tuple(cases[middle:])] if middle else []


def check(machine: Machine, group: Sequence[Case]) -> list[Outcome]:
    """A step: an outcome for each sample of some cases."""
    return [outcome for case in group for outcome in _check(machine, case)]


def _check(machine: Machine, case: Case) -> list[Outcome]:
    """All samples in one run; where that fails, each by itself, so that one has the blame."""
    samples = case.samples()
    if not samples:
        return []
    try:
        return _together(machine, case, samples)
    except Exception:
        machine.probe()
    return [outcome for sample in samples for outcome in _alone(machine, case, sample)]


def _alone(machine: Machine, case: Case, sample: Sample) -> list[Outcome]:
    try:
        return _together(machine, case, [sample])
    except Exception as error:
        machine.probe()
        text = f"{type(error).__name__}: {one_line(error)}"
        return [Outcome(str(case), described(sample.arrays), failure=text)]


def _together(machine: Machine, case: Case, samples: Sequence[Sample]) -> list[Outcome]:
    module = _module(case, samples)
    arrays = [array for sample in samples for array in sample.arrays]
    lowered = _lowered(module)
    run: Any = machine.device.load([lowered], {})[lowered.entry]
    results = machine.get(run(*map(machine.put, arrays)))
    with np.errstate(all="ignore"):
        wanted = evaluate(module, *arrays)
    return [
        compared(str(case), sample.arrays, [got], [want], _allowed(sample))
        for sample, got, want in zip(samples, results, wanted, strict=True)
    ]


def _allowed(sample: Sample) -> Allowed:
    relative, absolute = tolerance(*sample.arrays)
    return Allowed(relative, absolute / relative if relative else 1.0)
