# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs what prepares the weights of a function, once, when weights are bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fuel_dialect.prepared import bind_prepared, prepared_keys
from fuel_dialect.tensors import tensor_type
from fuel_runtime.call.report import PreparedReport, Report
from fuel_runtime.call.signature import Array, Port, describe

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from fuel_runtime.compile.executable import Executable

Builder = Callable[["FuncOp", Mapping[str, Any]], "Executable"]
"""Compiles a function of a module, with what its weights are."""


@dataclass
class Preparation:
    """Holds the weights of a function, and what was done to prepare some of them."""

    function: FuncOp
    weights: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reports: list[Report] = field(default_factory=list[Report])

    @classmethod
    def of(
        cls,
        function: FuncOp,
        given: Mapping[str, Any],
        build: Builder,
        ready: Mapping[str, Any],
    ) -> Preparation:
        """
        Runs every function that the weights of a function are results of, if these are not `ready`.

        Raises `ProgramError` for weights that cannot be told apart, and what compiling and running
        these functions raise.
        """
        made = cls(function)

        def run(source: FuncOp, weights: Mapping[str, Any]) -> Sequence[Array]:
            executable = build(source, weights)
            made.reports.append(executable.report())
            return executable()

        made.weights = bind_prepared(function, given, run, ready)
        return made

    def reported(self, report: Report) -> Report:
        """Returns the report of the function with what was prepared, and from which weights."""
        keys = prepared_keys(self.function)
        if not keys:
            return report
        prepared: list[PreparedReport] = []
        names = set[str]()
        for key, (source, index) in keys.items():
            end = source.body.block.last_op
            assert end is not None
            port = Port(key, tensor_type(end.operands[index]))
            names.add(str(port))
            type = describe(port.dtype.name, port.shape)
            prepared.append(PreparedReport(key, type, port.bytes, source.sym_name.data))
        given = [weight for weight in report.weights if weight not in names]
        behind = (weight for each in self.reports for weight in each.weights)
        weights = tuple(dict.fromkeys([*given, *behind]))
        return replace(report, weights=weights, prepared=tuple(prepared))
